"""Whether answers can come from accounts that are where the attacker put them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nearveil.nearby.index import Person

_SLACK_M = 1e-6


def accounts_in_order(radius_of: Mapping[Person, float], answer: Sequence[Person], *, full: bool) -> bool:
    """Whether accounts are listed by distance, a sentinel at distance 0 first, and none is overlooked.

    ``full`` says that the list was cut: without it an account can be missing only if the service hides it.
    """
    listed = [radius_of[person] for person in answer if person in radius_of]
    missing = [radius for account, radius in radius_of.items() if account not in answer]
    if listed != sorted(listed):
        return False
    if 0.0 in radius_of.values() and (not answer or radius_of.get(answer[0]) != 0.0):
        return False
    if not missing:
        return True
    return full and min(missing) >= max(listed, default=0.0)


def agrees_with_all_before(bounds: Sequence[tuple[float, float, float, float]]) -> bool:
    """Whether the last ring of one person meets each ring before it."""
    if not bounds:
        return True
    x, y, low, high = bounds[-1]
    for other_x, other_y, other_low, other_high in bounds[:-1]:
        gap = math.hypot(x - other_x, y - other_y)
        apart = gap > high + other_high + _SLACK_M
        inside = gap + high < other_low - _SLACK_M or gap + other_high < low - _SLACK_M
        if apart or inside:
            return False
    return True
