"""Unfolding: no colluders at all; only one map of the neighbourhood explains all of its lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearveil.attacks.base import Attack, Finding, Inquiry, step_from
from nearveil.attacks.neighbourhood import Neighbourhood
from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import Outcome
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# Directions of the first questions: the golden angle spreads any number of them.
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True, kw_only=True)
class Unfolding(Attack):
    """Ask from several places, and find the places of people from which all lists come out sorted.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The attack ends when independent solutions have the target within half of this distance, and nearly everybody
        else within this distance.
    most_queries, least_queries : int
        After so many questions the best guess is returned; before so many, agreement may be chance.
    first_step_m : float
        The first guess of how far a list reaches.
    most_steps, likeness : int, (float, float)
        The step is changed at most so often, until the list there is neither less nor more like the first one.
    first_ring, ring : int, float
        Questions around the start before the first fit, and how far from it in units of the reach.
    solutions, fresh : int
        How many sets of places are kept, and how many of them, the worst, are thrown away and begun anew each round.
    candidates : int
        Places considered for each question.
    spread : float
        How far from the target they are taken, in units of the reach of a list.
    target_weight : float
        Disagreement about the target counts so much more than about an average person.
    share_agreed : float
        The share of people about whom solutions must agree.
    most_people : int
        At most so many are located.
    cooling : sequence of float
        Temperatures, in units of the reach of a list; the last one is for the last fit only.
    others_within : float
        Other people count as located where solutions agree within this share of ``tau_m``.
    most_disorder : float
        Lists contradict each other if the best solution violates more than this share of what they say about pairs of
        people who are not in the same order everywhere.
    """

    name: ClassVar[str] = "unfolding"
    colluders_needed: ClassVar[int] = 0

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 20
    least_queries: int = 10
    first_step_m: float = 200.0
    most_steps: int = 6
    likeness: tuple[float, float] = (0.1, 0.6)
    first_ring: int = 2
    ring: float = 0.8
    solutions: int = 6
    fresh: int = 1
    candidates: int = 40
    spread: float = 0.6
    target_weight: float = 3.0
    share_agreed: float = 0.97
    most_people: int = 250
    cooling: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)
    others_within: float = 0.6
    most_disorder: float = 0.2

    def _run(self, inquiry: Inquiry, start: Spot) -> Finding:
        rng = np.random.default_rng(1)
        hood = Neighbourhood(
            inquiry.target, inquiry.oracle.k, starts=self.solutions, most_people=self.most_people, rng=rng
        )
        if inquiry.target not in self._ask(inquiry, hood, start):
            return Finding(Outcome.NOT_LISTED)
        guess_m = scale_m = self._look_around(inquiry, hood, start)
        puzzled = False
        while True:
            # Where not even the best solution explains the lists, it is no use to go on from any of them.
            fresh = self.solutions if puzzled else self.fresh
            hood.fit(scale_m, fresh=fresh, least_seen=2, cooling=self.cooling[:-1])
            puzzled = hood.disorder() > self.most_disorder
            # People who were never compared with others may be anywhere, and take the reach with them.
            scale_m = min(max(hood.reach_m(), guess_m / 4), guess_m)
            asked = len(inquiry.steps)
            if asked >= self.most_queries or (asked >= self.least_queries and self._agreed(hood)):
                # Everybody seen at all, finer, and from more new starts: does it still agree?
                fresh = self.solutions if puzzled else self.solutions // 2
                hood.fit(scale_m, fresh=fresh, least_seen=1, cooling=self.cooling)
                if asked >= self.most_queries or self._target_agreed(hood):
                    return self._finding(hood)
            self._ask(inquiry, hood, self._next_place(inquiry, hood, scale_m, rng))

    def _ask(self, inquiry: Inquiry, hood: Neighbourhood, place: Spot) -> Sequence[Person]:
        answer = inquiry.ask(place)
        hood.add(place, answer)
        return answer

    def _look_around(self, inquiry: Inquiry, hood: Neighbourhood, start: Spot) -> float:
        """Find out how far a list reaches, by how much lists change over a distance; then ask around the start."""
        first = hood.lists[0]
        shortest_m, longest_m, step_m, reach_m = 0.0, math.inf, self.first_step_m, self.first_step_m
        for number in range(self.most_steps):
            if len(inquiry.steps) >= self.most_queries:
                return reach_m
            answer = self._ask(inquiry, hood, self._inside(step_from(start, number * _GOLDEN_ANGLE, step_m)))
            alike = likeness(first, answer)
            reach_m = min(step_m / float(np.interp(-alike, -_LIKENESSES, _STEPS)), *self.half_extent_m)
            if alike > self.likeness[1]:
                shortest_m, step_m = step_m, min(4 * step_m, math.sqrt(step_m * longest_m), *self.half_extent_m)
            elif alike < self.likeness[0]:
                longest_m, step_m = step_m, max(step_m / 4, math.sqrt(step_m * shortest_m), self.tau_m / 8)
            else:
                break
        for number in range(len(inquiry.steps), min(len(inquiry.steps) + self.first_ring, self.most_queries)):
            place = step_from(start, (number - 1) * _GOLDEN_ANGLE, self.ring * reach_m)
            self._ask(inquiry, hood, self._inside(place))
        return reach_m

    def _next_place(self, inquiry: Inquiry, hood: Neighbourhood, scale_m: float, rng: np.random.Generator) -> Spot:
        """A place near the target where the solutions differ most in the list that they predict."""
        k, solutions = inquiry.oracle.k, hood.solutions()
        bases = solutions[rng.integers(len(solutions), size=self.candidates), 0]
        lengths_m = self.spread * scale_m * rng.uniform(0, 1, (self.candidates, 1))
        places = _back_in_sight(inquiry, bases + lengths_m * rng.normal(0, 1, (self.candidates, 2)), 2 * scale_m)
        distances = np.linalg.norm(places[:, None, None] - solutions, axis=3)
        ranks = np.minimum(distances.argsort(axis=2).argsort(axis=2), k)
        differences = np.abs(ranks - np.median(ranks, axis=1, keepdims=True)).mean(axis=1)
        others = differences[:, 1:].sum(axis=1) / min(k, len(hood.people))
        return self._inside(_spot(places[np.argmax(self.target_weight * differences[:, 0] + others)]))

    def _inside(self, place: Spot) -> Spot:
        """The nearest place in the region."""
        (x, y), (width, height) = place, self.half_extent_m
        return min(max(x, -width), width), min(max(y, -height), height)

    def _target_agreed(self, hood: Neighbourhood) -> bool:
        solutions = hood.solutions()
        return 2 * len(solutions) >= self.solutions and bool(_deviations_m(solutions)[0] <= self.tau_m / 2)

    def _agreed(self, hood: Neighbourhood) -> bool:
        share = np.mean(_deviations_m(hood.solutions()) <= self.tau_m)
        return self._target_agreed(hood) and bool(share >= self.share_agreed)

    def _finding(self, hood: Neighbourhood) -> Finding:
        """The median of the solutions, and what they agree on."""
        solutions = hood.solutions()
        places = np.median(solutions, axis=0)
        if hood.disorder() > self.most_disorder:
            return Finding(Outcome.CONTRADICTION, _spot(places[0]))
        agreed = _deviations_m(solutions) <= self.others_within * self.tau_m
        others = {hood.people[i]: _spot(places[i]) for i in range(1, len(places)) if agreed[i]}
        outcome = Outcome.FOUND if self._target_agreed(hood) else Outcome.OUT_OF_QUERIES
        return Finding(outcome, _spot(places[0]), others=others)


def _deviations_m(solutions: FloatArray) -> FloatArray:
    """How far solutions are from their median, for each person."""
    return np.asarray(np.linalg.norm(solutions - np.median(solutions, axis=0), axis=2).max(axis=0))


def _back_in_sight(inquiry: Inquiry, places: FloatArray, farthest_m: float) -> FloatArray:
    """Stay near places where the target was listed: nearer by half for each question that missed it.

    Each question that listed it makes up for one that did not.
    """
    seen_from = np.array([step.place for step in inquiry.steps if step.rank is not None])
    caution = 0
    for step in inquiry.steps:
        caution = max(caution - 1, 0) if step.rank is not None else caution + 1
    nearest = seen_from[np.linalg.norm(places[:, None] - seen_from, axis=2).argmin(axis=1)]
    away = places - nearest
    lengths = np.linalg.norm(away, axis=1, keepdims=True) + 1e-9
    return np.asarray(nearest + away * np.minimum(1.0, farthest_m / lengths) / 2**caution)


def likeness(a: Sequence[Person], b: Sequence[Person]) -> float:
    """Share of people that the beginnings of two lists have in common, averaged over their lengths."""
    length = min(len(a), len(b))
    if length == 0:
        return 0.0
    return sum(len(set(a[:n]) & set(b[:n])) / n for n in range(1, length + 1)) / length


def _even_likeness(step: float) -> float:
    """Likeness of two lists where people are spread evenly, for places so far apart in units of a list's reach."""
    depths = (np.arange(100) + 0.5) / 100
    apart = np.minimum(step / np.sqrt(depths), 2)
    return float(np.mean(2 / math.pi * np.arccos(apart / 2) - apart / math.pi * np.sqrt(1 - apart**2 / 4)))


_STEPS = np.linspace(0.02, 2, 100)
_LIKENESSES = np.array([_even_likeness(step) for step in _STEPS])


def _spot(point: FloatArray) -> Spot:
    return float(point[0]), float(point[1])
