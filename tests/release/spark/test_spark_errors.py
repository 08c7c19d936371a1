"""What Spark says when something fails: one sentence with a class of error, and no values."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.release.spark import SparkFailedError, protect


def test_an_error_of_spark_names_its_class_and_no_value(
    spark: SparkSession, people: DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    """The cast fails when Spark computes the rows, and its own message quotes the value."""
    broken = people.where("id < 5").selectExpr("id", "cast(concat(latitude, 'x') as double) as latitude", "longitude")
    with pytest.raises(SparkFailedError) as caught:
        protect(broken, mechanism=PlanarLaplace(), key="id")
    sentence = str(caught.value)
    assert sentence.startswith("Spark could not do it (NumberFormatException)")
    assert "\n" not in sentence
    assert "37." not in sentence + "".join(capfd.readouterr())
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_error_that_is_not_of_spark_stays_as_it_is(people: DataFrame) -> None:
    def failing(_rounds: int) -> None:
        raise ZeroDivisionError("mine")

    from nearveil.mechanisms.dprs import DPRS

    with pytest.raises(ZeroDivisionError, match="mine"):
        protect(people, mechanism=DPRS(centres=30, region="san-francisco"), key="id", progress=failing)
