"""A column to be published that repeats the true location is found, however it writes it; other columns are not."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from nearveil.errors import DataError
from nearveil.io.location import Location, objects
from nearveil.release.second_location import SecondLocations, refuse_second_locations


def repeating(points: np.ndarray, location: Location | None = None, **columns: Any) -> list[str]:
    """Return the columns that are refused, in batches of 100 rows, as NumPy and as Arrow have them."""
    found = []
    for name, values in columns.items():
        array = values if isinstance(values, np.ndarray) else objects(values)
        by_columns, by_table = (SecondLocations(location or Location(columns=("lat", "lon"))) for _ in range(2))
        for start in range(0, len(points), 100):
            some, part = points[start : start + 100], array[start : start + 100]
            by_columns.add_columns(some, {name: part})
            by_table.add_table(some, pa.table({name: part.tolist()}))
        for test in (by_columns, by_table):
            try:
                test.finish()
            except DataError as error:
                assert f"'{name}'" in str(error)
                found.append(name)
    assert found[::2] == found[1::2]
    return found[::2]


@pytest.fixture
def places() -> np.ndarray:
    return np.random.default_rng(1).uniform([37.5, -122.6], [37.9, -122.2], (1000, 2)).round(6)


def test_a_column_that_repeats_the_location_is_found(places: np.ndarray) -> None:
    lat, lon = places.T
    wkb = shapely.to_wkb(shapely.points(places[:, ::-1]))
    copies: dict[str, Any] = {
        "number": lat,
        "west": -lon,
        "rounded": lat.round(3),
        "text": [str(one) for one in lon],
        "comma": [f"{one:.5f}".replace(".", ",") for one in lat],
        "pair": [f"{y}, {x}" for y, x in places],
        "wkt": [f"POINT ({x} {y})" for y, x in places],
        "words": [f"at {y}° N, {-x}° W" for y, x in places],
        "json": [f'{{"user": 1, "at": [{x}, {y}]}}' for y, x in places],
        "wkb": list(wkb),
        "ewkb": [one.hex() for one in wkb],
        "struct": [{"where": {"lat": y}} for y in lat],
        "list": [[1, x] for x in lon],
        "half": np.where(np.arange(1000) % 2 == 0, lat, 0.0),
        "rare": [str(y) if row % 250 == 3 else None for row, y in enumerate(lat)],
    }
    assert repeating(places, **copies) == list(copies)
    meters = Location(columns=("x", "y"), crs="EPSG:32610")
    assert repeating(places, meters, easting=meters.numbers_of(places)[:, 1]) == ["easting"]


def test_other_columns_are_none(places: np.ndarray) -> None:
    """A value within 100 m by chance: of 1,000 rows some have an age that fits, never half of them."""
    rng = np.random.default_rng(2)
    others: dict[str, Any] = {
        "age": rng.integers(18, 80, 1000),
        "id": np.arange(1000),
        "shop": places[::-1, 0],
        "far": places[:, 0] + 0.002,
        "name": [f"user {row}" for row in range(1000)],
        "note": [f"at {row}" for row in range(1000)],
        "empty": [None] * 1000,
        "flag": [True] * 1000,
        "few": [str(y) if row % 5 == 0 else "x" for row, y in enumerate(places[:, 0])],
        "tags": [["a", f"{row % 7}"] for row in range(1000)],
    }
    assert repeating(places, **others) == []


@pytest.mark.parametrize("first", [0, 1])
def test_some_rows_of_many_are_looked_at_odd_and_even_alike(places: np.ndarray, first: int) -> None:
    many = np.tile(places, (17, 1))
    test = SecondLocations(Location(columns=("lat", "lon")))
    # Of the other rows, all but a few have no value that repeats it.
    half = np.where((np.arange(len(many)) + first) % 2 == 0, many[:, 0], 0.0)
    half[:100] = many[:100, 0]
    test.add_columns(many, {"half": half})
    with pytest.raises(DataError, match="'half'"):
        test.finish()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    frame = pytest.importorskip(library).DataFrame(
        {"id": ["a", "b"], "lat": [37.7, 37.8], "lon": [-122.4, -122.5], "age": [30, 40], "q": ["37,7", "37,8"]}
    )
    refuse_second_locations(frame, ["age", "id"])
    with pytest.raises(DataError, match="column 'q' repeats the true location"):
        refuse_second_locations(frame, ["age", "q"])


def test_geometries_of_a_frame() -> None:
    geopandas = pytest.importorskip("geopandas")
    points = geopandas.points_from_xy([-122.4, -122.5], [37.7, 37.8], crs=4326)
    frame = geopandas.GeoDataFrame({"home": points, "shop": points[::-1]}, geometry=points)
    refuse_second_locations(frame, ["shop"])
    with pytest.raises(DataError, match="column 'home' repeats the true location"):
        refuse_second_locations(frame, ["home"])
