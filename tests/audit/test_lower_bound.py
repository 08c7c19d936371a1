"""The statistical lower bound: right about itself before it judges others."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from nearveil.audit.bounds import (
    clopper_pearson_high,
    clopper_pearson_low,
    count_reaching,
    largest_loss_bound,
    loss_bounds,
    telling_thresholds,
)
from nearveil.errors import UsageError
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical


def epsilon_lower_bound(
    first_scores: FloatArray, second_scores: FloatArray, *, delta: float = 0.0, confidence: float = 1 - 1e-6
) -> float:
    """Return an epsilon that the loss between two inputs exceeds, with the given confidence.

    Each sample of either input's output comes as a score, the larger the more it speaks for the first input (the
    log-ratio of densities, say). The event "score at or above a threshold" is chosen on one half of the samples and
    counted on the other, so that the choice cannot flatter the count. Both directions are tried and share the error.

    Returns
    -------
    float
        At least 0; 0 means that nothing was found.
    """
    first_scores, second_scores = _finite(first_scores), _finite(second_scores)
    # Two directions, each with half the error.
    confidence = 1 - (1 - confidence) / 2
    return max(
        0.0,
        _one_direction(first_scores, second_scores, delta, confidence),
        _one_direction(-second_scores, -first_scores, delta, confidence),
    )


def _finite(scores: FloatArray) -> FloatArray:
    """Scores as finite numbers; an infinite one, of an output that only one input can give, is the largest there is."""
    if np.isnan(scores).any():
        raise UsageError("a score is not a number; an output must be possible for at least one of the two inputs")
    largest = np.finfo(np.float64).max / 2
    return np.clip(scores, -largest, largest)


def _one_direction(likely: FloatArray, unlikely: FloatArray, delta: float, confidence: float) -> float:
    half = min(len(likely), len(unlikely)) // 2
    thresholds = telling_thresholds(np.concatenate([likely[:half], unlikely[:half]]))
    hits, false_hits = (count_reaching(np.sort(side[:half]), thresholds) for side in (likely, unlikely))
    guesses = loss_bounds(hits, half, false_hits, half, delta=delta, confidence=confidence)
    best = thresholds[int(np.argmax(guesses))]
    fresh_likely, fresh_unlikely = likely[half:], unlikely[half:]
    bound = loss_bounds(
        float((fresh_likely >= best).sum()),
        len(fresh_likely),
        float((fresh_unlikely >= best).sum()),
        len(fresh_unlikely),
        delta=delta,
        confidence=confidence,
    )
    return float(bound)


def test_a_null_mechanism_is_not_accused() -> None:
    """Output independent of input, 400 runs at 95 % confidence: false alarms are binomial(400, 0.05) at most.

    More than 41 would happen with probability below 1e-5.
    """
    rng = np.random.default_rng(1)
    accused = sum(
        epsilon_lower_bound(rng.normal(size=2000), rng.normal(size=2000), confidence=0.95) > 0 for _ in range(400)
    )
    assert accused <= 41


def test_randomised_response_is_measured_and_not_exceeded() -> None:
    """The loss is 1 exactly: the bound comes within 0.05 below it, and not above (false-alarm rate 1e-6)."""
    rng = np.random.default_rng(2)
    keep = math.e / (1 + math.e)
    first, second = (rng.random(400_000) < share for share in (keep, 1 - keep))
    found = epsilon_lower_bound(first.astype(float), second.astype(float))
    assert 0.95 < found <= 1.0


def test_both_directions_are_tried() -> None:
    """An event that is impossible under the first input only: found although scores favour the first."""
    rng = np.random.default_rng(3)
    first = rng.uniform(0, 1, 50_000)
    second = rng.uniform(-1, 1, 50_000)
    assert epsilon_lower_bound(first, second) > 5
    assert epsilon_lower_bound(second, first) == 0.0


def test_delta_is_taken_off() -> None:
    rng = np.random.default_rng(4)
    first = np.where(rng.random(100_000) < 0.01, 1.0, 0.0)
    second = np.zeros(100_000)
    assert epsilon_lower_bound(first, second) > 3
    assert epsilon_lower_bound(first, second, delta=0.02) == 0.0


def test_disjoint_outputs_are_an_unbounded_loss() -> None:
    """Scores are infinite where only one input can give an output: the clearest violation there is."""
    everything, nothing = np.full(20_000, np.inf), np.full(20_000, -np.inf)
    assert epsilon_lower_bound(everything, nothing) > 6
    mixed = np.where(np.arange(20_000) % 2 == 0, np.inf, 0.0)
    assert epsilon_lower_bound(mixed, np.zeros(20_000)) > 5
    with pytest.raises(UsageError, match="not a number"):
        epsilon_lower_bound(np.array([0.0, np.nan]), np.zeros(2))


def test_the_event_is_chosen_on_one_half_and_counted_on_the_other() -> None:
    """What shows in the first half only is no evidence."""
    flattering = np.concatenate([np.ones(5000), np.zeros(5000)])
    assert epsilon_lower_bound(flattering, np.zeros(10_000)) == 0.0


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
