"""NearbyIndex: exact k nearest people on a live population, in metres on the ground."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from nearveil.errors import UsageError
from nearveil.nearby._grid import NOBODY, cell_of, link, link_all, nearest_slots, unlink
from nearveil.randomness import Randomness, as_randomness
from nearveil.types import FloatArray

Person = Hashable

_PEOPLE_PER_CELL = 3.0


class NearbyIndex:
    """A live index: insert, move, remove, and ask for the k nearest.

    Places are (x, y) in metres of one region's projection. People at exactly the same distance come in an order that is
    random but stays the same for as long as they are in the index.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the area; places beyond it are allowed, and searched less quickly.
    people : sequence of ids, optional
        Who is in it from the start, with their ``places``.
    rng : optional
        For the order of ties; secure randomness unless a seed or generator is given.

    Examples
    --------
    >>> index = NearbyIndex((100, 100), ["ann", "bob", "eve"], [[0, 0], [3, 4], [50, 50]])
    >>> index.ranked((1, 0), k=2)
    ['ann', 'bob']
    """

    def __init__(
        self,
        half_extent_m: tuple[float, float],
        people: Sequence[Person] = (),
        places: object = (),
        *,
        rng: Randomness | np.random.Generator | int | None = None,
    ) -> None:
        self._rng = as_randomness(rng).generator
        self._half_extent = half_extent_m
        start = np.asarray(places, dtype=np.float64).reshape(-1, 2)
        if len(start) != len(people):
            raise UsageError("an index needs one place for each person")
        self._ids: list[Person] = list(people)
        self._slot_of = {person: slot for slot, person in enumerate(self._ids)}
        if len(self._slot_of) != len(self._ids):
            raise UsageError("each person can be in the index once")
        self._free: list[int] = []
        self._build(_checked(start), max(16, len(start)))

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, person: Person) -> bool:
        return person in self._slot_of

    def people(self) -> Iterable[Person]:
        """Everybody in the index."""
        return self._slot_of.keys()

    # -- changes ---------------------------------------------------------------------------------------------

    def insert(self, person: Person, place: object) -> None:
        """Add a person."""
        if person in self._slot_of:
            raise UsageError("this person is in the index already; move them instead")
        spot = _checked(np.asarray(place, dtype=np.float64).reshape(1, 2))[0]
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slot_of[person] = slot
        self._ids[slot] = person
        self._tie_keys[slot] = self._rng.random()
        self._put(slot, spot)

    def move(self, person: Person, place: object) -> None:
        """Move a person."""
        spot = _checked(np.asarray(place, dtype=np.float64).reshape(1, 2))[0]
        slot = self._slot(person)
        unlink(slot, self._head, self._after, self._before, self._home)
        self._put(slot, spot)

    def remove(self, person: Person) -> None:
        """Take a person out."""
        slot = self._slot(person)
        unlink(slot, self._head, self._after, self._before, self._home)
        del self._slot_of[person]
        self._free.append(slot)

    # -- questions -------------------------------------------------------------------------------------------

    def ranked(self, place: Sequence[float], k: int) -> list[Person]:
        """The k nearest people, nearest first, ties in their stable order; all of them if they are fewer."""
        slots, _ = self._nearest(place, k)
        return [self._ids[slot] for slot in slots]

    def within_kth(self, place: Sequence[float], k: int) -> list[Person]:
        """The smallest set with at least k members within the k-th distance: all ties are in it."""
        wanted = k
        while True:
            # Equal distances may go on beyond the k-th: look further until they end.
            wanted *= 2
            slots, squares = self._nearest(place, wanted)
            if len(slots) < wanted or squares[-1] > squares[k - 1]:
                break
        return [self._ids[slot] for slot in slots[squares <= squares[min(k, len(squares)) - 1]]]

    def place_of(self, person: Person) -> tuple[float, float]:
        """Where a person is; for the service and its owner, never for an attacker."""
        x, y = self._places[self._slot(person)]
        return float(x), float(y)

    # -- inside ----------------------------------------------------------------------------------------------

    def _nearest(self, place: Sequence[float], k: int) -> tuple[np.ndarray, FloatArray]:
        if k < 1:
            raise UsageError("k must be at least 1")
        x, y = (float(value) for value in place)
        slots, squares = nearest_slots(
            x, y, k, self._places, self._tie_keys, self._low, self._size, self._shape, self._head, self._after
        )
        found = slots != NOBODY
        return slots[found], squares[found]

    def _slot(self, person: Person) -> int:
        try:
            return self._slot_of[person]
        except KeyError:
            raise UsageError("this person is not in the index") from None

    def _put(self, slot: int, spot: FloatArray) -> None:
        self._places[slot] = spot
        cell = cell_of(spot[0], spot[1], self._low, self._size, *self._shape)
        link(slot, cell, self._head, self._after, self._before, self._home)

    def _build(self, places: FloatArray, capacity: int) -> None:
        half_width, half_height = self._half_extent
        cells = max(1.0, capacity / _PEOPLE_PER_CELL)
        self._size = float(np.sqrt(4 * half_width * half_height / cells))
        self._low = np.array([-half_width, -half_height])
        self._shape = (int(2 * half_width / self._size) + 1, int(2 * half_height / self._size) + 1)
        self._head = np.full(self._shape[0] * self._shape[1], NOBODY, dtype=np.int64)
        self._after, self._before, self._home = (np.full(capacity, NOBODY, dtype=np.int64) for _ in range(3))
        self._places = np.zeros((capacity, 2))
        self._places[: len(places)] = places
        self._tie_keys = self._rng.random(capacity)
        self._ids += [None] * (capacity - len(self._ids))
        self._free = list(range(capacity - 1, len(places) - 1, -1))
        link_all(places, self._low, self._size, self._shape, self._head, self._after, self._before, self._home)

    def _grow(self) -> None:
        """Twice the room, and cells to match; everybody keeps their slot and their order among equals."""
        places, keys = self._places, self._tie_keys
        count = len(places)
        self._build(places, 2 * count)
        self._tie_keys[:count] = keys


def _checked(places: FloatArray) -> FloatArray:
    if not np.isfinite(places).all():
        raise UsageError("a place must be two finite numbers in metres")
    return places
