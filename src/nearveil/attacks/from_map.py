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
from nearveil.attacks.oracle import Spot, spot_of
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray

# A radius of the map holds its person with 90 %: so many standard deviations of a Gaussian error in the plane.
_RADIUS_IN_SIGMAS = math.sqrt(2 * math.log(10))
_LEAST_SIGMA_M = 1.0
# A landmark is elsewhere than the map says, because it was mapped badly or has moved, with about this probability.
_STRAY = 0.01
_PARTICLES = 2000
_CANDIDATES = 50
_LEAST_MASS = 1e-9
# Effective share of particles below which they are drawn anew.
_WORN = 0.3
# Below this share of tau a narrower belief is worth nothing.
_ENOUGH = 0.35


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
        Number of questions after which the best guess is returned.
    """

    name: ClassVar[str] = "from a map"
    colluders_needed: ClassVar[int] = 0

    people: Sequence[Person] = field(repr=False)
    estimates_m: FloatArray = field(repr=False)
    radii_m: FloatArray = field(repr=False)
    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    sure: float = 0.95
    most_queries: int = 20
    seed: int = 1

    @classmethod
    def of(cls, result: CampaignResult, half_extent_m: tuple[float, float], *, tau_m: float) -> Self:
        """Return the attack with the map of a campaign."""
        return cls(
            people=result.people, estimates_m=result.estimates_m, radii_m=result.radii_m, half_extent_m=half_extent_m,
            tau_m=tau_m,
        )  # fmt: skip

    def _run(self, inquiry: Inquiry, start: Spot) -> Finding:
        return _Belief(self, inquiry).run(start)


class _Belief:
    """Where the person may be: weighted particles."""

    def __init__(self, attack: FromMap, inquiry: Inquiry) -> None:
        self._attack, self._inquiry, self._rng = attack, inquiry, np.random.default_rng(attack.seed)
        self._number = {person: number for number, person in enumerate(attack.people) if person != inquiry.target}
        # One who has moved is on the map, but not where the map says.
        self._landmarks = np.array(list(self._number.values()), dtype=int)
        self._tree = cKDTree(attack.estimates_m[self._landmarks].reshape(-1, 2))
        self._sigmas_m = np.maximum(attack.radii_m / _RADIUS_IN_SIGMAS, _LEAST_SIGMA_M)
        self._k = min(inquiry.oracle.k, len(self._landmarks))
        self._points, self._weights = np.empty((0, 2)), np.empty(0)

    def run(self, start: Spot) -> Finding:
        answer = self._inquiry.ask(start)
        if self._inquiry.target not in answer:
            return Finding(Outcome.NOT_LISTED)
        if not self._k:
            return Finding(Outcome.LOST)
        self._begin(start, answer)
        while True:
            estimate = self._estimate()
            away_m = np.hypot(*(self._points - estimate).T)
            if self._weights[away_m <= self._attack.tau_m].sum() >= self._attack.sure:
                return Finding(Outcome.FOUND, spot_of(estimate))
            if len(self._inquiry.steps) >= self._attack.most_queries:
                return Finding(Outcome.OUT_OF_QUERIES, spot_of(estimate))
            place = self._next_place()
            weights = self._weights * self._likelihood(place, self._inquiry.ask(place))
            self._weights = weights / weights.sum()
            self._renew()

    def _begin(self, start: Spot, answer: Sequence[Person]) -> None:
        """Spread particles evenly over the ring that the first list leaves."""
        near, far = self._bounds(start, answer)
        low_m, high_m = 0.0, 2 * max(self._attack.half_extent_m)
        if near is not None:
            low_m = max(near[0] - 3 * near[1], 0.0)
        if far is not None:
            high_m = max(far[0] + 3 * far[1], low_m + 1.0)
        radii_m = np.sqrt(self._rng.uniform(low_m**2, high_m**2, _PARTICLES))
        angles = self._rng.uniform(0, 2 * math.pi, _PARTICLES)
        points = np.array(start) + (radii_m * [np.cos(angles), np.sin(angles)]).T
        inside = (np.abs(points) <= self._attack.half_extent_m).all(axis=1)
        self._points = points[inside] if inside.any() else points
        self._weights = np.full(len(self._points), 1 / len(self._points))
        likely = self._likelihood(start, answer)
        self._weights = likely / likely.sum()

    def _bounds(
        self, place: Spot, answer: Sequence[Person]
    ) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
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

    def _nearest_outside(self, place: Spot, listed: set[int]) -> list[int]:
        _, near = self._tree.query(place, [*range(1, min(2 * self._k + 1, len(self._landmarks)) + 1)])
        return [number for number in self._landmarks[near].tolist() if number not in listed][:1]

    def _distance(self, place: Spot, number: int) -> tuple[float, float]:
        return math.dist(place, self._attack.estimates_m[number]), float(self._sigmas_m[number])

    def _likelihood(self, place: Spot, answer: Sequence[Person]) -> FloatArray:
        near, far = self._bounds(place, answer)
        away_m = np.hypot(*(self._points - place).T)
        likely = np.ones(len(away_m))
        if near is not None:
            likely *= _STRAY + (1 - _STRAY) * ndtr((away_m - near[0]) / near[1])
        if far is not None:
            likely *= _STRAY + (1 - _STRAY) * ndtr((far[0] - away_m) / far[1])
        return likely

    def _estimate(self) -> FloatArray:
        """The place with most of the belief within tau, from a few tries about the mean and about particles."""
        tries = np.vstack([self._weights @ self._points, self._drawn(20)])
        for _ in range(3):
            near = np.hypot(*np.moveaxis(self._points[None] - tries[:, None], 2, 0)) <= self._attack.tau_m
            mass = near @ self._weights
            moved = (near * self._weights) @ self._points / np.maximum(mass, 1e-300)[:, None]
            tries = np.where(mass[:, None] > 0, moved, tries)
        near = np.hypot(*np.moveaxis(self._points[None] - tries[:, None], 2, 0)) <= self._attack.tau_m
        return np.asarray(tries[np.argmax(near @ self._weights)])

    def _drawn(self, count: int) -> FloatArray:
        return self._points[self._rng.choice(len(self._points), count, p=self._weights)]

    def _next_place(self) -> Spot:
        """The place whose answer leaves least to be known, among places around the belief."""
        half = self._drawn(_CANDIDATES // 2)
        spread_m = np.hypot(*(self._points - self._weights @ self._points).T) @ self._weights
        aside = self._drawn(_CANDIDATES // 2) + self._rng.normal(0, spread_m + 1.0, half.shape)
        extent = np.array(self._attack.half_extent_m)
        places = np.clip(np.vstack([half, aside]), -extent, extent)
        distances_m, _ = self._tree.query(places, [*range(1, self._k + 1)])
        scores = [self._left(place, rings) for place, rings in zip(places, distances_m, strict=True)]
        return spot_of(places[np.argmin(scores)])

    def _left(self, place: FloatArray, rings_m: FloatArray) -> float:
        """How wide the belief is on average after an answer, as a logarithm."""
        x, y = (self._points - place).T
        rank: IntArray = np.searchsorted(rings_m, np.hypot(x, y))
        mass, in_x, in_y, squares = (
            np.bincount(rank, self._weights * value, minlength=len(rings_m) + 1)
            for value in (np.ones_like(x), x, y, x * x + y * y)
        )
        some = mass > _LEAST_MASS
        variance = squares[some] / mass[some] - (in_x[some] / mass[some]) ** 2 - (in_y[some] / mass[some]) ** 2
        return float(mass[some] @ np.log(np.maximum(variance, (_ENOUGH * self._attack.tau_m) ** 2)))

    def _renew(self) -> None:
        """Draw particles anew where few of them carry the weight, each a little aside."""
        if 1 / (self._weights**2).sum() > _WORN * len(self._weights):
            return
        mean = self._weights @ self._points
        spread_m = math.sqrt(float(self._weights @ ((self._points - mean) ** 2).sum(axis=1)))
        self._points = self._drawn(_PARTICLES) + self._rng.normal(0, 0.05 * spread_m + 1.0, (_PARTICLES, 2))
        self._weights = np.full(_PARTICLES, 1 / _PARTICLES)
