"""From a file of true places to a file of published ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nearveil.evaluation.utility import Displacement, DisplacementSum, ground_distance_m
from nearveil.geodesy import Faults
from nearveil.io.people import People, PeopleInMemory, PeopleStream, PeopleWriter
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.streaming.people_watch import Look, PeopleWatch
from nearveil.streaming.pipeline import mapped_in_order
from nearveil.streaming.predicting_columns import PredictingColumns
from nearveil.streaming.row_release import RowRelease
from nearveil.streaming.row_shuffle import RowShuffle, UnorderedRows
from nearveil.types import FloatArray, Progress

Release = Callable[[FloatArray, int], FloatArray]


@dataclass(frozen=True, slots=True)
class Published:
    """What was written.

    Attributes
    ----------
    rows : int
        How many.
    clipped : int
        How many of them were moved to the edge of the region first: a figure about true places.
    displacement : Displacement
        How far people were moved: figures about true places.
    warnings : tuple of str
        Which carried columns tell where people are.
    """

    rows: int
    clipped: int
    displacement: Displacement
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """What became of some rows; nothing to write where they have faults, or rows before them had."""

    rows: int
    faults: Faults
    look: Look
    ready: Any = None
    sample: Any = None
    clipped: int = 0
    moved_m: FloatArray | None = None


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
        Ready to publish. With a seed, the whole file is read into memory, and its result is that of `perturb`.
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
    release: Release
    if mechanism.seed is None:
        release = RowRelease(mechanism)
    else:
        stream = PeopleInMemory(stream.gathered())
        release = _seeded(mechanism)
    region = mechanism.resolved_region
    # Rows that keep their order are written as they come, others are dealt first.
    make_ready = writer.prepared if shuffle is None else shuffle.dealt
    take = writer.write if shuffle is None else shuffle.take
    telling = PredictingColumns()
    worker = _Worker(region, release, make_ready, watch, telling, clip=clip)
    faults, rows, clipped, displacement = Faults(), 0, 0, DisplacementSum()
    for batch in mapped_in_order(worker, _numbered(stream)):
        faults = faults.followed_by(batch.faults, rows)
        watch.take(batch.look, rows)
        rows += batch.rows
        if batch.moved_m is not None:
            take(batch.ready)
            telling.take(batch.sample)
            displacement.add(batch.moved_m)
            clipped += batch.clipped
        if progress:
            progress(batch.rows)
    region.refuse(faults, clip=clip)
    watch.finish(stream)
    if shuffle is not None:
        _write_shuffled(shuffle, writer, progress)
    return Published(rows, clipped, displacement.summary(), telling.warnings())


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
        release: Release,
        make_ready: Callable[[People], Any],
        watch: PeopleWatch,
        telling: PredictingColumns,
        *,
        clip: bool,
    ) -> None:
        self._region = region
        self._release = release
        self._make_ready = make_ready
        self._watch = watch
        self._telling = telling
        self._clip = clip
        self._refused = threading.Event()

    def __call__(self, numbered: tuple[int, People]) -> _Batch:
        first_row, people = numbered
        watched = [people.carried.column(place) for place in self._watch.positions]
        faults, look = self._region.faults(people.points), self._watch.look(watched)
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
        moved_m = ground_distance_m(people.points, published)
        ready, sample = self._make_ready(people.with_points(published)), self._telling.look(people, first_row)
        return _Batch(len(people), faults, look, ready, sample, clipped, moved_m)


def _seeded(mechanism: Mechanism) -> Release:
    def release(points: FloatArray, first_row: int) -> FloatArray:
        del first_row
        return mechanism.perturb(points)

    return release


def _numbered(stream: PeopleStream) -> Iterator[tuple[int, People]]:
    rows = 0
    for people in stream.batches():
        yield rows, people
        rows += len(people)
