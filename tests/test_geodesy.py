"""Kernels on degrees against plain NumPy, bit for bit; and faults counted in parts against the whole."""

from collections.abc import Callable

import numpy as np
import pytest

from nearveil import geodesy
from nearveil.geodesy import (
    FastMap,
    Faults,
    GridBox,
    clamped,
    count_faults,
    fast_forward,
    fast_inverse,
    offsets_from,
    on_grid,
    points_at,
)
from nearveil.region import Region
from nearveil.types import FloatArray
from tests import degrees_in_numpy

REGIONS = [Region(37.5, -122.6, 37.9, -122.2), Region(-19.5, 176.8, -15.5, -178.0), Region(41.0, -5.0, 51.0, 10.0)]


def world(rng: np.random.Generator, count: int = 20_000) -> FloatArray:
    points = np.column_stack([rng.uniform(-90, 90, count), rng.uniform(-180, 180, count)])
    points[:4] = np.array([[0, 180], [0, -180], [90, 0], [-90, 179.9999999]])
    return points


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_compiled_and_plain_agree_to_the_last_bit(region: Region, rng: np.random.Generator) -> None:
    points, longitude = world(rng), region.centre[1]
    offsets = offsets_from(longitude, points)
    assert (offsets == degrees_in_numpy.offsets(longitude, points)).all()
    assert (points_at(longitude, offsets) == degrees_in_numpy.points(longitude, offsets)).all()
    xy = rng.normal(0, 2 * region.metres_per_unit, (5000, 2))
    assert (clamped(xy, *region.half_extent_m) == degrees_in_numpy.clamped(xy, *region.half_extent_m)).all()
    box = region._published_grid
    assert (on_grid(points, box) == degrees_in_numpy.on_grid(points, *box)).all()


def test_offsets_go_the_short_way_around() -> None:
    points = np.array([[10.0, 179.0], [-20.0, -179.0], [5.0, 178.0], [0.0, -2.0]])
    expected = [[1.0, 10.0], [3.0, -20.0], [0.0, 5.0], [-180.0, 0.0]]
    for offsets, back in ((offsets_from, points_at), (degrees_in_numpy.offsets, degrees_in_numpy.points)):
        assert offsets(178.0, points).tolist() == expected
        assert back(178.0, offsets(178.0, points)).tolist() == points.tolist()


def test_points_beyond_the_box_go_to_its_nearest_edge() -> None:
    xy = np.array([[1.0, -2.0], [5.0, 0.0], [-5.0, 9.0], [0.0, -9.0]])
    for clamp in (clamped, degrees_in_numpy.clamped):
        assert clamp(xy, 3.0, 4.0).tolist() == [[1.0, -2.0], [3.0, 0.0], [-3.0, 4.0], [0.0, -4.0]]


@pytest.mark.parametrize("rounded", [on_grid, lambda points, box: degrees_in_numpy.on_grid(points, *box)])
def test_the_grid_ends_with_its_box(rounded: Callable[[FloatArray, GridBox], FloatArray]) -> None:
    """Lines every tenth of a degree, and a box across the antimeridian from 177 to -178 and from 1 to 2."""
    box = GridBox(179.5, 10.0, 10.0, 20.0, 1770.0, 1820.0)
    points = np.array([[1.26, 178.04], [0.0, 176.0], [3.0, -177.0], [1.5, -179.96], [1.5, 180.0]])
    assert rounded(points, box).tolist() == [[1.3, 178.0], [1.0, 177.0], [2.0, -178.0], [1.5, -180.0], [1.5, -180.0]]


@pytest.mark.parametrize("region", REGIONS, ids=str)
@pytest.mark.parametrize("count", [1, 15, 16, 17, 3000])
def test_polynomials_agree(region: Region, count: int, rng: np.random.Generator) -> None:
    forward = fast_forward(region.centre[0], region.height_deg / 2, region.width_deg / 2)
    inverse = fast_inverse(region.centre[0], *region.half_extent_m)
    for fast in (forward, inverse):
        assert isinstance(fast, FastMap)
        points = fast.middle + fast.half * rng.uniform(-1, 1, (count, 2))
        plain = degrees_in_numpy.evaluate(points, fast.middle, fast.half, fast.coefficients)
        assert np.abs(fast(points) - plain).max() < 1e-12 * np.abs(plain).max() + 1e-15


def with_faults(region: Region, rng: np.random.Generator) -> FloatArray:
    shares = rng.random((3000, 2))
    points = np.array([region.south, region.west]) + shares * [region.height_deg, region.width_deg]
    points[:, 1] = (points[:, 1] + 180) % 360 - 180
    points[rng.choice(3000, 40, replace=False), 0] = np.nan
    points[rng.choice(3000, 40, replace=False), 1] = -np.inf
    points[rng.choice(3000, 40, replace=False), 0] += 20
    points[rng.choice(3000, 40, replace=False), 1] += 400
    points[rng.choice(3000, 40, replace=False), 0] += 4_000_000
    exchanged = rng.choice(3000, 40, replace=False)
    points[exchanged] = points[exchanged][:, ::-1]
    return points


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_faults_are_counted_alike_whole_in_parts_and_in_numpy(region: Region, rng: np.random.Generator) -> None:
    points = with_faults(region, rng)
    whole = region.faults(points)
    assert min(whole.not_finite, whole.off_range, whole.outside) > 0
    box = (*region.centre, region.height_deg / 2 + 1e-9, region.width_deg / 2 + 1e-9)
    counted = count_faults(points, *box)
    assert tuple(whole)[: len(counted)] == counted == degrees_in_numpy.count_faults(points, *box)
    assert whole.rows == len(points)
    for size in (1, 7, 1000):
        found = Faults()
        for start in range(0, len(points), size):
            found = found.followed_by(region.faults(points[start : start + size]), start)
        assert found == whole


def test_the_longitude_of_the_first_row_off_range_is_named() -> None:
    faults = REGIONS[0].faults(np.array([[37.7, -122.4], [37.7, 200.0], [95.0, -122.4]]))
    assert (faults.first_off_range, faults.off_latitude, faults.off_range) == (1, False, 2)
    assert geodesy.and_others(1) == ""
