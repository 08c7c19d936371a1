"""Unfolding: a campaign around one user; only one map of the neighborhood explains all of its lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome, step_from
from nearveil.attacks.crowd_map import MOST_DISORDER, CrowdMap, is_telling, step_between
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

# Queries before the first fit, and between two fits. Fewer find some targets with fewer queries, but take longer.
_AT_FIRST, _BATCH = 10, 2
# Queries lie on a circle with this radius, in units of the reach of a list. From farther away lists have fewer users in
# common; from nearer, all that is far away looks alike.
_CIRCLE = 0.5
# The stated radius is so many times the one that has 95 % of the samples. More takes more queries, less makes more
# results wrong.
_CAUTION = 1.5
# A target is found only if so many points are nearer in one list and farther in another. Fewer make more results wrong
# where users share points.
_LEAST_TURNED = 6

_FIRST_STEP_M, _MOST_STEPS, _CANDIDATES = 50.0, 6, 40
# The golden angle spreads any number of directions.
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True, kw_only=True)
class Unfolding(Attack):
    """Ask from several places around the start, and find the places of users from which all lists come out sorted.

    Where so many users share each point that a list shows one point only, there is no order to explain, and the attack
    does not find the target.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The attack ends when the radius of the target is at most this. Others count as located with such a radius.
    most_queries : int
        Number of queries after which the best guess is returned.
    """

    name: ClassVar[str] = "unfolding"
    accounts_needed: ClassVar[int] = 0

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 44

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region."""
        del accounts
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        rng = np.random.default_rng(1)
        crowd = CrowdMap(inquiry.oracle.k, self.half_extent_m, rng)
        if inquiry.target not in self._ask(inquiry, crowd, start):
            return Finding(Outcome.NOT_LISTED)
        target, puzzled = crowd.people.index(inquiry.target), False
        self._look_around(inquiry, crowd)
        estimate = np.full(2, np.inf)
        while True:
            # If not even the best fit explains the lists, none is worth refining.
            crowd.fit(afresh=puzzled)
            puzzled = crowd.disorder() > MOST_DISORDER
            before, estimates_m = estimate, crowd.estimates()
            # Below half of tau a narrower radius is worth nothing, and less sure.
            radii_m = np.maximum(_CAUTION * crowd.radii_m(0.95), self.tau_m / 2)
            estimate, asked = estimates_m[target], len(crowd.places)
            is_proof = not puzzled and crowd.is_steady and crowd.turned(target) >= _LEAST_TURNED
            # What is found has to stay where it is when more is known.
            is_found = is_proof and max(radii_m[target], 2 * math.dist(estimate, before)) <= self.tau_m
            if is_found or asked >= self.most_queries:
                break
            for _ in range(min(_BATCH, self.most_queries - asked)):
                self._ask(inquiry, crowd, self._next_place(crowd, estimate, rng))
        if puzzled:
            return Finding(Outcome.CONTRADICTION, point_of(estimate))
        others = {
            crowd.people[row]: point_of(estimates_m[row])
            for row in np.flatnonzero(radii_m <= self.tau_m)
            if is_proof and row != target
        }
        outcome = Outcome.FOUND if is_found else Outcome.OUT_OF_QUERIES
        radius_m = float(radii_m[target]) if is_proof else None
        return Finding(outcome, point_of(estimate), radius_m=radius_m, others=others)

    def _ask(self, inquiry: Inquiry, crowd: CrowdMap, place: Point) -> Sequence[Person]:
        (x, y), (width, height) = place, self.half_extent_m
        inside = min(max(x, -width), width), min(max(y, -height), height)
        answer = inquiry.ask(inside)
        crowd.add(inside, answer)
        return answer

    def _look_around(self, inquiry: Inquiry, crowd: CrowdMap) -> None:
        """Step away from the start until it is known how far a list reaches, then ask from a disc of that size."""
        (start,) = crowd.places.tolist()
        step_m = reach_m = _FIRST_STEP_M
        for number in range(self.most_queries - 1):
            if number >= _MOST_STEPS:
                break
            answer = self._ask(inquiry, crowd, step_from((start[0], start[1]), number * _GOLDEN_ANGLE, step_m))
            step = step_between(crowd.answers[0], crowd.numbers(answer))
            reach_m = min(max(step_m / step, 1.0), *self.half_extent_m)
            if is_telling(np.array(step)):
                break
            step_m = step_m * 4 if step < 0.5 else step_m / 2
        rest = min(_AT_FIRST, self.most_queries) - len(crowd.places)
        for number in range(1, rest + 1):
            length_m = _CIRCLE * reach_m * math.sqrt(number / rest)
            self._ask(inquiry, crowd, step_from((start[0], start[1]), (number + 2) * _GOLDEN_ANGLE, length_m))

    def _next_place(self, crowd: CrowdMap, estimate: FloatArray, rng: np.random.Generator) -> Point:
        """A place on a circle about the middle between start and target, as far as can be from all others."""
        asked, radius_m = crowd.places, _CIRCLE * crowd.reach_m
        half = (estimate - asked[0]) / 2
        middle = asked[0] + half * min(1.0, radius_m / (float(np.hypot(*half)) + 1e-9))
        angles = rng.uniform(0, 2 * math.pi, _CANDIDATES)
        places = middle + radius_m * np.column_stack([np.cos(angles), np.sin(angles)])
        gaps_m = np.linalg.norm(places[:, None] - asked, axis=2).min(axis=1)
        return point_of(places[np.argmax(gaps_m)])
