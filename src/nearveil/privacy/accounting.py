"""What noise costs: Rényi differential privacy, the paper's accounting, and the numerical solving behind both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from nearveil.errors import UsageError
from nearveil.privacy.guarantee import check_delta, check_epsilon

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

    ``log_moment`` is (order - 1) times the Rényi divergence, as a function of the order.
    """

    def epsilon(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return log_moment(order) / (order - 1) + conversion_cost(order, delta)

    # Scan first: near order 1 and at large orders the curve is flat or infinite, where a local search gets lost.
    grid = np.linspace(math.log(_SMALLEST_ORDER - 1), math.log(LARGEST_ORDER), 600)
    values = [epsilon(point) for point in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    # Slow to load, and many commands never need it.
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    found = minimize_scalar(epsilon, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun)), 1 + math.exp(found.x)


# The paper's accounting (its Theorems 1, 2, 3 and 5): from a wanted epsilon to noise scales, and back. It is needed to
# rebuild the paper. Whether its result is a guarantee is another matter: see `nearveil.mechanisms.dprs`.


Noise = Literal["laplace", "gaussian"]

QUERIES_PER_ROUND = 3
"""Two coordinate sums and a count, each of sensitivity 1."""

_RELEASED_AXES = 2
_GAUSSIAN_SHIFT = math.sqrt(2.0)


@dataclass(frozen=True, slots=True)
class PaperScales:
    """The noise the paper's accounting asks for, in units of the square [-1, 1]²."""

    fit_scale: float
    """The paper's λ_c, for every sum and count of every round."""
    release_scale: float
    """The paper's λ_p (Laplace) or σ (Gaussian)."""
    order: float
    """The Rényi order at which the two shares are equal and the total is least."""


@dataclass(frozen=True, slots=True)
class LaplaceAnswers:
    """What happened in a fit: ``count`` sums or counts of sensitivity 1, each answered with Laplace noise."""

    count: int
    scale: float

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 < self.scale < math.inf:
            raise UsageError("answers need a count of at least 1 and a positive scale")


def fit_log_moment(order: float, answers: Iterable[LaplaceAnswers]) -> float:
    """Return the paper's ε_c(a) (Theorem 1, where PIC gives 3 N_c answers of one scale)."""
    return sum(part.count * laplace_log_moment(order, part.scale) for part in answers)


def release_log_moment(order: float, release_scale: float, noise: Noise) -> float:
    """Return the paper's ε_p(a) (Theorems 2 and 5)."""
    if noise == "laplace":
        return _RELEASED_AXES * laplace_log_moment(order, release_scale)
    return gaussian_log_moment(order, release_scale, _GAUSSIAN_SHIFT)


def pure_release_epsilon(release_scale: float, noise: Noise) -> float:
    """Return the paper's cost of the release by plain composition; Gaussian noise has none without delta."""
    return _RELEASED_AXES / release_scale if noise == "laplace" else math.inf


def paper_epsilon(
    answers: Sequence[LaplaceAnswers], *, release_scale: float, delta: float, noise: Noise = "laplace"
) -> float:
    """Return the paper's ε_total (Theorem 3) for a fit and a release."""

    def total(order: float) -> float:
        return fit_log_moment(order, answers) + release_log_moment(order, release_scale, noise)

    return epsilon_from_log_moment(total, delta)[0]


def pure_fit_epsilon(answers: Iterable[LaplaceAnswers]) -> float:
    """Return the epsilon of a fit by plain composition, without delta."""
    return sum(part.count / part.scale for part in answers)


# The same fit is asked for its cost again and again, and the search over orders takes milliseconds.
@lru_cache(maxsize=1024)
def fit_epsilon(answers: tuple[LaplaceAnswers, ...], *, delta: float) -> float:
    """Return the epsilon at ``delta`` that fitting alone costs a user, added or removed.

    The lesser of the Rényi bound and plain composition, which needs no delta.
    """
    renyi, _ = epsilon_from_log_moment(lambda order: fit_log_moment(order, answers), delta)
    return min(renyi, pure_fit_epsilon(answers))


@lru_cache(maxsize=128)
def fit_scale_for(epsilon: float, *, queries: int, delta: float) -> float:
    """Return the λ_c at which fitting alone costs ``epsilon`` at ``delta``: the inverse of `fit_epsilon`."""
    check_epsilon(epsilon)
    check_delta(delta)

    def excess(log_scale: float) -> float:
        return fit_epsilon((LaplaceAnswers(queries, math.exp(log_scale)),), delta=delta) - epsilon

    # Plain composition alone is enough at queries/epsilon, so the answer is no larger than that.
    most = math.log(queries / epsilon)
    return math.exp(root_between(excess, most - 12, most + 1e-9, precision=1e-12))


@lru_cache(maxsize=128)
def paper_scales(epsilon: float, *, delta: float, queries: int, noise: Noise = "laplace") -> PaperScales:
    """Return the scales that spend ``epsilon`` in the paper's accounting, half on fitting, half on the release.

    Both shares are equal at the order that minimizes the total.
    """
    check_epsilon(epsilon)
    check_delta(delta)

    def slope(log_excess: float) -> float:
        """Derivative of the total in the order, for the scales that share epsilon equally at that order."""
        order = 1 + math.exp(log_excess)
        scales = _scales_at(order, epsilon, delta, queries, noise)
        answers, step = [LaplaceAnswers(queries, scales.fit_scale)], 1e-5 * (order - 1)

        def total(at: float) -> float:
            spent = fit_log_moment(at, answers) + release_log_moment(at, scales.release_scale, noise)
            return spent / (at - 1) + conversion_cost(at, delta)

        return (total(order + step) - total(order - step)) / (2 * step)

    def left_over(log_excess: float) -> float:
        return epsilon - conversion_cost(1 + math.exp(log_excess), delta)

    # Below this order the conversion alone costs more than epsilon, and nothing is left for noise.
    low = root_between(left_over, math.log(1e-9), math.log(1e9), precision=1e-13) + 1e-9
    high = low + 1.0
    while slope(high) < 0:
        high += 1.0
    order = 1 + math.exp(root_between(slope, low, high, precision=1e-13))
    return _scales_at(order, epsilon, delta, queries, noise)


def pure_scales(epsilon: float, *, queries: int) -> PaperScales:
    """Return the scales of the paper's accounting without delta: plain composition, half and half."""
    check_epsilon(epsilon)
    return PaperScales(fit_scale=2 * queries / epsilon, release_scale=2 * _RELEASED_AXES / epsilon, order=math.inf)


def _scales_at(order: float, epsilon: float, delta: float, queries: int, noise: Noise) -> PaperScales:
    share = (order - 1) * (epsilon - conversion_cost(order, delta)) / 2
    return PaperScales(
        fit_scale=_scale_spending(share, lambda scale: queries * laplace_log_moment(order, scale)),
        release_scale=_scale_spending(share, lambda scale: release_log_moment(order, scale, noise)),
        order=order,
    )


def _scale_spending(share: float, spent: Callable[[float], float]) -> float:
    def excess(log_scale: float) -> float:
        return math.log(spent(math.exp(log_scale)) / share)

    return math.exp(root_between(excess, math.log(1e-6), math.log(1e12), precision=1e-13))


def root_between(function: Callable[[float], float], low: float, high: float, *, precision: float) -> float:
    """Return where a function that changes its sign between two numbers is zero."""
    # Slow to load, and many commands never need it.
    from scipy.optimize import brentq  # noqa: PLC0415

    return float(brentq(function, low, high, xtol=precision))
