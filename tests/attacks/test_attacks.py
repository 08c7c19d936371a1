"""Attacks find people from ranked lists alone, stop by themselves, and certify only what is so."""

import math

import numpy as np
import pytest
from tests.attacks.conftest import Instances

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack, AttackResult, Outcome
from nearveil.attacks.gi_lia import GILIA, intersect
from nearveil.attacks.oracle import CountedDistance, OracleError
from nearveil.attacks.simulator import SimulatedService
from nearveil.attacks.zo_lia import ZOLIA, project_on_circle
from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

TAU_M = 100.0


def adaptive(region: Region, accounts: int = 1) -> Adaptive:
    return Adaptive(half_extent_m=region.half_extent_m, accounts=accounts, tau_m=TAU_M)


def error_m(result: AttackResult, place: FloatArray) -> float:
    return math.dist(result.estimate, place) if result.estimate else math.inf


@pytest.mark.parametrize(
    ("attack", "least_accuracy", "most_queries"),
    [(GILIA(), 0.9, 50), (ZOLIA(), 0.55, 62)],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("k", [10, 50])
def test_finds_people(
    attack: Attack, least_accuracy: float, most_queries: int, k: int,
    service: SimulatedService, city_m: FloatArray, instances: Instances,
) -> None:  # fmt: skip
    """Seeds are fixed. The city here is sparser than the paper's, which is hard on ZO-LIA."""
    results = [
        (attack.infer(service.oracle(k=k, accounts=2), target, start), target) for start, target in instances(k, 40)
    ]
    assert np.mean([error_m(result, city_m[target]) < TAU_M for result, target in results]) >= least_accuracy
    assert np.mean([result.queries for result, _ in results]) <= most_queries
    assert all(result.queries == len(result.trace.steps) for result, _ in results)


@pytest.mark.parametrize("attack", [GILIA(), ZOLIA()], ids=lambda attack: attack.name)
def test_a_target_that_is_not_listed_is_an_honest_not_found(attack: Attack, service: SimulatedService) -> None:
    result = attack.infer(service.oracle(k=5, accounts=2), "nobody", (0.0, 0.0))
    assert (result.outcome, result.estimate, result.queries) == (Outcome.NOT_LISTED, None, 1)


def test_a_limit_on_questions_ends_every_attack(
    service: SimulatedService, instances: Instances, san_francisco: Region
) -> None:
    start, target = next(instances(10, 1))
    for attack in (GILIA(), ZOLIA(), adaptive(san_francisco)):
        result = attack.infer(service.oracle(k=10, accounts=2, most_queries=3), target, start)
        assert (result.outcome, result.queries, result.certified) == (Outcome.OUT_OF_QUERIES, 3, False)


def test_everybody_at_one_place(san_francisco: Region) -> None:
    service = SimulatedService(san_francisco, np.zeros((20, 2)), rng=1)
    for attack in (GILIA(), ZOLIA(), adaptive(san_francisco)):
        oracle = service.oracle(k=20, accounts=2, most_queries=200)
        result = attack.infer(oracle, 3, (500.0, 0.0))
        assert result.queries <= 200
        if result.certified:
            assert error_m(result, np.zeros(2)) <= TAU_M


def test_too_few_accounts(service: SimulatedService) -> None:
    with pytest.raises(UsageError, match="needs at least 1"):
        GILIA().infer(service.oracle(k=5, accounts=0), 0, (0.0, 0.0))


def test_a_service_that_fails_says_so(service: SimulatedService) -> None:
    class Broken:
        k, accounts, queries = 5, ("c",), 0

        def nearby(self, _place: object) -> list[int]:
            raise OracleError("the service did not answer")

        def put(self, _who: object, _where: object) -> None:
            return

    with pytest.raises(OracleError, match="did not answer"):
        GILIA().infer(Broken(), 1, (0.0, 0.0))
    del service


def test_accounts_are_withdrawn_afterwards(service: SimulatedService, instances: Instances) -> None:
    start, target = next(instances(10, 1))
    oracle = service.oracle(k=10, accounts=1)
    GILIA().infer(oracle, target, start)
    assert oracle.accounts[0] not in oracle.nearby(start)


def test_geometry() -> None:
    first, second = intersect((0.0, 0.0), 5.0, (6.0, 0.0), 5.0)
    assert {tuple(np.round(first, 9)), tuple(np.round(second, 9))} == {(3.0, 4.0), (3.0, -4.0)}
    assert intersect((0.0, 0.0), 1.0, (4.0, 0.0), 1.0)[0] == pytest.approx((2.0, 0.0))
    assert project_on_circle((2.0, 0.0), (0.0, 0.0), 5.0) == (5.0, 0.0)
    assert project_on_circle((0.0, 0.0), (0.0, 0.0), 5.0) == (5.0, 0.0)


def test_attacks_that_need_lists_say_so() -> None:
    with pytest.raises(UsageError, match="adaptive"):
        GILIA().locate(CountedDistance(lambda point: 1.0))
    assert Adaptive.takes_other_answers()
    assert not GILIA.takes_other_answers()


def test_the_same_service_is_attacked_alike_twice(
    service: SimulatedService, instances: Instances, san_francisco: Region
) -> None:
    start, target = next(instances(10, 1))
    for attack in (GILIA(), ZOLIA(), adaptive(san_francisco, 4)):
        results = [attack.infer(service.oracle(k=10, accounts=4), target, start) for _ in range(2)]
        one, other = ([(step.place, step.accounts, step.rank) for step in result.trace.steps] for result in results)
        assert one == other
        assert results[0].estimate == results[1].estimate
