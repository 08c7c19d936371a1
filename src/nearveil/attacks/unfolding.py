"""Unfolding: no accounts at all; only one map of the neighborhood explains all of its lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks._order_fit import Neighborhood
from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome, step_from
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

# Directions of the first steps: the golden angle spreads any number of them.
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True, kw_only=True)
class Unfolding(Attack):
    """Ask from several places, and find the places of people from which all lists come out sorted.

    All places are close to each other for how far a list reaches, so that nearly everybody is seen many times. The
    last ones are all around a circle: a person seen only from one of them is near the outer end of its direction.

    Where so many people share each point that a list shows one point only, there is no order to explain, and the attack
    does not find the target.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The attack ends when independent solutions have the target within half of this distance, and nearly everybody
        else within this distance.
    most_queries, usual_queries, least_queries : int
        Number of questions after which the best guess is returned, from which on solutions need to agree on the target
        alone, and before which agreement may be chance.
    first_step_m, most_steps, steps : float, int, (float, float)
        The first step from the start is small, and changed at most ``most_steps`` times, until it lies between these
        lengths in units of the reach of a list: strangers who live far from everybody else would never be located.
    spread, wider, settled : float, float, int
        Radius of the circle in units of the reach, and its radius where that was too small to agree on the target. The
        circle grows to that size during the first ``settled`` questions.
    batch : int
        From then on, the number of questions between two fits.
    candidates : int
        Places considered for each question.
    solutions, fresh : int
        How many sets of places are kept, and how many of them, the worst, are thrown away and begun anew each round.
    share_agreed : float
        The share of people about whom solutions must agree.
    least_points : int
        Where people share points, solutions that agree prove little before so many points are located.
    most_people : int
        The largest number of people located.
    cooling : sequence of float
        Temperatures, in units of the reach of a list; the last one is left out while the circle grows.
    others_within : float
        Other people count as located where solutions are within this many ``tau_m`` of their median, which is a
        better guess than any of them.
    most_disorder : float
        Lists contradict each other if the best solution violates more than this share of what they say about pairs of
        people who are not in the same order everywhere.
    """

    name: ClassVar[str] = "unfolding"
    accounts_needed: ClassVar[int] = 0

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 44
    usual_queries: int = 20
    least_queries: int = 14
    first_step_m: float = 50.0
    most_steps: int = 6
    steps: tuple[float, float] = (0.12, 0.8)
    spread: float = 0.5
    wider: float = 0.75
    settled: int = 8
    batch: int = 6
    candidates: int = 40
    solutions: int = 6
    fresh: int = 2
    share_agreed: float = 0.97
    least_points: int = 12
    most_people: int = 250
    cooling: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)
    others_within: float = 2.5
    most_disorder: float = 0.2

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region."""
        del accounts
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        rng = np.random.default_rng(1)
        hood = Neighborhood(
            inquiry.target, inquiry.oracle.k, starts=self.solutions, most_people=self.most_people, rng=rng
        )
        if inquiry.target not in self._ask(inquiry, hood, start):
            return Finding(Outcome.NOT_LISTED)
        self._look_around(inquiry, hood)
        scale_m, puzzled = self._guess_m(hood), False
        while True:
            asked = len(inquiry.steps)
            early = asked < min(self.least_queries, self.most_queries)
            # If not even the best solution explains the lists, none is worth refining.
            fresh = self.solutions if puzzled else self.fresh
            cooling = self.cooling[:-1] if early else self.cooling
            hood.fit(scale_m, fresh=fresh, least_seen=2 if early else 1, cooling=cooling)
            puzzled = hood.disorder() > self.most_disorder
            is_late = asked >= self.usual_queries
            agreed = self._target_agreed(hood) if is_late else self._agreed(hood)
            if asked >= self.most_queries or (not early and agreed):
                return self._finding(hood)
            # People who were never compared with others may be anywhere, and take the reach with them.
            guess_m = self._guess_m(hood)
            scale_m = min(max(hood.reach_m(), guess_m / 2), guess_m)
            spread = self.spread if early or self._target_agreed(hood) else self.wider
            for _ in range(min(1 if asked < self.settled else self.batch, self.most_queries - asked)):
                self._ask(inquiry, hood, self._next_place(hood, spread * scale_m, rng))

    def _ask(self, inquiry: Inquiry, hood: Neighborhood, place: Point) -> Sequence[Person]:
        answer = inquiry.ask(place)
        hood.add(place, answer)
        return answer

    def _look_around(self, inquiry: Inquiry, hood: Neighborhood) -> None:
        """Step away from the start until it is known how far a list reaches."""
        step_m = self.first_step_m
        for number in range(min(self.most_steps, self.most_queries - 1)):
            place = self._inside(step_from(hood.places[0], number * _GOLDEN_ANGLE, step_m))
            step = step_between(hood.lists[0], self._ask(inquiry, hood, place))
            if self.steps[0] <= step <= self.steps[1]:
                return
            step_m = step_m * 4 if step < self.steps[0] else step_m / 2

    def _guess_m(self, hood: Neighborhood) -> float:
        """How far a list reaches, by how much lists change over a distance."""
        if len(hood.lists) == 1:
            return self.first_step_m
        lengths_m = np.linalg.norm(np.array(hood.places[1:]) - hood.places[0], axis=1)
        steps = np.array([step_between(hood.lists[0], answer) for answer in hood.lists[1:]])
        telling = (steps >= self.steps[0]) & (steps <= self.steps[1])
        telling[-1] |= not telling.any()
        return min(max(float(np.median(lengths_m[telling] / steps[telling])), 1.0), *self.half_extent_m)

    def _next_place(self, hood: Neighborhood, full_radius_m: float, rng: np.random.Generator) -> Point:
        """A place on the circle about the middle between start and target, as far as can be from all others."""
        radius_m = full_radius_m * min(1.0, len(hood.places) / self.settled)
        half = (np.median(hood.solutions()[:, 0], axis=0) - hood.places[0]) / 2
        middle = hood.places[0] + half * min(1.0, radius_m / (float(np.hypot(*half)) + 1e-9))
        angles = rng.uniform(0, 2 * math.pi, self.candidates)
        places = middle + radius_m * np.column_stack([np.cos(angles), np.sin(angles)])
        gaps_m = np.linalg.norm(places[:, None] - np.array(hood.places), axis=2).min(axis=1)
        return self._inside(point_of(places[np.argmax(gaps_m)]))

    def _inside(self, place: Point) -> Point:
        """The nearest place in the region."""
        (x, y), (width, height) = place, self.half_extent_m
        return min(max(x, -width), width), min(max(y, -height), height)

    def _target_agreed(self, hood: Neighborhood) -> bool:
        solutions = hood.solutions()
        if hood.points_apart() < min(self.least_points, len(hood.people)):
            return False
        return 2 * len(solutions) >= self.solutions and bool(_deviations_m(solutions)[0] <= self.tau_m / 2)

    def _agreed(self, hood: Neighborhood) -> bool:
        share = np.mean(_deviations_m(hood.solutions()) <= self.tau_m)
        return self._target_agreed(hood) and bool(share >= self.share_agreed)

    def _finding(self, hood: Neighborhood) -> Finding:
        """The median of the solutions, and what they agree on."""
        solutions = hood.solutions()
        places = np.median(solutions, axis=0)
        if hood.disorder() > self.most_disorder:
            return Finding(Outcome.CONTRADICTION, point_of(places[0]))
        agreed = _deviations_m(solutions) <= self.others_within * self.tau_m
        others = {hood.people[i]: point_of(places[i]) for i in range(1, len(places)) if agreed[i]}
        outcome = Outcome.FOUND if self._target_agreed(hood) else Outcome.OUT_OF_QUERIES
        return Finding(outcome, point_of(places[0]), others=others)


def _deviations_m(solutions: FloatArray) -> FloatArray:
    """How far solutions are from their median, for each person."""
    return np.asarray(np.linalg.norm(solutions - np.median(solutions, axis=0), axis=2).max(axis=0))


def likeness(a: Sequence[Person], b: Sequence[Person]) -> float:
    """Share of people that the beginnings of two lists have in common, averaged over their lengths."""
    length = min(len(a), len(b))
    if length == 0:
        return 0.0
    return sum(len(set(a[:n]) & set(b[:n])) / n for n in range(1, length + 1)) / length


def step_between(a: Sequence[Person], b: Sequence[Person]) -> float:
    """How far apart two lists were asked for, in units of their reach, where people are spread evenly."""
    return float(np.interp(-likeness(a, b), -_LIKENESSES, _STEPS))


def _even_likeness(step: float) -> float:
    """Likeness of two lists where people are spread evenly, for places so far apart in units of a list's reach."""
    depths = (np.arange(100) + 0.5) / 100
    apart = np.minimum(step / np.sqrt(depths), 2)
    return float(np.mean(2 / math.pi * np.arccos(apart / 2) - apart / math.pi * np.sqrt(1 - apart**2 / 4)))


_STEPS = np.linspace(0.02, 2, 100)
_LIKENESSES = np.array([_even_likeness(step) for step in _STEPS])
