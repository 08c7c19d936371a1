"""Attacks on services that snap, cut, disturb or thin out their lists: found all the same, and no false certificate."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.evidence import for_evidence

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.oracle import CountedOracle, Point
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_experiment import draw_instances
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

TAU_M = 100.0


def results_of(
    region: Region, places_m: FloatArray, policy: str, *, accounts: int, count: int, most_queries: int = 60
) -> list[tuple[AttackResult, float]]:
    """Results, each with its error from where the service has the target."""
    rules = AnswerPolicy.parse(policy)
    served_m = rules.snapped(places_m, region.half_extent_m)
    service = SimulatedService(region, served_m, rng=1, policy=rules)
    attack = Adaptive(half_extent_m=region.half_extent_m, accounts=accounts, most_queries=most_queries)
    found = []
    for number, instance in enumerate(
        draw_instances(service, served_m, k=30, count=count, rng=np.random.default_rng(2))
    ):
        oracle = service.oracle(k=30, accounts=accounts, rng=number)
        result = attack.infer(oracle, instance.target, instance.start)
        error_m = math.dist(result.estimate, served_m[instance.target]) if result.estimate else math.inf
        found.append((result, error_m))
    return found


@pytest.mark.parametrize(
    ("policy", "accounts", "count"),
    [
        ("snap:100m", 4, 2),
        *for_evidence(("snap:100m", 4, 6), ("drop:0.1", 1, 6), ("order-noise:0.1", 4, 6), ("cutoff:1km", 1, 6)),
    ],
)
def test_policies_do_not_hide_people(
    policy: str, accounts: int, count: int, san_francisco: Region, city_m: FloatArray
) -> None:
    """Seeds are fixed, so that there is no false alarm; of 6, 4 or more were within tau in all trials."""
    found = results_of(san_francisco, city_m, policy, accounts=accounts, count=count)
    assert sum(error_m <= TAU_M for _, error_m in found) >= 2 / 3 * count
    for result, error_m in found:
        assert result.queries <= 60
        if result.certified:
            assert error_m <= TAU_M
        if result.outcome is Outcome.FOUND:
            assert result.radius_m is not None
            assert result.radius_m <= TAU_M


def test_the_radius_is_stated_without_a_certificate(san_francisco: Region, city_m: FloatArray) -> None:
    found = [one for one, _ in results_of(san_francisco, city_m, "snap:100m,drop:0.1", accounts=4, count=1)]
    assert not any(one.certified for one in found)
    assert any(one.radius_m is not None for one in found)


def test_no_radius_is_stated_where_questions_run_out_before_bands_are_ruled_out(
    san_francisco: Region, city_m: FloatArray
) -> None:
    """Without bands the order would tell distances, and in these lists it does not."""
    found = results_of(san_francisco, city_m, "cutoff:500m,bands:501m", accounts=1, count=2, most_queries=40)
    for result, _ in found:
        assert result.outcome is Outcome.CONTRADICTION
        assert result.estimate is not None
        assert result.radius_m is None


@pytest.mark.parametrize("accounts", [4, *for_evidence(1)])
@pytest.mark.parametrize("policy", ["delay:1", *for_evidence("delay:2")])
def test_where_moves_show_late_nothing_is_certified(
    policy: str, accounts: int, san_francisco: Region, city_m: FloatArray
) -> None:
    """An account that was put at the estimate must be listed first at once; late, it is where it was before."""
    for result, error_m in results_of(san_francisco, city_m, policy, accounts=accounts, count=3):
        assert not result.certified
        assert result.queries <= 60
        if result.outcome is Outcome.FOUND:
            assert error_m <= TAU_M


def test_a_service_that_changes_its_rule_is_not_certified(san_francisco: Region, city_m: FloatArray) -> None:
    plain = SimulatedService(san_francisco, city_m, rng=1).oracle(k=30, accounts=1)
    start = (float(city_m[0, 0]), float(city_m[0, 1]))
    target = plain.nearby(start)[-1]
    asked = 0

    def ask(place: Point) -> Sequence[Person]:
        nonlocal asked
        asked += 1
        answer = list(plain.nearby(place))
        return answer if asked < 5 else answer[::-1]

    oracle = CountedOracle(ask, plain.put, k=30, accounts=plain.accounts)
    result = Adaptive(half_extent_m=san_francisco.half_extent_m).infer(oracle, target, start)
    assert not result.certified
    assert result.queries <= 60


@pytest.mark.parametrize("count", [1, *for_evidence(4)])
def test_radii_hold_on_a_grid_wider_than_tau(count: int, san_francisco: Region, city_m: FloatArray) -> None:
    """A radius of tau would be wrong for many; seeds are fixed, so that there is no false alarm."""
    found = results_of(san_francisco, city_m, "snap:250m", accounts=4, count=count)
    assert all(result.radius_m is not None and error_m <= result.radius_m for result, error_m in found)
    assert not any(result.outcome is Outcome.FOUND and error_m > TAU_M for result, error_m in found)


@pytest.mark.parametrize("count", [2, *for_evidence(5)])
def test_one_account_confirms_from_three_sides_before_it_says_found(
    count: int, san_francisco: Region, city_m: FloatArray
) -> None:
    """Which users are found differs between processors, whose last digits differ; none may be found wrongly."""
    results = results_of(san_francisco, city_m, "bands:500m,cutoff:2km", accounts=1, count=count)
    assert all(error_m <= TAU_M for result, error_m in results if result.outcome is Outcome.FOUND)
    assert all(error_m <= result.radius_m for result, error_m in results if result.radius_m is not None)
