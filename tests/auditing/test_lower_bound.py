"""The statistical lower bound: right about itself before it judges others."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from nearveil.auditing.bounds import (
    clopper_pearson_high,
    clopper_pearson_low,
    count_reaching,
    largest_loss_bound,
    loss_bounds,
    telling_thresholds,
)

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("error", [0.3, 0.05, 5e-7])
def test_clopper_pearson_covers_exactly(error: float) -> None:
    """Summed over all counts, the bound fails with probability at most the error, and not much less at its worst."""
    trials = 40
    hits = np.arange(trials + 1.0)
    low, high = clopper_pearson_low(hits, trials, error), clopper_pearson_high(hits, trials, error)
    np.testing.assert_allclose(low[::-1], 1 - high, rtol=1e-9, atol=1e-15)
    probabilities = np.concatenate([low[1:] * (1 - 1e-9), np.linspace(0, 1, 200)])
    fails = np.array([binom.pmf(hits, trials, p)[low > p].sum() for p in probabilities])
    assert fails.max() <= error * (1 + 1e-6)
    assert fails.max() > 0.99 * error


def test_the_loss_bound_shares_the_error_between_both_sides() -> None:
    found = loss_bounds(900, 1000, 10, 1000, delta=0.01, confidence=0.9)
    low, high = clopper_pearson_low(900, 1000, 0.05), clopper_pearson_high(10, 1000, 0.05)
    assert found == pytest.approx(math.log((low - 0.01) / high))
    assert largest_loss_bound(1000, delta=0.0, confidence=0.9) == pytest.approx(
        math.log(0.05**0.001 / (1 - 0.05**0.001))
    )
    assert loss_bounds(0, 1000, 0, 1000, delta=0.0, confidence=0.9) == -math.inf
    assert loss_bounds(5, 1000, 0, 1000, delta=0.5, confidence=0.9) == -math.inf


def test_atoms_are_within_reach_of_a_threshold() -> None:
    """Two in a thousand have the two largest scores: thresholds pick them out one by one, whatever the round-off."""
    scores = np.concatenate([np.zeros(99_800), np.full(100, 2.0), np.full(100, 3.0)])
    counts = count_reaching(scores - 1e-12, telling_thresholds(scores))
    assert {100, 200} <= set(counts.tolist())


def test_the_upper_tail_is_searched_finely() -> None:
    """The loss of the interval release is largest on a vanishing share of its outputs."""
    scores = np.linspace(0, 1, 100_000)
    counts = count_reaching(scores, telling_thresholds(scores))
    tail = np.sort(counts[(counts >= 10) & (counts <= 10_000)])
    assert (tail[1:] / tail[:-1]).max() < 1.25
