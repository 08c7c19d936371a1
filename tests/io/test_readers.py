"""What readers tell of a file, and what they read of it, a batch at a time."""

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.geodesy import degrees_to, reference_system
from nearveil.io.location import Location, Style, find_location
from nearveil.io.readers import ReadOptions, open_source, read_points
from tests.io.samples import CSV, PLACES, geojson, geoparquet, write


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.readers._BATCH_ROWS", 7)
    monkeypatch.setattr("nearveil.io.readers._BLOCK_BYTES", 100)


def test_a_source_says_what_it_holds(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "in.csv", CSV))
    assert (source.columns, source.extension, source.rows) == (("id", "note", "empty"), ".csv", None)
    assert source.location == Location(columns=("latitude", "longitude"))
    (batch,) = source.batches(["empty", "id"])
    assert batch.points.tolist() == PLACES.tolist()
    assert batch.table.to_pylist() == [{"empty": "", "id": "007"}, {"empty": "NA", "id": "1e5"}]
    assert [batch.table.num_columns for batch in source.batches()] == [0]
    with pytest.raises(DataError, match="there is no column 'age'; the columns are 'id', 'note', 'empty'"):
        list(source.batches(["age"]))
    assert open_source(geoparquet(tmp_path / "in.parquet")).columns == ("id",)


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz", "in.jsonl", "in.parquet"])
def test_batches_are_the_file(name: str, tmp_path: Path, small_batches: None) -> None:
    rows = np.arange(100)
    table = pa.table({"name": [f"n{row}" for row in rows], "lat": 37.6 + rows / 1000, "lon": -122.5 + rows / 1000})
    if name == "in.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=30)
    elif name == "in.jsonl":
        write(tmp_path / name, "\n".join(map(json.dumps, table.to_pylist())))
    else:
        text = "\n".join(["name,lat,lon", *(",".join(map(str, row.values())) for row in table.to_pylist())]).encode()
        write(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    source = open_source(tmp_path / name)
    for _ in range(2):
        batches = list(source.batches(["name"]))
        assert len(batches) > 10
        assert np.concatenate([batch.points for batch in batches]) == pytest.approx(
            np.column_stack([table["lat"].to_numpy(), table["lon"].to_numpy()])
        )
        assert [name for batch in batches for name in batch.table["name"].to_pylist()] == table["name"].to_pylist()


@pytest.mark.parametrize("bad", [[83], [1], [100], [7, 8, 50, 100], list(range(1, 100))])
def test_rows_that_cannot_be_read_keep_their_number(bad: list[int], tmp_path: Path, small_batches: None) -> None:
    lines = [f"37.{row:03},-122.4,n{row}" for row in range(1, 101)]
    for number, row in enumerate(bad):
        lines[row - 1] = ("37.7,-122.4,n,1", "37.7", "west,-122.4,n")[number % 3]
    source = open_source(write(tmp_path / "in.csv", "\n".join(["lat,lon,name", *lines])))
    points = np.concatenate([batch.points for batch in source.batches()])
    assert (np.flatnonzero(np.isnan(points).any(axis=1)) + 1).tolist() == bad
    good = np.setdiff1d(np.arange(1, 101), bad)
    assert points[good - 1, 0] == pytest.approx(37 + good / 1000)
    with pytest.raises(DataError, match=rf"^row {bad[0]}\b.* (more or fewer values|not a number)"):
        read_points(source)


def test_damage_at_the_end_is_noticed(tmp_path: Path, small_batches: None) -> None:
    text = ("lat,lon,note\n" + "37.7,-122.4,a\n" * 20_000).encode()
    write(tmp_path / "cut.csv.gz", gzip.compress(text)[:-20])
    with pytest.raises(DataError, match="damaged"):
        list(open_source(tmp_path / "cut.csv.gz").batches(["note"]))
    write(tmp_path / "late.csv", text + b"37.7,-122.4,\xff\n")
    with pytest.raises(DataError, match="is not text in this encoding"):
        list(open_source(tmp_path / "late.csv").batches(["note"]))
    pq.write_table(pa.table({"lat": np.arange(3000.0) / 100, "lon": np.arange(3000.0) / 100}), tmp_path / "in.parquet")
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    data[20_000:24_000] = b"\xff" * 4000
    write(tmp_path / "in.parquet", bytes(data))
    with pytest.raises(DataError, match="damaged"):
        list(open_source(tmp_path / "in.parquet").batches())


def test_wide_rows_come_in_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.readers._BATCH_BYTES", 10_000)
    table = pa.table({"lat": [37.7] * 9000, "lon": [-122.4] * 9000, "note": [f"{row}" * 50 for row in range(9000)]})
    pq.write_table(table, tmp_path / "in.parquet", compression=None, use_dictionary=False)
    assert [len(batch.points) for batch in open_source(tmp_path / "in.parquet").batches()] == [4096, 4096, 808]


def test_meters_are_read_and_written(tmp_path: Path) -> None:
    metres = degrees_to("EPSG:32610", PLACES)
    crs = reference_system("EPSG:32610").to_json_dict()
    source = open_source(geoparquet(tmp_path / "m.parquet", metres, crs=crs))
    assert source.location.crs == "EPSG:32610"
    assert read_points(source) == pytest.approx(PLACES, abs=1e-6)
    with pytest.raises(DataError, match="reference system is unknown; name it with crs="):
        open_source(geoparquet(tmp_path / "u.parquet", crs=None))
    assert read_points(tmp_path / "u.parquet", ReadOptions(crs="EPSG:4326")).tolist() == PLACES.tolist()
    own = "+proj=aeqd +lat_0=37.77 +lon_0=-122.42"
    with pytest.raises(DataError, match="has no EPSG number") as caught:
        open_source(geoparquet(tmp_path / "o.parquet", crs=reference_system(own).to_json_dict()))
    assert "37.77" not in str(caught.value)
    old = geojson(
        tmp_path / "in.geojson", {}, {}, crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::4326"}}
    )
    assert read_points(old).tolist() == PLACES.tolist()


@pytest.mark.parametrize(
    ("found", "others"),
    [
        ("lat lon", "id"),
        ("LATITUDE Longitude", "x y"),
        ("Breite Länge", ""),
        ("y x", ""),
        ("lat lng", "home_lat home_lng"),
    ],
)
def test_usual_names(found: str, others: str) -> None:
    assert find_location([*others.split(), *found.split()]).columns == tuple(found.split())


@pytest.mark.parametrize(
    "names",
    ["lateral long_description", "lat lat lon", "lat Latitude lon", "home_lat work_lon", "a_lat a_lon b_lat b_lon"],
)
def test_names_that_leave_it_open(names: str) -> None:
    with pytest.raises(DataError):
        find_location(names.split())


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("crs", [None, "EPSG:32610"])
def test_a_location_is_written_as_it_was(style: Style, crs: str | None) -> None:
    for srid in (None, 32610 if crs else 4326):
        location = Location(columns=("lat", "lon"), style=style, crs=crs, srid=srid)
        assert location.decode(location.encode(PLACES)) == pytest.approx(PLACES, abs=1e-6)


def test_options_that_contradict_themselves() -> None:
    for options in ({"latitude": "a"}, {"location": "a", "latitude": "b", "longitude": "c"}, {"delimiter": "ab"}):
        with pytest.raises(UsageError):
            ReadOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["csv", "geojson", "parquet", "jsonl"])
def test_standard_input_is_read_by_what_it_holds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {
        "csv": CSV.encode(),
        "geojson": geojson(tmp_path / "g", {}, {}).read_bytes(),
        "parquet": geoparquet(tmp_path / "p").read_bytes(),
        "jsonl": b'{"lat": 37.7, "lon": -122.4}\n{"lat": 37.8, "lon": -122.5}\n',
    }[kind]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = open_source("-")
    assert [read_points(source).tolist() for _ in range(2)] == [PLACES.tolist()] * 2
