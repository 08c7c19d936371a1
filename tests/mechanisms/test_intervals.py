import json

import numpy as np
import pytest
from scipy.spatial import cKDTree
from shapely import MultiPoint, Point

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.mechanisms.fit_pic import build_pic_intervals
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals, cell_polygons, intervals_from_json
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture(scope="module")
def intervals(san_francisco: Region, city: FloatArray) -> Intervals:
    return build_pic_intervals(city, region=san_francisco, scale=34.5, centres=100, rng=1)


def test_one_json_file_there_and_back_says_what_it_is_and_what_it_cost(intervals: Intervals) -> None:
    back = intervals_from_json(intervals.to_json())
    assert (back.centres == intervals.centres).all()
    assert (back.radii == intervals.radii).all()
    for name in ("region", "method", "answers", "gamma", "seeded", "unit"):
        assert getattr(back, name) == getattr(intervals, name)
    document = json.loads(intervals.to_json())
    assert (document["format"], document["version"]) == ("nearveil-intervals", 1)
    assert document["budget"]["laplace_answers"] == [{"count": 36, "scale": 34.5}]
    assert document["budget"]["epsilon"] == pytest.approx(36 / 34.5)
    assert document["seeded"] is True
    assert set(document) == {
        *("format", "version", "region", "method", "budget", "gamma", "seeded", "centres", "radii")
    }


def test_nothing_private_on_the_fitted_object(intervals: Intervals) -> None:
    """No label, count, sum or inertia: the object has these fields and no others."""
    fields = {"region", "centres", "radii", "method", "answers", "gamma", "seeded", "unit"}
    assert set(Intervals.__slots__) == fields
    assert not hasattr(intervals, "__dict__")
    with pytest.raises(ValueError, match="read-only"):
        intervals.centres[0] = 0


def test_later_versions_and_other_files_are_refused(intervals: Intervals) -> None:
    document = json.loads(intervals.to_json())
    changes: list[dict[str, object]] = [{"version": 2}, {"radii": [1]}, {"method": "magic"}]
    damaged_ones = (json.dumps({**document, **change}) for change in changes)
    for damaged in ("", "[]", "{}", *damaged_ones):
        with pytest.raises(DataError, match="nearveil fit"):
            intervals_from_json(damaged)


@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.8])
def test_radii_are_gamma_times_the_next_centre(san_francisco: Region, gamma: float) -> None:
    found = build_public_intervals(region=san_francisco, centres=200, gamma=gamma, rng=1)
    gaps = np.hypot(*(found.centres[:, None] - found.centres[None]).transpose(2, 0, 1))
    np.fill_diagonal(gaps, np.inf)
    assert found.radii == pytest.approx(gamma * gaps.min(axis=1))
    overlaps = gaps < found.radii[:, None] + found.radii[None] - 1e-12
    assert overlaps.any() == (gamma > 0.5)


@pytest.mark.parametrize("gamma", [0, -1, 0.9, float("nan")])
def test_impossible_gamma_is_refused(san_francisco: Region, gamma: float) -> None:
    with pytest.raises(UsageError, match="gamma"):
        build_public_intervals(region=san_francisco, gamma=gamma)


def test_cells_tile_the_region(intervals: Intervals, rng: np.random.Generator) -> None:
    """Every cell's polygon holds the points whose nearest center is its own, and all have the region's area."""
    polygons = [MultiPoint(polygon).convex_hull for polygon in cell_polygons(intervals)]
    half_extent = intervals.region.half_extent_square
    assert sum(polygon.area for polygon in polygons) == pytest.approx(4 * half_extent[0] * half_extent[1], rel=1e-9)
    points = rng.uniform(-1, 1, (2000, 2)) * half_extent
    _, own = cKDTree(intervals.centres).query(points)
    assert all(polygons[j].buffer(1e-9).covers(Point(point)) for j, point in zip(own, points, strict=True))


def test_intervals_say_what_they_cost(san_francisco: Region, city: FloatArray, intervals: Intervals) -> None:
    promise = intervals.guarantee(1e-5)
    assert promise.epsilon == pytest.approx(0.65, abs=0.01)
    assert promise.delta == pytest.approx(1e-5)
    assert "seed" in promise.notes[0]
    grid = build_grid_intervals(city, region=san_francisco, epsilon=0.5, centres=50).guarantee(1e-5)
    assert (grid.epsilon, grid.notes) == (pytest.approx(0.5), ())
    # What the noise cannot reach is all there is to delta, and it is owned up to.
    assert 0 < grid.delta < 1e-20
    public = build_public_intervals(region=san_francisco, rng=1).guarantee(1e-5)
    assert (public.epsilon, public.delta) == (0.0, 0.0)


def test_coinciding_centres_are_no_intervals(san_francisco: Region) -> None:
    with pytest.raises(UsageError, match="different"):
        Intervals(region=san_francisco, centres=np.zeros((2, 2)), method="public", answers=(), gamma=0.5, seeded=False)
