"""How far away is the target? Binary search with one colluder, as in the paper."""

from __future__ import annotations

from nearveil.attacks.base import Inquiry, inward_angle, rank_of, step_from
from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import Circle
from nearveil.nearby.index import Person


def target_is_nearer(inquiry: Inquiry, colluder: Person, at: Spot, radius_m: float) -> bool | None:
    """Put a colluder at a distance and see who comes first; None if neither is listed.

    A colluder that is listed where the target is not is nearer than the target.
    """
    inquiry.put(colluder, step_from(at, inward_angle(at), radius_m))
    answer = inquiry.ask(at)
    target, own = rank_of(answer, inquiry.target), rank_of(answer, colluder)
    if target is None and own is None:
        return None
    if own is None:
        return True
    return target is not None and target < own


def search_radius(
    inquiry: Inquiry, at: Spot, *, farthest_m: float, tolerance_m: float, most_queries: int
) -> float | None:
    """Distance from ``at`` to the target within the tolerance, by halving; None if the answers make no sense."""
    colluder = inquiry.colluders[0]
    low, high = 0.0, farthest_m
    for _ in range(most_queries):
        if high - low <= tolerance_m:
            break
        middle = (low + high) / 2
        nearer = target_is_nearer(inquiry, colluder, at, middle)
        if nearer is None:
            return None
        low, high = (low, middle) if nearer else (middle, high)
    found = (low + high) / 2
    inquiry.circles.append(Circle(at, found))
    return found
