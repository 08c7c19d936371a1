"""Lists in bands of distance: their width is measured, rings are exact, and people are found without false claims."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.evidence import for_evidence

from nearveil.attacks._band_search import NO_BANDS, Bands, find_bands
from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Outcome, step_from
from nearveil.attacks.oracle import Point, point_of
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_experiment import draw_instances
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

TAU_M = 100.0


def measured(region: Region, places_m: FloatArray, policy: str, *, accounts: int) -> Bands | None:
    """Bands of a service, as accounts around a corner of the region measure them."""
    oracle = SimulatedService(region, places_m, rng=1, policy=AnswerPolicy.parse(policy)).oracle(
        k=30, accounts=accounts, rng=2
    )

    def ask(place: Point, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        for number, account in enumerate(oracle.accounts):
            oracle.put(account, step_from(place, number / 2, radius_of[account]))
        return oracle.nearby(place)

    corner = (-0.98 * region.half_extent_m[0], -0.98 * region.half_extent_m[1])
    return find_bands(ask, oracle.accounts, [corner])


@pytest.mark.parametrize("accounts", [2, 4])
@pytest.mark.parametrize("width_m", [250.0, 500.0, 1609.344])
def test_the_width_of_bands_is_measured(
    width_m: float, accounts: int, san_francisco: Region, city_m: FloatArray
) -> None:
    bands = measured(san_francisco, city_m, f"bands:{width_m}m", accounts=accounts)
    assert bands is not None
    assert bands.slack <= 0.005
    assert bands.width_m / (1 + bands.slack) <= width_m <= bands.width_m * (1 + bands.slack)


@pytest.mark.parametrize("policy", ["snap:100m", "snap:300m", "at-least:50,cutoff:30km"])
def test_no_bands_are_measured_where_there_are_none(policy: str, san_francisco: Region, city_m: FloatArray) -> None:
    assert measured(san_francisco, city_m, policy, accounts=4) is NO_BANDS


def test_a_point_of_a_grid_is_hardly_taken_for_a_band() -> None:
    """In 1,000 places of a grid of 250 m; who looks at the first band alone takes 60 of them for bands. Fixed seed."""
    rng = np.random.default_rng(5)

    def ask(place: Point, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        turns = rng.uniform(0, 2 * math.pi, len(radius_of))
        distance_m = {
            account: math.dist(place, 250 * np.round(np.array(step_from(place, turn, radius_m)) / 250))
            for (account, radius_m), turn in zip(radius_of.items(), turns, strict=True)
        }
        return sorted(radius_of, key=lambda account: (distance_m[account], account))

    found = [find_bands(ask, ["a", "b", "c", "d"], [point_of(rng.uniform(-5000, 5000, 2))]) for _ in range(1000)]
    assert sum(bands is not NO_BANDS for bands in found) <= 10


@pytest.mark.parametrize("count", [1, *for_evidence(4)])
def test_people_are_found_in_bands_and_nothing_false_is_claimed(
    count: int, san_francisco: Region, city_m: FloatArray
) -> None:
    """Seeds are fixed, so that there is no false alarm."""
    service = SimulatedService(san_francisco, city_m, rng=1, policy=AnswerPolicy.parse("bands:500m"))
    attack = Adaptive(half_extent_m=san_francisco.half_extent_m, accounts=4)
    found = 0
    for number, instance in enumerate(draw_instances(service, city_m, k=30, count=count, rng=np.random.default_rng(2))):
        result = attack.infer(service.oracle(k=30, accounts=4, rng=number), instance.target, instance.start)
        assert not result.certified
        assert result.queries <= 60
        assert result.estimate is not None
        error_m = math.dist(result.estimate, city_m[instance.target])
        found += error_m <= TAU_M
        if result.outcome is Outcome.FOUND:
            assert error_m <= TAU_M
    assert found >= 0.75 * count
