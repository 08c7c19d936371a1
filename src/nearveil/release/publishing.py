"""Publishing a stream of people batch by batch, and warnings of columns that reveal locations."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearveil._old_faults import Faults, faults_in, refuse
from nearveil.io.carried import flat_parts, second_location, second_locations
from nearveil.io.columns import numbers_from_arrow, taken_rows
from nearveil.io.people import People, PeopleStream, PeopleWriter
from nearveil.mechanisms.base import Mechanism
from nearveil.randomness import NumberedRows, stream_key
from nearveil.region import Region
from nearveil.release.parallel_map import mapped_in_order
from nearveil.release.row_shuffle import RowShuffle, UnorderedRows
from nearveil.release.unique_ids import BatchIds, PeopleWatch
from nearveil.types import FloatArray, IntArray, Progress

# As much as a core keeps at hand from one step of the release to the next.
_ROWS_AT_ONCE = 1 << 14


class RowRelease:
    """One release with randomness that belongs to the rows by their number, as in `Mechanism.perturb`.

    Parameters
    ----------
    mechanism : Mechanism
        Ready to publish.
    key : bytes
        Of this release alone.
    """

    def __init__(self, mechanism: Mechanism, key: bytes) -> None:
        mechanism._prepare()
        self._mechanism = mechanism
        self._key = key

    def __call__(self, points: FloatArray, first_row: int) -> FloatArray:
        """Publish a place for every row; they have been checked to lie in the region."""
        published = np.empty_like(points)
        for start in range(0, len(points), _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, len(points)))
            rows = NumberedRows(self._key, first_row + start, part.stop - part.start)
            published[part] = self._mechanism.published(points[part], rows)
        return published


# Which carried columns tell where people are: ids given out street by street, timestamps along a route, districts.
#
# Published rows are in random order, but anyone who sorts them by such a column has the old order again. The test: sort
# the rows by the column and look at how much the true places of neighbors in that order differ, against how much any
# two places differ. The ratio is 1 for a column that says nothing (von Neumann's ratio, of ranks: Bartels 1982). It
# is low where values rise or fall with places, run along a curve through them, or name groups that live together.


SAMPLE_ROWS = 1 << 15
_TELLING_RATIO = 0.9
# A column that says nothing is named by mistake once in three million tests.
_STANDARD_DEVIATIONS = 5.0
_FEWEST_ROWS = 25


def predicting_columns(table: pa.Table, points: FloatArray) -> list[str]:
    """Return the names of columns whose order or groups follow the places.

    Parameters
    ----------
    table : pyarrow.Table
        The carried columns of some rows.
    points : ndarray of shape (n, 2)
        The true places of the same rows.

    Examples
    --------
    >>> places = np.random.default_rng(1).uniform([37.5, -122.6], [37.9, -122.2], (500, 2))
    >>> northward = np.argsort(np.argsort(places[:, 0]))
    >>> predicting_columns(pa.table({"id": northward, "age": np.arange(500) * 7 % 83}), places)
    ['id']
    """
    if len(points) < _FEWEST_ROWS:
        return []
    # Rows with equal values must not keep the order of the file, which may follow the places.
    mixed = np.random.default_rng(0).permutation(len(points))
    ranks = [_ranks(points[mixed, axis]) for axis in (0, 1)]
    mixed_table = taken_rows(table, mixed)
    found = []
    for name, column in zip(table.column_names, mixed_table.columns, strict=True):
        orders = (_order(part) for part in flat_parts(column.combine_chunks()))
        if any(order is not None and any(_is_telling(rank[order]) for rank in ranks) for order in orders):
            found.append(name)
    return found


class _Sample(NamedTuple):
    rows: IntArray
    people: People


class PredictingColumns:
    """Looks at the rows of a stream: the first ones, which stand together, and some of all.

    True places of up to 65,536 rows are kept in memory until `warnings`.
    """

    def __init__(self, sample_rows: int = SAMPLE_ROWS) -> None:
        self._sample_rows = sample_rows
        self._first: list[People] = []
        self._spread: list[_Sample] = []
        self._stride = 1

    def look(self, people: People, first_row: int) -> tuple[People | None, _Sample]:
        """Choose rows of a batch, on any thread."""
        people = replace(people, features=None)
        first = None
        if first_row < self._sample_rows:
            first = people.part(0, min(len(people), self._sample_rows - first_row))
        rows = np.arange(first_row + -first_row % self._stride, first_row + len(people), self._stride)
        return first, _Sample(rows, people.taken(rows - first_row))

    def take(self, look: tuple[People | None, _Sample]) -> None:
        """Take in what was chosen of the next batch."""
        first, spread = look
        if first is not None:
            self._first.append(first)
        self._spread.append(_every(spread, self._stride))
        while sum(len(part.rows) for part in self._spread) > self._sample_rows:
            self._stride *= 2
            self._spread = [_every(part, self._stride) for part in self._spread]

    def refuse_second_locations(self) -> None:
        """Raise if a column holds the exact location once more, which the first rows may not have shown."""
        for table, points in self._samples():
            exact = second_locations(table, points)
            if exact:
                raise second_location(*exact)

    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each column that tells where people are, and not how well."""
        found: dict[str, None] = {}
        for table, points in self._samples():
            found.update(dict.fromkeys(predicting_columns(table, points)))
        self._first, self._spread = [], []
        return tuple(telling_column(name) for name in found)

    def _samples(self) -> Iterator[tuple[pa.Table, FloatArray]]:
        for parts in (self._first, [part.people for part in self._spread]):
            if parts:
                yield pa.concat_tables([part.carried for part in parts]), np.concatenate([one.points for one in parts])


def telling_column(name: str) -> str:
    """Return the warning for one column."""
    return (
        f"the values of column {name!r} follow people's places, which the guarantee does not cover; leave the column "
        "out with drop=, or give it random values"
    )


def _every(sample: _Sample, stride: int) -> _Sample:
    kept = np.flatnonzero(sample.rows % stride == 0)
    return sample if len(kept) == len(sample.rows) else _Sample(sample.rows[kept], sample.people.taken(kept))


def _is_telling(ranks: FloatArray) -> bool:
    """Whether neighbors in this order are nearer to each other than by chance."""
    spread = float(((ranks - ranks.mean()) ** 2).sum())
    if spread == 0.0:
        return False
    ratio = float((np.diff(ranks) ** 2).sum()) / (2 * spread)
    return ratio < min(_TELLING_RATIO, 1 - _STANDARD_DEVIATIONS / math.sqrt(len(ranks)))


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks, the mean of them where values are equal."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: FloatArray = np.cumsum(counts) - (counts - 1) / 2
    return middle[inverse]


def _order(column: pa.Array) -> IntArray | None:
    """Rows in the order of their values, equal ones as they come; None where values have no order."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        # Dates and padded numbers are in order as text, too.
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.float64())
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if is_number and not column.null_count:
        return np.argsort(numbers_from_arrow(column), kind="stable")
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and numbers do without

    try:
        return np.asarray(pc.sort_indices(column)).astype(np.int64)
    except pa.ArrowNotImplementedError:
        return None


# From a file of true places to a file of published ones.


@dataclass(frozen=True, slots=True)
class Published:
    """What was written.

    Attributes
    ----------
    rows : int
        How many.
    clipped : int
        How many of them were moved to the edge of the region first: a figure about true places.
    warnings : tuple of str
        Which carried columns tell where people are.
    """

    rows: int
    clipped: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Published rows of a batch; nothing to write if they, or rows before them, have faults."""

    rows: int
    faults: Faults
    look: BatchIds
    ready: Any = None
    sample: Any = None
    clipped: int = 0


def publish_stream(
    stream: PeopleStream,
    mechanism: Mechanism,
    writer: PeopleWriter,
    watch: PeopleWatch,
    *,
    shuffle: RowShuffle | None,
    clip: bool = False,
    progress: Progress | None = None,
) -> Published:
    """Publish a place for everybody and write it; raise, having counted them, if there are rows that cannot be used.

    Parameters
    ----------
    stream : PeopleStream
        True places.
    mechanism : Mechanism
        Ready to publish. With a seed, the result is that of `perturb`.
    writer : PeopleWriter
        Gets everybody at their published places. What it has written is complete only if nothing was raised.
    watch : PeopleWatch
        Looks at every batch.
    shuffle : RowShuffle or None
        Puts the rows into a random order; without it they keep the order of the input, which may follow their places.
    clip : bool
        Whether people outside the region are moved to its edge first.
    progress : callable, optional
        Called with the number of people just finished; with ``shuffle`` also with those just written, so that everybody
        counts twice.
    """
    release = RowRelease(mechanism, stream_key(mechanism.seed))
    region = mechanism.area
    # Rows that keep their order are written as they come, others are dealt first.
    take = writer.write if shuffle is None else shuffle.take
    telling = PredictingColumns()
    worker = _Worker(region, release, writer, shuffle, watch, telling, clip=clip)
    faults, rows, clipped = Faults(), 0, 0
    for batch in mapped_in_order(worker, _numbered(stream)):
        faults = faults.followed_by(batch.faults, rows)
        watch.take(batch.look, rows)
        rows += batch.rows
        if batch.sample is not None:
            take(batch.ready)
            telling.take(batch.sample)
            clipped += batch.clipped
        if progress:
            progress(batch.rows)
    refuse(faults, region, clip=clip)
    watch.finish()
    telling.refuse_second_locations()
    if shuffle is not None:
        _write_shuffled(shuffle, writer, progress)
    return Published(rows, clipped, telling.warnings())


def _write_shuffled(shuffle: RowShuffle, writer: PeopleWriter, progress: Progress | None) -> None:
    def prepared(rows: UnorderedRows) -> tuple[int, Any]:
        people = rows.ordered()
        return len(people), writer.prepared(people)

    for count, ready in mapped_in_order(prepared, shuffle.shuffled()):
        writer.write(ready)
        if progress:
            progress(count)


class _Worker:
    """What is done with a batch, on any core."""

    def __init__(
        self,
        region: Region,
        release: RowRelease,
        writer: PeopleWriter,
        shuffle: RowShuffle | None,
        watch: PeopleWatch,
        telling: PredictingColumns,
        *,
        clip: bool,
    ) -> None:
        self._region = region
        self._release = release
        self._writer = writer
        self._shuffle = shuffle
        self._watch = watch
        self._telling = telling
        self._clip = clip
        self._refused = threading.Event()

    def __call__(self, numbered: tuple[int, People]) -> _Batch:
        first_row, people = numbered
        watched = [people.carried.column(place) for place in self._watch.positions]
        faults, look = faults_in(people.points, self._region), self._watch.look(watched)
        if faults.no_places or (faults.outside and not self._clip):
            self._refused.set()
        if self._refused.is_set():
            # Nothing will be published: the rest is read to say how many rows are wrong.
            return _Batch(len(people), faults, look)
        true, clipped = people.points, 0
        if faults.outside:
            true = self._region.to_edge(people.points)
            clipped = int((true != people.points).any(axis=1).sum())
        published = self._release(true, first_row)
        out, sample = people.with_points(published), self._telling.look(people, first_row)
        ready = self._writer.prepared(out) if self._shuffle is None else self._shuffle.dealt(out, first_row)
        return _Batch(len(people), faults, look, ready, sample, clipped)


def _numbered(stream: PeopleStream) -> Iterator[tuple[int, People]]:
    rows = 0
    for people in stream.batches():
        yield rows, people
        rows += len(people)
