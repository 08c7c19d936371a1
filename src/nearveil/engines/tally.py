"""Look at every row once before anything is released: how many there are, and how many cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.safe_errors import Batches, tells_no_values
from nearveil.errors import DataError
from nearveil.hashing import missing_keys, place_digest, row_names, rows_digest
from nearveil.region import Region
from nearveil.types import FloatArray, WordArray

_COUNTS = ("rows", "no_key", "no_number", "not_finite", "off_range", "outside", "exchanged")
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
    exchanged : int
        Those off range or outside that would lie in the region with latitude and longitude exchanged.
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
    exchanged: int = 0
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
                f"{_rows(self.no_number)} with a coordinate that is no number; give degrees as decimal numbers with a "
                "point"
            )
        if self.not_finite:
            raise DataError(
                f"{_rows(self.not_finite)} with a missing or infinite coordinate; remove or complete such rows"
            )
        wrong = self.off_range + self.outside
        if wrong and wrong == self.exchanged:
            raise DataError(
                f"{_rows(wrong)} with latitude and longitude exchanged; name the right columns, latitude first"
            )
        if self.off_range:
            raise DataError(
                f"{_rows(self.off_range)} with a latitude beyond 90 or a longitude beyond 180 degrees; correct them"
            )
        if self.outside and not clip:
            raise DataError(
                f"{_rows(self.outside)} outside the region {region}; choose a region that holds everybody, or move "
                "them to its edge (clip)"
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
        tally.digest = rows_digest(row_names(keys, self.secret), points, self.secret)
        if (points == points[0]).all():
            tally.place = place_digest(points[0], self.secret)
        return tally


def _count_faults(tally: Tally, points: FloatArray, region: Region) -> None:
    finite = np.isfinite(points).all(axis=1)
    places = points[finite]
    in_range = (np.abs(places) <= (90.0, 180.0)).all(axis=1)
    inside = region.contains(places)
    wrong = ~in_range | ~inside
    swapped = places[wrong][:, ::-1]
    tally.not_finite = int((~finite).sum())
    tally.off_range = int((~in_range).sum())
    tally.outside = int((in_range & ~inside).sum())
    tally.exchanged = int(((np.abs(swapped) <= (90.0, 180.0)).all(axis=1) & region.contains(swapped)).sum())


def _rows(count: int) -> str:
    return "there is 1 row" if count == 1 else f"there are {count:,} rows"
