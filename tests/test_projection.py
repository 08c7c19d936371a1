"""The fast copy of the projection against PROJ itself."""

import numpy as np
import pyproj
import pytest

from nearveil.projection import exact_projection, fast_forward
from nearveil.region import Region, named_region

REGIONS = [
    *map(named_region, ("fiji", "san-francisco", "singapore")),
    Region(-0.2, 10.0, 0.2, 10.4),
    Region(69.0, 15.0, 71.0, 25.0),
    Region(41.0, -5.0, 51.0, 10.0),
    Region(-60.0, -80.0, 10.0, -30.0),
]


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_agrees_with_proj_everywhere(region: Region) -> None:
    """To 0.1 mm and 1e-9 degree at points it was not fitted on, edges and corners included."""
    rng = np.random.default_rng(1)
    shares = np.vstack([rng.random((20_000, 2)), [[0, 0], [0, 1], [1, 0], [1, 1]], rng.integers(0, 2, (500, 2))])
    points = np.array([region.south, region.west]) + shares * [region.height_deg, region.width_deg]
    points[:, 1] = (points[:, 1] + 180) % 360 - 180
    fast = region.to_metres(points)
    exact = np.column_stack(exact_projection(*region.centre).transform(points[:, 1], points[:, 0]))
    assert np.abs(fast - exact).max() < 1e-4
    one = region.to_metres(points[:1]), region.from_metres(exact[:1])
    back = region.from_metres(exact)
    assert np.abs(one - np.stack([fast[:1], back[:1]])).max() < 1e-8
    assert np.abs(back[:, 0] - points[:, 0]).max() < 1e-8
    assert np.abs((back[:, 1] - points[:, 1] + 180) % 360 - 180).max() < 2e-8


def test_cities_get_a_polynomial_and_points_outside_go_to_proj() -> None:
    region = named_region("san-francisco")
    fast = fast_forward(region.centre[0], region.height_deg / 2, region.width_deg / 2)
    assert fast.coefficients is not None and fast.coefficients.shape[1] <= 9
    elsewhere = np.tile([[48.85, 2.35]], (5000, 1))
    metres = region.to_metres(elsewhere)
    *_, distance = pyproj.Geod(ellps="WGS84").inv(-122.4, 37.7, 2.35, 48.85)
    assert np.hypot(*metres[0]) == pytest.approx(distance, rel=1e-6)
