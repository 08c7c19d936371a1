"""Rényi differential privacy: the cost of one noisy number, and the way from Rényi to (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nearveil.privacy.solving import least_between

LARGEST_ORDER = 1e12
_SMALLEST_ORDER = 1.0 + 1e-6


def laplace_log_moment(order: float, scale: float, sensitivity: float = 1.0) -> float:
    """Return ln g(order, scale): (order - 1) times the Rényi divergence of Laplace noise moved by ``sensitivity``.

    g(a, λ) = a/(2a-1) exp((a-1)/λ) + (a-1)/(2a-1) exp(-a/λ), with λ in units of the sensitivity.
    """
    ratio = sensitivity / scale
    up, down = (order - 1) * ratio, -order * ratio
    weight = order / (2 * order - 1)
    if up > 1:
        return float(np.logaddexp(math.log(weight) + up, math.log1p(-weight) + down))
    # g is close to 1: the terms of first order cancel, so leave them out before they swamp the rest.
    return math.log1p(weight * _exp_beyond_linear(up) + (1 - weight) * _exp_beyond_linear(down))


def _exp_beyond_linear(x: float) -> float:
    """Return e^x - 1 - x without cancellation."""
    if abs(x) > 1e-3:
        return math.expm1(x) - x
    return x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5)))


def gaussian_log_moment(order: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return (order - 1) times the Rényi divergence of Gaussian noise moved by ``sensitivity``."""
    return order * (order - 1) * sensitivity**2 / (2 * sigma**2)


def conversion_cost(order: float, delta: float) -> float:
    """Return what the step from Rényi at one order to (epsilon, delta) adds to epsilon.

    ln((a-1)/a) - (ln δ + ln a)/(a-1), the conversion of Balle et al. (2020).
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def epsilon_from_log_moment(log_moment: Callable[[float], float], delta: float) -> tuple[float, float]:
    """Return the least epsilon at ``delta`` and the order that gives it.

    Parameters
    ----------
    log_moment : callable
        (order - 1) times the Rényi divergence, as a function of the order.
    delta : float
        Between 0 and 1, exclusive.
    """

    def epsilon(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return log_moment(order) / (order - 1) + conversion_cost(order, delta)

    # Scan first: near order 1 and at large orders the curve is flat or infinite, where a local search gets lost.
    grid = np.linspace(math.log(_SMALLEST_ORDER - 1), math.log(LARGEST_ORDER), 600)
    values = [epsilon(point) for point in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found, least = least_between(epsilon, float(low), float(high))
    return max(0.0, least), 1 + math.exp(found)
