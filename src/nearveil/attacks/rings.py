"""From ranked lists to hard bounds on distances: for the target, and for everybody else as a check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nearveil.attacks.consistency import accounts_in_order, agrees_with_all_before
from nearveil.attacks.crowds import Crowds
from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

Ring = tuple[float, float, float, float]
"""A place (x, y), the least and the greatest distance from it."""


class Rings:
    """All bounds so far.

    With an account at distance r: whoever is listed before it is nearer than r, whoever is listed after it is farther.
    A person not listed is farther than everybody who is, once k are listed. The target is listed at the start: that is
    where an attack begins. It is an assumption until the target has been seen there, and bounds that need it are kept
    apart.
    """

    def __init__(self, target: Person, k: int, start: Spot) -> None:
        self._target, self._k, self._start = target, k, start
        self._of: dict[Person, list[Ring]] = {target: []}
        self._assumed: list[Ring] = []
        self._ahead_at: dict[Spot, int] = {}
        self._seen_at: set[Spot] = set()
        self._counted: dict[Spot, float] = {}
        self._sentinels: set[Spot] = set()
        self.crowds = Crowds(k)

    @property
    def sentinels(self) -> int:
        """At how many places an account put right there was listed first."""
        return len(self._sentinels)

    def had_sentinel(self, place: Spot) -> bool:
        """Whether one of them was there."""
        return place in self._sentinels

    @property
    def never_seen(self) -> bool:
        """Whether the target was in no answer at all."""
        return not self._seen_at

    @property
    def relies_on_start(self) -> bool:
        """Whether some bound holds only if the target is listed at the start, where it has not been seen yet."""
        return bool(self._assumed) and self._start not in self._seen_at

    def ahead(self) -> Mapping[Spot, int]:
        """How many people stand before the target, wherever that is known; at the start, the last place is a guess."""
        return {self._start: self._k - 1, **self._ahead_at}

    @property
    def ahead_at_start(self) -> int:
        """How many people stand before the target at the start."""
        return self.ahead()[self._start]

    def of_target(self) -> FloatArray:
        """Bounds on the target: rows of x, y, least and greatest distance."""
        return np.array(self._of[self._target] + self._assumed, dtype=np.float64).reshape(-1, 4)

    def without_assumption(self) -> Rings:
        """Return the hard bounds alone, those that hold wherever the target is."""
        certain = Rings(self._target, self._k, self._start)
        certain._of[self._target] = self._of[self._target]
        return certain

    def learn(self, place: Spot, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
        """Take in one answer; False if it cannot come from accounts that are where they were put."""
        if not accounts_in_order(radius_of, answer, full=len(answer) >= self._k):
            return False
        if 0.0 in radius_of.values():
            self._sentinels.add(place)
        self.crowds.learn(place, radius_of, answer, target_listed=self._target in answer)
        self._bound_people(place, radius_of, answer)
        self._bound_target(place, radius_of, answer)
        self._bound_by_counting()
        return all(agrees_with_all_before(bounds) for bounds in self._of.values())

    def _bound_people(self, place: Spot, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        low = 0.0
        pending: list[Person] = []
        for person in answer:
            if person in radius_of:
                for nearer in pending:
                    self._add(nearer, (*place, low, radius_of[person]))
                low, pending = radius_of[person], []
            elif person != self._target:
                pending.append(person)
        for farther in pending:
            self._add(farther, (*place, low, math.inf))

    def _bound_target(self, place: Spot, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        if self._target not in answer:
            self._bound_unlisted_target(place, radius_of, answer)
            return
        at = answer.index(self._target)
        before = [radius_of[person] for person in answer[:at] if person in radius_of]
        after = [radius for account, radius in radius_of.items() if account not in answer[:at]]
        self._add(self._target, (*place, max(before, default=0.0), min(after, default=math.inf)))
        self._seen_at.add(place)
        self._ahead_at[place] = at - len(before)

    def _bound_unlisted_target(self, place: Spot, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        """Farther than every listed account and, where the number ahead is known, than those that push it out."""
        listed = [radius_of[person] for person in answer if person in radius_of]
        self._add(self._target, (*place, max(listed, default=0.0), math.inf))
        if place == self._start and place not in self._ahead_at and len(radius_of) == 1 and listed == [0.0]:
            # Listed without the sentinel and not with it: the target is the last of the list.
            self._ahead_at[place] = self._k - 1
        known = self._ahead_at.get(place)
        if known is not None:
            pushing = sorted(radius_of.values())[self._k - known - 1 : self._k - known]
            self._add_if_seen(place, (*place, max(pushing, default=0.0), math.inf))

    def _bound_by_counting(self) -> None:
        """Only n people are nearer to a place than the target: a disc with more of them reaches at least as far."""
        for place, ahead in self._ahead_at.items():
            reach = self.crowds.reach_of_more_than(ahead, place)
            if reach < self._counted.get(place, math.inf):
                self._counted[place] = reach
                self._add_if_seen(place, (*place, 0.0, reach))

    def _add(self, person: Person, ring: Ring) -> None:
        if ring[2] > 0 or ring[3] < math.inf:
            self._of.setdefault(person, []).append(ring)

    def _add_if_seen(self, place: Spot, ring: Ring) -> None:
        """Bounds from the number ahead at the start are certain only once it has been seen."""
        if place in self._seen_at:
            self._add(self._target, ring)
        elif ring[2] > 0 or ring[3] < math.inf:
            self._assumed.append(ring)
