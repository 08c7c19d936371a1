"""What executors do with Arrow batches: check every row, sum for a private fit, publish. No place is ever shown."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, NearveilError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.io.columns import degrees_column
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.fit_pic import FIXED_POINT, ExactAnswers, cells_of, square_in_fixed_point
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.region import Region
from nearveil.release.row_names import missing_keys, noise_of, order_of, place_digest, row_hashes, rows_digest
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Task = TypeVar("Task")
Batches = Iterator[pa.RecordBatch]


class ExecutorError(NearveilError):
    """Something failed on an executor that is neither the data's nor the caller's fault."""


def tells_no_values(work: Callable[[Task, Batches], Batches]) -> Callable[[Task, Batches], Batches]:
    """Let only Nearveil's own sentences out of a task; of other errors, the name of their class."""

    @wraps(work)
    def guarded(task: Task, batches: Batches) -> Batches:
        try:
            yield from work(task, batches)
        except NearveilError as error:
            raise error from None
        except Exception as error:
            raise ExecutorError(f"Nearveil failed on an executor ({type(error).__name__}); please report it") from None

    return guarded


@dataclass(frozen=True, slots=True)
class PlaceColumns:
    """Where a batch has its coordinates, and what becomes of people outside the region."""

    latitude: int
    longitude: int
    region: Region
    clip: bool

    def places(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the places of a batch, moved to the region's edge if that is wanted."""
        points = np.column_stack(
            [
                degrees_column(pa.chunked_array([batch.column(self.latitude)]), "latitude"),
                degrees_column(pa.chunked_array([batch.column(self.longitude)]), "longitude"),
            ]
        )
        return moved_to_edge(points, self.region) if self.clip else points

    def unreadable(self, batch: pa.RecordBatch) -> int:
        """Return how many rows have a coordinate that is not a number."""
        bad = np.zeros(batch.num_rows, dtype=np.bool_)
        for column in (self.latitude, self.longitude):
            bad |= _no_numbers(batch.column(column))
        return int(bad.sum())


def moved_to_edge(points: FloatArray, region: Region) -> FloatArray:
    """Move who is outside the region to its edge, as `Region.clip` does, whatever rows they share a batch with."""
    outside = ~region.contains(points)
    if not outside.any():
        return points
    half, middle = region.width_deg / 2, region.centre[1]
    moved = points.copy()
    moved[outside, 0] = np.clip(points[outside, 0], region.south, region.north)
    moved[outside, 1] = wrap_longitude(middle + np.clip(wrap_longitude(points[outside, 1] - middle), -half, half))
    return moved


def _no_numbers(column: pa.Array) -> BoolArray:
    try:
        degrees_column(pa.chunked_array([column]), "coordinate")
    except DataError:
        # The whole batch is about to be refused, so it does not matter that one by one is slow.
        return np.array([_is_no_number(column.slice(row, 1)) for row in range(len(column))], dtype=np.bool_)
    return np.zeros(len(column), dtype=np.bool_)


def _is_no_number(one: pa.Array) -> bool:
    try:
        degrees_column(pa.chunked_array([one]), "coordinate")
    except DataError:
        return True
    return False


# Run a task on the batches of a DataFrame.


def run_on_batches(df: DataFrame, task: Callable[[Batches], Batches], schema: StructType | str) -> DataFrame:
    """Return a plan in which the task turns the batches of each partition into others."""
    # Spark hands a large task to executors through a file, and a task may hold the secret.
    if len(pickled((task, schema))) >= largest_task_bytes(df.sparkSession):
        raise UsageError(
            "there are so many columns that Spark would write the task, and the secret in it, to a file; drop some, or "
            "raise spark.broadcast.UDFCompressionThreshold"
        )
    with warnings.catch_warnings():
        # Spark asks for pandas even where Arrow does all the work, and warns of versions that it does not know.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return df.mapInArrow(task, schema)


def pickled(value: object) -> bytes:
    """Return a value as bytes, with its class if executors cannot import that."""
    from pyspark import cloudpickle  # noqa: PLC0415 - an extra

    module = sys.modules[type(value).__module__]
    # Somebody else's single file is sent along; a package must be on the executors.
    if is_mechanism(value) and "." not in module.__name__ and not hasattr(module, "__path__"):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    made: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return made


def largest_task_bytes(spark: SparkSession) -> int:
    """Return from which size on Spark hands tasks over through a file."""
    jvm: Any = spark._jvm
    return int(jvm.PythonUtils.getBroadcastThreshold(spark.sparkContext._jsc))


# Look at every row once before anything is released: how many there are, and how many cannot be used.


_COUNTS = ("rows", "no_key", "no_number", "not_finite", "off_range", "outside")
TALLY_SCHEMA = ", ".join(f"{name} bigint" for name in _COUNTS) + ", digest binary, place binary"

_KEY, _LATITUDE, _LONGITUDE = 0, 1, 2


@dataclass
class Tally:
    """What was counted, over one part of the rows or all of them.

    Attributes
    ----------
    rows : int
        All rows.
    no_key, no_number, not_finite, off_range, outside : int
        Rows that cannot be used, and why; each row counts once.
    digest : array of two words
        Stands for all rows, keys and places, whatever their order.
    place : bytes
        Stands for the place of everybody, if all are at one; empty if not.
    """

    rows: int = 0
    no_key: int = 0
    no_number: int = 0
    not_finite: int = 0
    off_range: int = 0
    outside: int = 0
    digest: WordArray = field(default_factory=lambda: np.zeros(2, dtype=np.uint64))
    place: bytes = b""

    @property
    def all_in_one_place(self) -> bool:
        """Whether everybody is at the same place."""
        return bool(self.place)

    def add(self, other: Tally) -> None:
        """Take in another part."""
        if not other.rows:
            return
        self.place = other.place if not self.rows or self.place == other.place else b""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.digest = self.digest + other.digest

    def to_batch(self) -> pa.RecordBatch:
        """Return the tally as one row for the driver."""
        columns = {name: pa.array([getattr(self, name)], pa.int64()) for name in _COUNTS}
        columns["digest"] = pa.array([self.digest.tobytes()], pa.binary())
        columns["place"] = pa.array([self.place], pa.binary())
        return pa.RecordBatch.from_pydict(columns)

    def refuse_faults(self, key: str, region: Region, *, clip: bool) -> None:
        """Raise if some row cannot be used; say how many, and never which or where."""
        if not self.rows:
            raise DataError("there are no rows; give at least one person")
        if self.no_key:
            raise DataError(f"{_rows(self.no_key)} without a {key!r}; complete or remove such rows")
        if self.no_number:
            raise DataError(
                f"{_rows(self.no_number)} with a coordinate that is not a number; give degrees as decimal numbers with "
                "a point"
            )
        if self.not_finite:
            raise DataError(
                f"{_rows(self.not_finite)} with a missing or infinite coordinate; remove or complete such rows"
            )
        if self.off_range:
            raise DataError(
                f"{_rows(self.off_range)} with a latitude beyond 90 or a longitude beyond 180 degrees; correct them"
            )
        if self.outside and not clip:
            raise DataError(
                f"{_rows(self.outside)} outside the region {region}; choose a region that holds everybody, or move "
                "them to its edge (clip=True)"
            )


def tally_from_table(table: pa.Table) -> Tally:
    """Add up what the tasks counted."""
    total = Tally()
    for row in table.to_pylist():
        digest = np.frombuffer(row.pop("digest"), dtype="<u8")
        total.add(Tally(**row, digest=digest))
    return total


@dataclass(frozen=True, slots=True)
class TallyRows:
    """Task: count the rows of a part. Columns are key, latitude, longitude."""

    region: Region
    secret: bytes = field(repr=False)

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return one row with the tally."""
        total = Tally()
        columns = PlaceColumns(_LATITUDE, _LONGITUDE, self.region, clip=False)
        for batch in batches:
            if batch.num_rows:
                total.add(self._tally(batch, columns))
        yield total.to_batch()

    def _tally(self, batch: pa.RecordBatch, columns: PlaceColumns) -> Tally:
        keys = batch.column(_KEY)
        tally = Tally(rows=batch.num_rows, no_key=int(missing_keys(keys).sum()), no_number=columns.unreadable(batch))
        if tally.no_number:
            return tally
        points = columns.places(batch)
        _count_faults(tally, points, self.region)
        tally.digest = rows_digest(row_hashes(keys, self.secret), points, self.secret)
        if (points == points[0]).all():
            tally.place = place_digest(points[0], self.secret)
        return tally


def _count_faults(tally: Tally, points: FloatArray, region: Region) -> None:
    finite = np.isfinite(points).all(axis=1)
    places = points[finite]
    in_range = (np.abs(places) <= (90.0, 180.0)).all(axis=1)
    inside = region.contains(places)
    tally.not_finite = int((~finite).sum())
    tally.off_range = int((~in_range).sum())
    tally.outside = int((in_range & ~inside).sum())


def _rows(count: int) -> str:
    return "there is 1 row" if count == 1 else f"there are {count:,} rows"


# Tasks: exact sums over a part of the people, for a private fit. What they return is private, and for noising only.


SUMS_SCHEMA = "centre bigint, x bigint, y bigint, people bigint"
COUNTS_SCHEMA = "cell bigint, people bigint"


class Shared(Protocol):
    """What the driver shares with all executors: a broadcast variable, or a stand-in for one."""

    @property
    def value(self) -> Any:
        """What is shared."""


@dataclass(frozen=True, slots=True)
class SumAround:
    """Add up the coordinates (fixed point) and the number of the people nearest to each centre."""

    places: PlaceColumns
    centres: Shared = field(repr=False)

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return one batch: centres that have people, sums, numbers."""
        region, centres = self.places.region, self.centres.value
        nearest = NearestCentre(centres)
        total = np.zeros((len(centres), 3), dtype=np.int64)
        for batch in batches:
            if batch.num_rows:
                whole = square_in_fixed_point(region, self.places.places(batch))
                total += nearest.sums(whole, 1 / FIXED_POINT)
        found = np.flatnonzero(total[:, 2])
        columns = [found, *total[found].T]
        yield pa.RecordBatch.from_arrays(
            [pa.array(np.ascontiguousarray(column)) for column in columns], names=["centre", "x", "y", "people"]
        )


@dataclass(frozen=True, slots=True)
class CountCells:
    """Count the people in each cell of a grid over the region."""

    places: PlaceColumns
    columns: int
    rows: int

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return one batch: cells that have people, numbers."""
        region = self.places.region
        total = np.zeros(self.columns * self.rows, dtype=np.int64)
        for batch in batches:
            if batch.num_rows:
                whole = square_in_fixed_point(region, self.places.places(batch))
                np.add.at(total, cells_of(whole, region, self.columns, self.rows), 1)
        found = np.flatnonzero(total)
        yield pa.RecordBatch.from_arrays([pa.array(found), pa.array(total[found])], names=["cell", "people"])


# Exact answers about people in a cluster: one aggregation each, on whole numbers.


class PlacesInSpark(ExactAnswers):
    """Answers about the places in a DataFrame.

    Each answer is added up on the executors and comes to the driver as one number per centre or cell, where the noise
    is added, once. On their way the exact sums may lie in Spark's shuffle files.

    Parameters
    ----------
    places : DataFrame
        Latitude and longitude, nothing else.
    columns : PlaceColumns
        How they are read.
    tally : Tally
        What a first look at all rows has counted.
    """

    def __init__(self, places: DataFrame, columns: PlaceColumns, tally: Tally) -> None:
        self.region = columns.region
        self._places = places
        self._columns = columns
        self._tally = tally

    def __len__(self) -> int:
        return self._tally.rows

    @property
    def all_in_one_place(self) -> bool:
        """Whether everybody is at the same place."""
        return self._tally.all_in_one_place

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Sums and numbers of the people nearest to each centre."""
        shared = self._places.sparkSession.sparkContext.broadcast(centres)
        parts = run_on_batches(self._places, SumAround(self._columns, shared), SUMS_SCHEMA)
        added = parts.groupBy("centre").sum("x", "y", "people").toArrow()
        shared.destroy()
        sums = np.zeros((len(centres), 3), dtype=np.int64)
        sums[added.column(0).to_numpy()] = np.column_stack([added.column(place).to_numpy() for place in (1, 2, 3)])
        return sums

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell holds."""
        parts = run_on_batches(self._places, CountCells(self._columns, columns, rows), COUNTS_SCHEMA)
        added = parts.groupBy("cell").sum("people").toArrow()
        counts = np.zeros(columns * rows, dtype=np.int64)
        counts[added.column(0).to_numpy()] = added.column(1).to_numpy()
        return counts


# Task: publish a place for every row of a part, the same whenever and wherever the part is computed.


@dataclass(frozen=True, slots=True)
class ReleaseRows:
    """Replace the true places of a part by published ones.

    Parameters
    ----------
    mechanism : Shared
        The mechanism, pickled. It is public, and may be large.
    secret : bytes
        The key of the job. It is small, travels with the task and is shown nowhere.
    places : PlaceColumns
        Where the coordinates are.
    key : int
        Which column names the rows.
    carries_key : bool
        Whether the key is published.
    """

    mechanism: Shared = field(repr=False)
    secret: bytes = field(repr=False)
    places: PlaceColumns
    key: int
    carries_key: bool

    @tells_no_values
    def __call__(self, batches: Batches) -> Batches:
        """Return the batches with published places, and two columns more to deal and sort the rows by."""
        mechanism = _unpickled(self.mechanism.value)
        for batch in batches:
            if batch.num_rows:
                yield self._release(batch, mechanism)

    def _release(self, batch: pa.RecordBatch, mechanism: Mechanism) -> pa.RecordBatch:
        names = row_hashes(batch.column(self.key), self.secret)
        published = mechanism.perturb_rows(self.places.places(batch), noise_of(names, self.secret))
        order = order_of(names, self.secret)
        columns = list(batch.columns)
        columns[self.places.latitude] = pa.array(published[:, 0])
        columns[self.places.longitude] = pa.array(published[:, 1])
        if not self.carries_key:
            del columns[self.key]
        columns += [pa.array(order[:, 0]), pa.array(order[:, 1])]
        return pa.RecordBatch.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])


@lru_cache(maxsize=2)
def _unpickled(mechanism: bytes) -> Mechanism:
    # Once per process and not per task: the tables a mechanism looks places up in are made once, too.
    try:
        made: Mechanism = pickle.loads(mechanism)  # noqa: S301 - from the driver, as this very code is
    except ImportError as error:
        raise UsageError(f"executors cannot import {error.name}; install it on them") from None
    return made
