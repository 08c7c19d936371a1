"""ZO-LIA: one circle, and a walk guided by ranks that ends on it (the paper's section 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from nearveil.attacks.base import Attack, Finding, Inquiry, Outcome, step_from
from nearveil.attacks.gi_lia import search_radius
from nearveil.attacks.oracle import Point
from nearveil.region import Region


@dataclass(frozen=True, kw_only=True)
class ZOLIA(Attack):
    """The zeroth-order optimisation attack.

    Parameters
    ----------
    tolerance_m, farthest_m, most_radius_queries
        As in GI-LIA.
    iterations, probes
        10 and 4 in the paper.
    reach, step
        Distance of the probes, and length of a step, as a share of the circle's radius. Both are ours: the
        paper has a learning rate of 0.005, without a unit, and these come nearer to its Table 1 than that does.
    decay
        Both shrink by this factor with every iteration.
    """

    name: ClassVar[str] = "zo-lia"

    tolerance_m: float = 0.1
    farthest_m: float = 60_000.0
    most_radius_queries: int = 100
    iterations: int = 10
    probes: int = 4
    reach: float = 0.5
    step: float = 0.4
    decay: float = 0.85

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region, whose diameter bounds every distance."""
        del tau_m, accounts
        return cls(farthest_m=2 * region.radius_m)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        first_rank = inquiry.rank(start)
        if first_rank is None:
            return Finding(Outcome.NOT_LISTED)
        radius = search_radius(
            inquiry,
            start,
            farthest_m=self.farthest_m,
            tolerance_m=self.tolerance_m,
            most_queries=self.most_radius_queries,
        )
        if radius is None:
            return Finding(Outcome.CONTRADICTION)
        inquiry.withdraw_all()
        nearest = self._walk(inquiry, start, radius, first_rank)
        return Finding(Outcome.FOUND, project_on_circle(nearest, start, radius))

    def _walk(self, inquiry: Inquiry, start: Point, radius_m: float, first_rank: int) -> Point:
        """Follow the pseudo-gradient of the target's rank."""
        here, best = start, first_rank
        reach, step = self.reach * radius_m, self.step * radius_m
        for turn in range(self.iterations):
            # Turned by half a probe every other time, so that eight directions are seen.
            angles = [2 * math.pi * (probe + turn % 2 / 2) / self.probes for probe in range(self.probes)]
            ranks = [inquiry.rank(step_from(here, angle, reach)) or inquiry.oracle.k + 1 for angle in angles]
            pulls = [(best - rank, angle) for rank, angle in zip(ranks, angles, strict=True) if rank <= best]
            east = sum(pull * math.cos(angle) for pull, angle in pulls)
            north = sum(pull * math.sin(angle) for pull, angle in pulls)
            length = math.hypot(east, north)
            if length > 0:
                here = here[0] + step * east / length, here[1] + step * north / length
                best = min(best, *ranks)
            reach, step = reach * self.decay, step * self.decay
        return here


def project_on_circle(place: Point, centre: Point, radius_m: float) -> Point:
    """The point of a circle nearest to a place; east of the centre if the place is the centre."""
    east, north = place[0] - centre[0], place[1] - centre[1]
    length = math.hypot(east, north)
    if length == 0:
        return centre[0] + radius_m, centre[1]
    return centre[0] + radius_m * east / length, centre[1] + radius_m * north / length
