"""CSV in and out of Spark: every value stays what it was, or the file is refused without showing any."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from nearveil.errors import DataError
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release.spark.api import protect_path
from nearveil.release.spark.paths import read_path, write_path

HEADER = "id,latitude,longitude,name,phone\n"
ODD = [
    "", " ", None, " a", "a ", "a", '"', 'a"b', '""', "\\", 'a\\"b', "x\ny", "x\ry", "x\r\ny", "\n", "#c", "a,b",
    "\ufeffx", "\t", "null", "é", " ,", "\u2028", "\x85", "\ufffd", '"\n"',
]  # fmt: skip


def folder_of(folder: Path, *files: str | bytes) -> str:
    folder.mkdir()
    for place, text in enumerate(files):
        (folder / f"{place}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(folder)


def refused(spark: SparkSession, folder: Path, *files: str | bytes) -> str:
    with pytest.raises(DataError) as caught:
        read_path(spark, folder_of(folder, *files), "csv")
    assert "Ann" not in str(caught.value)
    return str(caught.value)


def test_files_with_another_header_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    other = "id,latitude,longitude,phone,name\n2,37.7,-122.4,555,Ann\n"
    told = refused(spark, tmp_path / "in", HEADER + "1,37.7,-122.4,Ann,555\n" * 9, other, other)
    assert "2 of the CSV files have another header than the first" in told
    assert "another header" in refused(spark, tmp_path / "none", HEADER + "1,3,4,Ann,555\n" * 9, "1,3,4,Ann,5\n")


def test_headers_that_say_the_same_are_the_same(tmp_path: Path, spark: SparkSession) -> None:
    quoted = '"id","latitude",longitude,name,phone\r\n2,3,4,Ann,5\r\n'
    zipped = gzip.compress(("\ufeff" + HEADER + "3,3,4,Ann,5\n").encode())
    folder = folder_of(tmp_path / "in", HEADER + "1,3,4,Ann,5\n", quoted, "\ufeff" + HEADER + "4,3,4,Bo,5\n", "", "\n")
    (tmp_path / "in" / "z.csv.gz").write_bytes(zipped)
    rows = read_path(spark, folder, "CSV")[0]
    assert rows.columns == HEADER.strip().split(",")
    assert sorted(row["id"] for row in rows.collect()) == ["1", "2", "3", "4"]


def test_rows_of_another_length_are_counted(tmp_path: Path, spark: SparkSession) -> None:
    told = refused(spark, tmp_path / "in", HEADER + "1,3,4,Ann,5\n2,3,4,Ann\n3,3,4,Ann,5,6\n4,3,4,Ann,\n")
    assert "2 rows of the CSV input have more or fewer values" in told
    told = refused(spark, tmp_path / "lines", HEADER + '1,3,4,"Ann\nB",5\n2,3,4,"Ann\nB"\n')
    assert "1 rows of the CSV input have more or fewer values" in told


def test_what_cannot_be_read_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    assert "1 lines of the CSV input are not UTF-8" in refused(
        spark, tmp_path / "latin", (HEADER + "1,3,4,Ann é,5\n").encode("latin-1")
    )
    assert "never closed" in refused(spark, tmp_path / "open", HEADER + '1,3,4,Ann,"5\n2,3,4,Ann,5\n')
    assert "empty" in refused(spark, tmp_path / "empty", "", "\n")
    assert "the same name" in refused(spark, tmp_path / "twice", "id,name,Name\n1,Ann,Bo\n")
    assert "several lines" in refused(spark, tmp_path / "header", 'id,"na\nme"\n1,Ann\n')


def test_odd_names_of_columns(tmp_path: Path, spark: SparkSession) -> None:
    rows = read_path(spark, folder_of(tmp_path / "in", 'a.b,"c,`d",,e\n1,2,3,4\n'), "csv")[0]
    assert rows.columns == ["a.b", "c,`d", "_c2", "e"]
    assert [tuple(row) for row in rows.collect()] == [("1", "2", "3", "4")]


def test_odd_values_are_kept(tmp_path: Path, spark: SparkSession) -> None:
    """At the beginning of a line and at its end."""
    ids = [str(place) for place in range(len(ODD))]
    rows = spark.createDataFrame(pa.table({"first": pa.array(ODD, pa.string()), "id": ids, "last": ODD}))
    expected = {str(place): (text, text) for place, text in enumerate(ODD)}
    output = str(tmp_path / "o.csv")
    written = write_path(rows, output, "csv", count=len(ODD), force=False, partition_by=())
    for again in (written, read_path(spark, output, None)[0]):
        assert {row["id"]: (row["first"], row["last"]) for row in again.collect()} == expected


def test_a_release_keeps_lines_and_blanks(tmp_path: Path, spark: SparkSession) -> None:
    notes = {"a": "two\nlines", "a ": " b ", " a": 'say "c"\r\nd'}
    count = len(notes)
    columns = {"id": notes, "latitude": [37.76] * count, "longitude": [-122.44] * count, "note": notes.values()}
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), tmp_path / "in")
    mechanism, middle, output = PlanarLaplace(), str(tmp_path / "m.csv"), str(tmp_path / "o.csv")
    protect_path(spark, str(tmp_path / "in"), middle, mechanism=mechanism, key="id")
    done = protect_path(spark, middle, output, mechanism=mechanism, key="id", read=ReadOptions(clip=True))
    assert {row["id"]: row["note"] for row in done.rows.collect()} == notes
