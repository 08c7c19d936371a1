"""Maps: land is where it is, users are where they are."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import on_land
from nearveil.region import Region, as_region
from nearveil.report.land import land_in
from nearveil.report.maps import population_map
from nearveil.report.style import TRUE_COLOR, house_style
from nearveil.types import FloatArray
from tests.report.outcome_samples import CITY, REGION


def drawn(points: FloatArray = CITY, region: Region = REGION) -> Figure:
    with house_style():
        figure = population_map(Dataset("city", region, points))
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(
    ("region", "dry", "wet"),
    [
        ("san-francisco", (37.7749, -122.4194), (37.7000, -122.5800)),  # city hall; the Pacific
        ("san-francisco", (37.8044, -122.2712), (37.7000, -122.3200)),  # Oakland; the bay
        ("san-francisco", (37.8270, -122.3710), (37.8190, -122.4780)),  # Treasure Island; the Golden Gate
        ("new-york", (40.72, -73.99), (40.52, -73.95)),  # Manhattan; the Atlantic
        ("fiji", (-16.80, -179.98), (-18.00, -178.50)),  # Taveuni, beyond the antimeridian; the Koro Sea
        ("40.1,49.5,40.6,50.3", (40.40, 49.83), (40.20, 50.10)),  # Baku; the Caspian, a hole in the land of Asia
    ],
)
def test_every_region_has_its_land_and_water(region: str, dry: tuple[float, float], wet: tuple[float, float]) -> None:
    assert on_land(np.array([dry, wet]), land_in(as_region(region))).tolist() == [True, False]


def test_users_are_where_they_are_in_true_proportions() -> None:
    axes: Axes = drawn().axes[0]
    (users,) = axes.lines
    assert np.allclose(users.get_xydata(), REGION.to_metres(CITY))
    assert users.get_color() == TRUE_COLOR
    half_width, half_height = REGION.half_extent_m
    assert (*axes.get_xlim(), *axes.get_ylim()) == pytest.approx((-half_width, half_width, -half_height, half_height))
    # One kilometer is as long to the east as to the north.
    width, height = axes.get_window_extent().size
    assert width / height == pytest.approx(half_width / half_height, rel=1e-3)
    # Every axis has units.
    assert {text.get_text()[-2:] for text in axes.get_xticklabels() + axes.get_yticklabels()} == {"km", " m"}
