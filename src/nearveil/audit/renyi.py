"""An estimate of the Rényi divergence between the outputs for two inputs, with an interval that holds.

D_a(P‖Q) = ln E_P[(p/q)^(a-1)] / (a-1): a mean over draws from P of a function of the log-ratio ln p/q. Truncating noise
raises it (order 8, Laplace noise of scale 1 around 1 and 0: 0.910, and 1.014 on [-1, 1]), whatever the paper's Lemma 5
says; an interval that holds is enough to show it.

The interval trusts the log-ratio. `check_log_ratio` tests it against draws for both inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from nearveil.audit.subjects import AuditError
from nearveil.errors import UsageError
from nearveil.types import FloatArray

Sampler = Callable[[int, np.random.Generator], FloatArray]
"""Draws the given number of outputs."""

_PRECISION = 1e-13
_LARGEST_BET = 0.75
_CLIPS = 24
_SHARE_FOR_CHOICE = 0.25
_ROUNDING = 1e-9
_RATIO_ERROR = 1e-6


@dataclass(frozen=True, slots=True)
class RenyiEstimate:
    """The Rényi divergence of one order, estimated from draws.

    Attributes
    ----------
    order : float
        The order a, above 1.
    estimate : float
        The mean over the draws put into the formula; without a promise.
    low, high : float
        With probability ``confidence`` at least, the divergence lies between them, whatever the number of draws.
        ``high`` is infinite where no bound on the log-ratio was given.
    draws : int
        How many outputs it was estimated from.
    """

    order: float
    estimate: float
    low: float
    high: float
    confidence: float
    draws: int

    def contains(self, divergence: float) -> bool:
        """Whether the divergence could be this."""
        return self.low <= divergence <= self.high

    def to_dict(self) -> dict[str, float | None]:
        """Return plain values for JSON, where None stands for infinite."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def renyi_interval(
    log_ratios: FloatArray, order: float, *, largest_loss: float = math.inf, confidence: float = 0.999
) -> RenyiEstimate:
    """Estimate D_a(P‖Q) from ln p/q at independent draws from P.

    Parameters
    ----------
    log_ratios : ndarray
        ln p/q at each draw; +inf where only P can give the output.
    order : float
        Above 1.
    largest_loss : float
        A known bound on the log-ratio. Without it the moment may hang on outputs too rare to be drawn, so there is no
        upper end. The lower end needs no bound: the moment of clipped ratios is not larger than the moment.
    confidence : float
        Probability with which the interval holds; either end takes half of the error.
    """
    _check(log_ratios, order, largest_loss, confidence)
    error, draws = (1 - confidence) / 2, len(log_ratios)
    if np.isposinf(log_ratios).any():
        # An output that Q cannot give has been drawn: it has a positive probability, and the moment is infinite.
        return RenyiEstimate(order, math.inf, math.inf, math.inf, confidence, draws)
    powers = (order - 1) * log_ratios
    estimate = float(logsumexp(powers) - math.log(draws)) / (order - 1)
    low = max(0.0, _clipped_low(powers, error) / (order - 1))
    high = largest_loss
    if math.isfinite(largest_loss):
        relative = np.exp(np.minimum(powers - (order - 1) * largest_loss, 0.0))
        high = largest_loss + math.log(_mean_high(relative, error)) / (order - 1)
    return RenyiEstimate(order, estimate, low, max(float(high), 0.0), confidence, draws)


def renyi_between_samplers(
    first: Sampler,
    second: Sampler,
    log_ratio: Callable[[FloatArray], FloatArray],
    order: float,
    *,
    draws: int = 100_000,
    rng: np.random.Generator,
    largest_loss: float = math.inf,
    confidence: float = 0.999,
) -> RenyiEstimate:
    """Estimate D_a of the first sampler's outputs from the second's, after testing the log-ratio on both.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> found = renyi_between_samplers(
    ...     lambda n, rng: rng.laplace(1, 1, n), lambda n, rng: rng.laplace(0, 1, n),
    ...     lambda t: abs(t) - abs(t - 1), order=8, rng=rng, largest_loss=1.0,
    ... )
    >>> found.contains(0.9102)
    True
    """
    scores = log_ratio(first(draws, rng))
    check_log_ratio(scores, log_ratio(second(draws, rng)))
    return renyi_interval(scores, order, largest_loss=largest_loss, confidence=confidence)


def check_log_ratio(at_first: FloatArray, at_second: FloatArray) -> None:
    """Raise if ln p/q, taken at draws from P and at draws from Q, is not the log-ratio of the two.

    Where p <= q, p is e^ln(p/q) times q: the share of P's draws there must be the mean of that factor, at most 1, over
    Q's draws there; and the other way round. A true log-ratio is refused with probability 1e-6 at most.
    """
    if np.isnan(at_first).any() or np.isnan(at_second).any():
        raise AuditError("a log-ratio is not a number: an output was drawn that neither density allows")
    for counted, weighted in ((at_first, at_second), (-at_second, -at_first)):
        share = (counted <= 0).astype(np.float64)
        factor = np.where(weighted <= 0, np.exp(np.minimum(weighted, 0.0)), 0.0)
        error = _RATIO_ERROR / 8
        if mean_low(share, error) > _mean_high(factor, error) or mean_low(factor, error) > _mean_high(share, error):
            raise AuditError("the log-ratio is not that of the densities the outputs were drawn from; correct either")


def mean_low(values: FloatArray, error: float) -> float:
    """Return a lower confidence bound on the mean of independent draws from one law on [0, 1].

    By betting (Waudby-Smith and Ramdas 2024): a gambler who stakes on the values exceeding m, at fair odds if m is
    the mean, multiplies their stake by 1/error with probability ``error`` at most. Every m they win against is too low.
    Bets depend on earlier values only. Exact for any number of draws, and nearly as narrow as the normal approximation.
    """
    bets = _bets(values, error)
    wanted = -math.log(error)

    def surplus(mean: float) -> float:
        return float(np.log1p(np.minimum(bets, _LARGEST_BET / mean) * (values - mean)).sum()) - wanted

    # The winnings fall as the mean rises, and pass 1/error once.
    high = float(values.mean())
    low = high * _PRECISION
    if low <= 0 or surplus(low) < 0:
        return 0.0
    if surplus(high) >= 0:
        return high
    passed = brentq(surplus, low, high, xtol=_PRECISION * high)
    # Below it by more than it may be off.
    return max(float(passed) - 2 * _PRECISION * high, 0.0)


def _mean_high(values: FloatArray, error: float) -> float:
    return 1.0 - mean_low(1.0 - values, error)


def _bets(values: FloatArray, error: float) -> FloatArray:
    """Stakes per unit, each from the mean and the variance of the values before it."""
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + np.cumsum(values)) / (count + 1)
    variance = (0.25 + np.cumsum((values - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    bets: FloatArray = np.sqrt(2 * -math.log(error) / (len(values) * before))
    return bets


def _clipped_low(powers: FloatArray, error: float) -> float:
    """Lower bound on ln E[e^power]: the clip is chosen on the first draws, the clipped mean bounded on the others."""
    choice = int(len(powers) * _SHARE_FOR_CHOICE)
    early, late = powers[:choice], powers[choice:]
    shares = 1 - np.geomspace(min(1.0, 1 / len(early)), 1.0, _CLIPS)
    clips = np.unique(np.quantile(early, shares))
    best = clips[int(np.argmax([_low_at(early, clip, error) for clip in clips]))]
    return _low_at(late, float(best), error)


def _low_at(powers: FloatArray, clip: float, error: float) -> float:
    mean = mean_low(np.exp(np.minimum(powers - clip, 0.0)), error)
    return clip + math.log(mean) if mean > 0 else -math.inf


def _check(log_ratios: FloatArray, order: float, largest_loss: float, confidence: float) -> None:
    if not order > 1 or not math.isfinite(order):
        raise UsageError("the order of a Rényi divergence is a number above 1")
    if not 0 < confidence < 1:
        raise UsageError("a confidence lies between 0 and 1, such as 0.999")
    if log_ratios.ndim != 1 or len(log_ratios) < 8:
        raise UsageError("a Rényi divergence needs one log-ratio for each draw, and at least 8 draws")
    if np.isnan(log_ratios).any() or np.isneginf(log_ratios).any():
        raise AuditError("a log-ratio at a draw from the first input is not a number, or says it cannot be drawn")
    if not largest_loss >= 0 or (log_ratios > largest_loss * (1 + _ROUNDING) + _ROUNDING).any():
        raise AuditError("a log-ratio is larger than the bound given for it; the bound does not hold")
