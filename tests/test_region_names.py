import json
from pathlib import Path

import pytest

from nearveil.errors import UsageError
from nearveil.region import NAMED_REGIONS, named_region, parse_region


@pytest.mark.parametrize("name", NAMED_REGIONS)
def test_named_regions_are_valid(name: str) -> None:
    assert named_region(name).name == name


def test_four_numbers() -> None:
    region = parse_region("37.5,-122.6,37.9,-122.2", "per-axis")
    assert (region.south, region.east, region.scaling) == (37.5, -122.2, "per-axis")


SQUARE = {"type": "Polygon", "coordinates": [[[10, 50], [11, 50], [11, 51], [10, 51], [10, 50]]]}
CUT = {
    "type": "MultiPolygon",
    "coordinates": [
        [[[177, -19], [180, -19], [180, -16], [177, -16], [177, -19]]],
        [[[-180, -19], [-178, -19], [-178, -16], [-180, -16], [-180, -19]]],
    ],
}


@pytest.mark.parametrize(
    ("document", "box"),
    [
        (SQUARE, (50, 10, 51, 11)),
        ({"type": "Feature", "properties": {}, "geometry": SQUARE}, (50, 10, 51, 11)),
        ({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": SQUARE}]}, (50, 10, 51, 11)),
        ({"type": "GeometryCollection", "geometries": [SQUARE]}, (50, 10, 51, 11)),
        ({**SQUARE, "bbox": [9, 49, 12, 52]}, (49, 9, 52, 12)),
        ({**SQUARE, "bbox": [9, 49, 0, 12, 52, 100]}, (49, 9, 52, 12)),
        (CUT, (-19, 177, -16, -178)),
        ({"type": "Polygon", "coordinates": [[[177, -19], [182, -19], [182, -16], [177, -19]]]}, (-19, 177, -16, -178)),
    ],
)
def test_geojson(document: object, box: tuple[float, ...], tmp_path: Path) -> None:
    path = tmp_path / "area.geojson"
    path.write_text(json.dumps(document))
    region = parse_region(str(path))
    assert (region.south, region.west, region.north, region.east) == box
    assert region.name == "area"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"type": "Point", "coordinates": [1, 2]}',
        '{"type":"Feature"}',
        "no",
        '{"bbox": [1, 2, 3, ' + "9" * 5000 + "]}",
        "[" * 100_000,
    ],
)
def test_geojson_without_an_area_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "area.geojson"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"area\.geojson"):
        parse_region(str(path))


@pytest.mark.parametrize("text", ["atlantis", "1,2,3", "a,b,c,d", "missing.geojson", ""])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_region(text)
