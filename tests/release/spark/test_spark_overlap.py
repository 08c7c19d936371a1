"""The true places are never replaced, whatever the input and the output are called."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release.spark.api import protect_path
from nearveil.release.spark.paths import check_files, check_paths, read_path, write_path

REFUSED = "the output lies in the input or around it"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "37.76 as latitude", "-122.44 as longitude")


@pytest.fixture
def folder(rows: DataFrame, tmp_path: Path) -> Path:
    """A folder with the files a.parquet and b.parquet, as pandas would write them."""
    rows.coalesce(1).write.parquet(str(tmp_path / "made"))
    made, folder = next((tmp_path / "made").glob("part-*")), tmp_path / "in"
    folder.mkdir()
    for name in ("a.parquet", "b.parquet"):
        (folder / name).write_bytes(made.read_bytes())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_input_behind_a_pattern_or_a_link_is_kept(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    before, link, above = contents(folder), tmp_path / "link", tmp_path / "above"
    link.symlink_to(folder)
    above.symlink_to(tmp_path)
    pairs = [
        (f"{folder}/*.parquet", folder / "a.parquet"),
        (f"{folder}/?.parquet", folder),
        (f"{folder}/*.parquet", folder / "new.parquet"),
        (f"{tmp_path}/i*/{{a,b}}.parquet", link),
        (f"{link}/*.parquet", folder / "b.parquet"),
        (link, folder),
        (folder, link),
        (f"file://{above}/in", link / "new"),
        (f"file:{folder}", tmp_path),
        (folder / "a.parquet", folder / "a.parquet"),
        ("/*", folder),
    ]
    for source, output in pairs:
        with pytest.raises(UsageError, match=REFUSED):
            protect_path(spark, str(source), str(output), mechanism=PlanarLaplace(), key="id", force=True)
    assert contents(folder) == before


def test_an_input_behind_a_link_in_its_folder_is_kept(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    before, links = contents(folder), tmp_path / "links é"
    links.mkdir()
    (links / "far.parquet").symlink_to(folder / "a.parquet")
    read = read_path(spark, str(links), None)[0]
    with pytest.raises(UsageError, match=REFUSED):
        check_files(read, str(folder))
    with pytest.raises(UsageError, match=REFUSED):
        protect_path(spark, str(links), str(folder), mechanism=PlanarLaplace(), key="id", force=True)
    assert contents(folder) == before
    check_files(read, str(tmp_path / "elsewhere"))


def test_an_output_beside_the_input_is_fine(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    for source, output in ((folder, tmp_path / "in2"), (f"{folder}/*.parquet", folder / "out")):
        check_paths(spark, str(source), str(output), force=False)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_an_output_is_no_pattern(kind: str, rows: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    """As patterns, brackets, braces and the backslash would not stand for themselves, and * and ? also for others."""
    for other in ("dx[1]/{a,o12}b\\sANY_q?", "dx[1]/{a,o12}b\\s*_qX"):
        folder = tmp_path / f"{other}.{kind}"
        folder.mkdir(parents=True)
        one = pa.table({"id": [9], "latitude": [37.76], "longitude": [-122.44]})
        (pyarrow.csv.write_csv if kind == "csv" else pq.write_table)(one, folder / f"part-0.{kind}")
    output = f"{tmp_path}/dx[1]/{{a,o12}}b\\s*_q?.{kind}"
    written = write_path(rows, output, kind, count=3, force=False, partition_by=())
    assert Path(output, "_SUCCESS").exists()
    for again in (written, read_path(spark, output, None)[0]):
        assert sorted(int(row["id"]) for row in again.collect()) == [0, 1, 2]


def test_paths_that_are_none(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    good = str(tmp_path / "out")
    for source, output, told in (
        ("", good, "a path is empty"),
        (str(folder), "", "a path is empty"),
        (str(folder), "/", "the root of a file system"),
        (str(folder), "nosuch://x/y", "no file system for the path"),
        ("a:b", good, "no file system for the path"),
    ):
        with pytest.raises(UsageError, match=told):
            check_paths(spark, source, output, force=True)
    with pytest.raises(DataError, match="there is nothing at"):
        read_path(spark, f"{folder}/*.orc", None)


def test_a_parent_that_cannot_be_written_to(
    folder: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OutputError, match="not a folder that can be written to"):
        check_paths(spark, str(folder), str(tmp_path / "file" / "out"), force=False)
    check_paths(spark, str(folder), str(tmp_path / "not" / "yet" / "out"), force=False)
    # Tests may run as root, who may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path or not mode & os.W_OK)
    with pytest.raises(OutputError, match="not a folder that can be written to"):
        check_paths(spark, str(folder), str(tmp_path / "not" / "yet" / "out"), force=False)
