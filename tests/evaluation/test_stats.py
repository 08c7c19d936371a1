"""Intervals of means over runs, and of shares of cases."""

import math

import numpy as np
import pytest
from scipy import stats

from nearveil.evaluation.stats import mean_over_runs, share_over_runs


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
    # None and all of 100 are not certain.
    none, everybody = (share_over_runs([hits] * 5, 20) for hits in (0, 20))
    assert (none.low, none.high) == (0.0, pytest.approx(1 - 0.025**0.01))
    assert (everybody.low, everybody.high) == (pytest.approx(0.025**0.01), 1.0)


def test_shares_of_runs_that_differ_are_less_certain() -> None:
    """0, 8, 8, 8 and 16 of 50: the variance between runs is about 4.8 times that of independent cases."""
    alike, apart = (share_over_runs(hits, 50) for hits in ([8, 8, 8, 8, 8], [0, 8, 8, 8, 16]))
    effect = np.var([0, 8, 8, 8, 16], ddof=1) / 50 / (0.16 * 0.84)
    fewer = 250 / effect
    assert apart.high == pytest.approx(stats.beta.ppf(0.975, 0.16 * fewer + 1, 0.84 * fewer))
    assert apart.low < alike.low < 0.16 < alike.high < apart.high


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.2, 0.95])
def test_how_often_the_interval_holds_the_true_share(share: float) -> None:
    """Independent cases, 5 runs of 50, 1,000 times: at least 0.95, and 0.97 or so on average.

    At the bound itself fewer than 930 would be three standard errors off, 1 in 700 a share; the seed is fixed.
    """
    hits = np.random.default_rng(1).binomial(50, share, (1000, 5))
    found = [share_over_runs(row.tolist(), 50) for row in hits]
    assert np.mean([one.low <= share <= one.high for one in found]) > 0.93
