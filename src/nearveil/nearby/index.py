"""NearbyIndex: who is nearest, exactly, in experiments and in a running service.

Questions are answered from any thread and never wait for a change. A running service builds the grid of the next epoch
aside and exchanges it for the current one in a single step, so that every answer is that of one epoch.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, repeat
from math import isfinite
from operator import itemgetter
from typing import Generic, TypeVar

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.mechanisms.srr import interleave
from nearveil.nearby._grid import FIRST, NOBODY, Few, Grid, nearest_of
from nearveil.nearby.stores.base import LeftError, PublishedBatch
from nearveil.projection import exact_projection
from nearveil.randomness import KEY_BYTES, Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, WordArray

Person = Hashable
P = TypeVar("P", bound=Hashable)

Remap = Callable[[IntArray], FloatArray]
"""From noisy locations in steps, shape (n, 2), to published ones in metres."""

_LEAST_ROOM = 16
_SPARE_SHARE = 16
_PIECE = 512
_PAUSE_S = 1e-4
_EDGE_DEG = 1e-9
# Of a million people: to look at so many takes as long as to search the grid for them.
_MOST_FEW = 2_000
_MOST_GROUPS_KEPT = 64
_MOST_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Generic[P]):
    """Who of all may be found.

    Attributes
    ----------
    only : tuple of int
        Groups of tags, each as bits: somebody is found who has at least one tag of each group.
    hidden : tuple of sets
        Nobody in one of them is found.
    after : id or None
        Only those are found who are ranked after this person.
    """

    only: tuple[int, ...] = ()
    hidden: tuple[AbstractSet[P], ...] = ()
    after: P | None = None


class NearbyIndex(Generic[P]):
    """A live index of people by where they are, or are published, in one region.

    People at exactly the same distance come in an order of their own: by a keyed hash of their ids, whose key is the
    epoch's and is given to `load` and `advance`, or, with ``rng``, in a random order that stays for as long as they are
    in the index.

    Parameters
    ----------
    region : Region
        Public.
    people : sequence of ids, optional
        Who is in it from the start, with their ``places_m``. Ids are strings unless there is ``rng``.
    places_m : array, shape (n, 2), optional
        In metres east and north of the region's centre; places beyond the region are allowed.
    rng : optional
        A generator, seed or Randomness for the order of equals.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> index = NearbyIndex(named_region("san-francisco"), ["ann", "bob", "eve"], [[0, 0], [300, 400], [5000, 0]])
    >>> index.ranked_metres(10.0, 0.0, k=2)
    ['ann', 'bob']
    >>> index.ranked(37.7, -122.4, k=2, exclude="ann")
    ['bob', 'eve']
    """

    def __init__(
        self,
        region: Region,
        people: Sequence[P] = (),
        places_m: object = (),
        *,
        rng: Randomness | np.random.Generator | int | None = None,
    ) -> None:
        self.region = region
        self._roster: _Roster[P] = _Roster(None if rng is None else as_randomness(rng).generator)
        self._changing = threading.Lock()
        self._building = threading.Lock()
        self._meanwhile: dict[P, tuple[float, float] | None] | None = None
        self._tagged_meanwhile: dict[P, int] = {}
        # Of groups of tags that were asked for: those who have them where these are few, else None.
        self._few: dict[tuple[int, ...], tuple[WordArray, Few | None]] = {}
        start = np.asarray(places_m, dtype=np.float64).reshape(-1, 2)
        if len(start) != len(people) or len(set(people)) != len(people):
            raise UsageError("an index needs one place for each person, and each person once")
        if not np.isfinite(start).all():
            raise UsageError("a place must be two finite numbers in metres")
        self._roster.enter(people)
        # Those who enter an empty roster have the slots from 0 on. Until the first load the key is nothing secret.
        self._live = self._grid(self._room(start), None if rng is not None else bytes(KEY_BYTES))

    def __len__(self) -> int:
        return self._live.count

    def __contains__(self, person: P) -> bool:
        return self._live.has(self._roster.slot_of(person))

    @property
    def nbytes(self) -> int:
        """Memory of the arrays that answers come from."""
        return self._live.nbytes

    # -- questions -------------------------------------------------------------------------------------------

    def ranked(
        self,
        latitude: float,
        longitude: float,
        k: int,
        exclude: P | None = None,
        within_m: float | None = None,
        filtered: Filter[P] | None = None,
    ) -> list[P]:
        """Return the k nearest people, nearest first, equals in their order; fewer where there are no more.

        Raises DataError if the place is not in the region, and its `LeftError` if the list cannot go on where it ended.
        """
        x_m, y_m = self.to_metres(latitude, longitude)
        return self.ranked_metres(x_m, y_m, k, exclude, within_m, filtered)

    def ranked_metres(
        self,
        x_m: float,
        y_m: float,
        k: int,
        exclude: P | None = None,
        within_m: float | None = None,
        filtered: Filter[P] | None = None,
    ) -> list[P]:
        """Answer `ranked` for a place in metres."""
        reach_m = math.inf if within_m is None else float(within_m)
        if k < 1 or not reach_m >= 0 or not (isfinite(x_m) and isfinite(y_m)):
            raise UsageError("a question needs two finite numbers in metres, k of at least 1 and no distance below 0")
        roster = self._roster
        while True:
            generation, leavers = self._live, roster.leavers
            excluded = NOBODY if exclude is None else roster.slot_of(exclude)
            if filtered is None:
                people = roster.people_in(generation.nearest(float(x_m), float(y_m), k, excluded, reach_m))
            else:
                people = self._filtered(generation, float(x_m), float(y_m), k, excluded, reach_m, filtered)
            # Somebody may have left since, and somebody else have their slot: then the question is asked again.
            if generation is self._live and leavers == roster.leavers:
                return people

    def _filtered(
        self, generation: Grid, x_m: float, y_m: float, k: int, excluded: int, reach_m: float, wanted: Filter[P]
    ) -> list[P]:
        """Search among those with the tags, leave out who is hidden, and search on until there are enough."""
        after = FIRST if wanted.after is None else generation.rank_of(self._roster.slot_of(wanted.after), x_m, y_m)
        if after is None:
            raise LeftError("the person after whom the list was to go on has left the map; ask from the start")
        groups, few = self._few.get(wanted.only) or self._few_with(wanted.only)
        tags = self._roster.all_tags
        people: list[P] = []
        at_once = k + min(k, sum(map(len, wanted.hidden))) if wanted.hidden else k
        while True:
            if few is None:
                slots = generation.nearest_chosen(x_m, y_m, at_once, excluded, reach_m, tags, groups, after)
            else:
                slots = nearest_of(few, x_m, y_m, at_once, excluded, reach_m, after)
            found = self._roster.people_in(slots)
            for hidden in wanted.hidden:
                found = [person for person in found if person not in hidden]
            people = people + found if people else found
            if len(people) >= k or len(slots) < at_once:
                return people[:k] if len(people) > k else people
            at_once = min(2 * at_once, _MOST_AT_ONCE)
            after = generation.rank_of_last(slots)

    def _few_with(self, groups: tuple[int, ...]) -> tuple[WordArray, Few | None]:
        """Return the groups, and all who have a tag of each of them, if they are few."""
        bits = np.array(groups, dtype=np.uint64)
        with self._changing:
            few = None
            if groups:
                tags = self._roster.tags(self._live.capacity)
                has_all = (tags & bits[0]) != 0
                for group in bits[1:]:
                    has_all &= (tags & group) != 0
                slots = np.flatnonzero(has_all).astype(np.int32)
                few = None if len(slots) > _MOST_FEW else self._live.few(slots)
            if len(self._few) >= _MOST_GROUPS_KEPT:
                del self._few[next(iter(self._few))]
            self._few[groups] = bits, few
        return bits, few

    def _forget_few(self, *tags: int) -> None:
        """Forget those who were few, if somebody with these tags is one of them. Called before anything changes."""
        if any(tags):
            for groups, (_, few) in list(self._few.items()):
                if few is not None and any(all(one & group for group in groups) for one in tags):
                    del self._few[groups]

    def to_metres(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Project one place of the region, quickly; raises DataError if it is not in the region."""
        region, (south_north, west_east) = self.region, self.region.centre
        is_near = abs(latitude - south_north) <= region.height_deg / 2 + _EDGE_DEG and abs(longitude) <= 360.0
        if not (is_near and abs(wrap_longitude(longitude - west_east)) <= region.width_deg / 2 + _EDGE_DEG):
            raise DataError(f"the location is outside the region {region}")
        x_m, y_m = exact_projection(south_north, west_east).transform(float(longitude), float(latitude))
        return x_m, y_m

    def sample(self, count: int, rng: np.random.Generator) -> tuple[list[P], FloatArray]:
        """Return some people, all of them if they are fewer, and their published places in degrees."""
        with self._changing:
            slots = np.flatnonzero(np.isfinite(self._live.points[:, 0]))
            if count < len(slots):
                slots = rng.choice(slots, count, replace=False)
            people = self._roster.people_in(slots.tolist())
            places = self._live.points[slots]
        return people, self.region.publish(self.region.from_metres(places))

    # -- single changes --------------------------------------------------------------------------------------

    def move(self, person: P, x_m: float, y_m: float) -> None:
        """Put somebody at a place at once, whether they were in the index or not."""
        if not (isfinite(x_m) and isfinite(y_m)):
            raise UsageError("a place must be two finite numbers in metres")
        with self._changing:
            [slot] = self._roster.enter([person]).tolist()
            self._forget_few(self._roster.tags_of(slot))
            self._live = self._with(self._live, person, float(x_m), float(y_m))
            if self._meanwhile is not None:
                self._meanwhile[person] = (float(x_m), float(y_m))

    def remove(self, person: P) -> bool:
        """Take somebody out; whether they were in the index."""
        with self._changing:
            slot = self._roster.slot_of(person)
            was_there = self._live.has(slot)
            self._forget_few(self._roster.tags_of(slot))
            self._live.drop(slot)
            self._roster.tag(slot, 0)
            if self._meanwhile is not None:
                # The next generation may hold the slot, or be about to: it is let go when that one answers.
                self._meanwhile[person] = None
                self._tagged_meanwhile[person] = 0
            elif slot != NOBODY:
                self._roster.leave(person)
        return was_there

    def tag(self, person: P, tags: int) -> None:
        """Give somebody these tags, as bits, in place of those before; who is not in the index brings theirs along."""
        with self._changing:
            if self._meanwhile is not None:
                self._tagged_meanwhile[person] = tags
            slot = self._roster.slot_of(person)
            if slot != NOBODY:
                self._forget_few(tags, self._roster.tags_of(slot))
                self._live.tag(slot, np.uint64(tags))
                self._roster.tag(slot, tags)

    # -- generations: everybody's published place in one epoch ---------------------------------------------------

    def load(self: NearbyIndex[str], batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Build from nothing: at the start, and when new intervals move everybody. Who is in no batch is gone.

        Batches should be read from the store while this runs (an iterator, not a list made before): what `remove`,
        `move` and `tag` do after the call began is applied on top of them.
        """
        self._build(batches, remap, tie_key, from_nothing=True)

    def advance(self: NearbyIndex[str], batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Build the next epoch's generation from the current one and what was published since; see `load`."""
        self._build(batches, remap, tie_key, from_nothing=False)

    def _build(
        self: NearbyIndex[str], batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes, *, from_nothing: bool
    ) -> None:
        with self._building:
            with self._changing:
                self._meanwhile, self._tagged_meanwhile = {}, {}
            try:
                if len(self._roster) == 0:
                    moved = [self._enter_side_by_side(_in_pieces(batches, remap))]
                else:
                    moved = [(self._enter(people), some, tags) for people, some, tags in _in_pieces(batches, remap)]
                with self._changing:
                    places = self._room(np.empty((0, 2)) if from_nothing else self._live.points)
                    tie_seeds = self._roster.tie_seeds(len(places))
                    tags = self._roster.tags(len(places)).copy()
                for slots, metres, theirs in moved:
                    places[slots], tags[slots] = metres, theirs
                self._exchange(Grid(self.region.half_extent_m, places, tie_seeds, tie_key, tags), tags)
            finally:
                self._meanwhile = None
                self._forget_absent()

    def _enter(self, people: list[P]) -> IntArray:
        with self._changing:
            return self._roster.enter(people)

    def _enter_side_by_side(
        self: NearbyIndex[str], pieces: Iterable[tuple[list[str], FloatArray, WordArray]]
    ) -> tuple[IntArray, FloatArray, WordArray]:
        """Give the first people slots in the order of their places: what a question reads then lies together."""
        found = list(pieces)
        people = list(chain.from_iterable(some for some, _, _ in found))
        metres = np.concatenate([np.empty((0, 2)), *(places for _, places, _ in found)])
        tags = np.concatenate([np.empty(0, dtype=np.uint64), *(some for _, _, some in found)])
        slots = np.empty(len(people), dtype=np.int64)
        order = _rows_side_by_side(metres, self.region.half_extent_m)
        for first in range(0, len(order), _PIECE):
            rows = order[first : first + _PIECE]
            # Copies, made in this order, lie together in memory as their places do, which a question feels.
            slots[rows] = self._enter([people[row].encode().decode() for row in rows.tolist()])
            _yield_lock()
        return slots, metres, tags

    def _exchange(self, generation: Grid, tags: WordArray) -> None:
        """Apply what happened meanwhile, and let the new generation answer."""
        with self._changing:
            changes, self._meanwhile = self._meanwhile or {}, None
            # Before the new generation answers, so that nobody finds few of the old one then.
            self._few = {}
            self._roster.tag_all(tags)
            for person, theirs in self._tagged_meanwhile.items():
                slot = self._roster.slot_of(person)
                self._roster.tag(slot, theirs)
                generation.tag(slot, np.uint64(theirs))
            for person, change in changes.items():
                if change is None:
                    generation.drop(self._roster.slot_of(person))
                else:
                    generation = self._with(generation, person, *change)
            self._live = generation

    def _forget_absent(self) -> None:
        """Let go of the slots of those who are nowhere: they were removed, or never got anywhere."""
        absent = np.flatnonzero(np.isnan(self._live.points[: len(self._roster), 0]))
        for first in range(0, len(absent), _PIECE):
            with self._changing:
                for slot in absent[first : first + _PIECE].tolist():
                    person = self._roster.people[slot]
                    if person is not None and not self._live.has(slot):
                        self._roster.leave(person)
            _yield_lock()

    def _room(self, places: FloatArray) -> FloatArray:
        """Places for everybody in the roster and some more: those given first, then nowhere."""
        people = len(self._roster)
        return _with_room(places, people + people // _SPARE_SHARE + _LEAST_ROOM)

    def _grid(self, places: FloatArray, key: bytes | None) -> Grid:
        seeds, tags = self._roster.tie_seeds(len(places)), self._roster.tags(len(places))
        return Grid(self.region.half_extent_m, places, seeds, key, tags)

    def _with(self, generation: Grid, person: P, x_m: float, y_m: float) -> Grid:
        """Put somebody into a generation, or into a larger copy of it if it is full."""
        slot = self._roster.slot_of(person)
        if slot >= generation.capacity:
            generation = self._grid(_with_room(generation.points, 2 * slot + _LEAST_ROOM), generation.key)
        generation.put(slot, x_m, y_m, self._roster.tie_seed(slot))
        generation.tag(slot, np.uint64(self._roster.tags_of(slot)))
        return generation


def nearest_rows(people_m: FloatArray, queries_m: FloatArray, k: int, excluded: IntArray | None = None) -> IntArray:
    """Return the rows of the k people nearest to each query, nearest first, equals by their rows.

    There must be k of them at least, besides the row that is excluded for each query.

    Examples
    --------
    >>> nearest_rows(np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]]), np.array([[4.0, 4.0]]), k=2).tolist()
    [[1, 0]]
    """
    people_m, queries_m = (np.ascontiguousarray(places, dtype=np.float64) for places in (people_m, queries_m))
    half_width, half_height = np.maximum(np.abs(people_m).max(axis=0), 1.0).tolist()
    grid = Grid((half_width, half_height), people_m, np.arange(len(people_m), dtype=np.uint64), None)
    left_out = np.full(len(queries_m), NOBODY, dtype=np.int64) if excluded is None else excluded
    return grid.nearest_to_each(queries_m, k, left_out).astype(np.int64)


class _Roster(Generic[P]):
    """Which person has which slot, in all generations alike, and what the order of equals comes from.

    Parameters
    ----------
    generator : Generator or None
        Draws each newcomer's seed of the order of equals; without it, the seed is a hash of their id.
    """

    def __init__(self, generator: np.random.Generator | None) -> None:
        self.people: list[P | None] = []
        self.leavers = 0
        self._generator = generator
        self._slot_of: dict[P, int] = {}
        self._tie_seeds: WordArray = np.zeros(_LEAST_ROOM, dtype=np.uint64)
        self.all_tags: WordArray = np.zeros(_LEAST_ROOM, dtype=np.uint64)
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.people)

    def slot_of(self, person: P) -> int:
        """Return a person's slot, or NOBODY."""
        return self._slot_of.get(person, NOBODY)

    def people_in(self, slots: list[int]) -> list[P]:
        """Return who has these slots; all of them have somebody if nobody left meanwhile (see `leavers`)."""
        # Quicker than one by one, and part of every question.
        if len(slots) > 1:
            return list(itemgetter(*slots)(self.people))
        return [self.people[slot] for slot in slots]  # type: ignore[misc]

    def tie_seed(self, slot: int) -> np.uint64:
        """Return the seed of the person in this slot."""
        return np.uint64(self._tie_seeds[slot])

    def tie_seeds(self, capacity: int) -> WordArray:
        """Return the seeds of the first slots."""
        self._make_room(capacity)
        return self._tie_seeds[:capacity]

    def tags(self, capacity: int) -> WordArray:
        """Return the tags of the first slots, as bits."""
        self._make_room(capacity)
        return self.all_tags[:capacity]

    def tags_of(self, slot: int) -> int:
        """Return the tags of a slot, if it is one."""
        return 0 if slot == NOBODY else int(self.all_tags[slot])

    def tag(self, slot: int, tags: int) -> None:
        """Give a slot, if it is one, tags in place of those before."""
        if slot != NOBODY:
            self.all_tags[slot] = tags

    def tag_all(self, tags: WordArray) -> None:
        """Give the first slots tags in place of those before."""
        self.all_tags[: len(tags)] = tags

    def enter(self, people: Sequence[P]) -> IntArray:
        """Return people's slots; who has none gets one."""
        slots = self._slots_of(people)
        if (slots == NOBODY).any():
            self._give_slots(list(dict.fromkeys(people[row] for row in np.flatnonzero(slots == NOBODY).tolist())))
            slots = self._slots_of(people)
        return slots

    def leave(self, person: P) -> None:
        """Let go of the slot of somebody who is in no generation."""
        # Counted first: who found the slot before, and reads it from here on, sees that the count has changed.
        self.leavers += 1
        slot = self._slot_of.pop(person)
        self.people[slot] = None
        self.all_tags[slot] = 0
        self._free.append(slot)

    def _slots_of(self, people: Sequence[P]) -> IntArray:
        return np.fromiter(map(self._slot_of.get, people, repeat(NOBODY)), dtype=np.int64, count=len(people))

    def _give_slots(self, newcomers: list[P]) -> None:
        """Free slots first, then new ones at the end."""
        reused = [self._free.pop() for _ in range(min(len(newcomers), len(self._free)))]
        end = len(self.people) + len(newcomers) - len(reused)
        slots = [*reused, *range(len(self.people), end)]
        self.people += repeat(None, end - len(self.people))
        self._make_room(end)
        self._tie_seeds[slots] = self._new_seeds(newcomers)
        for slot, person in zip(slots, newcomers, strict=True):
            self.people[slot] = person
        self._slot_of.update(zip(newcomers, slots, strict=True))

    def _new_seeds(self, newcomers: list[P]) -> WordArray:
        if self._generator is None:
            # Ids are strings where nothing is drawn.
            digests = (blake2b(str(person).encode(), digest_size=8).digest() for person in newcomers)
            return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
        # The bits of numbers that are not negative are in the order of the numbers.
        return self._generator.random(len(newcomers)).view(np.uint64)

    def _make_room(self, capacity: int) -> None:
        if capacity > len(self._tie_seeds):
            room = max(capacity, 2 * len(self._tie_seeds)) - len(self._tie_seeds)
            self._tie_seeds, self.all_tags = (np.pad(array, (0, room)) for array in (self._tie_seeds, self.all_tags))


def _in_pieces(batches: Iterable[PublishedBatch], remap: Remap) -> Iterator[tuple[list[str], FloatArray, WordArray]]:
    """People, where they are published and their tags, some at a time, so that questions are answered in between."""
    for batch in batches:
        tags = np.zeros(len(batch.people), dtype=np.uint64) if batch.tags is None else batch.tags
        for first in range(0, len(batch.people), _PIECE):
            metres = remap(batch.steps[first : first + _PIECE])
            if not np.isfinite(metres).all():
                raise UsageError("a published place is two finite numbers in metres; correct what moves the places")
            yield batch.people[first : first + _PIECE], metres, tags[first : first + _PIECE]
            _yield_lock()


def _yield_lock() -> None:
    """Let other threads run; without a pause Python's lock mostly goes back to who has just let go of it."""
    time.sleep(_PAUSE_S)


def _rows_side_by_side(metres: FloatArray, half_extent_m: tuple[float, float]) -> IntArray:
    """Rows in an order in which neighbors on the ground are mostly neighbors."""
    cells = 2**12
    shares = (metres / half_extent_m + 1.0) / 2
    column, row = np.clip(shares * cells, 0, cells - 1).astype(np.int64).T
    return np.argsort(interleave(column, row), kind="stable")


def _with_room(places: FloatArray, capacity: int) -> FloatArray:
    """Return a copy with room for more, which are nowhere yet."""
    grown = np.full((capacity, 2), np.nan)
    grown[: len(places)] = places[:capacity]
    return grown
