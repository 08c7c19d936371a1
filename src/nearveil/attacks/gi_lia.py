"""GI-LIA: two circles around two places, and where they meet (the paper's section 4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from nearveil.attacks.base import Attack, Circle, Finding, Inquiry, Outcome, inward_angle, rank_of, step_from
from nearveil.attacks.oracle import Point
from nearveil.nearby.index import Person
from nearveil.region import Region


@dataclass(frozen=True, kw_only=True)
class GILIA(Attack):
    """The geometric intersection attack.

    Parameters
    ----------
    tolerance_m : float
        How well each radius is found; the paper does not say.
    farthest_m : float
        Where the search for a radius starts: the target is surely nearer than this.
    most_radius_queries : int
        The paper's 100.
    probes, most_rounds, shrink
        The second place is looked for at ``probes`` points around the first at the distance of the target, and closer
        by a factor ``shrink`` in each round that fails: 4, 10 and 0.8 in the paper.
    """

    name: ClassVar[str] = "gi-lia"

    tolerance_m: float = 0.1
    farthest_m: float = 60_000.0
    most_radius_queries: int = 100
    probes: int = 4
    most_rounds: int = 10
    shrink: float = 0.8

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region, whose diameter bounds every distance."""
        del tau_m, accounts
        return cls(farthest_m=2 * region.radius_m)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        if inquiry.rank(start) is None:
            return Finding(Outcome.NOT_LISTED)
        first = self._radius(inquiry, start)
        if first is None:
            return Finding(Outcome.CONTRADICTION)
        second_place = self._second_place(inquiry, start, first)
        if second_place is None:
            return Finding(Outcome.LOST, start)
        second = self._radius(inquiry, second_place)
        if second is None:
            return Finding(Outcome.CONTRADICTION, start)
        inquiry.withdraw_all()
        candidates = intersect(start, first, second_place, second)
        # The better rank wins; of equals the first.
        ranks = [inquiry.rank(candidate) or inquiry.oracle.k + 1 for candidate in candidates]
        return Finding(Outcome.FOUND, candidates[ranks.index(min(ranks))])

    def _radius(self, inquiry: Inquiry, at: Point) -> float | None:
        return search_radius(
            inquiry,
            at,
            farthest_m=self.farthest_m,
            tolerance_m=self.tolerance_m,
            most_queries=self.most_radius_queries,
        )

    def _second_place(self, inquiry: Inquiry, start: Point, radius_m: float) -> Point | None:
        """The first of the probes from which the target is listed, without accounts in the way."""
        inquiry.withdraw_all()
        step = radius_m
        for _ in range(self.most_rounds):
            for probe in range(self.probes):
                place = step_from(start, 2 * math.pi * probe / self.probes, step)
                if inquiry.rank(place) is not None:
                    return place
            step *= self.shrink
        return None


def intersect(a: Point, radius_a: float, b: Point, radius_b: float) -> tuple[Point, Point]:
    """Where two circles meet; where they just miss each other, the point between them, twice."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    gap = math.hypot(dx, dy)
    along = (gap**2 + radius_a**2 - radius_b**2) / (2 * gap)
    across = math.sqrt(max(radius_a**2 - along**2, 0.0))
    foot = a[0] + along * dx / gap, a[1] + along * dy / gap
    side = -across * dy / gap, across * dx / gap
    return (foot[0] + side[0], foot[1] + side[1]), (foot[0] - side[0], foot[1] - side[1])


# How far away is the target? Binary search with one account, as in the paper.


def target_is_nearer(inquiry: Inquiry, account: Person, at: Point, radius_m: float) -> bool | None:
    """Put an account at a distance and see who comes first; None if neither is listed.

    An account that is listed where the target is not is nearer than the target.
    """
    inquiry.put(account, step_from(at, inward_angle(at), radius_m))
    answer = inquiry.ask(at)
    target, own = rank_of(answer, inquiry.target), rank_of(answer, account)
    if target is None and own is None:
        return None
    if own is None:
        return True
    return target is not None and target < own


def search_radius(
    inquiry: Inquiry, at: Point, *, farthest_m: float, tolerance_m: float, most_queries: int
) -> float | None:
    """Distance from ``at`` to the target within the tolerance, by halving; None if the answers make no sense."""
    account = inquiry.accounts[0]
    low, high = 0.0, farthest_m
    for _ in range(most_queries):
        if high - low <= tolerance_m:
            break
        middle = (low + high) / 2
        nearer = target_is_nearer(inquiry, account, at, middle)
        if nearer is None:
            return None
        low, high = (low, middle) if nearer else (middle, high)
    found = (low + high) / 2
    inquiry.circles.append(Circle(at, found))
    return found
