"""Dist, Acc, queries and the bound on them, by hand; and the intervals of means and shares."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.evaluation.attack_experiment import (
    Attempt,
    Instance,
    bits_to_find,
    compare,
    least_questions,
    score_attempts,
)
from nearveil.evaluation.stats import mean_over_runs, share_over_runs

TRUE_M = np.array([[0.0, 0.0], [1000.0, 0.0], [0.0, 500.0], [9.0, 9.0]])
SERVED_M = np.array([[300.0, 400.0], [1000.0, 0.0], [0.0, 900.0], [9.0, 9.0]])


def attempt(estimate: tuple[float, float] | None, **options: Any) -> Attempt:
    """An attack on the first user, from 100 m north of it."""
    result = AttackResult(
        attack="gi-lia", outcome=Outcome.FOUND, estimate=estimate, seconds=0.5, **{"queries": 7} | options,
        others={1: (1000.0, 50.0), 2: (0.0, 900.0)}, listed={1: 3, 2: 2, "stranger": 1, 3: 4},
    )  # fmt: skip
    service: Any = SimpleNamespace(served_m=SERVED_M, region=SimpleNamespace(half_extent_m=(5000.0, 5000.0)))
    return compare(result, Instance((0.0, 100.0), 0), service, true_m=TRUE_M, tau_m=100.0)


def test_errors_are_to_the_user_and_to_where_the_service_has_it() -> None:
    found = attempt((300.0, 400.0))
    assert (found.error_m, found.served_error_m) == (500.0, 0.0)
    assert found.start_distance_m == pytest.approx(math.hypot(300, 300))
    # User 2 was located where the service has it, which is not where it is.
    assert (found.others_listed, found.others_claimed, found.others_located) == (4, 2, 1)


def test_who_believes_nothing_is_at_the_start_and_nobody_is_outside_the_region() -> None:
    assert attempt(None).error_m == 100.0
    assert attempt((90_000.0, 0.0)).error_m == 5000.0


def test_a_score_counts_false_certificates_of_the_served_location_and_radii_that_hold() -> None:
    runs = [
        [attempt((300.0, 400.0), certified=True), attempt((0.0, 0.0), certified=True, queries=9, radius_m=600.0)],
        [attempt((0.0, 50.0), radius_m=10.0), attempt(None)],
    ]
    score = score_attempts(runs, tau_m=100.0, k=10, farthest_m=30_000.0)
    assert (score.runs, score.instances) == (2, 2)
    assert score.dist_m.value == pytest.approx((500 + 0 + 50 + 100) / 4)
    assert score.queries.value == 7.5
    assert score.queries_p95 == pytest.approx(np.percentile([7, 9, 7, 7], 95))
    assert score.acc == share_over_runs([1, 2], 2)
    assert score.acc_served == share_over_runs([1, 0], 2)
    assert score.certified == share_over_runs([2, 0], 2)
    assert score.false_certificates == 1
    assert score.others_located == 0.25
    assert (score.radius_m, score.radius_held) == (305.0, 0.5)
    nobody = score_attempts([[attempt(None)]], tau_m=100.0, k=0, farthest_m=30_000.0)
    assert (nobody.radius_m, nobody.radius_held, nobody.at_least) == (None, None, None)


def test_the_bound_as_the_formula_says() -> None:
    bits = math.log2((2 * 25 + 0.5) * math.log(30_000 / 50))
    assert bits_to_find(500.0, 100.0, 30_000.0) == pytest.approx(bits)
    # A list of one tells a bit: the target, or somebody else. A tau as wide as everything needs no query.
    assert least_questions(bits, 1) == pytest.approx(bits)
    assert least_questions(bits, 7) == pytest.approx(bits / 3)
    assert bits_to_find(0.0, 100.0, 100.0) == 0.0


def test_means_over_runs_and_the_intervals_of_student() -> None:
    mean = mean_over_runs([1.0, 2.0, 3.0])
    assert mean.value == 2.0
    assert mean.half_width == pytest.approx(stats.t.ppf(0.975, 2) / math.sqrt(3))
    assert mean_over_runs([4.0]).half_width is None


def test_shares_have_binomial_intervals() -> None:
    """Of 19 in 20, found in runs of 9 and 10, Student's t would say 0.950 ± 0.635."""
    assert str(share_over_runs([9, 10], 10)) == "0.95 (0.744–0.999)"
    # Runs that differ as they would by chance are cases among cases; in one run there is nothing else.
    exact = stats.binomtest(40, 250).proportion_ci(0.95)
    pooled = share_over_runs([8, 8, 7, 9, 8], 50)
    assert (pooled.value, pooled.low, pooled.high) == (0.16, pytest.approx(exact.low), pytest.approx(exact.high))
    assert share_over_runs([40], 250).low == pytest.approx(exact.low)


def test_shares_of_runs_that_differ_are_less_certain() -> None:
    """0, 8, 8, 8 and 16 of 50: the variance between runs is about 4.8 times that of independent cases."""
    alike, apart = (share_over_runs(hits, 50) for hits in ([8, 8, 8, 8, 8], [0, 8, 8, 8, 16]))
    effect = np.var([0, 8, 8, 8, 16], ddof=1) / 50 / (0.16 * 0.84)
    fewer = 250 / effect
    assert apart.high == pytest.approx(stats.beta.ppf(0.975, 0.16 * fewer + 1, 0.84 * fewer))
    assert apart.low < alike.low < 0.16 < alike.high < apart.high


@pytest.mark.parametrize(("hits", "low", "high"), [(0, 0.0, 1 - 0.025**0.01), (20, 0.025**0.01, 1.0)])
def test_none_and_all_of_100_are_not_certain(hits: int, low: float, high: float) -> None:
    share = share_over_runs([hits] * 5, 20)
    assert (share.low, share.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.2, 0.95])
def test_how_often_the_interval_holds_the_true_share(share: float) -> None:
    """Independent cases, 5 runs of 50, 1,000 times: at least 0.95, and 0.97 or so on average.

    At the bound itself fewer than 930 would be three standard errors off, 1 in 700 a share; the seed is fixed.
    """
    hits = np.random.default_rng(1).binomial(50, share, (1000, 5))
    found = [share_over_runs(row.tolist(), 50) for row in hits]
    assert np.mean([one.low <= share <= one.high for one in found]) > 0.93
