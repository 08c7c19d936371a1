"""From ranked lists to hard bounds on distances: for the target, and for everybody else as a check."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

_SLACK_M = 1e-6


class Rings:
    """All bounds so far.

    With a colluder at distance r: whoever is listed before it is nearer than r, whoever is listed after it is farther.
    A person not listed is farther than everybody who is, once k are listed.
    """

    def __init__(self, target: Person, k: int) -> None:
        self._target, self._k = target, k
        self._of: dict[Person, list[tuple[float, float, float, float]]] = {}
        self._counts: list[tuple[float, float, float, float]] = []
        self._ahead_at: dict[Spot, int] = {}
        self._densities: list[tuple[float, float, float, float]] = []
        self._misses: list[tuple[float, float, float]] = []
        self._crowded: list[tuple[float, float, float]] = []
        self._discs: list[tuple[float, float, float, int]] = []
        self._counted: dict[Spot, float] = {}

    def add_count(self, place: Spot, ahead: int) -> None:
        """Note how many people stand before the target as seen from a place."""
        self._ahead_at[place] = ahead
        self._counts.append((*place, float(ahead), 0.5))

    def known_ahead(self, place: Spot) -> int:
        """How many people stand before the target as seen from a place; -1 if that was never seen."""
        return self._ahead_at.get(place, -1)

    def target_rings(self) -> FloatArray:
        """Bounds on the target: rows of x, y, least and greatest distance."""
        return np.array(self._of.get(self._target, []), dtype=np.float64).reshape(-1, 4)

    def counts(self) -> FloatArray:
        """People ahead of the target: rows of x, y, count, spread of its logarithm."""
        return np.array(self._counts, dtype=np.float64).reshape(-1, 4)

    def densities(self) -> FloatArray:
        """How crowded it is where questions were asked: rows of x, y, people per squared metre of radius, radius."""
        return np.array(self._densities, dtype=np.float64).reshape(-1, 4)

    def crowded(self) -> FloatArray:
        """Discs that surely hold k people or more (nearly: colluders count): rows of x, y, radius."""
        return np.array(self._crowded, dtype=np.float64).reshape(-1, 3)

    def misses(self) -> FloatArray:
        """Where the target was not listed: rows of x, y and the crowd there, as in `densities`."""
        return np.array(self._misses, dtype=np.float64).reshape(-1, 3)

    def learn(self, place: Spot, radii: FloatArray, accounts: Sequence[Person], answer: Sequence[Person]) -> bool:
        """Take in one answer; False if it cannot come from colluders who are where they were put."""
        radius_of = dict(zip(accounts, radii.tolist(), strict=False))
        position = {person: number for number, person in enumerate(answer)}
        listed = [account for account in accounts if account in radius_of and account in position]
        if not self._in_order(listed, radius_of, position):
            return False
        if len(answer) >= self._k and not self._none_overlooked(listed, radius_of):
            return False
        self._note_crowd(place, radius_of, position)
        self._note_discs(place, radius_of, answer)
        self._bound_people(place, radius_of, answer)
        self._bound_target(place, listed, radius_of, position)
        self._bound_by_counting()
        return all(self._consistent(bounds) for bounds in self._of.values())

    @staticmethod
    def _in_order(listed: list[Person], radius_of: dict[Person, float], position: dict[Person, int]) -> bool:
        by_list = sorted(listed, key=lambda account: position[account])
        return [radius_of[account] for account in by_list] == sorted(radius_of[account] for account in listed)

    @staticmethod
    def _none_overlooked(listed: list[Person], radius_of: dict[Person, float]) -> bool:
        """A colluder that is not listed must be farther away than every one that is."""
        missing = [radius for account, radius in radius_of.items() if account not in listed]
        return not (missing and listed) or min(missing) >= max(radius_of[account] for account in listed)

    def _note_crowd(self, place: Spot, radius_of: dict[Person, float], position: dict[Person, int]) -> None:
        """How many people are within r: exactly, for a colluder that is listed; k or more, for one that is not."""
        listed = [account for account in radius_of if account in position]
        if listed:
            farthest = max(listed, key=lambda account: radius_of[account])
            radius = radius_of[farthest]
            crowd = (position[farthest] - (len(listed) - 1) + 0.5) / radius**2
            self._densities.append((*place, crowd, radius))
            if self._target not in position:
                self._misses.append((*place, crowd))
        if len(listed) < len(radius_of):
            nearest_missing = min(radius for account, radius in radius_of.items() if account not in position)
            self._crowded.append((*place, nearest_missing))

    def _note_discs(self, place: Spot, radius_of: dict[Person, float], answer: Sequence[Person]) -> None:
        """Note discs that hold at least so many people: those before a colluder; all listed, before one that is not."""
        people = 0
        for person in answer:
            if person in radius_of:
                self._discs.append((*place, radius_of[person], people))
            else:
                people += 1
        missing = [radius for account, radius in radius_of.items() if account not in answer]
        if missing and len(answer) >= self._k:
            self._discs.append((*place, min(missing), people))

    def _bound_by_counting(self) -> None:
        """Only n people are nearer to a place than the target: a disc with more of them reaches at least as far."""
        for place, ahead in self._ahead_at.items():
            reaches = [math.dist(place, (x, y)) + radius for x, y, radius, people in self._discs if people > ahead]
            reach = min(reaches, default=math.inf)
            if reach < self._counted.get(place, math.inf):
                self._counted[place] = reach
                self._add(self._target, place, 0.0, reach)

    def _bound_people(self, place: Spot, radius_of: dict[Person, float], answer: Sequence[Person]) -> None:
        low = 0.0
        pending: list[Person] = []
        for person in answer:
            if person in radius_of:
                for nearer in pending:
                    self._add(nearer, place, low, radius_of[person])
                low, pending = radius_of[person], []
            elif person != self._target:
                pending.append(person)
        for farther in pending:
            self._add(farther, place, low, np.inf)

    def _bound_target(
        self, place: Spot, listed: list[Person], radius_of: dict[Person, float], position: dict[Person, int]
    ) -> None:
        at = position.get(self._target)
        if at is None:
            # Farther than every listed colluder and, where the count ahead is known, than those that push it out.
            nearer = [radius_of[account] for account in listed]
            known = self._ahead_at.get(place)
            if known is not None:
                needed = self._k - known
                nearer += sorted(radius_of.values())[needed - 1 : needed]
            if nearer:
                self._add(self._target, place, max(nearer), np.inf)
            return
        before = [radius_of[account] for account in listed if position[account] < at]
        after = [radius for account, radius in radius_of.items() if position.get(account, self._k) > at]
        self._add(self._target, place, max(before, default=0.0), min(after, default=np.inf))
        if place not in self._ahead_at:
            self.add_count(place, at - len(before))

    def _add(self, person: Person, place: Spot, low: float, high: float) -> None:
        if low > 0 or high < np.inf:
            self._of.setdefault(person, []).append((*place, low, high))

    @staticmethod
    def _consistent(bounds: list[tuple[float, float, float, float]]) -> bool:
        """Whether the last bound agrees with each one before: some point satisfies both."""
        x, y, low, high = bounds[-1]
        for other_x, other_y, other_low, other_high in bounds[:-1]:
            gap = float(np.hypot(x - other_x, y - other_y))
            apart = gap > high + other_high + _SLACK_M
            inside = gap + high < other_low - _SLACK_M or gap + other_high < low - _SLACK_M
            if apart or inside:
                return False
        return True
