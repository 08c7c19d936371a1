"""A statistical lower bound on the privacy loss between two inputs."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta

from nearveil.errors import UsageError
from nearveil.types import BoolArray, FloatArray

_THRESHOLDS = 64


def epsilon_lower_bound(
    first_scores: FloatArray, second_scores: FloatArray, *, delta: float = 0.0, confidence: float = 1 - 1e-6
) -> float:
    """Return an epsilon that the loss between two inputs exceeds, with the given confidence.

    Each sample of either input's output comes as a score, the larger the more it speaks for the first input (the
    log-ratio of densities, say). The event "score above a threshold" is chosen on one half of the samples and counted
    on the other, so that the choice cannot flatter the count. Both directions are tried; Clopper-Pearson intervals
    share the error.

    Returns
    -------
    float
        At least 0; 0 means that nothing was found.
    """
    first_scores, second_scores = _finite(first_scores), _finite(second_scores)
    error = (1 - confidence) / 2
    return max(
        0.0,
        _one_direction(first_scores, second_scores, delta, error),
        _one_direction(-second_scores, -first_scores, delta, error),
    )


def _finite(scores: FloatArray) -> FloatArray:
    """Scores as finite numbers; an infinite one, of an output that only one input can give, is the largest there is."""
    if np.isnan(scores).any():
        raise UsageError("a score is not a number; an output must be possible for at least one of the two inputs")
    largest = np.finfo(np.float64).max
    return np.clip(scores, -largest, largest)


def _one_direction(likely: FloatArray, unlikely: FloatArray, delta: float, error: float) -> float:
    half_likely, half_unlikely = len(likely) // 2, len(unlikely) // 2
    pooled = np.concatenate([likely[:half_likely], unlikely[:half_unlikely]])
    # Order statistics, not values between them: scores may be as large as numbers get.
    thresholds = np.unique(np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS, endpoint=False), method="lower"))
    guesses = [
        _bound(likely[:half_likely] > threshold, unlikely[:half_unlikely] > threshold, delta, error)
        for threshold in thresholds
    ]
    best = thresholds[int(np.argmax(guesses))]
    return _bound(likely[half_likely:] > best, unlikely[half_unlikely:] > best, delta, error)


def _bound(hits: BoolArray, false_hits: BoolArray, delta: float, error: float) -> float:
    """Lower bound on ln((P - delta) / Q) from the counts of an event under both inputs."""
    low = _clopper_pearson_low(int(hits.sum()), len(hits), error / 2) - delta
    high = 1 - _clopper_pearson_low(int((~false_hits).sum()), len(false_hits), error / 2)
    return math.log(low / high) if low > 0 and high > 0 else -math.inf


def _clopper_pearson_low(successes: int, trials: int, error: float) -> float:
    return float(beta.ppf(error, successes, trials - successes + 1)) if successes else 0.0
