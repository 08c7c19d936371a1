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
from scipy.spatial import cKDTree

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
# Points of the belief and queries that are compared: more choose better, and take longer.
_SAMPLES, _CANDIDATES = 300, 60


@dataclass(frozen=True, kw_only=True, eq=False)
class FromMap(Attack):
    """Ask where the answer is expected to tell most, with everybody on the map as a landmark.

    Parameters
    ----------
    people, estimates_m, radii_m
        The map, as in `CampaignResult`.
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The attack ends when the user is within this distance of the estimate with a probability of 90 %.
    most_queries : int
        Number of queries after which the best guess is returned.
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
        mapped = {"people": result.people, "estimates_m": result.estimates_m, "radii_m": result.radii_m}
        return cls(**mapped, half_extent_m=half_extent_m, tau_m=tau_m)  # type: ignore[arg-type]

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        # One who has moved is on the map, but not where the map says.
        rows = {user: row for row, user in enumerate(self.people) if user != inquiry.target}
        belief, rng = Belief(Prior(self.half_extent_m, self.tau_m, start), np.zeros(1)), np.random.default_rng(1)
        if inquiry.target not in (answer := inquiry.ask(start)):
            return Finding(Outcome.NOT_LISTED)
        if not rows:
            return Finding(Outcome.LOST)
        tree, point = cKDTree(self.estimates_m[[*rows.values()]]), start
        while True:
            belief.learn(self._evidence(inquiry, rows, point, answer))
            sample = belief.sample(_SAMPLES, rng)
            tries = [belief.mean(), *map(point_of, sample.points[:: _SAMPLES // 20])]
            estimate = max(tries, key=lambda one: belief.share_within(one, self.tau_m))
            near = distances_m(belief.cells, estimate) <= self.tau_m
            if near.any():
                estimate = point_of(np.average(belief.cells[near, :2], axis=0, weights=belief.mass[near]))
            if belief.share_within(estimate, self.tau_m) >= _SURE:
                return Finding(Outcome.FOUND, estimate)
            if len(inquiry.steps) >= self.most_queries:
                return Finding(Outcome.OUT_OF_QUERIES, estimate)
            point = self._next_point(tree, min(inquiry.oracle.k, len(rows)), sample, rng)
            answer = inquiry.ask(point)

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

    def _next_point(self, tree: cKDTree, k: int, sample: Sample, rng: np.random.Generator) -> Point:
        """The best of some points around the belief, from as far as it is wide to as far as a list reaches.

        Beside somebody who lives alone every list is the same.
        """
        spread_m = float(distances_m(sample.points, point_of(sample.points.mean(axis=0))).mean()) + 1.0
        (reach_m,), _ = tree.query(sample.points.mean(axis=0), [k])
        scales_m = np.geomspace(spread_m, max(spread_m, float(reach_m)), _CANDIDATES)
        points = sample.points[rng.integers(len(sample.points), size=_CANDIDATES)]
        points = points + rng.normal(0, 1, points.shape) * scales_m[:, None]
        extent = np.array(self.half_extent_m)
        points = np.clip(points, -extent, extent)
        rings_m, _ = tree.query(points, [*range(1, k + 1)])

        def chances(number: int, sample: Sample) -> FloatArray:
            rank = np.searchsorted(rings_m[number], distances_m(sample.points, point_of(points[number])))
            return np.eye(k + 2)[rank]

        return point_of(points[best_query(range(_CANDIDATES), chances, sample, self.tau_m)])
