"""What cannot be used is counted and refused in one sentence, which says how many rows and never where they are."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from nearveil.errors import DataError, UsageError
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import Counted
from nearveil.release import spark_tasks
from nearveil.release.spark import _check_session, protect

MECHANISM = PlanarLaplace(region="san-francisco")


def refusal(df: DataFrame, **settings: Any) -> str:
    own = {name: settings.pop(name) for name in ("mechanism", "key", "secret") if name in settings}
    with pytest.raises((DataError, UsageError)) as caught:
        protect(df, **{"mechanism": MECHANISM, "key": "id", **own}, read=ReadOptions(**settings))
    sentence = str(caught.value)
    assert "37.7" not in sentence
    assert "122.4" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("if(id % 10 = 0, null, id) as id, latitude, longitude", "there are 5 rows without a 'id'"),
        ("if(id = 3, '', string(id)) as id, latitude, longitude", "there is 1 row without a 'id'"),
        ("id div 2 as id, latitude, longitude", "25 rows repeat the 'id' of another row, and equal keys"),
        ("id, if(id < 2, null, latitude) as latitude, longitude", "there are 2 rows with a missing or infinite"),
        ("id, latitude, if(id < 2, double('NaN'), longitude) as longitude", "there are 2 rows with a missing or inf"),
        ("id, latitude, if(id < 3, double('Infinity'), longitude) as longitude", "there are 3 rows with a missing"),
        ("id, if(id = 4, '37;7', string(latitude)) as latitude, longitude", "there is 1 row with a coordinate that is"),
        ("id, if(id < 4, latitude + 90, latitude) as latitude, longitude", "there are 4 rows with a latitude beyond"),
        ("id, latitude, if(id < 7, longitude + 1, longitude) as longitude", "there are 7 rows outside the region"),
        ("id, longitude as latitude, latitude as longitude", "there are 50 rows with a latitude beyond"),
        ("id, latitude, longitude, latitude as y2", "column 'y2' holds a second exact location"),
        ("id, latitude, longitude, 'POINT' as geometry", "column 'geometry' holds a second exact location"),
        ("double(id) as id, latitude, longitude", "the key 'id' is neither whole numbers nor text"),
        ("id as other, latitude, longitude", "there is no column 'id' to tell rows apart by"),
        ("id, latitude as phi, longitude as lambda", "there are no coordinate columns such as"),
        ("id, latitude, array(longitude) as longitude", "there are 50 rows with a coordinate that is not a number"),
    ],
)
def test_rows_that_cannot_be_used(change: str, sentence: str, people: DataFrame) -> None:
    broken = people.where("id < 50").selectExpr(*_split(change))
    assert refusal(broken).startswith(sentence)


def _split(expressions: str) -> list[str]:
    """Cut at commas that are not within brackets or quotes."""
    parts, depth, quoted, part = [], 0, False, ""
    for letter in expressions:
        quoted ^= letter == "'"
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth and not quoted:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [*parts, part]


def test_no_rows(people: DataFrame) -> None:
    assert refusal(people.where("id < 0")) == "there are no rows; give at least one person"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mechanism": PlanarLaplace(seed=1)}, "a seed protects nobody"),
        ({"mechanism": "planar"}, "mechanism must be a Mechanism"),
        ({"secret": b"short"}, "a secret is 16 random bytes"),
        ({"key": "latitude"}, "the key is a coordinate"),
        ({"drop": ("nobody",)}, "there is no column 'nobody' to drop"),
        ({"person": "nobody"}, "there is no column 'nobody' to tell people apart by"),
        ({"crs": "EPSG:25833"}, "crs= is for files"),
        ({"latitude": "latitude"}, "name both coordinate columns"),
        ({"drop": "name"}, "drop takes a tuple of names"),
        (
            {"mechanism": DPRS(centres=5, region="san-francisco"), "secret": bytes(16)},
            "a secret repeats a release with the same intervals",
        ),
    ],
)
def test_wishes_that_cannot_be_granted(settings: dict[str, Any], sentence: str, people: DataFrame) -> None:
    assert refusal(people.where("id < 50"), **settings).startswith(sentence)


def test_a_person_with_several_rows_is_refused_or_counted_by_rows(people: DataFrame) -> None:
    visits = people.where("id < 50").selectExpr("id", "id div 2 as visitor", "latitude", "longitude")
    assert refusal(visits, person="visitor").startswith("25 rows have the same 'visitor' as another")
    done = protect(visits, mechanism=MECHANISM, key="id", read=ReadOptions(person="visitor", per_row=True))
    assert done.several_rows
    assert done.guarantee.counted is Counted.ROWS
    gaps = visits.selectExpr("id", "nullif(visitor, 3) as visitor", "latitude", "longitude")
    assert refusal(gaps, person="visitor").startswith("2 rows have no 'visitor'")


def test_a_column_that_looks_like_a_person_and_repeats_is_counted_by_rows(people: DataFrame) -> None:
    visits = people.where("id < 50").selectExpr("id", "id div 2 as user_id", "latitude", "longitude")
    done = protect(visits, mechanism=MECHANISM, key="id")
    assert done.guarantee.counted is Counted.ROWS
    assert any("looks like a person's id and repeats" in warning for warning in done.warnings)
    # Whether the column is published or not.
    assert (
        protect(visits, mechanism=MECHANISM, key="id", read=ReadOptions(drop=("user_id",))).guarantee.counted
        is Counted.ROWS
    )
    alone = protect(visits.withColumn("user_id", visits.id), mechanism=MECHANISM, key="id")
    assert alone.guarantee.counted is Counted.USERS


def test_revealing_columns_are_warned_of(people: DataFrame) -> None:
    some = people.where("id < 50").selectExpr("id", "latitude", "longitude", "'x' as home_address")
    warnings = protect(some, mechanism=MECHANISM, key="id").warnings
    assert any("'home_address' looks as if it gives the location away" in warning for warning in warnings)


@pytest.mark.evidence
@pytest.mark.usefixtures("cluster")
def test_open_disks_of_a_cluster_are_warned_of(people: DataFrame) -> None:
    warnings = protect(people.where("id < 50"), mechanism=MECHANISM, key="id").warnings
    assert any("spark.io.encryption.enabled" in warning for warning in warnings)


def test_a_task_that_would_go_through_a_file_is_refused(people: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "largest_task_bytes", lambda _spark: 100)
    assert refusal(people.where("id < 50")).startswith("there are so many columns that Spark would write the task")


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value as id", "37.7 as lat", "-122.4 as lon")
    assert refusal(stream).startswith("a stream has no end")


def test_what_is_no_dataframe_is_refused() -> None:
    assert refusal({"id": [1]}).startswith("df must be a Spark DataFrame")  # type: ignore[arg-type]


def test_spark_connect_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UsageError, match="use a classic session"):
        _check_session(remote)
