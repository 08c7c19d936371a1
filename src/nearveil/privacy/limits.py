"""Which privacy parameters can be asked for."""

from __future__ import annotations

import math

import numpy as np

from nearveil.errors import UsageError

LEAST_EPSILON = 0.001
LARGEST_EPSILON = 50.0
LARGEST_DELTA = 0.1


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return epsilon as a float, or say what can be asked for."""
    value = _number(epsilon, name)
    if not LEAST_EPSILON <= value <= LARGEST_EPSILON:
        raise UsageError(
            f"{name} must lie between {LEAST_EPSILON:g} and {LARGEST_EPSILON:g}; 1 is a usual choice, and a larger "
            f"{name} protects less"
        )
    return value


def check_delta(delta: float) -> float:
    """Return delta as a float, or say what can be asked for."""
    value = _number(delta, "delta")
    if not 0 < value <= LARGEST_DELTA:
        raise UsageError(f"delta must be greater than 0 and at most {LARGEST_DELTA:g}; 1e-5 is a usual choice")
    return value


def check_positive(value: float, name: str) -> float:
    """Return a positive, finite number, or say that one is needed."""
    number = _number(value, name)
    if not number > 0:
        raise UsageError(f"{name} must be greater than 0")
    return number


def check_count(value: int, name: str, *, least: int, most: int) -> int:
    """Return a whole number within limits, or say which are allowed."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least:,} to {most:,}")
    return int(value)


def _number(value: float, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number") from None
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number")
    return number
