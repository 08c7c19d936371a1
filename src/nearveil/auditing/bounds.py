"""Statistical lower bounds on a privacy loss, from counts of an event.

Why they hold. Let an event be fixed before its samples are drawn, P and Q its probabilities under two inputs. The
Clopper-Pearson bounds P_low and Q_high each fail with probability at most (1 - confidence) / 2, so with the given
confidence both hold (no independence between the two sides is needed). A claim (ε, δ) means P <= e^ε Q + δ, hence
e^ε >= (P - δ) / Q >= (P_low - δ) / Q_high: a claim that is true is exceeded by ln((P_low - δ) / Q_high) with
probability at most 1 - confidence.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import betainccinv, betaincinv

from nearveil.types import FloatArray, IntArray

_TAIL_THRESHOLDS = 120
_BODY_THRESHOLDS = 40
_TIE = 1e-9


def clopper_pearson_low(hits: FloatArray | float, trials: int, error: float) -> FloatArray:
    """Return a lower bound on a probability after ``hits`` in ``trials``, wrong at most at the rate ``error``."""
    hits = np.asarray(hits, dtype=np.float64)
    low: FloatArray = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-300), trials - hits + 1, error), 0.0)
    return low


def clopper_pearson_high(hits: FloatArray | float, trials: int, error: float) -> FloatArray:
    """Return an upper bound on a probability after ``hits`` in ``trials``, wrong at most at the rate ``error``."""
    hits = np.asarray(hits, dtype=np.float64)
    missed = trials - hits
    high: FloatArray = np.where(missed > 0, betainccinv(hits + 1, np.maximum(missed, 1e-300), error), 1.0)
    return high


def loss_bounds(
    hits: FloatArray | float,
    trials: int,
    false_hits: FloatArray | float,
    false_trials: int,
    *,
    delta: float,
    confidence: float,
) -> FloatArray:
    """Return the lower bound on the loss for each pair of counts; -inf where they show nothing.

    Parameters
    ----------
    hits, false_hits : float or ndarray
        How often the event came under the input it speaks for, and under the other.
    trials, false_trials : int
        Number of samples on each side, drawn after the event was chosen.
    delta : float
        Probability that the loss may be larger.
    confidence : float
        Probability that the bound holds; its error is shared by the two sides.
    """
    error = (1 - confidence) / 2
    likely = clopper_pearson_low(hits, trials, error) - delta
    return _log_ratio(likely, clopper_pearson_high(false_hits, false_trials, error))


def largest_loss_bound(trials: int, *, delta: float, confidence: float) -> float:
    """Return the bound that a perfect event gives: always under one input, never under the other."""
    return float(loss_bounds(trials, trials, 0, trials, delta=delta, confidence=confidence))


def expected_loss_bounds(
    hits: FloatArray,
    false_hits: FloatArray,
    seen: int,
    *,
    caution: float = 0.01,
    trials: int,
    delta: float,
    confidence: float,
) -> FloatArray:
    """Return the bound to be expected from fresh ``trials`` on each side, after counts among ``seen`` on each.

    The counts are first taken for worse than they are, wrongly so with the error rate ``caution``, so that a lucky
    tail is not preferred to a solid one. A guess, for choosing only.
    """
    likely = clopper_pearson_low(hits, seen, caution)
    unlikely = clopper_pearson_high(false_hits, seen, caution)
    return loss_bounds(likely * trials, trials, unlikely * trials, trials, delta=delta, confidence=confidence)


def _log_ratio(likely: FloatArray, unlikely: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: FloatArray = np.where((likely > 0) & (unlikely > 0), np.log(likely / unlikely), -math.inf)
    return ratio


def count_reaching(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return how many scores, which are in order, are at or above each threshold."""
    counts: FloatArray = len(scores) - np.searchsorted(scores, thresholds, side="left").astype(np.float64)
    return counts


def telling_thresholds(scores: FloatArray) -> FloatArray:
    """Return thresholds for "at or above": fine in the upper tail, where losses are largest, and coarse in the body.

    The scores need no order; of a few runs in order they are sorted faster.
    """
    # Order statistics, not values between them: scores may be as large as numbers get, and have atoms.
    thresholds: FloatArray = np.unique(np.sort(scores, kind="stable")[_telling_ranks(len(scores))])
    # A little below, so that round-off cannot undo a tie with an atom.
    return thresholds - _TIE * np.maximum(1.0, np.abs(thresholds))


@lru_cache(maxsize=64)
def _telling_ranks(count: int) -> IntArray:
    tail = np.geomspace(1 / count, 1.0, _TAIL_THRESHOLDS)
    shares = np.concatenate([1 - tail, np.linspace(0, 1, _BODY_THRESHOLDS)])
    ranks: IntArray = np.unique(np.ceil(shares * (count - 1)).astype(np.int64))
    return ranks
