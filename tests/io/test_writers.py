"""What is written says what was given, whatever the values are; and nothing is said where writing fails."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError, OutputError
from nearveil.io.files import people_writer, read_people, write_people
from nearveil.io.geojson_file import GeoJsonWriter
from nearveil.io.people import Layout, People, ReadOptions
from tests.io.samples import geojson, write

WRITTEN = ["out.csv", "out.csv.gz", "out.geojson", "out.parquet"]


def people_with(**columns: object) -> People:
    table = pa.table(columns)
    rows = np.arange(table.num_rows)
    return People(np.column_stack([37.0 + rows / 1000, -122.0 - rows / 1000]), table, Layout())


def test_csv_is_what_others_read(tmp_path: Path) -> None:
    """Python's own reader is the judge: commas, quotation marks and line ends of either kind, in names and values."""
    values = ["plain", "a,b", 'say "no"', "two\nlines", "old\rline", "", None, " blank "]
    people = people_with(**{"na,me": values, 'q"': pa.array([1, None, 3, 4, 5, 6, 7, 8]), "flag": [True] * 7 + [None]})
    write_people(people, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["na,me", 'q"', "flag", "latitude", "longitude"]
    assert [row[0] for row in rows] == [value or "" for value in values]
    assert [row[1] for row in rows] == ["1", "", "3", "4", "5", "6", "7", "8"]
    assert [row[2] for row in rows] == ["true"] * 7 + [""]
    assert [(float(row[3]), float(row[4])) for row in rows] == [tuple(point) for point in people.points.tolist()]


def test_csv_in_many_parts_is_whole_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.csv_file._ROWS_AT_ONCE", 7)
    people = people_with(name=[f"n{row}" for row in range(100)])
    with people_writer(tmp_path / "out.csv") as writer:
        for _ in range(2):
            writer.write(writer.prepared(people))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "name,latitude,longitude"
    assert [line.split(",")[0] for line in lines[1:]] == [f"n{row}" for row in range(100)] * 2


@pytest.mark.parametrize(
    ("name", "mark"), [("my.tsv.csv", ","), ("my.csv.tsv", "\t"), ("my.TSV", "\t"), ("my.tsv.txt", ",")]
)
def test_the_last_extension_decides_what_separates_values(name: str, mark: str, tmp_path: Path) -> None:
    write_people(people_with(name=["ann"]), tmp_path / name)
    assert (tmp_path / name).read_text().splitlines()[0].split(mark) == ["name", "latitude", "longitude"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.list_(pa.int64())])
def test_csv_refuses_what_it_cannot_hold(kind: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'odd' holds lists, structures or bytes"):
        write_people(people_with(odd=pa.array([None], kind)), tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_geojson_has_null_for_what_is_no_number_however_deep(tmp_path: Path) -> None:
    odd = pa.array([{"list": [1.5, float("inf")], "deep": {"x": float("nan")}, "low": float("-inf")}])
    write_people(people_with(odd=odd, missing=pa.array([None], pa.int64())), tmp_path / "out.geojson")

    def refused(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    document = json.loads((tmp_path / "out.geojson").read_text(), parse_constant=refused)
    properties = document["features"][0]["properties"]
    assert properties == {"odd": {"list": [1.5, None], "deep": {"x": None}, "low": None}, "missing": None}


@pytest.mark.parametrize("name", WRITTEN)
def test_finished_twice_is_finished(name: str, tmp_path: Path) -> None:
    people = people_with(name=["a", "b"])
    with people_writer(tmp_path / name) as writer:
        writer.write(writer.prepared(people))
        writer.finish()
    assert (read_people(tmp_path / name).points == people.points).all()


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("old", [None, "precious"])
def test_an_error_between_batches_leaves_what_was_there(name: str, old: str | None, tmp_path: Path) -> None:
    if old:
        (tmp_path / name).write_text(old)
    people = people_with(name=["a", "b"])
    with pytest.raises(ZeroDivisionError), people_writer(tmp_path / name, force=True) as writer:
        writer.write(writer.prepared(people))
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ([name] if old else [])
    assert not old or (tmp_path / name).read_text() == old


def test_what_is_abandoned_is_closed_and_not_made_to_look_whole(tmp_path: Path) -> None:
    people = people_with(name=["a"])
    with pytest.raises(ZeroDivisionError), GeoJsonWriter(tmp_path / "part.geojson", {}) as writer:
        writer.write(writer.prepared(people))
        raise ZeroDivisionError
    assert writer._stream.closed
    with pytest.raises(json.JSONDecodeError):
        json.loads((tmp_path / "part.geojson").read_text())


def test_row_groups_end_where_rows_are_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.parquet_file._ROW_GROUP_BYTES", 1000)
    people = people_with(note=["x" * 600, "y"])
    with people_writer(tmp_path / "out.parquet") as writer:
        for _ in range(6):
            writer.write(writer.prepared(people))
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3


def test_everybody_at_once_makes_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.parquet_file._ROW_GROUP_ROWS", 10)
    write_people(people_with(number=list(range(35))), tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 4
    assert pq.read_table(tmp_path / "out.parquet")["number"].to_pylist() == list(range(35))


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    """In every format that has a place for it, and once."""
    for name in ("out.geojson", "out.parquet"):
        with people_writer(tmp_path / name, metadata={"seeded": True}) as writer:
            for _ in range(2):
                writer.write(writer.prepared(people_with(name=["a"])))
    assert json.loads((tmp_path / "out.geojson").read_text())["nearveil"] == {"seeded": True}
    metadata = pq.read_schema(tmp_path / "out.parquet").metadata
    assert json.loads(metadata[b"nearveil"]) == {"seeded": True}
    geometry = json.loads(metadata[b"geo"])["columns"]["geometry"]
    assert geometry == {"encoding": "WKB", "geometry_types": ["Point"]}


def test_a_partial_file_that_vanished_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"), people_writer(tmp_path / "out.csv") as writer:
        writer.write(writer.prepared(people_with(name=["a"])))
        next(tmp_path.glob(".*.partial*")).unlink()
    assert list(tmp_path.iterdir()) == []


def test_latitude_after_longitude_stays_there(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "lon,a,lat\n-122.4,1,37.7\n-122.5,2,37.8\n")
    for name in ("out.csv", "out.parquet"):
        write_people(read_people(source, ReadOptions(drop=("a",))), tmp_path / name)
        assert (read_people(tmp_path / name).points == [[37.7, -122.4], [37.8, -122.5]]).all()
    assert (tmp_path / "out.csv").read_text() == "lon,lat\n-122.4,37.7\n-122.5,37.8\n"


def test_dropped_members_of_features_are_gone(tmp_path: Path) -> None:
    feature = {"type": "Feature", "id": 5, "properties": {"home": "secret", "b": "x"}}
    source = geojson(tmp_path / "in.geojson", [{**feature, "geometry": {"type": "Point", "coordinates": [1, 2]}}])
    write_people(read_people(source, ReadOptions(drop=("home", "id"))), tmp_path / "out.geojson")
    text = (tmp_path / "out.geojson").read_text()
    assert "secret" not in text
    assert '"id"' not in text
