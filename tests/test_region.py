import math

import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import DataError, UsageError
from nearveil.region import WHOLE_EARTH, Region, Scaling

SF = Region(37.5, -122.6, 37.9, -122.2)
FIJI = Region(-19.5, 176.8, -15.5, -178.0)


def test_san_francisco_has_the_papers_size() -> None:
    width, height = (2 * extent / 1000 for extent in SF.half_extent_m)
    assert height == pytest.approx(44.4, abs=0.1)
    assert width == pytest.approx(35.4, abs=0.2)


@pytest.mark.parametrize("scaling", ["isotropic", "per-axis"])
@pytest.mark.parametrize("box", [SF, FIJI, Region(-0.2, 10, 0.2, 10.4), Region(59.8, 10.5, 60.2, 11.1)])
def test_square_and_back(box: Region, scaling: Scaling, rng: np.random.Generator) -> None:
    region = box.with_scaling(scaling)
    offsets = rng.random((500, 2)) * [region.height_deg, region.width_deg]
    points = np.array([region.south, region.west]) + offsets
    points[:, 1] = (points[:, 1] + 180) % 360 - 180
    square = region.to_square(points)
    assert (np.abs(square) <= np.array(region.half_extent_square) + 1e-12).all()
    back = region.from_square(square)
    assert np.abs(back[:, 0] - points[:, 0]).max() < 1e-7
    assert np.abs((back[:, 1] - points[:, 1] + 180) % 360 - 180).max() < 1e-7


def test_isotropic_square_is_metres_over_one_length(rng: np.random.Generator) -> None:
    points = np.column_stack([rng.uniform(37.5, 37.9, 50), rng.uniform(-122.6, -122.2, 50)])
    assert SF.to_square(points) == pytest.approx(SF.to_metres(points) / SF.metres_per_unit)


def test_per_axis_square_reaches_all_corners() -> None:
    corners = [[37.5, -122.6], [37.9, -122.2]]
    assert SF.with_scaling("per-axis").to_square(corners) == pytest.approx(np.array([[-1, -1], [1, 1]]))


@pytest.mark.parametrize("region", [SF, FIJI, Region(40, -10, 70, 40), Region(-5, 100, 5, 110)])
def test_projection_stretches_no_more_than_stated(region: Region, rng: np.random.Generator) -> None:
    def places() -> np.ndarray:
        return np.array([region.south, region.west]) + rng.random((3000, 2)) * [region.height_deg, region.width_deg]

    first, second = places(), places()
    second[::2] = first[::2] + rng.normal(0, 1e-3, (1500, 2))
    *_, ground = pyproj.Geod(ellps="WGS84").inv(first[:, 1], first[:, 0], second[:, 1], second[:, 0])
    flat = np.hypot(*(region.to_metres(first) - region.to_metres(second)).T)
    assert (flat <= np.asarray(ground) * region.largest_stretch * (1 + 1e-7) + 1e-6).all()


@given(
    latitude=st.floats(-90, 90),
    longitude=st.floats(-180, 180),
    box=st.sampled_from([SF, FIJI, Region(37.50000049, -122.6, 37.9, -122.20000051)]),
)
def test_published_points_lie_in_the_region_on_the_grid(latitude: float, longitude: float, box: Region) -> None:
    published = box.publish(np.array([[latitude, longitude]]))
    assert box.contains(published).all()
    assert published == pytest.approx(published.round(6), abs=1e-12)


def test_clip_moves_to_the_edge_and_keeps_the_rest() -> None:
    clipped = SF.clip([[38.0, -122.4], [37.7, -100.0], [37.6, -122.3]])
    assert clipped == pytest.approx(np.array([[37.9, -122.4], [37.7, -122.2], [37.6, -122.3]]))


def test_antimeridian_region_holds_both_sides() -> None:
    assert FIJI.contains([[-17, 179.9], [-17, -179.9], [-17, 170.0], [-17, -170.0]]).tolist() == [
        True,
        True,
        False,
        False,
    ]
    metres = FIJI.to_metres([[-17.5, 179.9], [-17.5, -179.9]])
    assert metres[1, 0] - metres[0, 0] == pytest.approx(21_240, rel=0.01)


@pytest.mark.parametrize(
    "box",
    [
        (37.5, -122.6, 37.5, -122.2),
        (37.5, -122.6, 37.9, -122.6),
        (37.9, -122.6, 37.5, -122.2),
        (-91, 0, 0, 10),
        (0, -200, 10, 0),
        (math.nan, 0, 10, 10),
        (0, 0, math.inf, 10),
        (-60, -170, 60, 170),
    ],
)
def test_impossible_regions_are_refused(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(UsageError):
        Region(*box)


def test_one_location_is_projected_or_refused_without_naming_it() -> None:
    assert FIJI.location_to_metres(-17.5, -179.9) == pytest.approx(FIJI.to_metres([[-17.5, 180.1]])[0], abs=1e-4)
    for latitude, longitude in ((-17.5, 10.0), (60.0, 178.0), (math.nan, 178.0), (-17.5, math.inf)):
        with pytest.raises(DataError, match=r"^the location is outside the region -19\.5,176\.8,-15\.5,-178$"):
            FIJI.location_to_metres(latitude, longitude)


def test_a_place_is_called_by_its_name() -> None:
    assert SF.check_place((37.7, -122.4), "truth=").tolist() == [[37.7, -122.4]]
    for place, words in (((52.0, 13.0), "outside the region 37.5"), ((95.0, 13.0), "not on Earth")):
        with pytest.raises(UsageError, match=f"^truth= is {words}"):
            SF.check_place(place, "truth=")


def test_no_points_are_refused() -> None:
    with pytest.raises(DataError, match="no points"):
        SF.check(np.empty((0, 2)))


def test_the_whole_earth_takes_everything_and_has_no_map() -> None:
    everywhere = [[90.0, 0.0], [-90.0, 180.0], [0.0, -180.0], [1.0, 359.5]]
    assert WHOLE_EARTH.contains(everywhere).all()
    assert WHOLE_EARTH.check(everywhere)[3].tolist() == [1.0, -0.5]
    assert WHOLE_EARTH.publish(np.array([[1.00000049, 180.0]])).tolist() == [[1.0, -180.0]]
    with pytest.raises(UsageError, match="needs a region"):
        WHOLE_EARTH.to_metres([[0.0, 0.0]])
