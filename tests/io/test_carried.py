"""Columns that hold the location once more are refused, however they are written; other columns are not."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearveil as nv
from nearveil.errors import DataError, UsageError
from nearveil.geodesy import degrees_to
from nearveil.io.carried import check_carried, second_locations
from nearveil.io.people import ReadOptions
from nearveil.types import FloatArray

UTM = "EPSG:32610"


def places(count: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform([37.5, -122.6], [37.9, -122.2], (count, 2)).round(6)


def point_wkb(
    x: float, y: float, *, order: str = "<", kind: int = 1, srid: int | None = None, z: bool = False
) -> bytes:
    flags = kind | (0x20000000 if srid else 0) | (0x80000000 if z else 0)
    head = struct.pack(order + "BI", order == "<", flags) + (struct.pack(order + "I", srid) if srid else b"")
    return head + struct.pack(order + ("ddd" if z else "dd"), x, y, *([3.0] if z else []))


def minutes(value: float) -> str:
    whole, rest = divmod(abs(value), 1)
    return f"{whole:.0f}°{rest * 60 // 1:.0f}'{rest * 60 % 1 * 60:.1f}\""


WAYS: dict[str, Callable[[float, float], object]] = {
    "number": lambda y, x: y,
    "negated": lambda y, x: -x,
    "five decimals": lambda y, x: round(x, 5),
    "text": lambda y, x: f" {y} ",
    "degree sign": lambda y, x: f"{y}°",
    "decimal comma": lambda y, x: str(y).replace(".", ","),
    "letters": lambda y, x: f"{y} N {-x} W",
    "minutes": lambda y, x: minutes(y),
    "pair": lambda y, x: f"{y}, {x}",
    "pair of commas": lambda y, x: f"{y}; {x}".replace(".", ","),
    "WKT": lambda y, x: f"POINT ({x} {y})",
    "WKT with height": lambda y, x: f"POINT Z ({x} {y} 3)",
    "GeoJSON": lambda y, x: f'{{"type": "Point", "coordinates": [{x}, {y}]}}',
    "WKB": lambda y, x: point_wkb(x, y),
    "WKB, big endian": lambda y, x: point_wkb(x, y, order=">"),
    "EWKB with height": lambda y, x: point_wkb(x, y, srid=4326, z=True),
    "hexadecimal": lambda y, x: point_wkb(x, y).hex(),
    "hexadecimal with height": lambda y, x: point_wkb(x, y, z=True).hex().upper(),
    "list": lambda y, x: [x, y],
    "structure": lambda y, x: {"a": 1, "b": y},
}
LARGE = {
    "microdegrees": lambda y, x: round(y * 1e6),
    "sum": lambda y, x: y + 2 * x,
    "metres": lambda y, x: float(degrees_to(UTM, np.array([[y, x]]))[0, 0]),
}


def column(way: Callable[[float, float], object], points: FloatArray) -> pa.Array:
    return pa.array([way(float(y), float(x)) for y, x in points])


@pytest.mark.parametrize("count", [1, 2, 20, 300, 3000])
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_the_location_is_found(way: str, count: int) -> None:
    points = places(count)
    assert second_locations(pa.table({"q": column(WAYS[way], points)}), points) == ["q"]


@pytest.mark.parametrize("way", [*WAYS, *LARGE])
def test_a_copy_is_found_beside_rows_without_a_place_and_rows_without_a_copy(way: str) -> None:
    points = places(300)
    copies = (WAYS | LARGE)[way]
    values = [None if row % 3 == 0 else copies(float(y), float(x)) for row, (y, x) in enumerate(points)]
    points[::7] = np.nan
    assert second_locations(pa.table({"q": pa.array(values)}), points) == ["q"]


@pytest.mark.parametrize("way", LARGE)
def test_a_formula_of_the_location_is_found_where_there_are_enough_rows(way: str) -> None:
    points = places(100)
    assert second_locations(pa.table({"q": column(LARGE[way], points)}), points) == ["q"]


def test_metres_of_the_file_are_found_in_few_rows() -> None:
    points = places(3)
    in_file = degrees_to(UTM, points)
    table = pa.table({"q": in_file[:, 1].round(3)})
    assert second_locations(table, points, in_file) == ["q"]
    assert second_locations(table, points) == []


def test_copies_far_down_a_table_are_found() -> None:
    points = places(1000)
    values = ["home"] * 400 + [f"POINT ({x} {y})" for y, x in points[400:]]
    assert second_locations(pa.table({"q": values}), points) == ["q"]


@pytest.mark.parametrize("count", [1, 2, 20, 300, 3000])
@pytest.mark.parametrize("seed", range(5))
def test_what_says_nothing_of_the_place_is_carried(count: int, seed: int) -> None:
    """Twenty-five tables of ten columns; a value agrees with a place by chance in less than one of a thousand rows."""
    rng, points = np.random.default_rng(seed), places(count, seed)
    table = pa.table(
        {
            "row": np.arange(count),
            "age": rng.integers(18, 99, count),
            "degree": rng.integers(-123, 38, count).astype(float),
            "weight": rng.normal(70, 12, count).round(2),
            "noon_temperature": rng.uniform(37.5, 37.9, count).round(1),
            "phone": [f"+1 415 {number:07d}" for number in rng.integers(0, 10**7, count)],
            "time": [f"2026-11-{day:02d}T{hour:02d}:37.{hour}" for day, hour in rng.integers(1, 23, (count, 2))],
            "remark": ["says: the point (of it) is 37" for _ in range(count)],
            "uuid": [rng.bytes(16) for _ in range(count)],
            "hash": [rng.bytes(32).hex() for _ in range(count)],
            "tags": [["a", "b"] for _ in range(count)],
        }
    )
    assert second_locations(table, points) == []


def test_a_constant_and_a_town_are_no_exact_locations() -> None:
    """Few places: any value that belongs to a place would be given by a formula."""
    points = places(6)[np.arange(300) % 6]
    table = pa.table({"price": np.arange(300) % 6 * 1.7, "same": np.full(300, 0.25)})
    assert check_carried(table, points) == ()


@pytest.mark.parametrize(
    "way", ["degree sign", "decimal comma", "WKT with height", "hexadecimal with height", "negated"]
)
@pytest.mark.parametrize("bad_row", [False, True])
def test_a_file_with_a_copy_is_refused_and_nothing_is_written(tmp_path: Path, way: str, bad_row: bool) -> None:
    points = places(30)
    lines = ["id;latitude;longitude;q"]
    lines += ["0;;;x"] if bad_row else []
    lines += [f"{row};{y};{x};{WAYS[way](float(y), float(x))}" for row, (y, x) in enumerate(points)]
    (tmp_path / "in").mkdir()
    source, target = tmp_path / "in/people.csv", tmp_path / "published.csv"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    read = ReadOptions(skip_bad=tmp_path / "in/bad.csv") if bad_row else ReadOptions()
    with pytest.raises(DataError, match="column 'q' holds a second exact location"):
        nv.protect_file(source, target, nv.PlanarLaplace(), read=read)
    assert not target.exists()


def test_copies_that_begin_after_the_first_rows_of_a_large_file_are_refused(tmp_path: Path) -> None:
    points = places(60_000)
    values = [""] * 40_000 + [f"POINT ({x} {y})" for y, x in points[40_000:]]
    table = pa.table({"latitude": points[:, 0], "longitude": points[:, 1], "q": values})
    pq.write_table(table, tmp_path / "people.parquet")
    with pytest.raises(DataError, match="column 'q' holds a second exact location"):
        nv.protect_file(tmp_path / "people.parquet", tmp_path / "published.parquet", nv.PlanarLaplace())
    assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


def test_bytes_of_a_geometry_in_a_frame_are_refused() -> None:
    points = places(30)
    frame = pa.table({"latitude": points[:, 0], "longitude": points[:, 1], "q": [point_wkb(x, y) for y, x in points]})
    with pytest.raises(DataError, match="column 'q' holds a second exact location"):
        nv.protect_frame(frame, nv.PlanarLaplace())


def test_all_copies_are_named_at_once() -> None:
    true, copies = places(3), ["home lat", "home_lon", "geom"]
    table = pa.table({"age": [30, 41, 52], "home lat": true[:, 0], "home_lon": true[:, 1], "geom": ["a", "b", "c"]})
    with pytest.raises(DataError, match="columns 'home lat', 'home_lon' and 'geom' hold the exact location") as caught:
        check_carried(table, true)
    assert str(caught.value).endswith("leave them out with drop=")
    with pytest.raises(DataError, match=r"column 'geom' holds a second exact location.*drop=$"):
        check_carried(table.drop_columns(copies[:2]), true)


@pytest.mark.parametrize("text", ["POLYGON ((1 2, 3 4, 5 6, 1 2))", "POINT (1 2)", point_wkb(1.0, 2.0).hex()])
def test_geometries_of_other_places_are_refused_too(text: str) -> None:
    """Somebody's workplace is an exact location as well."""
    points = places(30)
    assert second_locations(pa.table({"q": [text] * 30, "b": [point_wkb(1.0, 2.0)] * 30}), points) == ["q", "b"]


def test_who_is_left_out_is_not_covered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in/people.csv"
    source.write_text("id,latitude,longitude\nann,37.7,-122.4\nben,0,0\n", encoding="utf-8")
    read = ReadOptions(skip_bad=tmp_path / "in/bad.csv")
    result = nv.protect_file(source, tmp_path / "published.csv", nv.PlanarLaplace(region="san-francisco"), read=read)
    document = result.to_dict()
    assert (document["rows"], document["epsilon_holds"], document["holds_for_these_people"]) == (1, False, None)
    assert any("left out" in warning for warning in result.warnings)
    assert "bad.csv" not in repr(result)


def test_rows_that_are_left_out_are_not_written_where_something_is_published(tmp_path: Path) -> None:
    for folder in ("in", "public/below"):
        (tmp_path / folder).mkdir(parents=True)
    source = tmp_path / "in/people.csv"
    source.write_text("id,latitude,longitude\nann,37.7,-122.4\nben,0,0\n", encoding="utf-8")
    read = ReadOptions(skip_bad=tmp_path / "public/below/bad.csv")
    with pytest.raises(UsageError, match="beside the OUTPUT"):
        nv.protect_file(source, tmp_path / "public/published.csv", nv.PlanarLaplace(), read=read)
    with pytest.raises(UsageError, match="skip_bad= takes the name of a file"):
        ReadOptions(skip_bad=Path("-"))
