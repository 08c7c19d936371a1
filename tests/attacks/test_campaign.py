"""Campaigns: a crowd is mapped through ranked lists alone, and radii are honest; nonsense ends with an honest word."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.evidence import for_evidence

from nearveil.attacks.base import Outcome
from nearveil.attacks.campaign import SHARE, Campaign
from nearveil.attacks.crowd_map import CrowdMap
from nearveil.attacks.from_map import FromMap
from nearveil.attacks.oracle import CountedOracle, Point
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

HALF_EXTENT_M = (17_000.0, 22_000.0)
K = 15


def town(people: int) -> FloatArray:
    """Two neighborhoods of different density, and some users between them."""
    rng = np.random.default_rng(3)
    dense, sparse = rng.normal([-1500, 0], 500, (people // 2, 2)), rng.normal([3000, 2000], 1500, (people // 3, 2))
    return np.vstack([dense, sparse, rng.uniform(-5000, 5000, (people - len(dense) - len(sparse), 2))])


@pytest.fixture(scope="module")
def town_m() -> FloatArray:
    return town(150)


@pytest.mark.parametrize("people", [60, *for_evidence(400)])
def test_everybody_is_mapped_and_radii_are_honest(people: int, san_francisco: Region) -> None:
    places_m = town(people)
    oracle = SimulatedService(san_francisco, places_m, rng=1).oracle(k=K, accounts=0)
    result = Campaign(half_extent_m=san_francisco.half_extent_m).run(oracle)
    errors_m = np.hypot(*(result.estimates_m - places_m[np.array(result.people, dtype=int)]).T)
    assert result.outcome is Outcome.FOUND
    assert result.queries == oracle.queries
    assert len(set(result.people)) == len(result.people) > 0.95 * people
    assert (errors_m <= 100).sum() > 0.8 * people
    # Neighbors share errors, so less than a few binomial errors is not asked for; and not by being wide.
    assert (errors_m <= result.radii_m).mean() > SHARE - 3 * math.sqrt(0.09 / people)
    assert np.median(result.radii_m) < 80
    assert result.queries < (2.0 if people < 100 else 0.6) * people


def test_a_campaign_stops_at_its_last_query_with_what_it_has(san_francisco: Region, town_m: FloatArray) -> None:
    """By its own limit or by the oracle's, and the same answers give the same map."""
    campaign = Campaign(half_extent_m=san_francisco.half_extent_m, most_queries=20)
    service = SimulatedService(san_francisco, town_m, rng=1)
    one = campaign.run(service.oracle(k=K, accounts=0))
    other = replace(campaign, most_queries=1000).run(service.oracle(k=K, accounts=0, most_queries=20))
    for result in (one, other):
        assert (result.outcome, result.queries) == (Outcome.OUT_OF_QUERIES, 20)
        assert 0 < len(result.people) < len(town_m)
    np.testing.assert_array_equal(one.estimates_m, other.estimates_m)
    np.testing.assert_array_equal(one.radii_m, other.radii_m)


def test_no_queries_are_no_campaign() -> None:
    with pytest.raises(UsageError, match="at least one query"):
        Campaign(half_extent_m=HALF_EXTENT_M, most_queries=0)


# -- services that answer nonsense ------------------------------------------------------------------------------------


Ask = Callable[[Point], Sequence[Person]]


def changing_its_mind() -> Ask:
    rng = np.random.default_rng(1)
    return lambda _place: rng.permutation(40)[:8].tolist()


def strangers() -> Ask:
    rng = np.random.default_rng(1)
    return lambda _place: [f"nobody-{number}" for number in rng.integers(10**12, size=8)]


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [
        (changing_its_mind(), Outcome.CONTRADICTION),
        (strangers(), Outcome.OUT_OF_QUERIES),
        (lambda _place: ["x", "y", "z"], Outcome.FOUND),
        (lambda _place: [], Outcome.NOBODY),
    ],
    ids=["changing its mind", "strangers", "deaf", "silent"],
)
def test_nonsense_ends_with_an_honest_word(ask: Ask, outcome: Outcome) -> None:
    oracle = CountedOracle(ask, lambda _who, _where: None, k=8, accounts=(), most_queries=10_000)
    result = Campaign(half_extent_m=HALF_EXTENT_M, most_queries=200).run(oracle)
    assert result.outcome is outcome
    assert result.queries <= 200
    assert len(result.estimates_m) == len(result.radii_m) == len(result.people)
    # Hardly anybody is claimed to be located: strangers could be a very dense crowd.
    assert (result.radii_m <= 100).sum() <= 0.02 * len(result.people)


def test_whoever_is_not_on_a_list_is_farther_than_its_last() -> None:
    """Lists from a row of places have "a" and "b"; "c" was only seen from afar, and is farther from each than "b"."""
    crowd = CrowdMap(2, (1000.0, 1000.0), np.random.default_rng(1))
    for x in (-100.0, 0.0, 100.0):
        crowd.add((x, 0.0), ["a", "b"])
    crowd.add((0.0, 900.0), ["c", "b"])
    crowd.fit()
    b, c = (crowd.samples[:, crowd.people.index(person)] for person in "bc")
    for x in (-100.0, 0.0, 100.0):
        behind = np.hypot(*(c - (x, 0)).T) > np.hypot(*(b - (x, 0)).T)
        assert behind.mean() > 0.95


# -- further people ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [2, *for_evidence(10)])
def test_further_people_are_found_with_a_few_queries(each: int, san_francisco: Region, town_m: FloatArray) -> None:
    """With a map that is right to 10 m; the attacker has somebody who has moved where they were before."""
    rng = np.random.default_rng(7)
    moved, joined = range(10), range(140, 150)
    before_m = town_m[:140] + rng.normal(0, 5, (140, 2))
    before_m[moved] = rng.normal([-1500, 0], 500, (10, 2))
    attack = FromMap(
        people=range(140), estimates_m=before_m, radii_m=np.full(140, 10.0), half_extent_m=HALF_EXTENT_M, tau_m=100.0
    )
    service = SimulatedService(san_francisco, town_m, rng=1)
    queries = []
    for target in (*moved[:each], *joined[:each]):
        # The k-th nearest person's place, where the target is listed or nearly so; the first that has it is the start.
        near = np.argsort(np.hypot(*(town_m - town_m[target]).T))[1 : K + 1]
        starts = [(float(x), float(y)) for x, y in town_m[near[::-1]]]
        start = next(one for one in starts if target in service.oracle(k=K, accounts=0).nearby(one))
        result = attack.infer(service.oracle(k=K, accounts=0), target, start)
        assert result.estimate is not None
        assert math.dist(result.estimate, town_m[target]) <= 100
        queries.append(result.queries)
    assert np.mean(queries) < 8


def test_a_further_person_who_is_not_listed_is_not_found() -> None:
    attack = FromMap(people=[1], estimates_m=np.zeros((1, 2)), radii_m=np.ones(1), half_extent_m=HALF_EXTENT_M)
    oracle = CountedOracle(lambda _place: [1], lambda _who, _where: None, k=5, accounts=())
    assert attack.infer(oracle, 2, (0.0, 0.0)).outcome is Outcome.NOT_LISTED
