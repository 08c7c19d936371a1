"""The Rényi check: its interval holds, is narrow enough to refute Lemma 5, and notices a wrong log-ratio."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from nearveil import AxisLaplace, Mechanism, Square
from nearveil.audit.renyi import (
    RenyiEstimate,
    Sampler,
    check_log_ratio,
    mean_low,
    renyi_between_samplers,
    renyi_interval,
)
from nearveil.audit.subjects import AuditError
from nearveil.errors import UsageError
from nearveil.privacy.accounting import gaussian_log_moment, laplace_log_moment
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

ORDER = 8
# ln of the ratio of the two normalising constants on [-1, 1], for noise around 0 and around 1.
SHIFT = math.log((1 - math.exp(-1)) / ((1 - math.exp(-2)) / 2))


def renyi_between_places(
    mechanism: Mechanism,
    first: FloatArray,
    second: FloatArray,
    order: float,
    *,
    draws: int = 100_000,
    rng: np.random.Generator,
    largest_loss: float = math.inf,
    confidence: float = 0.999,
) -> RenyiEstimate:
    """Estimate D_a between a mechanism's draws for two places, given in its frame.

    It is the divergence before outputs are clamped to the region and rounded, which cannot raise it.
    """

    def sampler(place: FloatArray) -> Sampler:
        return lambda count, generator: mechanism.draw(np.tile(place, (count, 1)), numbered_rows(count, generator))

    def log_ratio(outputs: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return mechanism.log_density(first, outputs) - mechanism.log_density(second, outputs)

    return renyi_between_samplers(
        sampler(first),
        sampler(second),
        log_ratio,
        order,
        draws=draws,
        rng=rng,
        largest_loss=largest_loss,
        confidence=confidence,
    )


def truncated_laplace(centre: float) -> Callable[[int, np.random.Generator], FloatArray]:
    """Laplace noise of scale 1 on [-1, 1], by drawing again until it falls there."""

    def draw(count: int, rng: np.random.Generator) -> FloatArray:
        drawn = rng.laplace(centre, 1.0, 8 * count)
        return drawn[np.abs(drawn) <= 1][:count]

    return draw


def plain_laplace(centre: float) -> Callable[[int, np.random.Generator], FloatArray]:
    return lambda count, rng: rng.laplace(centre, 1.0, count)


def plain_ratio(t: FloatArray) -> FloatArray:
    return np.abs(t) - np.abs(t - 1)


def truncated_ratio(t: FloatArray) -> FloatArray:
    return plain_ratio(t) + SHIFT


def scaled(ratio: Callable[[FloatArray], FloatArray], factor: float) -> Callable[[FloatArray], FloatArray]:
    return lambda t: factor * ratio(t)


def truncated_divergence() -> float:
    """The divergence on [-1, 1] by quadrature."""
    norms = [quad(lambda t, c=c: math.exp(-abs(t - c)), -1, 1, points=[0])[0] for c in (1, 0)]

    def integrand(t: float) -> float:
        first, second = math.exp(-abs(t - 1)) / norms[0], math.exp(-abs(t)) / norms[1]
        return first**ORDER * second ** (1 - ORDER)

    return math.log(quad(integrand, -1, 1, points=[0])[0]) / (ORDER - 1)


def plain_divergence() -> float:
    return laplace_log_moment(ORDER, 1.0) / (ORDER - 1)


def test_truncation_raises_the_divergence() -> None:
    """Both intervals hold, and they lie apart (false-alarm rate 1e-3 each, and 1e-6 for the log-ratio)."""
    exact, before = truncated_divergence(), plain_divergence()
    assert (round(exact, 3), round(before, 3)) == (1.014, 0.910)
    rng = np.random.default_rng(1)
    truncated = renyi_between_samplers(
        truncated_laplace(1), truncated_laplace(0), truncated_ratio, ORDER, rng=rng, largest_loss=1 + SHIFT
    )
    plain = renyi_between_samplers(plain_laplace(1), plain_laplace(0), plain_ratio, ORDER, rng=rng, largest_loss=1.0)
    assert truncated.contains(exact)
    assert plain.contains(before)
    assert plain.high < truncated.low
    assert truncated.high - truncated.low < 0.015


def test_the_lower_end_needs_no_bound_on_the_loss() -> None:
    """Enough to refute Lemma 5 without knowing a bound (false-alarm rate 5e-4)."""
    drawn = truncated_laplace(1)(100_000, np.random.default_rng(2))
    found = renyi_interval(truncated_ratio(drawn), ORDER)
    assert plain_divergence() + 0.08 < found.low <= truncated_divergence()
    assert math.isinf(found.high)


def test_gaussian_noise_against_closed_form_and_dp_accounting() -> None:
    """The log-ratio has no bound, so there is no upper end (false-alarm rate 5e-4 for each order)."""
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    sigma, draws = 2.0, np.random.default_rng(3).normal(1.0, 2.0, 200_000)
    for order in (2.0, 4.0):
        exact = gaussian_log_moment(order, sigma) / (order - 1)
        accountant = rdp.RdpAccountant(orders=[order])
        accountant.compose(dp_accounting.GaussianDpEvent(sigma))
        assert accountant._rdp[0] == pytest.approx(exact)
        found = renyi_interval((draws**2 - (draws - 1) ** 2) / (2 * sigma**2), order)
        assert 0.9 * exact < found.low <= exact
        assert found.estimate == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("draws", [200, 2000])
def test_coverage(draws: int) -> None:
    """At 90 % confidence, 250 intervals miss binomial(250, 0.1) times at most, either end half of that.

    More misses than allowed here happen with probability below 1e-5.
    """
    rng, exact = np.random.default_rng(4), truncated_divergence()
    sample = truncated_laplace(1)
    found = [
        renyi_interval(truncated_ratio(sample(draws, rng)), ORDER, largest_loss=1 + SHIFT, confidence=0.9)
        for _ in range(250)
    ]
    assert sum(estimate.low > exact for estimate in found) <= binom.isf(5e-6, 250, 0.05)
    assert sum(estimate.high < exact for estimate in found) <= binom.isf(5e-6, 250, 0.05)
    # And the intervals are no wider than they need to be: they come to within a few times the spread of the estimates.
    spread = np.std([estimate.estimate for estimate in found])
    assert np.median([estimate.high - estimate.low for estimate in found]) < 9 * spread


@pytest.mark.parametrize("mean", [0.002, 0.3, 0.97])
def test_the_bound_on_a_mean_holds_where_the_normal_one_does_not(mean: float) -> None:
    """Rare and frequent ones among 300 draws, 2,000 times at error 0.05; more misses have probability below 1e-5."""
    rng = np.random.default_rng(5)
    misses = sum(mean_low((rng.random(300) < mean).astype(float), 0.05) > mean for _ in range(2000))
    assert misses <= binom.isf(1e-5, 2000, 0.05)


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_a_scaled_log_ratio_is_rejected(factor: float) -> None:
    """By the test of the log-ratio, and by an interval that misses the true divergence."""
    rng = np.random.default_rng(6)
    for first, second, ratio, exact, loss in (
        (truncated_laplace(1), truncated_laplace(0), truncated_ratio, truncated_divergence(), 1 + SHIFT),
        (plain_laplace(1), plain_laplace(0), plain_ratio, plain_divergence(), 1.0),
    ):
        with pytest.raises(AuditError, match="correct either"):
            renyi_between_samplers(first, second, scaled(ratio, factor), ORDER, rng=rng)
        ratios = factor * ratio(first(100_000, rng))
        assert not renyi_interval(ratios, ORDER, largest_loss=factor * loss).contains(exact)


def test_a_true_log_ratio_is_accepted() -> None:
    """False-alarm rate 1e-6 each."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        check_log_ratio(*(truncated_ratio(truncated_laplace(centre)(5000, rng)) for centre in (1, 0)))
    only_first = np.where(rng.random(5000) < 0.3, np.inf, math.log(0.7))
    check_log_ratio(only_first, np.full(5000, math.log(0.7)))


def test_mechanisms_are_measured_between_places() -> None:
    """Two closed forms, in the square (false-alarm rate 1e-3 each)."""
    rng, order = np.random.default_rng(8), 4.0
    laplace = AxisLaplace(epsilon=4.0)
    found = renyi_between_places(
        laplace, np.array([0.5, 0.2]), np.array([0.0, 0.2]), order, rng=rng, largest_loss=0.5 / laplace.scale
    )
    assert found.contains(laplace_log_moment(order, laplace.scale, 0.5) / (order - 1))
    assert found.high - found.low < 0.02
    square = Square(epsilon=4.0)
    half_extent = np.array(square.resolved_region.half_extent_square)
    found = renyi_between_places(square, -half_extent, half_extent, order, rng=rng, largest_loss=4.0)
    # The squares at opposite corners are disjoint, so the loss is 4, 0 or -4.
    far = square.side**2 / (4 * half_extent.prod() + math.expm1(4.0) * square.side**2)
    near = far * math.exp(4.0)
    moment = near * math.exp(12.0) + (1 - near - far) + far * math.exp(-12.0)
    assert found.contains(math.log(moment) / 3)
    assert found.high - found.low < 0.01


def test_an_output_of_one_input_only_is_an_infinite_divergence() -> None:
    found = renyi_interval(np.array([0.0, np.inf] * 50), 2.0)
    assert found.low == found.high == math.inf
    assert json.loads(json.dumps(found.to_dict()))["low"] is None


def test_equal_inputs_have_no_divergence() -> None:
    found = renyi_interval(np.zeros(1000), 3.0, largest_loss=0.0)
    assert (found.low, found.high) == (0.0, 0.0)
    assert isinstance(found, RenyiEstimate)


@pytest.mark.parametrize(
    ("ratios", "order", "options", "error", "message"),
    [
        (np.zeros(100), 1.0, {}, UsageError, "above 1"),
        (np.zeros(100), 2.0, {"confidence": 1.0}, UsageError, "between 0 and 1"),
        (np.zeros(3), 2.0, {}, UsageError, "at least 8"),
        (np.full(100, np.nan), 2.0, {}, AuditError, "not a number"),
        (np.full(100, -np.inf), 2.0, {}, AuditError, "cannot be drawn"),
        (np.full(100, 1.5), 2.0, {"largest_loss": 1.0}, AuditError, "does not hold"),
    ],
)
def test_wrong_input_is_refused(
    ratios: FloatArray, order: float, options: dict[str, float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        renyi_interval(ratios, order, **options)


def test_a_density_that_allows_no_output_is_refused() -> None:
    with pytest.raises(AuditError, match="neither density"):
        check_log_ratio(np.array([np.nan]), np.array([0.0]))
