"""The densest area of users from anywhere, and a city grown from a sample."""

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation.area import RADIUS_M, densest_area, grown_city
from nearveil.region import named_region
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

BERLIN, FIJI, SVALBARD, TOKYO = (52.5, 13.4), (-18.0, 179.99), (78.2, 15.6), (35.7, 139.7)


def town(center: tuple[float, float], users: int, seed: int = 1) -> FloatArray:
    """Users of a town with a standard deviation of 3 km, on both sides of the antimeridian if it lies there."""
    degrees = np.random.default_rng(seed).normal(0, 0.027, (users, 2))
    latitude, longitude = center[0] + degrees[:, 0], center[1] + degrees[:, 1] / np.cos(np.radians(center[0]))
    return np.column_stack([latitude, (longitude + 180) % 360 - 180])


@pytest.mark.parametrize("center", [BERLIN, FIJI, SVALBARD])
def test_a_city_is_taken_as_a_whole_wherever_it_is(center: tuple[float, float]) -> None:
    users = town(center, 400)
    area = densest_area(users)
    assert (area.rows.tolist(), area.note) == (list(range(400)), "")
    assert area.region.contains(users).all()
    assert area.region.radius_m < 40_000
    assert great_circle_m(np.array([area.center]), np.array([center]))[0] < 1_000


@pytest.mark.parametrize("center", [BERLIN, FIJI, SVALBARD])
def test_of_users_all_over_the_world_the_densest_city_is_taken(center: tuple[float, float]) -> None:
    rng = np.random.default_rng(2)
    # As many elsewhere, in more places, and nearer to each other in degrees around the poles.
    scattered = np.column_stack([rng.uniform(-89.9, 89.9, 3_000), rng.uniform(-180, 180, 3_000)])
    others = [town(one, 300, 3) for one in (BERLIN, FIJI, SVALBARD, TOKYO) if one != center]
    users = np.vstack([*others, scattered, town(center, 500)])
    area = densest_area(users)
    assert set(range(3_900, 4_400)) <= set(area.rows.tolist())
    assert len(area.rows) < 510
    assert great_circle_m(users[area.rows], np.array([area.center])).max() <= 1.01 * RADIUS_M
    where = f"{center[0]:.1f}, " + ("" if center == FIJI else f"{center[1]:.1f}.")
    assert f"{len(area.rows)} of 4,400 users, within 25 km of {where}" in area.note


def test_a_city_that_lies_in_several_cubes_of_the_search_is_still_the_densest() -> None:
    """Between 0 degrees north and east the cubes meet: four of them share this city."""
    area = densest_area(np.vstack([town((0.0, 0.0), 500), town(BERLIN, 200)]))
    assert set(area.rows.tolist()) == set(range(500))


def test_the_area_around_a_user_and_users_that_have_none() -> None:
    users = np.vstack([town(BERLIN, 300), town(TOKYO, 20)])
    assert densest_area(users, around=310).rows.tolist() == list(range(300, 320))
    assert len(densest_area(np.repeat([BERLIN], 30, axis=0)).rows) == 30
    around_pole = np.column_stack([np.full(36, 89.95), np.arange(-180, 180, 10)])
    with pytest.raises(UsageError, match="around a pole"):
        densest_area(around_pole)


def test_a_city_grown_from_a_sample_is_as_dense_as_the_whole_and_on_no_user(city: FloatArray) -> None:
    region = named_region("san-francisco")
    sample = city[np.random.default_rng(3).choice(len(city), 700, replace=False)]
    grown = grown_city(sample, len(city), region, np.random.default_rng(4))
    assert region.contains(grown).all()

    def tenth_neighbor_m(places: FloatArray) -> float:
        places_m = region.to_metres(places)
        asked = places_m[:: len(places_m) // 500]
        away_m = np.sort(np.linalg.norm(places_m[None] - asked[:, None], axis=2), axis=1)[:, 10]
        return float(np.median(away_m))

    assert tenth_neighbor_m(grown) == pytest.approx(tenth_neighbor_m(city), rel=0.2)
    assert tenth_neighbor_m(sample) > 2 * tenth_neighbor_m(city)
    assert not set(map(tuple, grown.tolist())) & set(map(tuple, city.tolist()))
