"""The statistical lower bound: right about itself before it judges others."""

import math

import numpy as np
import pytest

from nearveil.audit.lower_bound import epsilon_lower_bound
from nearveil.errors import UsageError

pytestmark = pytest.mark.statistical


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
