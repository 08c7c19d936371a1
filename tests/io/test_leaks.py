"""No trace of a true location gets through: not in other columns, members or metadata."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from nearveil.errors import DataError
from nearveil.io.location import Location, objects
from nearveil.io.readers import open_source
from nearveil.io.second_location import SecondLocations
from tests.io.samples import MOVED, geojson, geoparquet, publish, write


@pytest.mark.parametrize("target", ["out.csv", "out.jsonl", "out.geojson", "out.parquet", "out.geoparquet", "out.gpkg"])
def test_nothing_of_the_input_but_the_columns_named(target: str, tmp_path: Path) -> None:
    """Boxes, metadata, members beside the properties and columns that nobody named stay behind."""
    if target == "out.gpkg":
        pytest.importorskip("pyogrio")
    traces = (b"bbox", b"secret", b"122.4", b"37.7", b"37.8", np.float64(37.7).tobytes(), np.float64(-122.5).tobytes())
    source = geoparquet(tmp_path / "in.parquet")
    assert all(trace in source.read_bytes() for trace in traces)
    published = publish(source, tmp_path / target, "id", points=MOVED).read_bytes()
    assert not any(trace in published for trace in traces)
    source = geojson(tmp_path / "in.geojson", {"id": 1, "home": "37.7"}, {"id": 2, "home": "37.8"}, secret=1)
    published = publish(source, tmp_path / target, "id", points=MOVED, force=True).read_bytes()
    assert not any(trace in published for trace in (*traces, b"home"))


def test_metadata_within_columns_is_left_out(tmp_path: Path) -> None:
    part = pa.field("n", pa.int64(), metadata={b"stats": b"centroid 37.7749"})
    struct, pair = {"n": 1}, [{"n": 1}, {"n": 2}]
    tensor = pa.fixed_shape_tensor(pa.int64(), (2,), dim_names=["37.7749"])
    columns = {
        "struct": pa.array([struct] * 2, pa.struct([part])),
        "list": pa.array([pair] * 2, pa.list_(pa.field("e", pa.struct([part]), metadata={b"near": b"37.7749"}))),
        "large": pa.array([[1]] * 2, pa.large_list(part)),
        "fixed": pa.array([[1, 2]] * 2, pa.list_(part, 2)),
        "tensor": pa.ExtensionArray.from_storage(tensor, pa.array([[1, 2]] * 2, pa.list_(pa.int64(), 2))),
        "kind": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "at 37.7749"])),
        "view": pa.array(["a", "b"], pa.string_view()),
    }
    schema = pa.schema(
        [
            *(pa.field(name, column.type) for name, column in columns.items()),
            ("lat", pa.float64()),
            ("lon", pa.float64()),
        ],
        {b"pandas": b'{"a": 37.7749}'},
    )
    pq.write_table(
        pa.table([*columns.values(), [37.7, 37.8], [-122.4, -122.5]], schema=schema), tmp_path / "in.parquet"
    )
    publish(tmp_path / "in.parquet", tmp_path / "out.parquet", *columns, points=MOVED)
    out = pq.read_table(tmp_path / "out.parquet")
    assert set(out.schema.metadata) == {b"nearveil"}
    assert b"37.7749" not in (tmp_path / "out.parquet").read_bytes()
    assert b"37.7749" not in base64.b64decode(pq.read_metadata(tmp_path / "out.parquet").metadata[b"ARROW:schema"])
    for name, column in columns.items():
        stored = column.storage if name == "tensor" else column
        assert out[name].to_pylist() == stored.to_pylist()


@pytest.mark.parametrize(
    "line",
    [
        "ann;37.7749°;-122.4194°", "ann,37.7749 N,122.4194 W", "ann,9q8yyk8ytpxr,12 Main St",
        "ann,u33dc0cppz7d,Main St", "ann~37.7749 N", "ann,POINT Z (-122.4194 37.7749 3)",
        "ann,37° 46′ 29″,122° 25′ 10″", "37.7749°|-122.4194°|ann",
    ],
)  # fmt: skip
def test_a_first_line_of_data_is_not_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match="columns=") as caught:
        open_source(write(tmp_path / "in.csv", f"{line}\n{line}\n"))
    assert not any(part in str(caught.value) for part in ("37.77", "122.4", "46", "9q8", "u33", "Main", "ann"))


# A column that repeats the location.


def repeating(points: np.ndarray, location: Location | None = None, **columns: Any) -> list[str]:
    """Return the columns that are refused, in batches of 100 rows."""
    found = []
    for name, values in columns.items():
        array = values if isinstance(values, np.ndarray) else objects(values)
        test = SecondLocations(location or Location(columns=("lat", "lon")))
        for start in range(0, len(points), 100):
            test.add(points[start : start + 100], {name: array[start : start + 100]})
        try:
            test.finish()
        except DataError as error:
            assert f"'{name}'" in str(error)
            found.append(name)
    return found


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
        "tags": [["a", row % 7] for row in range(1000)],
    }
    assert repeating(places, **others) == []
