"""What is written says what was given, in the style of what was read; whole, or not at all."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.io.atomic import replacing
from nearveil.io.readers import ReadOptions, open_source, read_points
from nearveil.io.writers import open_writer
from tests.io.samples import CSV, MOVED, geojson, geoparquet, publish, write

FORMATS = [f"out.{name}" for name in ("csv", "csv.gz", "tsv", "jsonl", "geojson", "geojsonl", "parquet", "geoparquet")]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", ["in.csv", "in.parquet", "in.geojson"])
def test_every_format_becomes_every_other(source: str, target: str, tmp_path: Path) -> None:
    if source == "in.csv":
        write(tmp_path / source, CSV)
    elif source == "in.geojson":
        geojson(tmp_path / source, {"id": 7}, {"id": 8})
    else:
        geoparquet(tmp_path / source)
    publish(tmp_path / source, tmp_path / target, "id", points=MOVED)
    again = open_source(tmp_path / target)
    assert "id" in again.columns
    assert read_points(again).tolist() == MOVED.tolist()


def test_csv_stays_as_it_was(tmp_path: Path) -> None:
    publish(write(tmp_path / "in.csv", CSV), tmp_path / "out.csv", "empty", "note", "id", points=MOVED)
    expected = CSV.replace("37.7,", "37.123456,").replace("-122.4,", "-122.654321,")
    assert (tmp_path / "out.csv").read_text() == expected.replace("37.8,", "37.5,").replace("-122.5,", "-122.25,")
    publish(tmp_path / "in.csv", tmp_path / "two.csv.gz", "note", points=MOVED)
    assert gzip.decompress((tmp_path / "two.csv.gz").read_bytes()).startswith(b"latitude,note,longitude\n37.123456,")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lon;lat;Ort\n-122,4;37,7;a\n-122,5;37,8;b\n", "lon;lat\n-122,654321;37,123456\n-122,25;37,5\n"),
        ('lat,lon\n"37,7","-122,4"\n"37,8","-122,5"\n', 'lat,lon\n"37,123456","-122,654321"\n"37,5","-122,25"\n'),
        ('p\n"37.7, -122.4"\n"37.8,-122.5"\n', 'p\n"37.123456, -122.654321"\n"37.5, -122.25"\n'),
        ("geom\nPOINT(-122.4 37.7)\nPOINT(1 2)\n", "geom\nPOINT (-122.654321 37.123456)\nPOINT (-122.25 37.5)\n"),
        (
            "geom\nSRID=4326;POINT(1 2)\nSRID=4326;POINT(1 2)\n",
            "geom\nSRID=4326;POINT (-122.654321 37.123456)\nSRID=4326;POINT (-122.25 37.5)\n",
        ),
    ],
)  # fmt: skip
def test_a_location_keeps_its_style(text: str, expected: str, tmp_path: Path) -> None:
    read = ReadOptions(location="p") if text.startswith("p") else None
    source = open_source(write(tmp_path / "in.csv", text), read)
    with open_writer(tmp_path / "out.csv", source, []) as writer:
        (batch,) = source.batches()
        writer.write(batch._replace(points=MOVED))
    assert (tmp_path / "out.csv").read_text() == expected


def test_csv_is_what_others_read(tmp_path: Path) -> None:
    """Python's own reader is the judge: commas, quotation marks and line ends of either kind, in names and values."""
    values = ["plain", "a,b", 'say "no"', "two\nlines", "old\rline", "", None, " blank "]
    numbers = {'q"': [1, None, 3, 4, 5, 6, 7, 8], "lat": [1.5] * 8, "lon": [2] * 8}
    table = pa.table({"na,me": values, **numbers})
    pq.write_table(table, tmp_path / "in.parquet")
    publish(tmp_path / "in.parquet", tmp_path / "out.csv", *table.column_names[:2])
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    assert names == ["na,me", 'q"', "lat", "lon"]
    assert [row[0] for row in rows] == [value or "" for value in values]
    assert [row[1] for row in rows] == ["1", "", "3", "4", "5", "6", "7", "8"]
    assert rows[0][2:] == ["1.5", "2"]


def test_what_a_format_cannot_hold_is_said(tmp_path: Path) -> None:
    table = pa.table({"lat": [37.7], "lon": [-122.4], "tags": [["a"]], "raw": [b"x"], "score": [float("nan")]})
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(DataError, match="column 'tags' holds what CSV cannot hold"):
        publish(tmp_path / "in.parquet", tmp_path / "out.csv", "tags")
    with pytest.raises(DataError, match="bytes, which JSON cannot hold"):
        publish(tmp_path / "in.parquet", tmp_path / "out.jsonl", "raw")
    for name in ("out.gpkg", "out.xlsx", "out"):
        with pytest.raises(UsageError, match=f"files such as {name} are not written; write GeoJSON, GeoParquet or CSV"):
            publish(tmp_path / "in.parquet", tmp_path / name)
    with pytest.raises(UsageError, match="'latitude' has the name of the output's location"):
        publish(geojson(tmp_path / "in.geojson", {"latitude": "a"}), tmp_path / "out.csv", "latitude")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.geojson", "in.parquet"]
    publish(tmp_path / "in.parquet", tmp_path / "out.jsonl", "score")
    assert json.loads((tmp_path / "out.jsonl").read_text())["score"] is None


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    for name in ("out.geojson", "out.parquet"):
        publish(geoparquet(tmp_path / "in.parquet"), tmp_path / name, metadata={"seeded": True})
    assert json.loads((tmp_path / "out.geojson").read_text())["nearveil"] == {"seeded": True}
    metadata = pq.read_schema(tmp_path / "out.parquet").metadata
    assert json.loads(metadata[b"nearveil"]) == {"seeded": True}
    assert json.loads(metadata[b"geo"])["columns"]["geometry"] == {"encoding": "WKB", "geometry_types": ["Point"]}


def test_row_groups_gather_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.io.readers._BATCH_ROWS", 7)
    monkeypatch.setattr("nearveil.io.writers._ROW_GROUP_ROWS", 20)
    pq.write_table(pa.table({"lat": np.arange(60.0), "lon": np.arange(60.0)}), tmp_path / "in.parquet")
    publish(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3
    assert read_points(tmp_path / "out.parquet")[:, 0].tolist() == list(range(60))


@pytest.mark.parametrize("name", FORMATS)
def test_an_error_between_batches_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    source, old = open_source(write(tmp_path / "in.csv", CSV)), write(tmp_path / name, "precious")
    for output in (old, tmp_path / f"new-{name}"):
        with pytest.raises(ZeroDivisionError), open_writer(output, source, [], force=True) as writer:
            writer.write(next(source.batches()))
            writer.finish()
            raise ZeroDivisionError
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", name}
    assert old.read_text() == "precious"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", CSV)
    write(tmp_path / "real.csv", "precious").chmod(0o600)
    (tmp_path / "link.csv").symlink_to("real.csv")
    with pytest.raises(OutputError, match="exists already"):
        publish(source, tmp_path / "real.csv")
    assert (tmp_path / "real.csv").read_text() == "precious"
    publish(source, tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "latitude,longitude\n37.7,-122.4\n37.8,-122.5\n"
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600
    for name, words in (("nowhere/out.csv", "folder does not exist"), ("x" * 300 + ".csv", "name is too long")):
        with pytest.raises(OutputError, match=words):
            publish(source, tmp_path / name)
    publish(source, tmp_path / ("x" * 240 + ".csv"))


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OutputError, match="the disk is full"):
        publish(write(tmp_path / "in.csv", CSV), tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_file_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="exists already"), replacing(tmp_path / "out.txt", force=False) as partial:
        partial.write_text("mine")
        (tmp_path / "out.txt").write_text("theirs")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]


def test_standard_output_gets_nothing_in_error(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    source = open_source(write(tmp_path / "in.csv", CSV))
    with pytest.raises(ZeroDivisionError), open_writer("-", source, []) as writer:
        writer.write(next(source.batches()))
        raise ZeroDivisionError
    assert capsysbinary.readouterr().out == b""


@pytest.mark.parametrize("mark", ["]", "^", "\\", "|"])
def test_values_with_the_delimiter_are_quoted_whatever_it_is(mark: str, tmp_path: Path) -> None:
    text = f'lat{mark}lon{mark}note\n37.7{mark}-122.4{mark}"a{mark}b"\n'
    source = open_source(write(tmp_path / "in.csv", text), ReadOptions(delimiter=mark))
    with open_writer(tmp_path / "out.csv", source, ["note"]) as writer:
        for batch in source.batches(["note"]):
            writer.write(batch)
    assert (tmp_path / "out.csv").read_text() == text
