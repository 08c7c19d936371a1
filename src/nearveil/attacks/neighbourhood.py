"""Everybody seen in an attacker's lists, and several sets of places that explain all of the lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.attacks.order_fit import lay_out, minimise, strains_m
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray

# Rules between neighbours in a list, and between people farther apart in it, or an order spreads too slowly.
_GAPS = (1, 2, 4, 8, 16, 32)
# From places close to each other, everybody farther away by the same distance looks nearly the same: rather nearer.
_PULL = 1e-2
_MOST_STEPS = 60
_TOLERANCE = 1e-4
_LAY_OUT_ROUNDS = 15
# Misfits violate rules by this share of what the worst misfit does, and by this much in units of the scale.
_MISFIT = 0.3
_MISFIT_STRAIN = 0.01
# In units of the scale: solutions so much worse than the best one are not believed.
_CREDIBLE_STRAIN = 3e-4


class Neighbourhood:
    """Ranked lists, and where people may be.

    Parameters
    ----------
    target : Person
        Always person number 0 of a solution.
    k : int
        How many people a full list has: whoever is not on it is farther than its last one.
    starts : int
        How many solutions are kept. Each gives the rules random weights and has random homes for people, so that
        solutions spread over what the lists leave open.
    most_people : int
        Only so many are located, those seen most often.
    """

    def __init__(self, target: Person, k: int, *, starts: int, most_people: int, rng: np.random.Generator) -> None:
        self.places: list[Spot] = []
        self.people: list[Person] = [target]
        self.lists: list[Sequence[Person]] = []
        self._seen: Counter[Person] = Counter()
        self._k, self._starts, self._most_people, self._rng = k, starts, most_people, rng
        self._solutions: list[FloatArray] = []
        self._strains = np.zeros(starts)
        self._scale_m = 1.0

    def add(self, place: Spot, answer: Sequence[Person]) -> None:
        """Learn a list."""
        self.places.append(place)
        self.lists.append(answer)
        self._seen.update(answer)

    def disorder(self) -> float:
        """Share of the rules that the best solution violates, of those about pairs who are not in one order always.

        Two people at the same place are always in the same order, which no map can explain and which means nothing.
        """
        places, rules, points = np.array(self.places), self._rules(), self._solutions[-1]
        q, near, far = rules.T
        telling = np.isin(near * len(points) + far, far * len(points) + near)
        if not telling.any():
            return 0.0
        nearer, farther = (np.hypot(*(points[people] - places[q]).T) for people in (near, far))
        return float(np.mean(nearer[telling] > farther[telling]))

    def solutions(self) -> FloatArray:
        """Places of everybody in each solution that is about as good as the best, of shape (solutions, people, 2)."""
        worst = 2 * self._strains.min() + _CREDIBLE_STRAIN * self._scale_m
        return np.array(
            [points for points, strain in zip(self._solutions, self._strains, strict=True) if strain <= worst]
        )

    def reach_m(self) -> float:
        """How far a list reaches from its place, as far as the solutions know."""
        numbers, solutions = self._numbers(), np.array(self._solutions)
        lasts = []
        for place, people in zip(self.places, self._numbered(numbers), strict=True):
            if 0 in people:
                lasts.append(np.hypot(*(solutions[:, people[-1]] - place).T))
        return max(float(np.median(lasts)), 1.0)

    def fit(self, scale_m: float, *, fresh: int, least_seen: int, cooling: Sequence[float]) -> None:
        """Find places for everybody seen so often; the worst ``fresh`` solutions are replaced by new ones.

        Temperatures are in units of the scale. The first one is skipped where a solution is warm already.
        """
        before = len(self.people)
        self._include(least_seen)
        self._scale_m = scale_m
        places, rules, homes = np.array(self.places), self._rules(), self._homes()
        solutions, strains = [], []
        for number in range(self._starts):
            points, known = np.zeros_like(homes), np.zeros(len(homes), dtype=np.bool_)
            warm = number >= fresh and len(self._solutions) > 0
            if warm:
                points[:before], known[:before] = self._solutions[number], True
            weights = self._rng.exponential(1, len(rules))
            own_homes = self._scatter(homes)
            for temperature in cooling[1:] if warm else cooling:
                points = self._place_unknown(points, known, homes)
                points = minimise(
                    points, places, rules, weights, temperature * scale_m, own_homes, _PULL / scale_m,
                    _MOST_STEPS, _TOLERANCE,
                )  # fmt: skip
                each_m = strains_m(points, places, rules)
                # Whoever ended up on the wrong side of a place fits badly, and starts anew.
                known = each_m < max(_MISFIT * float(each_m.max()), _MISFIT_STRAIN * scale_m)
            solutions.append(points)
            strains.append(float(each_m.mean()))
        worst_first = np.argsort(strains)[::-1]
        self._solutions, self._strains = [solutions[i] for i in worst_first], np.array(strains)[worst_first]

    def _scatter(self, homes: FloatArray) -> FloatArray:
        return homes + self._rng.normal(0, 0.5 * self._scale_m, homes.shape)

    def _place_unknown(self, points: FloatArray, known: BoolArray, homes: FloatArray) -> FloatArray:
        """Put those whose places are not known at distances that fit their ranks among those that are."""
        if known.all():
            return points
        points = points.copy()
        radii = np.ascontiguousarray(self._radii(points, known)[:, ~known])
        points[~known] = lay_out(self._scatter(homes)[~known], np.array(self.places), radii, _LAY_OUT_ROUNDS)
        return points

    def _include(self, least_seen: int) -> None:
        """Locate more people: those seen often enough, most often seen first."""
        known = set(self.people)
        for person, times in self._seen.most_common():
            if times < least_seen or len(self.people) >= self._most_people:
                break
            if person not in known:
                self.people.append(person)

    def _numbers(self) -> dict[Person, int]:
        return {person: number for number, person in enumerate(self.people)}

    def _numbered(self, numbers: dict[Person, int]) -> list[IntArray]:
        """The lists as numbers of the people that are located."""
        return [
            np.array([numbers[person] for person in answer if person in numbers], dtype=np.int64)
            for answer in self.lists
        ]

    def _rules(self) -> IntArray:
        """Rows (place, nearer person, farther person): all that the lists say."""
        everybody = np.arange(len(self.people))
        rows: list[tuple[int, IntArray, IntArray]] = []
        for q, people in enumerate(self._numbered(self._numbers())):
            rows += [(q, people[:-gap], people[gap:]) for gap in _GAPS if gap < len(people)]
            if len(people) > 0 and len(self.lists[q]) >= self._k:
                missing = np.setdiff1d(everybody, people)
                rows.append((q, np.full(len(missing), people[-1]), missing))
            for at in np.flatnonzero(people == 0):
                rows.append((q, people[:at], np.zeros(at, dtype=np.int64)))
                rows.append((q, np.zeros(len(people) - at - 1, dtype=np.int64), people[at + 1 :]))
        blocks = [np.column_stack([np.full(len(near), q), near, far]) for q, near, far in rows]
        return np.concatenate([np.empty((0, 3), dtype=np.int64), *blocks])

    def _homes(self) -> FloatArray:
        """The mean of the places where a person was listed."""
        sums, counts = np.zeros((len(self.people), 2)), np.zeros(len(self.people))
        for place, people in zip(self.places, self._numbered(self._numbers()), strict=True):
            sums[people] += place
            counts[people] += 1
        return np.asarray(sums / counts[:, None])

    def _radii(self, points: FloatArray, known: BoolArray) -> FloatArray:
        """Guess everybody's distance from every place, by rank; see ``lay_out``.

        Where nobody's place is known, people are taken to be spread evenly, so distance grows as the root of the rank.
        """
        numbers = self._numbers()
        radii = np.full((len(self.places), len(self.people)), np.nan)
        for q, answer in enumerate(self.lists):
            listed = [(rank, numbers[person]) for rank, person in enumerate(answer) if person in numbers]
            if not listed:
                continue
            ranks, people = np.array(listed).T
            guess = evenly = np.sqrt((ranks + 0.7) / len(answer)) * self._scale_m
            old = known[people]
            if old.any():
                distances = np.sort(np.hypot(*(points[people[old]] - self.places[q]).T))
                guess = np.interp(ranks, ranks[old], distances)
                guess *= evenly / np.clip(evenly, evenly[old][0], evenly[old][-1])
            if len(answer) >= self._k:
                radii[q] = -guess.max()
            radii[q, people] = guess
        return radii
