"""Statistics of populations, against cases whose answers are known and a second way to compute them."""

from pathlib import Path

import numpy as np
import pytest
from pyproj import Geod

from nearveil.errors import DataError
from nearveil.io.dataset_statistics import counts_in_cells, describe_dataset, ground_area_km2
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.region import Region
from nearveil.types import FloatArray


def geodesic_area_km2(region: Region) -> float:
    east = np.linspace(0, region.width_deg, 4001)
    longitude = region.west + np.concatenate([east, east[::-1]])
    latitude = np.repeat([region.south, region.north], len(east))
    return float(Geod(ellps="WGS84").polygon_area_perimeter(longitude, latitude)[0] / 1e6)


@pytest.mark.parametrize(
    "region", [Region(37.5, -122.6, 37.9, -122.2), Region(-21, 176, -12, -178), Region(-2, 9, 3, 12)], ids=str
)
def test_area_is_that_on_the_ground(region: Region) -> None:
    assert ground_area_km2(region) == pytest.approx(geodesic_area_km2(region), rel=1e-6)


def spread_at_random(region: Region, number: int, rng: np.random.Generator) -> FloatArray:
    """Uniform on the ground: on a sphere that is uniform in the sine of latitude."""
    south, north = np.sin(np.radians([region.south, region.north]))
    sine = rng.uniform(south, north, number)
    return np.column_stack([np.degrees(np.arcsin(sine)), rng.uniform(region.west, region.east, number)])


@pytest.mark.statistical
def test_places_at_random(san_francisco: Region, rng: np.random.Generator) -> None:
    """Both ratios are 1 for a Poisson process; the seed is fixed, so the test cannot fail by chance.

    With other seeds: the bounds are five standard errors, 0.52 / sqrt(n) and sqrt(2 / cells) (a false alarm in a
    million).
    """
    described = describe_dataset(Dataset("random", san_francisco, spread_at_random(san_francisco, 20_000, rng)))
    assert described.clark_evans == pytest.approx(1, abs=5 * 0.52 / np.sqrt(20_000))
    assert described.variance_to_mean == pytest.approx(1, abs=5 * np.sqrt(2 / 1500))
    assert described.occupied_share == 1.0
    assert described.density_per_km2 == pytest.approx(20_000 / 1566.1, rel=1e-4)
    # The median of a Rayleigh distance at this density.
    assert described.median_nearest_m == pytest.approx(
        1000 * np.sqrt(np.log(2) / np.pi / described.density_per_km2), rel=0.02
    )


def test_a_clump_and_a_lattice_lie_on_either_side(san_francisco: Region, rng: np.random.Generator) -> None:
    latitude, longitude = np.meshgrid(np.linspace(37.51, 37.89, 60), np.linspace(-122.59, -122.21, 60))
    lattice = describe_dataset(
        Dataset("lattice", san_francisco, np.column_stack([latitude.ravel(), longitude.ravel()]))
    )
    clump = describe_dataset(Dataset("clump", san_francisco, rng.normal((37.7, -122.4), 0.005, (3600, 2))))
    assert (clump.clark_evans < 0.2, lattice.clark_evans > 1.5) == (True, True)
    assert (clump.variance_to_mean > 50, lattice.variance_to_mean < 1) == (True, True)
    assert (clump.occupied_share < 0.05, lattice.occupied_share > 0.9) == (True, True)
    assert (clump.gini > 0.95, lattice.gini < 0.4) == (True, True)


def test_distances_are_metres_and_equal_places_count_once(san_francisco: Region) -> None:
    east, north = 8_830.0, 11_100.0
    places = san_francisco.from_metres(np.array([[0.0, 0.0], [300.0, 400.0], [east, north], [0.0, 0.0]]))
    described = describe_dataset(Dataset("three", san_francisco, places))
    assert described.places == 3
    assert described.median_nearest_m == pytest.approx(500, abs=0.1)


def test_cells_have_the_same_area_and_hold_everybody() -> None:
    """In a tall region, equal steps of latitude would give the cells in the north half the area."""
    region = Region(0, 10, 60, 12)
    counts = counts_in_cells(np.array([[0.0, 10.0], [60.0, 12.0], [60.0, 10.0], [30.0, 11.0]]), region)
    assert counts.sum() == 4
    half_width, half_height = region.half_extent_m
    assert len(counts) == round(half_width / 500) * round(half_height / 500)
    latitude = np.linspace(0, 60, 40_000)
    weights = np.cos(np.radians(latitude))
    rows = counts_in_cells(np.column_stack([latitude, np.full(40_000, 11.0)]), region).reshape(
        -1, round(half_width / 500)
    )
    share_of_south = rows[: len(rows) // 2].sum() / 40_000
    assert share_of_south == pytest.approx((np.cumsum(weights) < weights.sum() / 2).mean(), abs=0.01)


def test_gini_of_known_counts(san_francisco: Region) -> None:
    """Everybody in one of n cells: (n - 1) / n."""
    described = describe_dataset(Dataset("two", san_francisco, np.array([[37.7, -122.4], [37.7001, -122.4001]])))
    cells = len(counts_in_cells(np.array([[37.7, -122.4]]), san_francisco))
    assert described.gini == pytest.approx((cells - 1) / cells)
    assert described.occupied_share == pytest.approx(1 / cells)
    assert described.variance_to_mean == pytest.approx(2.0)


def test_too_few_places(san_francisco: Region) -> None:
    with pytest.raises(DataError, match="two different places"):
        describe_dataset(Dataset("one", san_francisco, np.array([[37.7, -122.4], [37.7, -122.4]])))


@pytest.mark.realdata
def test_real_check_ins_are_more_clumped_than_generated_ones(real_data_folder: Path) -> None:
    gaussian = describe_dataset(load_dataset(DatasetName.GAUSSIAN))
    for name in (DatasetName.BRIGHTKITE, DatasetName.GOWALLA):
        real = describe_dataset(load_dataset(name, real_data_folder))
        assert real.clark_evans < 0.6 * gaussian.clark_evans
        assert real.variance_to_mean > 2 * gaussian.variance_to_mean
        assert real.median_nearest_m < 30
