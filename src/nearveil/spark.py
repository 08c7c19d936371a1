"""Protect the locations of a Spark DataFrame: a DataFrame in, a DataFrame out.

A task that Spark runs again never draws again. The noise is a pure function of a fresh secret of the job and of the
row: of its location and its position (partition, row in the partition) or, with ``user``, of the user and the cell of
the location. So no column of keys is needed. The driver holds the secret and sends it along with the tasks; it is in no
plan, log or file. Rows are dealt to partitions and sorted by numbers that look random without the secret, after true
locations are replaced: shuffle files hold published locations only.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.errors import DataError, NearveilError, UsageError, missing_package, without_context
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.registry import mechanism_name
from nearveil.privacy.guarantee import Counted, Guarantee
from nearveil.randomness import NamedRows, stream_key, subkey
from nearveil.region import Region
from nearveil.release.guarantee import check_mechanism, release_guarantee
from nearveil.types import FloatArray, ProgressBar, WordArray, no_bar
from nearveil.veil import Veil

try:
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark import TaskContext, cloudpickle
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import DataFrame, functions, types
except ImportError:
    raise missing_package("pyspark", "protecting a Spark DataFrame") from None

if TYPE_CHECKING:
    from nearveil.privacy.ledger import Ledger

__all__ = ["Protected", "SparkFailedError", "protect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """Published rows, computed already, so that every action returns the same; and what is true of them.

    ``count`` is how many rows there are, as many as went in, and ``left_out`` names the columns that are not published.
    """

    rows: DataFrame
    guarantee: Guarantee
    mechanism: Mechanism
    count: int
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]


class SparkFailedError(NearveilError):
    """Spark failed; its own log says more."""


@without_context()
def protect(
    df: DataFrame,
    mechanism: Mechanism | None = None,
    *,
    user: str | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    latitude: str | None = None,
    longitude: str | None = None,
    ledger: Ledger | None = None,
    progress: ProgressBar | None = None,
) -> Protected:
    """Publish noisy locations for the rows of a DataFrame, and no column that is not named.

    The rows are computed once, into the checkpoint folder of the Spark context if it has one, or else on the executors;
    if those are lost, the rows are lost and not drawn again. The DataFrame is read twice and must be the same each
    time: a stored table or file, not a sample or a ``limit``. Of rows that change in between, only another number is
    noticed; if they change while Spark repeats a lost part, one may be published twice and another not at all.

    Parameters
    ----------
    df : DataFrame
        True locations in degrees, in two columns of numbers.
    mechanism : Mechanism, optional
        Noise of 500 m by default, `PlanarLaplace`. Mechanisms that learn must be fitted already.
    user : str, optional
        The column of users, text or whole numbers, to be published. With `PlanarLaplace` a user's rows in one cell, as
        wide as a quarter of the noise, get one location, and losses add up over places; other mechanisms take one row
        per user. Without it each row gets noise of its own, and the guarantee counts rows.
    keep : sequence of str
        Further columns to publish, as they are.
    keep_all : bool
        Publish all columns that are not nested, with a warning.
    latitude, longitude : str, optional
        Columns of the location, if they have unusual names.
    ledger : Ledger, optional
        Charges all users before the result is returned. The driver holds their ids for that.
    progress : ProgressBar, optional
        Shows the two steps.
    """
    mechanism = PlanarLaplace() if mechanism is None else mechanism
    _check(df, mechanism)
    if ledger is not None and (user is None or not mechanism.guarantee.is_promised):
        raise UsageError("a ledger needs user=, the column of those to charge, and a mechanism that promises something")
    columns = _find_columns(df.schema, user, keep, (latitude, longitude), keep_all=keep_all)
    veil = None
    if user is not None and mechanism_name(mechanism) == "planar-laplace":
        veil = Veil(Veil.new_key(), 2 / mechanism.guarantee.epsilon)
    bar = progress or no_bar
    with _without_values():
        # By position: names may have dots in them, or differ in case alone.
        true = df.toDF(*(f"c{at}" for at in range(len(df.columns)))).select(*(f"c{at}" for at in columns.published))
        with bar("Checking rows", None):
            count = _checked_rows(true, columns, mechanism.area)
        with bar("Protecting rows", count) as advance:
            published = _published_rows(true, columns, mechanism, veil)
            if published.count() != count:
                raise DataError("the rows changed while they were being protected; protect a table that is at rest")
            advance(count)
        guarantee = _charged(published, columns, mechanism, ledger, by_place=veil is not None)
        rows = published.drop(published.columns[-1]).toDF(*columns.names)
    told, out = (_KEPT_ALL,) if keep_all else (), columns.left_out
    return Protected(rows=rows, guarantee=guarantee, mechanism=mechanism, count=count, left_out=out, warnings=told)


# What is checked before Spark does anything, and which columns are what.

_KEPT_ALL = "all columns are published as they are; name those that you need with keep= instead"
_LATITUDES, _LONGITUDES = {"latitude", "lat"}, {"longitude", "lon", "lng", "long"}
_NESTED = (types.ArrayType, types.MapType, types.StructType, types.VariantType)


def _check(df: DataFrame, mechanism: Mechanism) -> None:
    if not isinstance(df, DataFrame) or df.isStreaming:
        raise UsageError("df must be a Spark DataFrame that is no stream; nearveil.protect takes files and frames")
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise UsageError("Spark Connect writes functions, and the secret in them, into plans; use a classic session")
    check_mechanism(mechanism)
    if mechanism.seed is not None:
        raise UsageError("noise from a seed protects nobody; leave seed= out")
    if mechanism.is_to_be_fitted:
        raise UsageError(f"{type(mechanism).__name__} is not fitted; call its fit(points) first, with some locations")


@dataclass(frozen=True, slots=True)
class _Columns:
    """``published`` are positions in the DataFrame; the other positions are among the published columns."""

    names: tuple[str, ...]
    kinds: tuple[types.DataType, ...]
    published: tuple[int, ...]
    left_out: tuple[str, ...]
    location: tuple[int, int]
    user: int | None
    numbers: tuple[int, ...]
    """Further columns of numbers, which might repeat a coordinate."""


def _find_columns(
    schema: types.StructType, user: str | None, keep: Sequence[str], location: tuple[str | None, ...], *, keep_all: bool
) -> _Columns:
    if isinstance(keep, str):
        raise UsageError("keep must be a list of columns, such as keep=['age']")
    of_kind = [column.dataType for column in schema]
    flat = [column.name for column in schema if not isinstance(column.dataType, _NESTED)]
    found = [_position(schema.names, name) for name in _location(schema.names, location)]
    if not all(isinstance(of_kind[at], types.NumericType) for at in found):
        raise DataError("the columns of the location must hold numbers; cast them to double")
    named = {*found, *(_position(schema.names, name) for name in (*keep, *(flat if keep_all else ())))}
    if user is not None:
        user_at = _position(schema.names, user)
        if user_at in found or not isinstance(of_kind[user_at], types.IntegralType | types.StringType):
            raise DataError(f"column {user!r} must hold text or whole numbers to tell users apart; cast it to string")
        named.add(user_at)
    published = sorted(named)
    numbers = [at for at in published if at not in found and isinstance(of_kind[at], types.NumericType)]
    return _Columns(
        names=tuple(schema.names[at] for at in published),
        kinds=tuple(types.DoubleType() if at in found else _plain(of_kind[at]) for at in published),
        published=tuple(published),
        left_out=tuple(name for at, name in enumerate(schema.names) if at not in named),
        location=(published.index(found[0]), published.index(found[1])),
        user=None if user is None else published.index(user_at),
        numbers=tuple(published.index(at) for at in numbers),
    )


def _location(names: list[str], given: tuple[str | None, ...]) -> list[str]:
    found = [name for name in given if name is not None]
    if not found:
        found = [name for known in (_LATITUDES, _LONGITUDES) for name in names if name.lower() in known]
    if len(set(found)) != 2 or len(found) != 2:
        raise DataError("which two columns are the location is not clear; name them with latitude= and longitude=")
    return found


def _position(names: list[str], name: str) -> int:
    if names.count(name) != 1:
        many = "there are several columns" if name in names else "there is no column"
        raise DataError(f"{many} {name!r}; check the name")
    return names.index(name)


def _plain(kind: types.DataType) -> types.DataType:
    """Return the type without metadata of its parts: statistics of true locations may hide there."""
    if isinstance(kind, types.StructType):
        return types.StructType([types.StructField(part.name, _plain(part.dataType), part.nullable) for part in kind])
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_plain(kind.elementType), kind.containsNull)
    if isinstance(kind, types.MapType):
        return types.MapType(_plain(kind.keyType), _plain(kind.valueType), kind.valueContainsNull)
    return kind


# The driver's steps.


def _checked_rows(true: DataFrame, columns: _Columns, region: Region) -> int:
    """Return how many rows there are; refuse rows that cannot be used, and columns that repeat a coordinate."""
    faults = (
        "without a location; complete or remove such rows",
        "with a latitude beyond 90 or a longitude beyond 180 degrees; correct them, or exchange the columns",
        f"outside the region {region}; leave the region out, or choose a larger one",
        "without a user; complete or remove such rows",
    )
    size = 1 + len(faults) + 3 * len(columns.numbers)
    parts = _mapped(true, _CheckRows(columns, region), [types.LongType()] * size)
    count, *counts = np.sum([list(part) for part in parts.collect()], axis=0).tolist() or [0]
    if not count:
        raise DataError("there are no rows; give at least one")
    for fault, number in zip(faults, counts, strict=False):
        if number:
            raise DataError(f"{number:,} of the rows {'is' if number == 1 else 'are'} {fault}")
    for at, (values, *near) in zip(columns.numbers, np.reshape(counts[len(faults) :], (-1, 3)).tolist(), strict=True):
        if values and max(near) >= values / 2:
            raise DataError(f"column {columns.names[at]!r} repeats a coordinate of the location; leave it out")
    return int(count)


def _published_rows(true: DataFrame, columns: _Columns, mechanism: Mechanism, veil: Veil | None) -> DataFrame:
    """Compute the published rows, and a number of the place, once: a plan that runs again could meet other data."""
    context = true.sparkSession.sparkContext
    # The mechanism may be large, and what is large Spark keeps in files; so the secret does not go with it.
    task = _PublishRows(columns, context.broadcast(_pickled(mechanism.settled())), stream_key(), veil)
    rows = _mapped(true, task, [*columns.kinds, *[types.LongType()] * 3])
    order = rows.columns[-3:-1]
    plan = rows.repartition(*order).sortWithinPartitions(*order).drop(*order)
    return plan.localCheckpoint() if context.getCheckpointDir() is None else plan.checkpoint()


def _charged(
    published: DataFrame, columns: _Columns, mechanism: Mechanism, ledger: Ledger | None, *, by_place: bool
) -> Guarantee:
    """Return the guarantee, for each place of a user or each row, once all users are charged."""
    conditions: Any = {"fitted_here": False, "skips_rows": False, "keeps_order": False}
    if columns.user is None:
        return release_guarantee(mechanism, Counted.ROWS, most_places=1, **conditions)
    counted = functions.count_distinct(published.columns[-1]) if by_place else functions.count("*")
    users = published.groupBy(f"c{columns.user}").agg(counted.alias("count"))
    most = users.agg(functions.max("count")).collect()[0][0]
    if most > 1 and not by_place:
        raise DataError("some users have several rows, and this mechanism takes one per user; use PlanarLaplace")
    guarantee = release_guarantee(
        mechanism, Counted.PLACES if by_place else Counted.USERS, most_places=most, **conditions
    )
    if by_place:
        # Veil's noise ends at 37 times its mean, which adds this much for places up to 10 times the mean apart.
        guarantee = replace(guarantee, delta=8e-10)
    if ledger is not None:
        charged = users.collect()
        counts = [int(row[1]) for row in charged] if by_place else None
        ledger.charge([guarantee], [str(row[0]) for row in charged], counts)
    return guarantee


def _mapped(df: DataFrame, task: Task, kinds: list[types.DataType]) -> DataFrame:
    """Return a plan in which a task turns the batches of each partition into others, with columns of these types."""
    schema = types.StructType([types.StructField(f"c{at}", kind) for at, kind in enumerate(kinds)])
    # Spark hands a large task to executors through a file, and a task may hold the secret.
    jvm: Any = df.sparkSession._jvm
    if len(_pickled((task, schema))) >= int(jvm.PythonUtils.getBroadcastThreshold(df.sparkSession.sparkContext._jsc)):
        raise UsageError("so many columns make Spark write the task, and the secret in it, to a file; name fewer")
    with warnings.catch_warnings():
        # Spark asks for pandas even where Arrow does all the work, and warns of versions that it does not know.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return df.mapInArrow(partial(_guarded, task), schema)


_pickled: Callable[[object], bytes] = cloudpickle.dumps
# Once per process and not per task: so are the tables that a mechanism looks locations up in.
_unpickled: Callable[[bytes], Any] = lru_cache(maxsize=2)(pickle.loads)

_OF_TASKS = re.compile(r"Nearveil failed on an executor \(\w+\); please report it")
# Both print a whole message of Spark, with values, as soon as there is an error.
_LOGGERS = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]


@contextmanager
def _without_values() -> Iterator[None]:
    """Turn an error of Spark into a sentence with its class; what else it says may have values of the data in it."""
    for logger in _LOGGERS:
        logger.disabled = True
    try:
        yield
    except (PySparkException, Py4JError) as error:
        own = _OF_TASKS.search(str(error))
        sentence = f"Spark failed ({type(error).__name__}); its own log, at level INFO, says more"
        raise SparkFailedError(own[0] if own else sentence) from None
    finally:
        for logger in _LOGGERS:
            logger.disabled = False


# Tasks for executors: Arrow batches of the published columns come in, with true locations.

_COPY_DEG = 100 / 111_195
Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]


def _guarded(task: Task, batches: Batches) -> Batches:
    """Run a task; of its errors, tell the name of their class only, as they may hold values of the data."""
    try:
        yield from task(batches)
    except Exception as error:
        raise SparkFailedError(f"Nearveil failed on an executor ({type(error).__name__}); please report it") from None


@dataclass(frozen=True)
class _CheckRows:
    """Count rows, those that cannot be used, and copies of coordinates in columns of numbers."""

    columns: _Columns
    region: Region

    def __call__(self, batches: Batches) -> Batches:
        counts = [self._counts(batch) for batch in batches]
        if counts:
            yield _batch(np.sum(counts, axis=0).reshape(-1, 1))

    def _counts(self, batch: pa.RecordBatch) -> list[int]:
        points, user = _points(batch, self.columns), self.columns.user
        missing = ~np.isfinite(points).all(axis=1)
        on_earth = (np.abs(points) <= (90.0, 180.0)).all(axis=1)
        there = points[on_earth]
        no_user = 0 if user is None else sum(not each for each in _texts(batch, user))
        outside = ~self.region.contains(there)
        counts = [len(points), missing.sum(), (~missing & ~on_earth).sum(), outside.sum(), no_user]
        for at in self.columns.numbers:
            counts += _near(_numbers(batch.column(at))[on_earth], there)
        return counts


def _near(values: FloatArray, points: FloatArray) -> list[int]:
    """Return how many values there are, and how many within 100 m of the row's latitude and longitude."""
    north = values - points[:, 0]
    east = ((values - points[:, 1] + 180) % 360 - 180) * np.cos(np.radians(points[:, 0]))
    return [np.isfinite(values).sum(), *((np.abs(gap) <= _COPY_DEG).sum() for gap in (north, east))]


@dataclass(frozen=True)
class _PublishRows:
    """Replace true locations by published ones; add two numbers to deal and sort rows by, and one of the place.

    The mechanism is public and may be large. The secrets are small, travel with the task and are shown nowhere.
    """

    columns: _Columns
    mechanism: Any = field(repr=False)
    secret: bytes = field(repr=False)
    veil: Veil | None = field(repr=False)

    def __call__(self, batches: Batches) -> Batches:
        mechanism, partition, first = _unpickled(self.mechanism.value), TaskContext().partitionId(), 0
        for batch in batches:
            if batch.num_rows:
                names = row_names(_points(batch, self.columns), partition, first, self.secret)
                yield self._published(batch, mechanism, names)
            first += batch.num_rows

    def _published(self, batch: pa.RecordBatch, mechanism: Mechanism, names: WordArray) -> pa.RecordBatch:
        points, place = _points(batch, self.columns), np.zeros(batch.num_rows, dtype=np.int64)
        if self.veil is None or self.columns.user is None:
            published = mechanism.perturb_rows(points, NamedRows(subkey(self.secret, "noise"), names))
        else:
            users = _texts(batch, self.columns.user)
            published = np.column_stack(self.veil.blur_many(users, *points.T.tolist()))
            # Counted before locations are moved into the region, where two cells may get the same.
            place = np.rint(published * 1e5).astype(np.int64) @ (100_000_000, 1)
            published = mechanism.area.publish(published) if mechanism.has_region else published
        arrays = list(batch.columns)
        for at, degrees in zip(self.columns.location, published.T, strict=True):
            arrays[at] = degrees
        order = NamedRows(subkey(self.secret, "order"), names).blocks(0).view(np.int64)
        return _batch([*arrays, *order.T, place])


def row_names(points: FloatArray, partition: int, first: int, secret: bytes) -> WordArray:
    """Return 128 bits for each row: of its location, its partition and its number there, and of nothing else.

    Two rows, or one row with another location, get the same with a probability of 2^-128. -0 and 0 are one location.
    """
    bits = (np.ascontiguousarray(points) + 0.0).view(np.uint64)
    names = NamedRows(subkey(secret, "names"), bits).blocks(0)
    names[:, 0] ^= np.uint64(partition)
    names[:, 1] ^= np.arange(first, first + len(points), dtype=np.uint64)
    return names


def _batch(columns: Any) -> pa.RecordBatch:
    names = [f"c{at}" for at in range(len(columns))]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names)


def _numbers(column: pa.Array) -> FloatArray:
    numbers: FloatArray = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return numbers


def _points(batch: pa.RecordBatch, columns: _Columns) -> FloatArray:
    return np.column_stack([_numbers(batch.column(at)) for at in columns.location])


def _texts(batch: pa.RecordBatch, at: int) -> list[str]:
    return batch.column(at).cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
