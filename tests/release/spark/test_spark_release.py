"""A release with Spark: complete, written down once, and the same for the same secret however it is cut."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from scipy.stats import spearmanr
from tests.release.spark.cluster import Cluster
from tests.release.spark.rows import by_key

from nearveil.io.people import ReadOptions
from nearveil.mechanisms import hide_among
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.step_channel import channel_for_people
from nearveil.region import Region
from nearveil.release.card import AS_STATED
from nearveil.release.publishing import telling_column
from nearveil.release.spark import Protected, protect
from nearveil.release.spark_tasks import run_on_batches
from nearveil.types import FloatArray

SECRET = bytes(range(100, 116))


def mechanisms(intervals: Intervals) -> dict[str, Mechanism]:
    return {
        "planar Laplace": PlanarLaplace(),
        "interval": DPRS(intervals=intervals, epsilon=2.0),
        "metric": DPRS(intervals=intervals, release="metric"),
        "by generator": AxisLaplace(epsilon=2.0, region="san-francisco"),
    }


@pytest.fixture(scope="module")
def cells(city: FloatArray, san_francisco: Region) -> Cells:
    return cells_from_points(city, san_francisco, CellPlan(hide_among=1000))


def test_executors_draw_by_the_numbers_of_the_driver(
    people: DataFrame, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is made to find a rate at which everybody stays in their cell; executors would find another.

    However the rows are cut, the same are published.
    """
    still = replace(channel_for_people(cells, 1000), rate=40.0)
    monkeypatch.setattr(hide_among, "channel_for_people", lambda *_: still)
    some, mechanism = people.where("id < 500"), HideAmong(1000, cells=cells)
    cuts = (some.repartition(5, "latitude"), some.coalesce(1))
    first, second = (by_key(protect(cut, mechanism=mechanism, key="id", secret=SECRET).rows) for cut in cuts)
    assert first == second
    true = by_key(some)
    places = [np.array([found[key] for key in true]) for found in (true, first)]
    assert (places[0] != places[1]).all()
    there = [cells.find(cells.region.to_square(part)) for part in places]
    # Rounding to 1e-6 degrees may lead across an edge.
    assert np.mean(there[0] == there[1]) > 0.99


@pytest.mark.evidence
def test_executors_are_processes_of_their_own(spark: SparkSession, cluster: Cluster) -> None:
    cluster.complete(spark)
    assert spark.sparkContext.master == cluster.url

    # Made here, so that it travels by value: executors know no tests.
    def who(_batches: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"pid": [os.getppid()]})

    found = run_on_batches(spark.range(8, numPartitions=8), who, "pid bigint").distinct().collect()
    assert len(found) == 2


@pytest.fixture(scope="module")
def planar(people: DataFrame) -> Protected:
    """A release of everybody, from columns that say more of themselves than should be published."""
    marked = people.withMetadata("latitude", {"min": 37.123456}).withMetadata("id", {"note": "secret"})
    return protect(marked, mechanism=PlanarLaplace(), key="id")


@pytest.mark.parametrize(
    "name",
    [
        "planar Laplace",
        "interval",
        *(pytest.param(name, marks=pytest.mark.evidence) for name in ("metric", "by generator")),
    ],
)
def test_everybody_is_there_once_and_elsewhere(
    name: str, people: DataFrame, planar: Protected, intervals: Intervals
) -> None:
    mechanism = mechanisms(intervals)[name]
    some = people.where("id < 400") if name == "by generator" else people
    done = planar if name == "planar Laplace" else protect(some, mechanism=mechanism, key="id")
    published, true = by_key(done.rows), by_key(some)
    assert published.keys() == true.keys()
    assert done.count == len(true)
    assert np.mean([published[key] != true[key] for key in true]) > 0.99
    assert mechanism.area.contains(list(published.values())).all()
    assert replace(done.guarantee, notes=mechanism.guarantee.notes) == mechanism.guarantee
    assert (AS_STATED.format(mechanism.learns) in done.guarantee.notes) == (mechanism.learned is not None)
    assert not done.fitted_here
    # What was learned before is used as it is.
    assert done.mechanism.learned is mechanism.learned


def test_a_second_action_returns_the_same_rows_in_the_same_order(planar: Protected) -> None:
    rows = planar.rows
    first = rows.toArrow()
    assert rows.toArrow().equals(first)
    assert rows.where("id >= 0").toArrow().equals(first)
    assert rows.count() == first.num_rows


def test_rows_in_a_checkpoint_folder_outlive_their_plan(people: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    spark.sparkContext.setCheckpointDir(tmp_path.as_uri())
    try:
        rows = protect(people, mechanism=PlanarLaplace(), key="id").rows
    finally:
        _forget_checkpoint_folder(spark)
    assert list(tmp_path.rglob("part-*"))
    first = rows.toArrow()
    assert rows.toArrow().equals(first)


def _forget_checkpoint_folder(spark: SparkSession) -> None:
    none = spark._jvm.scala.Option.empty()  # type: ignore[union-attr]
    setattr(spark.sparkContext._jsc.sc(), "checkpointDir_$eq", none)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [pytest.param("interval", marks=pytest.mark.evidence), "by generator"])
def test_cuts_and_order_change_nothing(name: str, people: DataFrame, spark: SparkSession, intervals: Intervals) -> None:
    mechanism = mechanisms(intervals)[name]
    some = people.where("id < 500")
    backwards = some.toArrow().sort_by([("id", "descending")])
    cuts = (some.repartition(3, "latitude"), spark.createDataFrame(backwards).coalesce(1))
    first, second = (by_key(protect(cut, mechanism=mechanism, key="id", secret=SECRET).rows) for cut in cuts)
    assert first == second


def test_a_repeated_secret_repeats_nothing_of_other_rows_or_parameters(people: DataFrame) -> None:
    """Otherwise the difference of two releases would be that of the true places, or give them away altogether."""
    some = people.where("id < 300")
    first = by_key(protect(some, mechanism=PlanarLaplace(), key="id", secret=SECRET).rows)
    moved = some.withColumn("latitude", functions.expr("latitude + if(id = 7, 0.001, 0)"))
    for other, mechanism in ((moved, PlanarLaplace()), (some, PlanarLaplace(noise_m=600.0))):
        second = by_key(protect(other, mechanism=mechanism, key="id", secret=SECRET).rows)
        steps = np.array([np.subtract(second[key], first[key]) for key in first])
        assert len(np.unique(steps.round(6), axis=0)) > 290
    fresh = by_key(protect(some, mechanism=PlanarLaplace(), key="id").rows)
    assert all(fresh[key] != first[key] for key in first)


@pytest.fixture(scope="module")
def northward(spark: SparkSession, city: FloatArray) -> Protected:
    """A release of people sorted from south to north, whose ages say nothing."""
    sorted_city, rows = city[np.argsort(city[:, 0])], np.arange(len(city))
    table = pa.table({"id": rows, "age": rows * 37 % 101, "lat": sorted_city[:, 0], "lon": sorted_city[:, 1]})
    return protect(spark.createDataFrame(table), mechanism=PlanarLaplace(), key="id")


def test_neither_order_nor_partitions_tell_anything(northward: Protected, city: FloatArray) -> None:
    """People sorted from south to north go in; the place of a row among those published says nothing of that.

    Spearman's test and one of the partitions' means, both at level 1e-6.
    """
    rows = northward.rows
    ids = rows.select("id").toArrow().column(0).to_numpy()
    assert sorted(ids) == list(range(len(city)))
    assert spearmanr(ids, np.arange(len(ids))).pvalue > 1e-6
    parts = rows.select("id", functions.spark_partition_id().alias("part")).toArrow()
    for part in set(parts.column("part").to_pylist()):
        inside = ids[parts.column("part").to_numpy() == part]
        spread = len(city) / np.sqrt(12 * len(inside))
        assert abs(inside.mean() - (len(city) - 1) / 2) < 5 * spread


def test_other_columns_are_carried_and_the_key_can_be_left_out(spark: SparkSession) -> None:
    names, scores = [f"person {number}" for number in range(50)], [number / 7 for number in range(50)]
    columns = {
        "who.is": names,
        "score": scores,
        "lat": [37.7] * 50,
        "lng": pa.array([-122.4] * 50, pa.float32()),
        "tags": [["a", None]] * 50,
        "more": pa.array([[("x.y", 1)]] * 50, pa.map_(pa.string(), pa.int32())),
    }
    df = spark.createDataFrame(pa.table(columns))
    done = protect(df, mechanism=PlanarLaplace(), key="who.is", read=ReadOptions(drop=("who.is",)))
    assert done.rows.columns == ["score", "lat", "lng", "tags", "more"]
    assert dict(done.rows.dtypes)["lng"] == "double"
    kept = done.rows.orderBy("score").collect()
    assert [row["score"] for row in kept] == scores
    assert all(row["tags"] == ["a", None] and row["more"] == {"x.y": 1} for row in kept)
    carried = protect(df, mechanism=PlanarLaplace(), key="who.is").rows
    assert sorted(row[0] for row in carried.collect()) == sorted(names)


def test_metadata_of_columns_is_left_out(planar: Protected) -> None:
    assert all(field.metadata == {} for field in planar.rows.schema)


def test_people_outside_are_moved_to_the_edge_on_request(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        pa.table({"id": pa.array([1, 2, 3], "int32"), "lat": [37.7, 38.9, 37.7], "lon": [-122.4, -122.4, 120.0]})
    )
    done = protect(df, mechanism=PlanarLaplace(region="san-francisco"), key="id", read=ReadOptions(clip=True))
    assert done.clipped == 2
    assert any("outside the region are moved to its edge" in note for note in done.guarantee.notes)
    assert done.rows.count() == 3


def test_columns_that_follow_places_are_warned_of(northward: Protected) -> None:
    """By name, and the same sentence as of the local engine; a column that says nothing is not named."""
    assert [warning for warning in northward.warnings if "follow people's places" in warning] == [telling_column("id")]
