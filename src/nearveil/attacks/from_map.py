"""FromMap: find one more person in a crowd that is mapped already, who has joined or moved; no account is needed.

Everybody on the map is a landmark: from a place that is asked from, the person is farther than whoever comes before
them in the list and nearer than whoever comes after. The map's own errors soften these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome
from nearveil.attacks.campaign import CampaignResult
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray

# A radius of the map holds its person with 90 %: so many standard deviations of a Gaussian error in the plane.
_RADIUS_IN_SIGMAS = math.sqrt(2 * math.log(10))
_LEAST_SIGMA_M = 1.0
# A landmark is elsewhere than the map says, because it was mapped badly or has moved, with about this probability.
_STRAY = 0.01
# The ring of the first list may be long and thin.
_PARTICLES_AT_FIRST, _PARTICLES = 20_000, 2000
# Lengths of the particles' moves after each answer, in units of their spread.
_MOVES = (0.3, 0.1, 0.03, 0.1, 0.03)
_CANDIDATES = 60
_TRIES, _SHIFTS = 20, 3
# Below this share of tau a narrower belief is worth nothing.
_ENOUGH = 0.35

Bound = tuple[float, float]
"""A distance in metres and its standard deviation."""
Learned = tuple[Point, Bound | None, Bound | None]
"""Where was asked; the person is farther than the first bound and nearer than the second."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FromMap(Attack):
    """Ask where the answer is expected to narrow the belief most, with everybody on the map as a landmark.

    Parameters
    ----------
    people, estimates_m, radii_m
        The map, as in `CampaignResult`.
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m, sure : float
        The attack ends when the person is within ``tau_m`` of the estimate with probability ``sure``.
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
    sure: float = 0.9
    most_queries: int = 20
    seed: int = 1

    @classmethod
    def of(cls, result: CampaignResult, half_extent_m: tuple[float, float], *, tau_m: float) -> Self:
        """Return the attack with the map of a campaign."""
        return cls(
            people=result.people, estimates_m=result.estimates_m, radii_m=result.radii_m, half_extent_m=half_extent_m,
            tau_m=tau_m,
        )  # fmt: skip

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        return _Belief(self, inquiry).run(start)


class _Belief:
    """Where the person may be: particles, each as likely as any other."""

    def __init__(self, attack: FromMap, inquiry: Inquiry) -> None:
        self._attack, self._inquiry, self._rng = attack, inquiry, np.random.default_rng(attack.seed)
        self._number = {person: number for number, person in enumerate(attack.people) if person != inquiry.target}
        # One who has moved is on the map, but not where the map says.
        self._landmarks = np.array(list(self._number.values()), dtype=int)
        self._tree = cKDTree(attack.estimates_m[self._landmarks].reshape(-1, 2))
        self._sigmas_m = np.maximum(attack.radii_m / _RADIUS_IN_SIGMAS, _LEAST_SIGMA_M)
        self._k = min(inquiry.oracle.k, len(self._landmarks))
        self._points, self._size = np.empty((0, 2)), _PARTICLES_AT_FIRST
        self._learned: list[Learned] = []

    def run(self, start: Point) -> Finding:
        answer = self._inquiry.ask(start)
        if self._inquiry.target not in answer:
            return Finding(Outcome.NOT_LISTED)
        if not self._k:
            return Finding(Outcome.LOST)
        self._begin(start, answer)
        while True:
            estimate = self._estimate()
            away_m = np.hypot(*(self._points - estimate).T)
            if np.mean(away_m <= self._attack.tau_m) >= self._attack.sure:
                return Finding(Outcome.FOUND, point_of(estimate))
            if len(self._inquiry.steps) >= self._attack.most_queries:
                return Finding(Outcome.OUT_OF_QUERIES, point_of(estimate))
            place = self._next_place()
            self._learn(place, self._inquiry.ask(place))

    def _begin(self, start: Point, answer: Sequence[Person]) -> None:
        """Spread particles evenly over the ring that the first list leaves."""
        near, far = self._bounds(start, answer)
        low_m, high_m = 0.0, 2 * max(self._attack.half_extent_m)
        if near is not None:
            low_m = max(near[0] - 3 * near[1], 0.0)
        if far is not None:
            high_m = max(far[0] + 3 * far[1], low_m + 1.0)
        radii_m = np.sqrt(self._rng.uniform(low_m**2, high_m**2, _PARTICLES_AT_FIRST))
        angles = self._rng.uniform(0, 2 * math.pi, _PARTICLES_AT_FIRST)
        points = np.array(start) + (radii_m * [np.cos(angles), np.sin(angles)]).T
        inside = (np.abs(points) <= self._attack.half_extent_m).all(axis=1)
        self._points = points[inside] if inside.any() else points
        self._learn(start, answer)

    def _learn(self, place: Point, answer: Sequence[Person]) -> None:
        """Keep particles by how likely the answer makes them, and move them within what all answers allow."""
        self._learned.append((place, *self._bounds(place, answer)))
        likely = np.exp(self._log_likelihood(self._points, self._learned[-1:]))
        points = self._points[self._rng.choice(len(likely), self._size, p=likely / likely.sum())]
        now = self._log_likelihood(points, self._learned)
        spread_m = math.sqrt(float(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
        for length in _MOVES:
            moved = points + self._rng.normal(0, length * spread_m + _LEAST_SIGMA_M, points.shape)
            then = self._log_likelihood(moved, self._learned)
            inside = (np.abs(moved) <= self._attack.half_extent_m).all(axis=1)
            taken = inside & (np.log(1 - self._rng.random(len(now))) < then - now)
            points[taken], now[taken] = moved[taken], then[taken]
        self._points, self._size = points, _PARTICLES

    def _bounds(self, place: Point, answer: Sequence[Person]) -> tuple[Bound | None, Bound | None]:
        """Distances, with their standard deviations, of the landmarks before and after the person."""
        known = [self._number.get(person) for person in answer]
        listed = self._inquiry.target in answer
        at = answer.index(self._inquiry.target) if listed else len(answer)
        before = [number for number in known[:at] if number is not None]
        after = [number for number in known[at + 1 :] if number is not None]
        if not listed and len(answer) < self._inquiry.oracle.k:
            # The list has everybody, so the person is elsewhere for reasons that no distance explains.
            return None, None
        if listed and not after and len(answer) == self._inquiry.oracle.k:
            after = self._nearest_outside(place, {number for number in known if number is not None})
        return (
            self._distance(place, before[-1]) if before else None,
            self._distance(place, after[0]) if listed and after else None,
        )

    def _nearest_outside(self, place: Point, listed: set[int]) -> list[int]:
        _, near = self._tree.query(place, [*range(1, min(2 * self._k + 1, len(self._landmarks)) + 1)])
        return [number for number in self._landmarks[near].tolist() if number not in listed][:1]

    def _distance(self, place: Point, number: int) -> Bound:
        return math.dist(place, self._attack.estimates_m[number]), float(self._sigmas_m[number])

    def _log_likelihood(self, points: FloatArray, learned: Sequence[Learned]) -> FloatArray:
        total = np.zeros(len(points))
        for place, near, far in learned:
            away_m = np.hypot(*(points - place).T)
            if near is not None:
                total += np.log(_STRAY + (1 - _STRAY) * ndtr((away_m - near[0]) / near[1]))
            if far is not None:
                total += np.log(_STRAY + (1 - _STRAY) * ndtr((far[0] - away_m) / far[1]))
        return total

    def _estimate(self) -> FloatArray:
        """The place with most of the belief within tau, from a few tries about the mean and about particles."""
        tries = np.vstack([self._points.mean(axis=0), self._drawn(_TRIES)])
        for _ in range(_SHIFTS):
            near = self._near(tries)
            count = near.sum(axis=1)[:, None]
            tries = np.where(count > 0, near @ self._points / np.maximum(count, 1), tries)
        return np.asarray(tries[np.argmax(self._near(tries).sum(axis=1))])

    def _near(self, places: FloatArray) -> BoolArray:
        """Which particles are within tau of each place."""
        return np.hypot(*np.moveaxis(self._points[None] - places[:, None], 2, 0)) <= self._attack.tau_m

    def _drawn(self, count: int) -> FloatArray:
        return self._points[self._rng.integers(len(self._points), size=count)]

    def _next_place(self) -> Point:
        """The place whose answer leaves least to be known.

        Among places around the belief, from as far as it is wide to as far as a list reaches: beside somebody who lives
        alone every list is the same.
        """
        middle = self._points.mean(axis=0)
        spread_m = float(np.hypot(*(self._points - middle).T).mean()) + 1.0
        (reach_m,), _ = self._tree.query(middle, [self._k])
        scales_m = np.geomspace(spread_m, max(spread_m, float(reach_m)), _CANDIDATES)
        aside = self._rng.normal(0, 1, (_CANDIDATES, 2)) * scales_m[:, None]
        extent = np.array(self._attack.half_extent_m)
        places = np.clip(self._drawn(_CANDIDATES) + aside, -extent, extent)
        distances_m, _ = self._tree.query(places, [*range(1, self._k + 1)])
        scores = [self._left(place, rings) for place, rings in zip(places, distances_m, strict=True)]
        return point_of(places[np.argmin(scores)])

    def _left(self, place: FloatArray, rings_m: FloatArray) -> float:
        """How wide the belief is on average after an answer, as a logarithm."""
        x, y = (self._points - place).T
        rank: IntArray = np.searchsorted(rings_m, np.hypot(x, y))
        mass, in_x, in_y, squares = (
            np.bincount(rank, value, minlength=len(rings_m) + 1) for value in (np.ones_like(x), x, y, x * x + y * y)
        )
        count = np.maximum(mass, 1)
        variance = squares / count - (in_x / count) ** 2 - (in_y / count) ** 2
        return float(mass @ np.log(np.maximum(variance, (_ENOUGH * self._attack.tau_m) ** 2)))
