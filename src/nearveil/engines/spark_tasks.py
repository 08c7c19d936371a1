"""Run a task on the batches of a DataFrame."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nearveil.engines.safe_errors import Batches
from nearveil.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def run_on_batches(df: DataFrame, task: Callable[[Batches], Batches], schema: StructType | str) -> DataFrame:
    """Return a plan in which the task turns the batches of each partition into others."""
    # Spark hands a large task to executors through a file, and a task may hold the secret.
    if len(pickled((task, schema))) >= largest_task_bytes(df.sparkSession):
        raise UsageError(
            "there are so many columns that Spark would write the task, and the secret in it, to a file; drop some, or "
            "raise spark.broadcast.UDFCompressionThreshold"
        )
    with warnings.catch_warnings():
        # Spark asks for pandas even where Arrow does all the work, and warns of versions that it does not know.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return df.mapInArrow(task, schema)


def pickled(value: object) -> bytes:
    """Return a value as bytes, with its class if executors cannot import that."""
    from pyspark.cloudpickle import dumps  # noqa: PLC0415 - an extra

    made: bytes = dumps(value)  # type: ignore[no-untyped-call]
    return made


def largest_task_bytes(spark: SparkSession) -> int:
    """Return from which size on Spark hands tasks over through a file."""
    jvm: Any = spark._jvm
    return int(jvm.PythonUtils.getBroadcastThreshold(spark.sparkContext._jsc))
