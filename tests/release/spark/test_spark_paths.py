"""Paths in and out: whole or not at all, and never over something by accident."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.release.spark.failing import failing_mechanism
from tests.release.spark.rows import by_key

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release.spark import api
from nearveil.release.spark.api import Protected, protect_path, released_rows
from nearveil.release.spark.errors import ExecutorError
from nearveil.release.spark.paths import check_format, format_of, read_path, write_path

MECHANISM = PlanarLaplace()


@pytest.fixture(scope="module")
def source(people: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of folders, as Spark writes it."""
    folder = tmp_path_factory.mktemp("people") / "true"
    people.where("id < 200").selectExpr("*", "id % 3 as day").coalesce(2).write.partitionBy("day").parquet(str(folder))
    return folder


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.fixture(scope="module")
def published(source: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Protected, Path]:
    """A release in folders."""
    output = tmp_path_factory.mktemp("out") / "published"
    done = protect_path(spark, str(source), str(output), mechanism=MECHANISM, key="id", partition_by=("day",))
    return done, output


def test_folders_in_folders_out(published: tuple[Protected, Path]) -> None:
    done, output = published
    assert (output / "_SUCCESS").exists()
    assert sorted(path.name for path in output.glob("day=*")) == ["day=0", "day=1", "day=2"]
    assert set(done.rows.columns) == {"id", "latitude", "longitude", "day"}
    assert by_key(done.rows).keys() == set(range(200))
    assert hidden(output.parent) == []


def test_rows_within_folders_are_in_no_telling_order(published: tuple[Protected, Path], spark: SparkSession) -> None:
    ids = spark.read.parquet(str(published[1])).toArrow().column("id").to_pylist()
    runs = sum(after > before for before, after in pairwise(ids))
    # Rising steps in random order: half of 199, with a standard deviation of 4.1.
    assert 70 < runs < 130


def test_csv_in_and_out(source: Path, tmp_path: Path, spark: SparkSession) -> None:
    csv = tmp_path / "true.csv"
    spark.read.parquet(str(source)).selectExpr(
        "id", "latitude as lat", "longitude as lon", "'a\"b,c' as note"
    ).write.csv(str(csv), header=True, escape='"')
    output = tmp_path / "published.csv"
    done = protect_path(spark, str(csv), str(output), mechanism=MECHANISM, key="id")
    assert done.rows.columns == ["id", "lat", "lon", "note"]
    assert {row["note"] for row in done.rows.collect()} == {'a"b,c'}
    assert sorted(int(row["id"]) for row in done.rows.collect()) == list(range(200))
    assert all(path.read_text().startswith("id,lat,lon,note\n") for path in output.glob("part-*"))


def test_an_output_is_replaced_only_on_request(source: Path, tmp_path: Path, spark: SparkSession) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "mine.txt").write_text("keep")
    with pytest.raises(OutputError, match="exists already"):
        protect_path(spark, str(source), str(output), mechanism=MECHANISM, key="id")
    assert (output / "mine.txt").read_text() == "keep"
    protect_path(spark, str(source), str(output), mechanism=MECHANISM, key="id", force=True)
    assert not (output / "mine.txt").exists()
    assert (output / "_SUCCESS").exists()
    assert hidden(tmp_path) == []


def test_a_failure_leaves_nothing_and_takes_nothing(source: Path, tmp_path: Path, spark: SparkSession) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "before.txt").write_text("still here")
    with pytest.raises(ExecutorError, match="Nearveil failed on an executor"):
        protect_path(spark, str(source), str(output), mechanism=failing_mechanism(), key="id", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (output / "before.txt").read_text() == "still here"


def test_rows_that_change_meanwhile_are_noticed(
    source: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(*arguments: Any) -> DataFrame:
        return released_rows(*arguments).where("id != 7")

    monkeypatch.setattr(api, "released_rows", losing)
    with pytest.raises(DataError, match="the rows changed while they were being protected"):
        protect_path(spark, str(source), str(tmp_path / "out"), mechanism=MECHANISM, key="id")
    assert list(tmp_path.iterdir()) == []


def test_wrong_paths_are_refused(source: Path, tmp_path: Path, spark: SparkSession) -> None:
    for output in (source, source / "published", source.parent):
        with pytest.raises(UsageError, match="the output lies in the input or around it"):
            protect_path(spark, str(source), str(output), mechanism=MECHANISM, key="id", force=True)
    with pytest.raises(DataError, match="there is nothing at"):
        protect_path(spark, str(tmp_path / "no"), str(tmp_path / "out"), mechanism=MECHANISM, key="id")
    with pytest.raises(UsageError, match="GeoJSON"):
        protect_path(spark, str(source), str(tmp_path / "out.geojson"), mechanism=MECHANISM, key="id")
    with pytest.raises(DataError, match="cannot be used to make folders"):
        protect_path(spark, str(source), str(tmp_path / "o"), mechanism=MECHANISM, key="id", partition_by=("latitude",))


def test_formats_by_extension() -> None:
    assert [format_of(path) for path in ("a.csv", "b/", "c.orc", "s3a://x/y.parquet")] == [
        "csv", "parquet", "orc", "parquet",
    ]  # fmt: skip


def test_formats_that_spark_lacks(spark: SparkSession) -> None:
    for kind in ("csv", "parquet", "orc", "CSV"):
        check_format(spark, kind)
    for kind in ("delta", "avro", "no such", ""):
        with pytest.raises(UsageError, match=f"Spark does not know the format '{kind}'; use parquet, orc or csv"):
            check_format(spark, kind)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_of_some_files_are_kept(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    folder = str(tmp_path / "in")
    spark.range(9).coalesce(1).write.format(kind).save(folder)
    spark.range(9, 10).selectExpr("id", "'b' as note").coalesce(1).write.format(kind).mode("append").save(folder)
    rows = read_path(spark, folder, kind)[0]
    assert {row["id"]: row["note"] for row in rows.collect()} == {**dict.fromkeys(range(9)), 9: "b"}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_names_of_folders_stay_text(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before, output = spark.conf.get(setting), str(tmp_path / "out")
    rows = spark.createDataFrame(pa.table({"id": [1, 2, 3], "zip": ["00123", "1e3", "2020-01-01"]}))
    written = write_path(rows, output, kind, count=3, force=False, partition_by=("zip",))
    for again in (read_path(spark, output, kind)[0], written):
        assert {int(row["id"]): row["zip"] for row in again.collect()} == {1: "00123", 2: "1e3", 3: "2020-01-01"}
    assert spark.conf.get(setting) == before


def test_nothing_shows_before_it_may(tmp_path: Path, spark: SparkSession) -> None:
    def refuse() -> None:
        assert len(hidden(tmp_path)) == 1
        raise UsageError("not yet")

    with pytest.raises(UsageError, match="not yet"):
        write_path(
            spark.range(3), f"{tmp_path}/o", "csv", count=3, force=False, partition_by=(), before_it_shows=refuse
        )
    assert list(tmp_path.iterdir()) == []
