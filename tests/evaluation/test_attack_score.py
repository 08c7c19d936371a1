"""Dist, Acc, queries and the bound on them, by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.evaluation.attack_experiment import Attempt, Instance, compare, least_queries, score_attempts
from nearveil.evaluation.stats import share_over_runs


def attempt(estimate: tuple[float, float] | None, k: int = 10, **options: Any) -> Attempt:
    """An attack on a user at the origin, whom the service has at (300, 400), from 100 m north of it."""
    result = AttackResult(
        attack="gi-lia", outcome=Outcome.FOUND, estimate=estimate, seconds=0.5, **{"queries": 7} | options
    )
    region = SimpleNamespace(half_extent_m=(5000.0, 5000.0), radius_m=30_000.0)
    service: Any = SimpleNamespace(served_m=np.array([[300.0, 400.0]]), region=region)
    return compare(result, Instance((0.0, 100.0), 0), service, k=k, true_m=np.zeros((1, 2)), tau_m=100.0)


def test_errors_are_to_the_user_and_to_where_the_service_has_it() -> None:
    found = attempt((300.0, 400.0))
    assert (found.error_m, found.served_error_m) == (500.0, 0.0)


def test_who_believes_nothing_is_at_the_start_and_nobody_is_outside_the_region() -> None:
    assert attempt(None).error_m == 100.0
    assert attempt((90_000.0, 0.0)).error_m == 5000.0


def test_a_score_counts_false_certificates_of_the_served_location_and_radii_that_hold() -> None:
    runs = [
        [attempt((300.0, 400.0), certified=True), attempt((0.0, 0.0), certified=True, queries=9, radius_m=600.0)],
        [attempt((0.0, 50.0), radius_m=10.0), attempt(None)],
    ]
    score = score_attempts(runs, tau_m=100.0)
    assert (score.runs, score.instances) == (2, 2)
    assert score.dist_m.value == pytest.approx((500 + 0 + 50 + 100) / 4)
    assert score.queries.value == 7.5
    assert score.queries_p95 == pytest.approx(np.percentile([7, 9, 7, 7], 95))
    assert score.acc == share_over_runs([1, 2], 2)
    assert score.acc_served == share_over_runs([1, 0], 2)
    assert score.certified == share_over_runs([2, 0], 2)
    assert score.false_certificates == 1
    assert (score.radius_m, score.radius_held) == (305.0, 0.5)
    nobody = score_attempts([[attempt(None, k=0)]], tau_m=100.0)
    assert (nobody.radius_m, nobody.radius_held, nobody.at_least) == (None, None, None)


def test_the_bound_as_the_formula_says() -> None:
    bits = math.log2((2 * 25 + 0.5) * math.log(30_000 / 50))
    # A list of one tells a bit: the target, or somebody else. A tau as wide as everything needs no query.
    for k, each in ((1, 1), (7, 3)):
        assert least_queries(500.0, k, tau_m=100.0, farthest_m=30_000.0) == pytest.approx(bits / each)
    assert least_queries(0.0, 1, tau_m=100.0, farthest_m=100.0) == 0.0
    from_there = least_queries(math.hypot(300, 300), 10, tau_m=100.0, farthest_m=30_000.0)
    assert score_attempts([[attempt(None)]], tau_m=100.0).at_least == pytest.approx(from_there)
