"""Lists in bands of distance: their width is measured, rings are exact, and people are found without false claims."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from nearveil.attacks._band_search import NO_BANDS, BandReading, Bands, find_bands
from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Answered, Inquiry, Outcome, step_from
from nearveil.attacks.oracle import CountedOracle, Spot, spot_of
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_trials import draw_instances
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

TAU_M = 100.0


def measured(region: Region, places_m: FloatArray, policy: str, *, accounts: int) -> Bands | None:
    """Bands of a service, as accounts around a corner of the region measure them."""
    oracle = SimulatedService(region, places_m, rng=1, policy=AnswerPolicy.parse(policy)).oracle(
        k=30, colluders=accounts, rng=2
    )

    def ask(place: Spot, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        for number, account in enumerate(oracle.colluders):
            oracle.put(account, step_from(place, number / 2, radius_of[account]))
        return oracle.nearby(place)

    corner = (-0.98 * region.half_extent_m[0], -0.98 * region.half_extent_m[1])
    return find_bands(ask, oracle.colluders, [corner])


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

    def ask(place: Spot, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        turns = rng.uniform(0, 2 * math.pi, len(radius_of))
        distance_m = {
            account: math.dist(place, 250 * np.round(np.array(step_from(place, turn, radius_m)) / 250))
            for (account, radius_m), turn in zip(radius_of.items(), turns, strict=True)
        }
        return sorted(radius_of, key=lambda account: (distance_m[account], account))

    found = [find_bands(ask, ["a", "b", "c", "d"], [spot_of(rng.uniform(-5000, 5000, 2))]) for _ in range(1000)]
    assert sum(bands is not NO_BANDS for bands in found) <= 10


def test_the_band_of_an_account_near_an_edge_is_not_known() -> None:
    bands = Bands(500.0, 0.01, ("a",))
    assert [bands.band_of(distance_m) for distance_m in (0.0, 250.0, 498.0, 502.0, 510.0)] == [0, 0, None, None, 1]


def reading_of(*answers: tuple[Mapping[Person, float], Sequence[Person]]) -> BandReading:
    """What lists from the origin tell about t, with accounts a and b, in this order within a band, at distances."""
    oracle = CountedOracle(lambda _: [], lambda *_: None, k=9, colluders=("a", "b"))
    inquiry = Inquiry(oracle, "t")
    for radius_of, answer in answers:
        spots = {account: (radius_m, 0.0) for account, radius_m in radius_of.items()}
        inquiry.history.append(Answered((0.0, 0.0), spots, answer))
    return BandReading(inquiry, Bands(500.0, 0.0, ("a", "b")))


def test_accounts_bound_the_band_for_each_place_within_it() -> None:
    """Of rule 0 the target is before both accounts within a band, of rule 2 after both."""
    listed_before = reading_of(({"b": 250.0}, ["t", "b"])).rings()[:, 0, 2:].tolist()
    assert listed_before == [[0.0, 500.0], [0.0, 500.0], [math.inf, math.inf]]
    unlisted = reading_of(({"b": 250.0}, ["b", "p"])).rings()[:, 0, 2:].tolist()
    assert unlisted == [[500.0, math.inf], [500.0, math.inf], [0.0, math.inf]]
    neither = reading_of(({"b": 250.0}, ["p", "q"])).rings()[:, 0, 2:].tolist()
    assert neither == [[0.0, math.inf]] * 3
    # A list that is not full was cut off, perhaps between the target and the account in one band.
    cut_off = reading_of(({"b": 250.0}, ["t", "p"])).rings()[:, 0, 2:].tolist()
    assert cut_off == [[0.0, 500.0]] * 3
    full = reading_of(({"b": 250.0}, ["t", *"pqruvwxy"])).rings()[:, 0, 2:].tolist()
    assert full == listed_before


def test_bands_are_measured_where_lists_are_cut_off_beyond_them(san_francisco: Region, city_m: FloatArray) -> None:
    bands = measured(san_francisco, city_m, "bands:500m,cutoff:2km", accounts=4)
    assert bands is not None
    assert bands.width_m == pytest.approx(500, rel=0.01)


def test_people_who_were_in_the_band_of_the_target_bound_it_too() -> None:
    """Where account b is not listed at the place itself, everybody listed is in the nearest band."""
    crowded: tuple[Mapping[Person, float], Sequence[Person]] = ({"b": 0.0}, ["p", "t", "q", "r"])
    reading = reading_of(crowded, ({}, ["p", "q"]), ({}, ["p", "s"]))
    assert reading.compare(None)
    lows = reading.rings()[0, :, 2].tolist()
    # Somebody who comes after the target within a band is listed and the target is not: it is in a band farther away.
    assert lows == [0.0, 500.0, 0.0]


def test_an_order_that_changes_is_no_order_of_bands() -> None:
    one: tuple[Mapping[Person, float], Sequence[Person]] = ({"b": 0.0}, ["p", "t"])
    other: tuple[Mapping[Person, float], Sequence[Person]] = ({"b": 0.0}, ["t", "p"])
    assert not reading_of(one, other).compare(None)


def test_people_are_found_in_bands_and_nothing_false_is_claimed(san_francisco: Region, city_m: FloatArray) -> None:
    """Seeds are fixed, so that there is no false alarm."""
    service = SimulatedService(san_francisco, city_m, rng=1, policy=AnswerPolicy.parse("bands:500m"))
    attack = Adaptive(half_extent_m=san_francisco.half_extent_m, colluders=4)
    found = 0
    for number, instance in enumerate(draw_instances(service, city_m, k=30, count=4, rng=np.random.default_rng(2))):
        result = attack.infer(service.oracle(k=30, colluders=4, rng=number), instance.target, instance.start)
        assert not result.certified
        assert result.queries <= 60
        assert result.estimate is not None
        error_m = math.dist(result.estimate, city_m[instance.target])
        found += error_m <= TAU_M
        if result.outcome is Outcome.FOUND:
            assert error_m <= TAU_M
    assert found >= 3
