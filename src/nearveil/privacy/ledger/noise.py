"""Rényi curves: what is known of a loss beyond its epsilon, where the noise is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nearveil.errors import UsageError
from nearveil.privacy.paper_accounting import LaplaceAnswers
from nearveil.privacy.renyi import epsilon_from_log_moment, gaussian_log_moment, laplace_log_moment

LEAST_SCALE = 1e-9
LARGEST_SCALE = 1e12
MOST_ANSWERS = 10**9


@dataclass(frozen=True, slots=True)
class GaussianAnswers:
    """What happened: ``count`` numbers of sensitivity 1, each answered with Gaussian noise of deviation ``sigma``."""

    count: int
    sigma: float


Noise = LaplaceAnswers | GaussianAnswers


class Law(StrEnum):
    """Which family of curves a loss belongs to."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    PURE = "pure"
    """Nothing is known but epsilon: the curve of randomised response, which is the worst that epsilon allows."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """One loss with a Rényi curve: the noise scale in units of the sensitivity, or epsilon for ``Law.PURE``."""

    law: Law
    parameter: float

    def log_moment(self, order: float) -> float:
        """Return (order - 1) times the Rényi divergence."""
        if self.law is Law.LAPLACE:
            return laplace_log_moment(order, self.parameter)
        if self.law is Law.GAUSSIAN:
            return gaussian_log_moment(order, self.parameter)
        return pure_log_moment(order, self.parameter)


def pure_log_moment(order: float, epsilon: float) -> float:
    """Return (order - 1) times the largest Rényi divergence that pure epsilon allows.

    That of randomised response, from which every pure mechanism follows by post-processing (Kairouz, Oh and
    Viswanath, 2015): ln(cosh(ε (a - 1/2)) / cosh(ε / 2)).
    """
    if epsilon * order > 1:
        tails = math.log1p(math.exp(-epsilon * (2 * order - 1))) - math.log1p(math.exp(-epsilon))
        return epsilon * (order - 1) + tails
    # The two logarithms nearly cancel; cosh a - cosh b as a product does not.
    excess = 2 * math.sinh(epsilon * order / 2) * math.sinh(epsilon * (order - 1) / 2)
    return math.log1p(excess / math.cosh(epsilon / 2))


def losses_of(noise: Iterable[Noise]) -> Counter[Loss]:
    """Return how often each loss occurs in a description of noise."""
    counted: Counter[Loss] = Counter()
    for part in noise:
        counted[_one_loss(part)] += part.count
    return counted


def pure_epsilon(noise: Iterable[Noise]) -> float:
    """Return the epsilon of the noise without delta; Gaussian noise has none."""
    return sum(part.count / part.scale if isinstance(part, LaplaceAnswers) else math.inf for part in noise)


def epsilon_at(noise: Iterable[Noise], delta: float) -> float:
    """Return the epsilon of the noise at a delta: by Rényi, or without delta where that is less."""
    parts = tuple(noise)

    def log_moment(order: float) -> float:
        return sum(
            part.count * laplace_log_moment(order, part.scale)
            if isinstance(part, LaplaceAnswers)
            else part.count * gaussian_log_moment(order, part.sigma)
            for part in parts
        )

    return min(pure_epsilon(parts), epsilon_from_log_moment(log_moment, delta)[0])


def check_noise(noise: object) -> tuple[Noise, ...]:
    """Return a description of noise as a tuple, or say what is wrong with it."""
    if not isinstance(noise, tuple | list):
        raise UsageError("noise must be a tuple of LaplaceAnswers and GaussianAnswers")
    return tuple(_checked(part) for part in noise)


def _checked(part: object) -> Noise:
    if not isinstance(part, LaplaceAnswers | GaussianAnswers):
        raise UsageError("noise must be made of LaplaceAnswers and GaussianAnswers; leave it out for any other noise")
    count, scale = part.count, _one_loss(part).parameter
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= MOST_ANSWERS:
        raise UsageError(f"noise must have a whole number of answers from 1 to {MOST_ANSWERS:,}")
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise UsageError(f"noise must have a scale from {LEAST_SCALE:g} to {LARGEST_SCALE:g} sensitivities")
    return type(part)(int(count), float(scale))


def _one_loss(part: Noise) -> Loss:
    if isinstance(part, LaplaceAnswers):
        return Loss(Law.LAPLACE, part.scale)
    return Loss(Law.GAUSSIAN, part.sigma)
