"""Roster: which person has which slot of the index's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter

import numpy as np

from nearveil.nearby.grid import NOBODY
from nearveil.nearby.siphash import HashArray, hash_ids
from nearveil.types import IntArray

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
