"""Roster: which person has which slot of the index's arrays."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from math import isfinite
from operator import itemgetter

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.geodesy import evaluate_at, exact_projection, fast_forward
from nearveil.hashing import HashArray, Key, hash_ids, hash_word, hash_words, split_key
from nearveil.kernels import brief_kernel
from nearveil.mechanisms.morton import MOST_LEVELS, interleave
from nearveil.nearby._grid import (
    NOBODY,
    PEOPLE_PER_CELL,
    SlotArray,
    home_of,
    laid_out,
    link,
    link_everybody,
    rank_slots,
    unlink,
)
from nearveil.nearby.stores.base import PublishedBatch
from nearveil.randomness import KEY_BYTES
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

_LEAST_ROOM = 16


class Roster:
    """People's slots, shared by all generations.

    A question finds slots first and reads their people afterwards. So that it never reads a person who came into a slot
    in between, a slot that was let go rests until the next generation, and whoever asked the one before asks again.
    """

    def __init__(self) -> None:
        self.people: list[str | None] = []
        self.leavers = 0
        self._slot_of: dict[str, int] = {}
        self._id_hashes: HashArray = np.zeros(_LEAST_ROOM, dtype=np.uint64)
        self._free: list[int] = []
        self._resting: list[int] = []

    def __len__(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.people)

    def slot_of(self, person: str) -> int:
        """Return a person's slot, or NOBODY."""
        return self._slot_of.get(person, NOBODY)

    def people_in(self, slots: list[int]) -> list[str]:
        """Return who has these slots; all of them have somebody if nobody left meanwhile (see `leavers`)."""
        # Quicker than one by one, and part of every question.
        if len(slots) > 1:
            return list(itemgetter(*slots)(self.people))
        return [self.people[slot] for slot in slots]  # type: ignore[misc]

    def id_hash(self, slot: int) -> np.uint64:
        """Return the hash of the id of whoever has this slot."""
        return np.uint64(self._id_hashes[slot])

    def id_hashes(self, capacity: int) -> HashArray:
        """Return the hashes of the first slots."""
        self._make_room(capacity)
        return self._id_hashes[:capacity]

    def enter(self, people: Sequence[str]) -> IntArray:
        """Return people's slots; who has none gets one."""
        slots = self._slots_of(people)
        unknown = np.flatnonzero(slots == NOBODY)
        if len(unknown):
            self._give_slots([people[row] for row in unknown.tolist()])
            slots = self._slots_of(people)
        return slots

    def leave(self, person: str) -> None:
        """Let go of a person's slot, which rests."""
        slot = self._slot_of.pop(person)
        self.people[slot] = None
        self.leavers += 1
        self._resting.append(slot)

    def wake(self) -> None:
        """Let slots that rested be used again: nobody asks the generation any more in which they were let go."""
        self._free += self._resting
        self._resting = []

    def _slots_of(self, people: Sequence[str]) -> IntArray:
        return np.fromiter(map(self._slot_of.get, people, repeat(NOBODY)), dtype=np.int64, count=len(people))

    def _give_slots(self, newcomers: list[str]) -> None:
        """Free slots first, then new ones at the end."""
        newcomers = list(dict.fromkeys(newcomers))
        reused = [self._free.pop() for _ in range(min(len(newcomers), len(self._free)))]
        end = len(self.people) + len(newcomers) - len(reused)
        slots = [*reused, *range(len(self.people), end)]
        self.people += repeat(None, end - len(self.people))
        self._make_room(end)
        self._id_hashes[slots] = hash_ids(newcomers)
        for slot, person in zip(slots, newcomers, strict=True):
            self.people[slot] = person
        self._slot_of.update(zip(newcomers, slots, strict=True))

    def _make_room(self, capacity: int) -> None:
        if capacity > len(self._id_hashes):
            grown = np.zeros(max(capacity, 2 * len(self._id_hashes)), dtype=np.uint64)
            grown[: len(self._id_hashes)] = self._id_hashes
            self._id_hashes = grown


# What a generation is built from, in small pieces: threads that answer questions get their turn in between.


Remap = Callable[[IntArray], FloatArray]
"""From noisy places in steps, shape (n, 2), to published places in metres."""

PIECE = 512
_BREATH_S = 1e-4


def breathe() -> None:
    """Let other threads run; without a pause Python's lock mostly goes back to who has just let go of it."""
    time.sleep(_BREATH_S)


def in_pieces(batches: Iterable[PublishedBatch], remap: Remap) -> Iterator[tuple[list[str], FloatArray]]:
    """People and where they are published, some at a time."""
    for batch in batches:
        for first in range(0, len(batch.people), PIECE):
            metres = remap(batch.steps[first : first + PIECE])
            if not np.isfinite(metres).all():
                raise UsageError("a published place is two finite numbers in metres; correct what moves the places")
            yield batch.people[first : first + PIECE], metres
            breathe()


def settled(
    pieces: Iterable[tuple[list[str], FloatArray]],
    enter: Callable[[list[str]], IntArray],
    half_extent_m: tuple[float, float],
) -> tuple[IntArray, FloatArray]:
    """Give the first people slots in the order of their places: what a question reads then lies together."""
    found = list(pieces)
    people = list(chain.from_iterable(some for some, _ in found))
    metres = np.concatenate([np.empty((0, 2)), *(places for _, places in found)])
    slots = np.empty(len(people), dtype=np.int64)
    order = _rows_side_by_side(metres, half_extent_m)
    for first in range(0, len(order), PIECE):
        rows = order[first : first + PIECE]
        # Copies, made in this order, lie together in memory as their places do, which a question feels.
        slots[rows] = enter([people[row].encode().decode() for row in rows.tolist()])
        breathe()
    return slots, metres


def _rows_side_by_side(metres: FloatArray, half_extent_m: tuple[float, float]) -> IntArray:
    """Rows in an order in which neighbours on the ground are mostly neighbours."""
    cells = 2**MOST_LEVELS
    shares = (metres / half_extent_m + 1.0) / 2
    column, row = np.clip(shares * cells, 0, cells - 1).astype(np.int64).T
    return np.argsort(interleave(column, row), kind="stable")


# Generation: everybody's published place in one epoch, in cells, with the epoch's order of equals.
#
# Questions and single changes are calls that keep Python's lock, so that no question sees a change half done.
# Building lets go of the lock, and happens before anybody else has the generation.


class _Room(threading.local):
    """Where an answer is put together, each thread's own: making it anew takes as long as a tenth of a question."""

    slots: SlotArray = np.empty(0, dtype=np.int32)
    squares: FloatArray = np.empty(0)


_ROOM = _Room()


class Generation:
    """People's places by slot, in cells.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the area; places beyond it are allowed.
    places : array, shape (n, 2)
        In metres; not a number where nobody is. The generation keeps the array and changes it.
    id_hashes : array, shape (n,)
        Of the people in the slots.
    key : (uint64, uint64)
        Orders people at one distance.
    """

    def __init__(self, half_extent_m: tuple[float, float], places: FloatArray, id_hashes: HashArray, key: Key) -> None:
        self.places = places
        self._key = key
        self._ties = np.empty(len(places), dtype=np.uint64)
        hash_words(id_hashes, *key, self._ties)
        half_width, half_height = half_extent_m
        cells = max(1.0, len(places) / PEOPLE_PER_CELL)
        size = math.sqrt(4 * half_width * half_height / cells)
        self._frame = np.array([-half_width, -half_height, size])
        self._shape = (int(2 * half_width / size) + 1, int(2 * half_height / size) + 1)
        self._head, self._inner = laid_out(places, self._frame, *self._shape)
        self._after, self._before, self._home = (np.full(len(places), NOBODY, dtype=np.int32) for _ in range(3))
        self.count: int = link_everybody(
            places, self._frame, *self._shape, self._head, self._inner, self._after, self._before, self._home
        )

        # Kept together: a question takes microseconds, and looking them up one by one is seen in it.
        self._searched = (self._frame, *self._shape, self._head, self._inner, self._after, self.places, self._ties)

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return len(self.places)

    @property
    def key(self) -> Key:
        """What the order of equals is keyed with."""
        return self._key

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        arrays = (self.places, self._ties, self._head, self._inner, self._after, self._before, self._home)
        return sum(array.nbytes for array in arrays)

    def has(self, slot: int) -> bool:
        """Whether somebody is in a slot."""
        return 0 <= slot < len(self._home) and bool(self._home[slot] != NOBODY)

    def put(self, slot: int, x_m: float, y_m: float, id_hash: np.uint64) -> None:
        """Put whoever has this slot at a place."""
        self.count += _put(
            slot, x_m, y_m, id_hash, *self._key, self._frame, *self._shape, self._head, self._inner, self._after,
            self._before, self._home, self.places, self._ties,
        )  # fmt: skip

    def drop(self, slot: int) -> None:
        """Take whoever has this slot off the map."""
        if self.has(slot):
            _drop(slot, self._head, self._after, self._before, self._home, self.places)
            self.count -= 1

    def nearest(self, x_m: float, y_m: float, k: int, excluded: int, within_m: float) -> list[int]:
        """Return the slots of the k nearest, in order."""
        slots, squares = _ROOM.slots, _ROOM.squares
        if len(slots) != k:
            slots, squares = _ROOM.slots, _ROOM.squares = np.empty(k, dtype=np.int32), np.empty(k)
        found = _ask(x_m, y_m, excluded, within_m, *self._searched, slots, squares)
        return slots.tolist() if found == k else slots[:found].tolist()


@brief_kernel
def _ask(
    x_m: float,
    y_m: float,
    excluded: int,
    within_m: float,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    places: FloatArray,
    ties: HashArray,
    slots: SlotArray,
    squares: FloatArray,
) -> int:
    return rank_slots(
        x_m, y_m, excluded, within_m * within_m, frame, columns, rows, head, inner, after, places, ties, slots, squares
    )


@brief_kernel
def _put(
    slot: int,
    x_m: float,
    y_m: float,
    id_hash: np.uint64,
    key_0: np.uint64,
    key_1: np.uint64,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    before: SlotArray,
    home: SlotArray,
    places: FloatArray,
    ties: HashArray,
) -> int:
    is_new = home[slot] == NOBODY
    if not is_new:
        unlink(slot, head, after, before, home)
    places[slot, 0], places[slot, 1] = x_m, y_m
    ties[slot] = hash_word(id_hash, key_0, key_1)
    link(slot, home_of(x_m, y_m, frame, columns, rows, head, inner), head, after, before, home)
    return 1 if is_new else 0


@brief_kernel
def _drop(slot: int, head: SlotArray, after: SlotArray, before: SlotArray, home: SlotArray, places: FloatArray) -> None:
    unlink(slot, head, after, before, home)
    places[slot, 0] = places[slot, 1] = np.nan


# PointProjection: one place at a time from degrees to metres, as fast as a question needs it.


_EDGE_TOLERANCE_DEG = 1e-9


class PointProjection:
    """`Region.to_metres` for one place, which must lie in the region.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> x_m, y_m = PointProjection(named_region("san-francisco"))(37.77, -122.42)
    >>> round(x_m), round(y_m)
    (-1762, 7770)
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        latitude, longitude = region.centre
        self._box = np.array([latitude, longitude, region.height_deg / 2, region.width_deg / 2])
        fast = fast_forward(latitude, region.height_deg / 2, region.width_deg / 2)
        # Without a polynomial the kernel checks the place, and PROJ projects it.
        self._exact = exact_projection(latitude, longitude) if fast is None else None
        self._coefficients = np.zeros((2, 1, 1)) if fast is None else fast.coefficients

    def __call__(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Return metres east and north of the centre; the error of a place outside the region names no coordinate."""
        x_m, y_m = _project(float(latitude), float(longitude), self._box, self._coefficients)
        if math.isnan(x_m):
            raise DataError(f"the place lies outside the service's region {self._region}")
        if self._exact is not None:
            return self._exact.transform(float(longitude), float(latitude))
        return x_m, y_m


@brief_kernel
def _project(latitude: float, longitude: float, box: FloatArray, coefficients: FloatArray) -> tuple[float, float]:
    """Metres, or not a number for what is not a place in the box."""
    north, east = latitude - box[0], (longitude - box[1] + 180.0) % 360.0 - 180.0
    # Written so that it is also false for what is not a number.
    inside = (
        abs(longitude) <= 180.0
        and abs(north) <= box[2] + _EDGE_TOLERANCE_DEG
        and abs(east) <= box[3] + _EDGE_TOLERANCE_DEG
    )
    if not inside:
        return math.nan, math.nan
    return evaluate_at(east / box[3], north / box[2], coefficients)


# PublishedIndex: who is published where, for questions by the thousand while epochs change.


Change = tuple[float, float] | None
"""Where somebody was put, or that they were taken off the map."""


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
