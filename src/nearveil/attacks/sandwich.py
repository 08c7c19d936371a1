"""Sandwich: two colluders close in on the target from inside and outside, at three places (known since 2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks.base import Attack, Circle, Finding, Inquiry, Outcome, inward_angle, rank_of, step_from
from nearveil.attacks.oracle import Spot
from nearveil.region import Region
from nearveil.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class Sandwich(Attack):
    """The order-only baseline: a thin ring around each of three places, and where the rings meet.

    Parameters
    ----------
    tolerance_m : float
        Width of a ring.
    farthest_m : float
        The target is surely nearer than this.
    most_ring_queries : int
        Questions for one ring at most.
    """

    name: ClassVar[str] = "sandwich"
    colluders_needed: ClassVar[int] = 2

    tolerance_m: float = 1.0
    farthest_m: float = 60_000.0
    most_ring_queries: int = 60
    most_rounds: int = 10
    shrink: float = 0.8

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, colluders: int) -> Self:
        """Return the attack for a region, whose diameter bounds every distance."""
        del tau_m, colluders
        return cls(farthest_m=2 * region.radius_m)

    def _run(self, inquiry: Inquiry, start: Spot) -> Finding:
        if inquiry.rank(start) is None:
            return Finding(Outcome.NOT_LISTED)
        first = self._ring(inquiry, start)
        if first is None:
            return Finding(Outcome.CONTRADICTION)
        places, radii = [start], [first]
        for place in self._other_places(inquiry, start, first):
            radius = self._ring(inquiry, place)
            if radius is not None:
                places.append(place)
                radii.append(radius)
        if len(places) < 3:
            return Finding(Outcome.LOST, start)
        return Finding(Outcome.FOUND, trilaterate(places, radii))

    def _ring(self, inquiry: Inquiry, at: Spot) -> float | None:
        """Distance to the target: two colluders cut the interval into three with every question."""
        inner, outer = inquiry.colluders[:2]
        low, high = 0.0, self.farthest_m
        for _ in range(self.most_ring_queries):
            if high - low <= self.tolerance_m:
                break
            cuts = low + (high - low) / 3, low + 2 * (high - low) / 3
            for colluder, cut in zip((inner, outer), cuts, strict=True):
                inquiry.put(colluder, step_from(at, inward_angle(at), cut))
            answer = inquiry.ask(at)
            target = rank_of(answer, inquiry.target)
            ranks = rank_of(answer, inner), rank_of(answer, outer)
            if target is None and ranks == (None, None):
                return None
            beyond = [rank is not None and (target is None or rank < target) for rank in ranks]
            # Pushed out of the list: beyond the colluder that is listed, and nothing is known of the other.
            if beyond[1]:
                low = cuts[1]
            elif beyond[0]:
                low, high = cuts[0], (cuts[1] if target is not None else high)
            else:
                high = cuts[0]
        found = (low + high) / 2
        inquiry.withdraw_all()
        inquiry.circles.append(Circle(at, found))
        return found

    def _other_places(self, inquiry: Inquiry, start: Spot, radius_m: float) -> list[Spot]:
        """Two more places from which the target is listed, not in line with the first."""
        found: list[Spot] = []
        step = radius_m
        for _ in range(self.most_rounds):
            for direction in (0, 1, 2, 3):
                place = step_from(start, math.pi / 2 * direction, step)
                crosswise = (
                    not found
                    or abs(
                        (place[0] - start[0]) * (found[0][1] - start[1])
                        - (place[1] - start[1]) * (found[0][0] - start[0])
                    )
                    > 1e-6
                )
                if crosswise and inquiry.rank(place) is not None:
                    found.append(place)
                    if len(found) == 2:
                        return found
            step *= self.shrink
        return found


def trilaterate(places: list[Spot], radii: list[float]) -> Spot:
    """The place whose distances fit best."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - takes long to load, and no other attack needs it

    at, distances = np.array(places), np.array(radii)

    def misfit(t: FloatArray) -> FloatArray:
        return np.hypot(*(at - t).T) - distances

    fits = [
        least_squares(misfit, at.mean(axis=0) + turn)
        for turn in np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]]) * distances.mean()
    ]
    best = min(fits, key=lambda fit: float(fit.cost)).x
    return float(best[0]), float(best[1])
