"""Maps: land is where it is, users are where they are, and the scale is true."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import on_land
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import Region, as_region
from nearveil.report.land import land_in
from nearveil.report.maps import draw_cells, population_map
from nearveil.report.style import TRUE_COLOUR, house_style
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


def test_users_are_where_they_are_and_the_scale_is_true() -> None:
    axes: Axes = drawn().axes[0]
    (users,) = [each for each in axes.lines if each.get_rasterized()]
    assert np.allclose(users.get_xydata(), REGION.to_metres(CITY) / 1000)
    assert users.get_color() == TRUE_COLOUR
    half_width, half_height = (extent / 1000 for extent in REGION.half_extent_m)
    assert (*axes.get_xlim(), *axes.get_ylim()) == pytest.approx((-half_width, half_width, -half_height, half_height))
    # One kilometer is as long to the east as to the north.
    width, height = axes.get_window_extent().size
    assert width / height == pytest.approx(half_width / half_height, rel=1e-3)
    (bar,) = [each for each in axes.lines if not each.get_rasterized()]
    length_km = math.dist(*bar.get_xydata())  # type: ignore[misc]
    assert {f"{length_km:g} km", "N"} <= {text.get_text() for text in axes.texts}
    # Readable, and not across the whole map.
    assert 0.1 < length_km / np.ptp(axes.get_xlim()) < 0.5


def test_cells_are_drawn_and_the_same_cells_give_the_same_bytes(
    city: FloatArray, san_francisco: Region, tmp_path: Path
) -> None:
    mechanism = HideAmong(200, cells=cells_from_points(city, san_francisco, CellPlan(hide_among=200)))
    first, again = tmp_path / "a.png", tmp_path / "b.png"
    for path in (first, again):
        draw_cells(mechanism, path)
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG")
