"""FromMap: find one more user in a crowd that is mapped already, who has joined or moved; no account is needed.

Everybody on the map is a landmark, as an account would be: from a point that is asked from, the user is farther than
whoever comes before them in the list and nearer than whoever comes after. The map's own errors soften these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome
from nearveil.attacks.belief import Belief, Evidence, Prior, Sample, distances_m
from nearveil.attacks.campaign import CampaignResult
from nearveil.attacks.oracle import Point, point_of
from nearveil.attacks.planner import best_query
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# A radius of the map holds its user with 90 %: so many standard deviations of a Gaussian error in the plane.
_RADIUS_IN_SIGMAS = math.sqrt(2 * math.log(10))
# How likely the user is near the estimate at the end: more makes queries more, and estimates better.
_SURE = 0.9
# So many standard deviations from the bounds of the first list nothing is believed: more holds more errors of the map.
_SURELY = 3.0
# Points of the belief and queries that are compared: more choose better, and take longer.
_SAMPLES, _CANDIDATES = 300, 60


@dataclass(frozen=True, kw_only=True, eq=False)
class FromMap(Attack):
    """Ask where the answer is expected to tell most, with everybody on the map as a landmark.

    The map is as in `CampaignResult`. The attack ends when the user is within ``tau_m`` of the estimate with a
    probability of 90 %, or after ``most_queries`` with the best guess.
    """

    name: ClassVar[str] = "from a map"
    accounts_needed: ClassVar[int] = 0

    people: Sequence[Person] = field(repr=False)
    estimates_m: FloatArray = field(repr=False)
    radii_m: FloatArray = field(repr=False)
    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 20

    @classmethod
    def of(cls, result: CampaignResult, half_extent_m: tuple[float, float], *, tau_m: float) -> Self:
        """Return the attack with the map of a campaign."""
        return cls(people=result.people, estimates_m=result.estimates_m, radii_m=result.radii_m,
                   half_extent_m=half_extent_m, tau_m=tau_m)  # fmt: skip

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        # One who has moved is on the map, but not where the map says.
        rows = {user: row for row, user in enumerate(self.people) if user != inquiry.target}
        if inquiry.target not in (answer := inquiry.ask(start)):
            return Finding(Outcome.NOT_LISTED)
        if not rows:
            return Finding(Outcome.LOST)
        evidence, rng = self._evidence(inquiry, rows, start, answer), np.random.default_rng(1)
        prior, wider = Prior(self.half_extent_m, self.tau_m), [(one, _SURELY * one.error_m) for one in evidence]
        belief = Belief(prior, np.zeros(1))
        if not belief.learn([Evidence(start, one.low_m - by_m, one.high_m + by_m) for one, by_m in wider]):
            # Landmarks are not where the map has them.
            belief = Belief(prior, np.zeros(1))
        while True:
            belief.learn(evidence)
            sample = belief.sample(_SAMPLES, rng)
            estimate, share = self._estimate(belief, sample)
            if share >= _SURE:
                return Finding(Outcome.FOUND, estimate)
            if len(inquiry.steps) >= self.most_queries:
                return Finding(Outcome.OUT_OF_QUERIES, estimate)
            point = self._next_point(self.estimates_m[[*rows.values()]], inquiry.oracle.k, sample, rng)
            evidence = self._evidence(inquiry, rows, point, inquiry.ask(point))

    def _estimate(self, belief: Belief, sample: Sample) -> tuple[Point, float]:
        """The middle of what is likely within tau of the mean, or of a sampled point if more is likely there."""
        tries = [belief.mean(), *map(point_of, sample.points[::15])]
        for _ in range(2):
            shares = [belief.mass * (distances_m(belief.cells, one) <= self.tau_m) for one in tries]
            best = max(shares, key=np.sum)
            tries = [point_of(best @ belief.cells[:, :2] / max(best.sum(), 1e-12))]
        return tries[0], float(best.sum())

    def _evidence(
        self, inquiry: Inquiry, rows: dict[Person, int], point: Point, answer: Sequence[Person]
    ) -> list[Evidence]:
        """The user is beyond the landmark before them and nearer than the one after; each bound has its own error."""
        is_listed, is_full = inquiry.target in answer, len(answer) >= inquiry.oracle.k
        at = answer.index(inquiry.target) if is_listed else len(answer)
        before, after = ([rows[user] for user in part if user in rows] for part in (answer[:at], answer[at:]))
        away_m = distances_m(self.estimates_m, point)
        if is_listed and is_full and not after:
            after = sorted(set(rows.values()) - set(before), key=lambda row: float(away_m[row]))
        bounds = [(row, away_m[row], math.inf) for row in before[-1:] if is_listed or is_full]
        bounds += [(row, -math.inf, away_m[row]) for row in after[:1]]
        errors_m = np.maximum(self.radii_m / _RADIUS_IN_SIGMAS, 1.0)
        return [Evidence(point, np.array([low]), np.array([high]), errors_m[row]) for row, low, high in bounds]

    def _next_point(self, landmarks_m: FloatArray, k: int, sample: Sample, rng: np.random.Generator) -> Point:
        """The best of some points around the belief, from as far as it is wide to as far as a list reaches.

        Beside somebody who lives alone every list is the same.
        """
        middle, extent = point_of(sample.points.mean(axis=0)), np.array(self.half_extent_m)
        spread_m = float(distances_m(sample.points, middle).mean()) + 1.0
        reach_m = float(np.sort(distances_m(landmarks_m, middle))[:k][-1])
        scales_m = np.geomspace(spread_m, max(spread_m, reach_m), _CANDIDATES)
        aside_m = rng.normal(0, 1, (_CANDIDATES, 2)) * scales_m[:, None]
        points = np.clip(sample.points[rng.integers(_SAMPLES, size=_CANDIDATES)] + aside_m, -extent, extent)

        def chances(point: Point, sample: Sample) -> FloatArray:
            rings_m = np.sort(distances_m(landmarks_m, point))[:k]
            return np.eye(len(rings_m) + 2)[np.searchsorted(rings_m, distances_m(sample.points, point))]

        return best_query([point_of(point) for point in points], chances, sample, self.tau_m)
