"""Regions: boxes, their maps, and what an operator may write for one."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import DataError, UsageError
from nearveil.region import NAMED_REGIONS, WHOLE_EARTH, Region, Scaling, as_region, named_region, region_around

SF = Region(37.5, -122.6, 37.9, -122.2)
FIJI = Region(-19.5, 176.8, -15.5, -178.0)


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


def test_the_square_is_metres_over_one_length_or_reaches_all_corners() -> None:
    corners = [[37.5, -122.6], [37.9, -122.2]]
    assert SF.to_square(corners) == pytest.approx(SF.to_metres(corners) / SF.metres_per_unit)
    assert SF.with_scaling("per-axis").to_square(corners) == pytest.approx(np.array([[-1, -1], [1, 1]]))


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
    around = [[-17, 179.9], [-17, -179.9], [-17, 170.0], [-17, -170.0]]
    assert FIJI.contains(around).tolist() == [True, True, False, False]
    metres = FIJI.to_metres([[-17.5, 179.9], [-17.5, -179.9]])
    assert metres[1, 0] - metres[0, 0] == pytest.approx(21_240, rel=0.01)


IMPOSSIBLE = (
    *((37.5, -122.6, 37.5, -122.2), (37.5, -122.6, 37.9, -122.6), (37.9, -122.6, 37.5, -122.2), (-91, 0, 0, 10)),
    *((0, -200, 10, 0), (math.nan, 0, 10, 10), (0, 0, math.inf, 10), (-60, -170, 60, 170), (50, 10, 50.0005, 11)),
)


@pytest.mark.parametrize("box", IMPOSSIBLE, ids=str)
def test_impossible_regions_are_refused(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(
        UsageError, match=r"^the region (has no area on Earth; give south, west, north, east|reaches farther)"
    ):
        Region(*box)


def test_the_whole_earth_takes_everything_and_has_no_map() -> None:
    everywhere = [[90.0, 0.0], [-90.0, 180.0], [0.0, -180.0], [1.0, 359.5]]
    assert WHOLE_EARTH.contains(everywhere).all()
    assert WHOLE_EARTH.check(everywhere)[3].tolist() == [1.0, -0.5]
    assert WHOLE_EARTH.publish(np.array([[1.00000049, 180.0]])).tolist() == [[1.0, -180.0]]
    for ask in (lambda: WHOLE_EARTH.to_metres(everywhere), lambda: WHOLE_EARTH.radius_m):
        with pytest.raises(UsageError, match="needs a region"):
            ask()
    with pytest.raises(DataError, match="no points"):
        WHOLE_EARTH.check(np.empty((0, 2)))


def test_names_and_numbers() -> None:
    for name, edges in NAMED_REGIONS.items():
        assert named_region(name).name == name
        assert as_region(",".join(map(str, edges))).same_edges(named_region(name))


def test_a_box_around_locations_goes_across_the_antimeridian() -> None:
    around = region_around(np.array([[-17.0, 179.5], [-18.0, -179.5]]), margin=0.1)
    assert (around.south, around.west, around.north, around.east) == pytest.approx((-18.1, 179.4, -16.9, -179.4))


SQUARE: dict[str, object] = {"type": "Polygon", "coordinates": [[[10, 50], [11, 50], [11, 51], [10, 51], [10, 50]]]}
CUT = [[[[177, -19], [180, -19], [180, -16], [177, -16]]], [[[-180, -19], [-178, -19], [-178, -16], [-180, -16]]]]
AREAS: list[tuple[dict[str, object], tuple[float, ...]]] = [
    (SQUARE, (50, 10, 51, 11)),
    ({"type": "Feature", "properties": {}, "geometry": SQUARE}, (50, 10, 51, 11)),
    ({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": SQUARE}]}, (50, 10, 51, 11)),
    ({**SQUARE, "bbox": [9, 49, 12, 52]}, (49, 9, 52, 12)),
    ({**SQUARE, "bbox": [9, 49, 0, 12, 52, 100]}, (49, 9, 52, 12)),
    ({"type": "MultiPolygon", "coordinates": CUT}, (-19, 177, -16, -178)),
    ({"type": "Polygon", "coordinates": [[[177, -19], [182, -19], [182, -16], [177, -19]]]}, (-19, 177, -16, -178)),
]
WITHOUT_AREA = ("", "[]", "{}", '{"type": "Point", "coordinates": [1, 2]}', '{"type":"Feature"}', "no", "[" * 100_000)


def test_geojson(tmp_path: Path) -> None:
    path = tmp_path / "area.geojson"
    for document, box in AREAS:
        path.write_text(json.dumps(document))
        region = as_region(str(path))
        assert (region.south, region.west, region.north, region.east, region.name) == (*box, "area")
    for content in (*WITHOUT_AREA, '{"bbox": [1, 2, 3, ' + "9" * 5000 + "]}"):
        path.write_text(content)
        with pytest.raises(UsageError, match=r"area\.geojson is no GeoJSON"):
            as_region(str(path))


@pytest.mark.parametrize("text", ["atlantis", "1,2,3", "a,b,c,d", "missing.geojson", ""])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        as_region(text)
