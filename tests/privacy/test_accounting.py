"""Accounting against dp_accounting, quadrature and the paper's own numbers."""

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from nearveil.errors import UsageError
from nearveil.privacy.accounting import (
    LaplaceAnswers,
    Noise,
    fit_epsilon,
    fit_log_moment,
    fit_scale_for,
    gaussian_log_moment,
    laplace_log_moment,
    paper_epsilon,
    paper_scales,
    release_log_moment,
)  # fmt: skip

QUERIES = 36  # N_c = 12
ORDERS = [1.5, 2.0, 4.0, 8.0, 16.0, 25.0, 44.0, 64.0, 128.0]


def test_divergences_equal_dp_accounting() -> None:
    for scale in (0.3, 0.98, 4.94, 35.0, 500.0):
        for event, ours, precision in (
            (dp_event.LaplaceDpEvent(scale), laplace_log_moment, 1e-6),
            (dp_event.GaussianDpEvent(scale), gaussian_log_moment, 1e-9),
        ):
            accountant = RdpAccountant(orders=ORDERS).compose(event)
            for order, theirs in zip(ORDERS, accountant._rdp, strict=True):
                assert ours(order, scale) / (order - 1) == pytest.approx(theirs, rel=precision)


@given(order=st.floats(1.1, 60), scale=st.floats(0.2, 200))
def test_laplace_moment_is_the_integral_it_stands_for(order: float, scale: float) -> None:
    """A naive oracle: the moment by quadrature of p^a q^(1-a)."""

    def integrand(t: float) -> float:
        return math.exp((-order * abs(t - 1) - (1 - order) * abs(t)) / scale) / (2 * scale)

    pieces = [quad(integrand, low, high, limit=200)[0] for low, high in ((-60 * scale, 0), (0, 1), (1, 1 + 60 * scale))]
    assert laplace_log_moment(order, scale) == pytest.approx(math.log(sum(pieces)), rel=1e-5, abs=1e-9)


def test_tiny_losses_keep_their_digits() -> None:
    """Far out, the moment is a (a-1) / (2 λ²); naive arithmetic gives 0 or less there."""
    assert laplace_log_moment(2.0, 1e9) == pytest.approx(1e-18, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "release_scale", "fit_scale", "order"),
    [(0.5, 9.81, 65.6, 44), (1, 4.94, 34.5, 25), (3, 1.64, 12.6, 11), (5, 0.98, 7.96, 7.5)],
)
def test_scales_at_the_papers_settings(epsilon: float, release_scale: float, fit_scale: float, order: float) -> None:
    scales = paper_scales(epsilon, delta=1e-5, queries=QUERIES)
    assert scales.release_scale == pytest.approx(release_scale, abs=0.006)
    assert scales.fit_scale == pytest.approx(fit_scale, abs=0.06)
    assert scales.order == pytest.approx(order, abs=0.5)


@given(
    epsilon=st.floats(0.001, 50),
    delta=st.floats(1e-12, 0.1),
    queries=st.sampled_from([1, 3, 36, 300]),
    noise=st.sampled_from(["laplace", "gaussian"]),
)
def test_there_and_back_with_equal_shares(epsilon: float, delta: float, queries: int, noise: Noise) -> None:
    scales = paper_scales(epsilon, delta=delta, queries=queries, noise=noise)
    answers = [LaplaceAnswers(queries, scales.fit_scale)]
    total = paper_epsilon(answers, release_scale=scales.release_scale, delta=delta, noise=noise)
    assert total == pytest.approx(epsilon, rel=1e-5)
    shares = fit_log_moment(scales.order, answers), release_log_moment(scales.order, scales.release_scale, noise)
    assert shares[0] == pytest.approx(shares[1], rel=1e-6)


def test_fit_cost_equals_dp_accounting() -> None:
    """36 Laplace answers of one scale, composed by dp_accounting's own Rényi accountant."""
    accountant = RdpAccountant().compose(dp_event.LaplaceDpEvent(34.5), QUERIES)
    theirs = accountant.get_epsilon(1e-5)
    ours = fit_epsilon((LaplaceAnswers(QUERIES, 34.5),), delta=1e-5)
    # Ours may pick any order, theirs one of a list.
    assert theirs * 0.995 <= ours <= theirs


@given(epsilon=st.floats(0.01, 40), queries=st.sampled_from([1, 36, 300]))
def test_fit_scale_and_fit_cost_are_inverse(epsilon: float, queries: int) -> None:
    scale = fit_scale_for(epsilon, queries=queries, delta=1e-5)
    assert fit_epsilon((LaplaceAnswers(queries, scale),), delta=1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_what_cannot_be_asked_for_is_refused() -> None:
    for epsilon in (0, -1, math.nan, 1e9, math.inf, "much"):
        with pytest.raises(UsageError, match="epsilon"):
            paper_scales(epsilon, delta=1e-5, queries=QUERIES)  # type: ignore[arg-type]
    for delta in (0, 1, 0.999999, -0.1, math.nan):
        with pytest.raises(UsageError, match="delta"):
            paper_scales(1.0, delta=delta, queries=QUERIES)
    for count, scale in ((0, 1.0), (1, 0.0), (1, math.inf)):
        with pytest.raises(UsageError):
            LaplaceAnswers(count, scale)
