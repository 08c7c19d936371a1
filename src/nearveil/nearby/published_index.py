"""PublishedIndex: who is published where, for questions by the thousand while epochs change."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from math import isfinite

import numpy as np

from nearveil.errors import UsageError
from nearveil.nearby.gathering import PIECE, Remap, breathe, in_pieces, settled
from nearveil.nearby.generation import Generation
from nearveil.nearby.grid import NOBODY
from nearveil.nearby.point_projection import PointProjection
from nearveil.nearby.roster import Roster
from nearveil.nearby.siphash import split_key
from nearveil.nearby.stores.base import PublishedBatch
from nearveil.randomness import KEY_BYTES
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

Change = tuple[float, float] | None
"""Where somebody was put, or that they were taken off the map."""

__all__ = ["PublishedIndex", "Remap"]

_SPARE_SHARE = 16
_LEAST_SPARE = 16


class PublishedIndex:
    """An exact index of published places that answers from any thread and never waits for a change.

    A border builds the next generation aside and exchanges it for the current one in a single step, so that every
    answer is that of one epoch. What happens to single people meanwhile happens to both.

    Parameters
    ----------
    region : Region
        Public.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> index = PublishedIndex(named_region("san-francisco"))
    >>> index.move("ann", 0.0, 0.0)
    >>> index.move("bob", 300.0, 400.0)
    >>> index.ranked(37.7, -122.4, k=2, exclude="ann")
    ['bob']
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        self._project = PointProjection(region)
        self._roster = Roster()
        # Until the first load the order of equals has no secret key.
        self._live = Generation(
            region.half_extent_m, _nobody(0), self._roster.id_hashes(0), split_key(bytes(KEY_BYTES))
        )
        self._changing = threading.Lock()
        self._building = threading.Lock()
        self._meanwhile: dict[str, Change] | None = None

    def __len__(self) -> int:
        return self._live.count

    def __contains__(self, person: str) -> bool:
        return self._live.has(self._roster.slot_of(person))

    @property
    def nbytes(self) -> int:
        """Memory of the arrays of the generation that answers."""
        return self._live.nbytes

    # -- generations -----------------------------------------------------------------------------------------

    def load(self, batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Build from nothing: at the start, and when new intervals move everybody. Who is in no batch is gone.

        Batches should be read from the store while this runs (an iterator, not a list made before): what `remove` and
        `move` do after the call began is applied on top of them.
        """
        self._build(batches, remap, tie_key, from_nothing=True)

    def advance(self, batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Build the next epoch's generation from the current one and what was published since; see `load`."""
        self._build(batches, remap, tie_key, from_nothing=False)

    def _build(self, batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes, *, from_nothing: bool) -> None:
        key = split_key(tie_key)
        with self._building:
            with self._changing:
                self._meanwhile = {}
            try:
                moved = self._moved(batches, remap)
                with self._changing:
                    places = self._start(from_nothing)
                    id_hashes = self._roster.id_hashes(len(places))
                for slots, metres in moved:
                    places[slots] = metres
                self._exchange(Generation(self.region.half_extent_m, places, id_hashes, key))
            finally:
                self._meanwhile = None
                self._forget_absent()

    def _moved(self, batches: Iterable[PublishedBatch], remap: Remap) -> list[tuple[IntArray, FloatArray]]:
        """Slots and new places."""
        if len(self._roster) == 0:
            return [settled(in_pieces(batches, remap), self._enter, self.region.half_extent_m)]
        return [(self._enter(people), metres) for people, metres in in_pieces(batches, remap)]

    def _enter(self, people: list[str]) -> IntArray:
        with self._changing:
            return self._roster.enter(people)

    def _start(self, from_nothing: bool) -> FloatArray:
        """Places for everybody in the roster and some more: where they are now, or nowhere."""
        people = len(self._roster)
        places = _nobody(people + people // _SPARE_SHARE + _LEAST_SPARE)
        if not from_nothing:
            known = min(self._live.capacity, len(places))
            places[:known] = self._live.places[:known]
        return places

    def _exchange(self, generation: Generation) -> None:
        """Apply what happened meanwhile, and let the new generation answer."""
        with self._changing:
            changes, self._meanwhile = self._meanwhile or {}, None
            for person, change in changes.items():
                if change is None:
                    generation.drop(self._roster.slot_of(person))
                else:
                    generation = self._with(generation, person, *change)
            self._live = generation
            self._roster.wake()

    def _forget_absent(self) -> None:
        """Let go of the slots of those who are not on the map: they were taken off it, or never got there."""
        absent = np.flatnonzero(np.isnan(self._live.places[: len(self._roster), 0]))
        for first in range(0, len(absent), PIECE):
            with self._changing:
                for slot in absent[first : first + PIECE].tolist():
                    person = self._roster.people[slot]
                    if person is not None and not self._live.has(slot):
                        self._roster.leave(person)
            breathe()

    # -- single changes --------------------------------------------------------------------------------------

    def move(self, person: str, x_m: float, y_m: float) -> None:
        """Put somebody at a published place at once, whether they were on the map or not."""
        if not (isfinite(x_m) and isfinite(y_m)):
            raise UsageError("a place must be two finite numbers in metres")
        with self._changing:
            self._roster.enter([person])
            self._live = self._with(self._live, person, float(x_m), float(y_m))
            if self._meanwhile is not None:
                self._meanwhile[person] = (float(x_m), float(y_m))

    def remove(self, person: str) -> bool:
        """Take somebody off the map, after the store has; whether they were on it."""
        with self._changing:
            slot = self._roster.slot_of(person)
            was_there = self._live.has(slot)
            self._live.drop(slot)
            if self._meanwhile is not None:
                # The next generation may hold the slot, or be about to: it is let go when that one answers.
                self._meanwhile[person] = None
            elif slot != NOBODY:
                self._roster.leave(person)
        return was_there

    def _with(self, generation: Generation, person: str, x_m: float, y_m: float) -> Generation:
        """Put somebody into a generation, or into a larger copy of it if it is full."""
        slot = self._roster.slot_of(person)
        if slot >= generation.capacity:
            places = _nobody(2 * slot + _LEAST_SPARE)
            places[: generation.capacity] = generation.places
            id_hashes = self._roster.id_hashes(len(places))
            generation = Generation(self.region.half_extent_m, places, id_hashes, generation.key)
        generation.put(slot, x_m, y_m, self._roster.id_hash(slot))
        return generation

    # -- questions -------------------------------------------------------------------------------------------

    def ranked(
        self, latitude: float, longitude: float, k: int, exclude: str | None = None, within_m: float | None = None
    ) -> list[str]:
        """Return the k nearest people, nearest first, equals in this epoch's order; fewer where there are no more.

        Raises DataError if the place is not in the region.
        """
        x_m, y_m = self._project(latitude, longitude)
        return self.ranked_metres(x_m, y_m, k, exclude, within_m)

    def ranked_metres(
        self, x_m: float, y_m: float, k: int, exclude: str | None = None, within_m: float | None = None
    ) -> list[str]:
        """Answer `ranked` for a place in metres."""
        reach_m = math.inf if within_m is None else float(within_m)
        if k < 1 or not reach_m >= 0 or not (isfinite(x_m) and isfinite(y_m)):
            raise UsageError("a question needs two finite numbers in metres, k of at least 1 and no distance below 0")
        roster = self._roster
        while True:
            generation, leavers = self._live, roster.leavers
            excluded = NOBODY if exclude is None else roster.slot_of(exclude)
            slots = generation.nearest(float(x_m), float(y_m), k, excluded, reach_m)
            people = roster.people_in(slots)
            # Somebody may have left since, or everybody's slot be another's: then the question is asked again.
            if generation is self._live and leavers == roster.leavers:
                return people

    def to_metres(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Project one place of the region; raises DataError if it is not in the region."""
        return self._project(latitude, longitude)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[list[str], FloatArray]:
        """Return some people, all of them if they are fewer, and their published places in degrees."""
        with self._changing:
            slots = np.flatnonzero(np.isfinite(self._live.places[:, 0]))
            if count < len(slots):
                slots = rng.choice(slots, count, replace=False)
            people = [self._roster.people[slot] or "" for slot in slots.tolist()]
            places = self._live.places[slots]
        return people, self.region.publish(self.region.from_metres(places))


def _nobody(slots: int) -> FloatArray:
    return np.full((slots, 2), np.nan)
