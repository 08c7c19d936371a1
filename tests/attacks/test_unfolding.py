"""Unfolding finds people, and their neighbors, without a single account of its own."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.attacks.conftest import Instances
from tests.evidence import for_evidence

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.oracle import CountedOracle, Point
from nearveil.attacks.simulator import SimulatedService
from nearveil.attacks.unfolding import Unfolding
from nearveil.io.synthetic import synthetic_city
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


def same(a: AttackResult, b: AttackResult) -> bool:
    return (a.outcome, a.estimate, a.queries, a.others) == (b.outcome, b.estimate, b.queries, b.others)


@pytest.mark.parametrize(("k", "count"), [(10, 10), *for_evidence((50, 2))])
def test_finds_the_target_and_its_neighbors_without_accounts(
    k: int, count: int, service: SimulatedService, city_m: FloatArray, instances: Instances, san_francisco: Region
) -> None:
    unfolding = Unfolding(half_extent_m=san_francisco.half_extent_m)
    found, others_found = [], []
    for start, target in instances(k, count):
        result = unfolding.infer(service.oracle(k=k, accounts=0), target, start)
        assert result.queries == len(result.trace.steps) <= unfolding.most_queries
        assert not result.certified
        assert target not in result.others
        found.append(error_m(result.estimate, city_m[target]) < TAU_M)
        others_found += [error_m(spot, city_m[int(str(person))]) < TAU_M for person, spot in result.others.items()]
    assert np.mean(found) >= 0.9
    # Nine claims in ten are right here, where people are far apart; more where they are not.
    assert np.mean(others_found) >= 0.87
    assert len(others_found) >= 0.9 * k * count


# In the test city, which has few people, a list reaches twice as far as in a city with as many as the real data have.
@pytest.mark.parametrize(
    ("population", "k", "count", "share"),
    [(5000, 10, 8, 0.8), *for_evidence((25_000, 10, 8, 0.9), (25_000, 50, 2, 0.9), (5000, 50, 2, 0.8))],
)
def test_locates_nearly_everybody_who_is_listed_even_once(
    population: int, k: int, count: int, share: float, san_francisco: Region
) -> None:
    city_m = san_francisco.to_metres(synthetic_city(population, san_francisco, rng=3))
    service, rng = SimulatedService(san_francisco, city_m, rng=1), np.random.default_rng(5)
    unfolding = Unfolding(half_extent_m=san_francisco.half_extent_m)
    shares = []
    for x, y in city_m[rng.integers(population, size=count)] + rng.normal(0, 50, (count, 2)):
        start = float(x), float(y)
        target = service.oracle(k=k, accounts=0).nearby(start)[-1]
        open_oracle, seen = service.oracle(k=k, accounts=0), set[Person]()

        def ask(place: Point, oracle: CountedOracle = open_oracle, seen: set[Person] = seen) -> Sequence[Person]:
            answer = oracle.nearby(place)
            seen.update(answer)
            return answer

        others = unfolding.infer(oracle_of(ask, k), target, start).others
        located = [error_m(others.get(person), city_m[int(str(person))]) < TAU_M for person in seen - {target}]
        shares.append(np.mean(located))
    assert np.mean(shares) >= share


def test_looks_for_the_reach_of_a_list_in_small_steps(san_francisco: Region) -> None:
    """Where people live far apart, no question is asked so far away that it brings only strangers."""
    places = np.random.default_rng(1).uniform(-10_000, 10_000, (2000, 2))
    oracle = SimulatedService(san_francisco, places, rng=1).oracle(k=20, accounts=0)
    start = (0.0, 0.0)
    listed = oracle.nearby(start)
    reach_m = float(np.hypot(*places[int(str(listed[-1]))]))
    result = attack().infer(oracle, listed[-1], start)
    assert max(math.dist(step.place, start) for step in result.trace.steps) < 1.5 * reach_m


def test_same_questions_same_answers(service: SimulatedService, instances: Instances, san_francisco: Region) -> None:
    unfolding = Unfolding(half_extent_m=san_francisco.half_extent_m)
    start, target = next(instances(10, 1))
    first, second = (unfolding.infer(service.oracle(k=10, accounts=0), target, start) for _ in range(2))
    assert same(first, second)


def test_a_target_that_is_not_listed_is_an_honest_not_found(service: SimulatedService) -> None:
    result = attack().infer(service.oracle(k=5, accounts=0), "nobody", (0.0, 0.0))
    assert (result.outcome, result.estimate, result.queries) == (Outcome.NOT_LISTED, None, 1)


@pytest.mark.parametrize("most_queries", [1, 2, 3, 5])
def test_never_asks_more_than_it_may(most_queries: int, service: SimulatedService, instances: Instances) -> None:
    start, target = next(instances(10, 1))
    result = attack(most_queries=most_queries).infer(service.oracle(k=10, accounts=0), target, start)
    assert result.queries == len(result.trace.steps) == most_queries
    assert result.estimate is not None


def test_the_oracle_may_allow_less(service: SimulatedService, instances: Instances) -> None:
    start, target = next(instances(10, 1))
    result = attack().infer(service.oracle(k=10, accounts=0, most_queries=3), target, start)
    assert (result.outcome, result.queries) == (Outcome.OUT_OF_QUERIES, 3)


@pytest.mark.parametrize(("population", "k"), [(1, 1), (2, 1), (2, 2), (3, 2), (8, 8)])
def test_few_people(population: int, k: int, san_francisco: Region) -> None:
    """Too few to tell within 100 m where they are, so nothing is certain but the end."""
    places = np.random.default_rng(1).normal(0, 1000, (population, 2))
    service = SimulatedService(san_francisco, places, rng=1)
    result = attack().infer(service.oracle(k=k, accounts=0), 0, (float(places[0, 0]), float(places[0, 1])))
    assert result.queries <= 20
    assert all(np.isfinite(result.estimate or ()))


def test_everybody_at_one_place(san_francisco: Region) -> None:
    """All lists are the same, which is no contradiction, and tells nothing."""
    service = SimulatedService(san_francisco, np.zeros((20, 2)), rng=1)
    result = attack().infer(service.oracle(k=20, accounts=0), 3, (500.0, 0.0))
    assert result.outcome is Outcome.OUT_OF_QUERIES
    assert not result.others


def test_people_at_the_same_place_are_no_contradiction(san_francisco: Region) -> None:
    places = np.repeat(np.random.default_rng(1).uniform(-3000, 3000, (400, 2)), 2, axis=0)
    service = SimulatedService(san_francisco, places, rng=1)
    for target in (0, 2):
        start = float(places[target, 0]) + 100.0, float(places[target, 1])
        result = attack(most_queries=44).infer(service.oracle(k=10, accounts=0), target, start)
        assert error_m(result.estimate, places[target]) < TAU_M
        assert result.outcome is not Outcome.CONTRADICTION


@pytest.mark.parametrize(("population", "k"), [(20, 10), (60, 30)])
def test_lists_at_random_are_recognised(population: int, k: int) -> None:
    rng = np.random.default_rng(3)

    def ask(_place: Point) -> list[int]:
        others = 1 + rng.permutation(population - 1)[: k - 1]
        return [int(person) for person in rng.permutation(np.append(others, 0))]

    result = attack().infer(oracle_of(ask, k), 0, (100.0, 50.0))
    assert result.outcome is Outcome.CONTRADICTION
    assert result.queries <= 20
    assert not result.others


def test_a_target_that_vanishes(service: SimulatedService, instances: Instances) -> None:
    """A service that lists the target once and then hides it ends the attack as usual."""
    start, target = next(instances(10, 1))
    oracle = service.oracle(k=10, accounts=0)
    hidden = oracle_of(lambda place: [p for p in oracle.nearby(place) if p != target or place == start], 10)
    result = attack().infer(hidden, target, start)
    assert result.queries <= 20
    assert all(np.isfinite(result.estimate or ()))


def towers(each: int, count: int = 40) -> FloatArray:
    return np.repeat(np.random.default_rng(4).uniform(-3000, 3000, (count, 2)), each, axis=0)


def test_lists_of_one_point_only_are_an_honest_not_found(san_francisco: Region) -> None:
    """No list shows two points: nothing but which of them is the nearest is told."""
    places = towers(each=4)
    oracle = SimulatedService(san_francisco, places, rng=1).oracle(k=3, accounts=0)
    start = float(places[0, 0]), float(places[0, 1])
    result = attack().infer(oracle, oracle.nearby(start)[0], start)
    assert (result.outcome, result.queries) == (Outcome.OUT_OF_QUERIES, 20)
