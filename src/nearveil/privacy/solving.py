"""Roots and minima of functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2
# Leaves 4e-9 of what was searched; the function differs there from its minimum by the square of that.
_STEPS = 40


def root_between(function: Callable[[float], float], low: float, high: float, *, precision: float) -> float:
    """Return where a function that changes its sign between two numbers is zero."""
    # Slow to load, and many commands never need it.
    from scipy.optimize import brentq  # noqa: PLC0415

    return float(brentq(function, low, high, xtol=precision))


def least_between(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where a function that falls and then rises between two numbers is least, and how little it is there.

    By golden section: it takes less time than loading a library that does it in fewer steps.

    Examples
    --------
    >>> where, least = least_between(lambda x: (x - 2) ** 2 + 1, 0, 3)
    >>> round(where, 7), least
    (2.0, 1.0)
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (left, at_left) if at_left <= at_right else (right, at_right)
