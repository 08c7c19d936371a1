import math

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.privacy.accounting import (
    LaplaceAnswers,
    Noise,
    fit_epsilon,
    fit_log_moment,
    fit_scale_for,
    paper_epsilon,
    paper_scales,
    pure_scales,
    release_log_moment,
)

QUERIES = 36  # N_c = 12


@pytest.mark.parametrize(
    ("epsilon", "release_scale", "fit_scale", "order"),
    [(0.5, 9.81, 65.6, 44), (1, 4.94, 34.5, 25), (3, 1.64, 12.6, 11), (5, 0.98, 7.96, 7.5)],
)
def test_scales_at_the_papers_settings(epsilon: float, release_scale: float, fit_scale: float, order: float) -> None:
    scales = paper_scales(epsilon, delta=1e-5, queries=QUERIES)
    assert scales.release_scale == pytest.approx(release_scale, abs=0.006)
    assert scales.fit_scale == pytest.approx(fit_scale, abs=0.06)
    assert scales.order == pytest.approx(order, abs=0.5)


def test_pure_reading() -> None:
    scales = pure_scales(2.0, queries=QUERIES)
    assert (scales.release_scale, scales.fit_scale) == (4 / 2.0, 72 / 2.0)


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
    ours = fit_epsilon([LaplaceAnswers(QUERIES, 34.5)], delta=1e-5)
    # Ours may pick any order, theirs one of a list.
    assert theirs * 0.995 <= ours <= theirs


@given(epsilon=st.floats(0.01, 40), queries=st.sampled_from([1, 36, 300]))
def test_fit_scale_and_fit_cost_are_inverse(epsilon: float, queries: int) -> None:
    scale = fit_scale_for(epsilon, queries=queries, delta=1e-5)
    assert fit_epsilon([LaplaceAnswers(queries, scale)], delta=1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_one_answer_is_never_charged_more_than_plain_composition() -> None:
    assert fit_epsilon([LaplaceAnswers(1, 2.0)], delta=1e-5) <= 0.5


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, 1e9, math.inf, "much"])
def test_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(UsageError, match="epsilon"):
        paper_scales(epsilon, delta=1e-5, queries=QUERIES)


@pytest.mark.parametrize("delta", [0, 1, 0.999999, -0.1, math.nan])
def test_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(UsageError, match="delta"):
        paper_scales(1.0, delta=delta, queries=QUERIES)


def test_impossible_answers_are_refused() -> None:
    for count, scale in ((0, 1.0), (1, 0.0), (1, math.inf)):
        with pytest.raises(UsageError):
            LaplaceAnswers(count, scale)
