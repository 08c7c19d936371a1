"""The paper's accounting (its Theorems 1, 2, 3 and 5): from a wanted epsilon to noise scales, and back.

It is the arithmetic of the paper, needed to rebuild it. Whether its result is a guarantee is another matter:
see `nearveil.mechanisms.dprs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from nearveil.errors import UsageError
from nearveil.privacy.limits import check_delta, check_epsilon
from nearveil.privacy.renyi import (
    conversion_cost,
    epsilon_from_log_moment,
    gaussian_log_moment,
    laplace_log_moment,
)
from nearveil.privacy.solving import root_between

Noise = Literal["laplace", "gaussian"]

QUERIES_PER_ROUND = 3
"""Two coordinate sums and a count, each of sensitivity 1."""

_RELEASED_AXES = 2
_GAUSSIAN_SHIFT = math.sqrt(2.0)


@dataclass(frozen=True, slots=True)
class PaperScales:
    """The noise the paper's accounting asks for, in units of the square [-1, 1]².

    Attributes
    ----------
    fit_scale : float
        The paper's λ_c, for every sum and count of every round.
    release_scale : float
        The paper's λ_p (Laplace) or σ (Gaussian).
    order : float
        The Rényi order at which the two shares are equal and the total is least.
    """

    fit_scale: float
    release_scale: float
    order: float


@dataclass(frozen=True, slots=True)
class LaplaceAnswers:
    """What happened in a fit: ``count`` sums or counts of sensitivity 1, each answered with Laplace noise.

    What it costs is the business of the functions below.
    """

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


def fit_epsilon(answers: Sequence[LaplaceAnswers], *, delta: float) -> float:
    """Return the epsilon at ``delta`` that fitting alone costs a person, added or removed.

    The lesser of the Rényi bound and plain composition, which needs no delta.
    """
    renyi, _ = epsilon_from_log_moment(lambda order: fit_log_moment(order, answers), delta)
    return min(renyi, pure_fit_epsilon(answers))


def fit_scale_for(epsilon: float, *, queries: int, delta: float) -> float:
    """Return the λ_c at which fitting alone costs ``epsilon`` at ``delta``: the inverse of `fit_epsilon`."""
    check_epsilon(epsilon)
    check_delta(delta)

    def excess(log_scale: float) -> float:
        return fit_epsilon([LaplaceAnswers(queries, math.exp(log_scale))], delta=delta) - epsilon

    # Plain composition alone is enough at queries/epsilon, so the answer is no larger than that.
    most = math.log(queries / epsilon)
    return math.exp(root_between(excess, most - 12, most + 1e-9, precision=1e-12))


@lru_cache(maxsize=128)
def paper_scales(epsilon: float, *, delta: float, queries: int, noise: Noise = "laplace") -> PaperScales:
    """Return the scales that spend ``epsilon`` in the paper's accounting, half on fitting, half on the release.

    Both shares are equal at the order that minimises the total.

    Examples
    --------
    >>> scales = paper_scales(1.0, delta=1e-5, queries=36)
    >>> round(scales.release_scale, 2), round(scales.fit_scale, 1)
    (4.94, 34.5)
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if noise not in ("laplace", "gaussian"):
        raise UsageError("noise is either 'laplace' or 'gaussian'")

    def slope(log_excess: float) -> float:
        """Derivative of the total in the order, for the scales that share epsilon equally at that order."""
        order = 1 + math.exp(log_excess)
        scales = _scales_at(order, epsilon, delta, queries, noise)
        return _slope(order, scales, delta, queries, noise)

    low = math.log(_least_order(epsilon, delta) - 1) + 1e-9
    high = low + 1.0
    while slope(high) < 0:
        high += 1.0
    order = 1 + math.exp(root_between(slope, low, high, precision=1e-13))
    return _scales_at(order, epsilon, delta, queries, noise)


def pure_scales(epsilon: float, *, queries: int) -> PaperScales:
    """Return the scales of the paper's accounting without delta: plain composition, half and half.

    Examples
    --------
    >>> pure_scales(1.0, queries=36).release_scale
    4.0
    """
    check_epsilon(epsilon)
    return PaperScales(fit_scale=2 * queries / epsilon, release_scale=2 * _RELEASED_AXES / epsilon, order=math.inf)


def _least_order(epsilon: float, delta: float) -> float:
    """The order where the conversion alone costs epsilon; below it nothing is left for noise."""

    def left_over(log_excess: float) -> float:
        return epsilon - conversion_cost(1 + math.exp(log_excess), delta)

    return 1 + math.exp(root_between(left_over, math.log(1e-9), math.log(1e9), precision=1e-13))


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


def _slope(order: float, scales: PaperScales, delta: float, queries: int, noise: Noise) -> float:
    def total(at: float) -> float:
        fit = queries * laplace_log_moment(at, scales.fit_scale)
        return (fit + release_log_moment(at, scales.release_scale, noise)) / (at - 1) + conversion_cost(at, delta)

    step = 1e-5 * (order - 1)
    return (total(order + step) - total(order - step)) / (2 * step)
