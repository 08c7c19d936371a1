"""How crowded it is, as far as lists tell: an account among people counts those who are nearer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

_Count = tuple[float, int]
"""A radius, and how many people are within it."""


class Crowds:
    """Counts of people within discs: hard facts about numbers, soft hints about where the target is."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._exactly: dict[Spot, list[_Count]] = {}
        self._at_least: dict[Spot, list[_Count]] = {}
        self._densities: list[tuple[float, float, float, float]] = []
        self._misses: list[tuple[float, float, float]] = []
        self._crowded: list[tuple[float, float, float]] = []

    def learn(
        self, place: Spot, radius_of: Mapping[Person, float], answer: Sequence[Person], *, target_listed: bool
    ) -> None:
        """Count those who are listed before each account."""
        people = 0
        for person in answer:
            if person not in radius_of:
                people += 1
            elif radius_of[person] > 0:
                self._exactly.setdefault(place, []).append((radius_of[person], people))
        listed = [radius_of[person] for person in answer if radius_of.get(person, 0.0) > 0]
        missing = [radius for account, radius in radius_of.items() if account not in answer]
        if missing:
            self._at_least.setdefault(place, []).append((min(missing), people))
            self._crowded.append((*place, min(missing)))
        if listed:
            self._note_density(
                place, (self._exactly[place][-1][1] + 0.5) / max(listed) ** 2, max(listed), target_listed
            )
        elif missing:
            # All that is known is that k people or so are nearer than the account: guess twice as many.
            self._note_density(place, 2.0 * self._k / min(missing) ** 2, min(missing), target_listed)

    def _note_density(self, place: Spot, density: float, radius_m: float, target_listed: bool) -> None:
        self._densities.append((*place, density, radius_m))
        if not target_listed:
            self._misses.append((*place, density))

    def reach_of_more_than(self, people: int, place: Spot) -> float:
        """Greatest distance from a place of the nearest disc that holds more than so many people."""
        reach = math.inf
        for counts in (self._exactly, self._at_least):
            for centre, known in counts.items():
                gap = math.dist(place, centre)
                reach = min([reach, *(gap + radius for radius, within in known if within > people)])
        return reach

    def densities(self) -> FloatArray:
        """How crowded it is where questions were asked: rows of x, y, people per squared metre of radius, radius."""
        return np.array(self._densities, dtype=np.float64).reshape(-1, 4)

    def misses(self) -> FloatArray:
        """Where the target was not listed: rows of x, y and the crowd there, as in `densities`."""
        return np.array(self._misses, dtype=np.float64).reshape(-1, 3)

    def crowded(self) -> FloatArray:
        """Discs that surely hold k people or more (nearly: accounts count): rows of x, y, radius."""
        return np.array(self._crowded, dtype=np.float64).reshape(-1, 3)

    def around(self, ahead_at: Mapping[Spot, int]) -> FloatArray:
        """What is known about the crowd around the target, for each place where the number ahead of it is known.

        Rows of x, y, number ahead; the largest radius within which there are no more, and how many; the least radius
        within which there are more, and how many; a radius with at least so many, and how many.
        """
        rows = []
        for place, ahead in ahead_at.items():
            exact = self._exactly.get(place, [])
            inner = max((count for count in exact if count[1] <= ahead), default=(0.0, 0))
            outer = min((count for count in exact if count[1] > ahead), default=(math.inf, 0))
            held = [count for count in self._at_least.get(place, []) if 0 < count[1] <= ahead]
            densest = min(held, key=lambda count: count[0] ** 2 / count[1], default=(0.0, 0))
            if inner[0] > 0 or outer[0] < math.inf or densest[1] > 0:
                rows.append((*place, float(ahead), *inner, *outer, *densest))
        return np.array(rows, dtype=np.float64).reshape(-1, 9)
