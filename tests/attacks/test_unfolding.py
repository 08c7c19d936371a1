"""Unfolding finds users, and their neighbors, without a single account of its own."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.attacks.conftest import Instances
from tests.evidence import for_evidence

from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import CountedOracle, Point
from nearveil.attacks.simulator import SimulatedService
from nearveil.attacks.unfolding import Unfolding
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

TAU_M = 100.0
HALF_EXTENT_M = (10_000.0, 10_000.0)


def attack(most_queries: int = 20) -> Unfolding:
    return Unfolding(half_extent_m=HALF_EXTENT_M, tau_m=TAU_M, most_queries=most_queries)


def error_m(estimate: Point | None, place: FloatArray) -> float:
    return math.dist(estimate, place) if estimate else math.inf


def oracle_of(ask: Callable[[Point], Sequence[Person]], k: int) -> CountedOracle:
    return CountedOracle(ask, lambda _who, _where: None, k=k, accounts=())


@pytest.mark.parametrize(("k", "count"), [(10, 5), *for_evidence((10, 20), (50, 5))])
def test_finds_the_target_and_neighbors_without_accounts(
    k: int, count: int, service: SimulatedService, city_m: FloatArray, instances: Instances, san_francisco: Region
) -> None:
    unfolding = Unfolding.for_region(san_francisco, tau_m=TAU_M, accounts=0)
    errors_m, radii_m, queries, others_found = [], [], [], []
    for start, target in instances(k, count):
        result = unfolding.infer(service.oracle(k=k, accounts=0), target, start)
        assert result.outcome is Outcome.FOUND
        assert result.queries == len(result.trace.steps)
        assert not result.certified
        assert target not in result.others
        queries.append(result.queries)
        errors_m.append(error_m(result.estimate, city_m[target]))
        radii_m.append(result.radius_m)
        others_found += [error_m(spot, city_m[int(str(person))]) < TAU_M for person, spot in result.others.items()]
    assert np.mean(np.array(errors_m) < TAU_M) >= 0.95
    assert np.mean(np.array(errors_m) < np.array(radii_m)) >= 0.8
    assert np.mean(queries) < 18
    assert len(others_found) > k * count / 3
    assert np.mean(others_found) >= 0.9


def test_looks_for_the_reach_of_a_list_in_small_steps(san_francisco: Region) -> None:
    """Where users live far apart, no query is asked so far away that it brings only strangers."""
    places = np.random.default_rng(1).uniform(-10_000, 10_000, (2000, 2))
    oracle = SimulatedService(san_francisco, places, rng=1).oracle(k=20, accounts=0)
    start = (0.0, 0.0)
    listed = oracle.nearby(start)
    reach_m = float(np.hypot(*places[int(str(listed[-1]))]))
    result = attack(most_queries=12).infer(oracle, listed[-1], start)
    assert max(math.dist(step.place, start) for step in result.trace.steps) < 1.5 * reach_m


def test_same_answers_same_result(service: SimulatedService, instances: Instances) -> None:
    start, target = next(instances(10, 1))
    first, second = (attack(12).infer(service.oracle(k=10, accounts=0), target, start) for _ in range(2))
    assert (first.estimate, first.radius_m, first.others) == (second.estimate, second.radius_m, second.others)


def test_a_target_that_is_not_listed_is_an_honest_not_found(service: SimulatedService) -> None:
    for oracle in (service.oracle(k=5, accounts=0), oracle_of(lambda _place: [], 5)):
        result = attack().infer(oracle, "nobody", (0.0, 0.0))
        assert (result.outcome, result.estimate, result.queries) == (Outcome.NOT_LISTED, None, 1)


@pytest.mark.parametrize("most_queries", [1, 2, 5])
def test_never_asks_more_than_it_may(most_queries: int, service: SimulatedService, instances: Instances) -> None:
    start, target = next(instances(10, 1))
    result = attack(most_queries=most_queries).infer(service.oracle(k=10, accounts=0), target, start)
    assert result.queries == len(result.trace.steps) == most_queries
    assert result.outcome is not Outcome.FOUND
    assert result.estimate is not None
    # The oracle may allow less.
    oracle = service.oracle(k=10, accounts=0, most_queries=most_queries)
    result = attack().infer(oracle, target, start)
    assert (result.outcome, result.queries) == (Outcome.OUT_OF_QUERIES, most_queries)


@pytest.mark.parametrize(("population", "k"), [(1, 1), (2, 1), (3, 2), (8, 8)])
def test_few_users_are_not_found(population: int, k: int, san_francisco: Region) -> None:
    """Too few to tell within 100 m where they are, so nothing is certain but the end."""
    places = np.random.default_rng(1).normal(0, 1000, (population, 2))
    service = SimulatedService(san_francisco, places, rng=1)
    result = attack(12).infer(service.oracle(k=k, accounts=0), 0, (float(places[0, 0]), float(places[0, 1])))
    assert result.outcome is Outcome.OUT_OF_QUERIES
    assert all(np.isfinite(result.estimate or ()))


def test_users_who_share_points_are_no_contradiction(san_francisco: Region) -> None:
    places = np.repeat(np.random.default_rng(1).uniform(-3000, 3000, (400, 2)), 2, axis=0)
    service = SimulatedService(san_francisco, places, rng=1)
    start = float(places[0, 0]) + 100.0, float(places[0, 1])
    result = attack(most_queries=30).infer(service.oracle(k=10, accounts=0), 0, start)
    assert error_m(result.estimate, places[0]) < TAU_M
    assert result.outcome is not Outcome.CONTRADICTION


def towers(each: int) -> FloatArray:
    return np.repeat(np.random.default_rng(4).uniform(-3000, 3000, (40, 2)), each, axis=0)


@pytest.mark.parametrize("places_m", [towers(each=4), np.zeros((20, 2))], ids=["towers", "one point"])
def test_lists_of_one_point_only_are_an_honest_not_found(places_m: FloatArray, san_francisco: Region) -> None:
    """No list shows two points: nothing but which of them is the nearest is told."""
    oracle = SimulatedService(san_francisco, places_m, rng=1).oracle(k=3, accounts=0)
    start = float(places_m[0, 0]), float(places_m[0, 1])
    result = attack().infer(oracle, oracle.nearby(start)[0], start)
    assert (result.outcome, result.radius_m, result.others) == (Outcome.OUT_OF_QUERIES, None, {})


def shuffled(seed: int) -> Callable[[Point], Sequence[Person]]:
    rng = np.random.default_rng(seed)
    return lambda _place: rng.permutation(20).tolist()


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [(shuffled(3), Outcome.CONTRADICTION), (lambda _place: [*range(20)], Outcome.OUT_OF_QUERIES)],
    ids=["shuffled", "constant"],
)
def test_nonsense_is_not_found(ask: Callable[[Point], Sequence[Person]], outcome: Outcome) -> None:
    result = attack().infer(oracle_of(ask, 20), 0, (100.0, 50.0))
    assert result.outcome is outcome
    assert result.queries == 20
    assert not result.others
