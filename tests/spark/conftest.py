"""One Spark session for all tests: two threads of one JVM, which runs each task up to three times."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from nearveil.types import FloatArray

# What Spark writes is kept and not compressed, so that it can be searched. Few rows are not worth compiling queries.
SETTINGS = """
spark.eventLog.enabled=true spark.eventLog.compress=false spark.eventLog.rolling.enabled=false
spark.shuffle.compress=false spark.shuffle.spill.compress=false spark.broadcast.compress=false spark.rdd.compress=false
spark.cleaner.referenceTracking=false spark.driver.host=127.0.0.1 spark.driver.bindAddress=127.0.0.1
spark.driver.memory=512m spark.sql.adaptive.enabled=false spark.sql.codegen.wholeStage=false
spark.sql.codegen.factoryMode=NO_CODEGEN spark.sql.shuffle.partitions=2 spark.ui.enabled=false
spark.sql.execution.arrow.maxRecordsPerBatch=500
"""

Frame = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that Spark writes."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkSession]:
    (spark_folder / "events").mkdir()
    builder = SparkSession.builder.master("local[2,3]").config("spark.local.dir", str(spark_folder / "local"))
    builder = builder.config("spark.eventLog.dir", (spark_folder / "events").as_uri())
    for setting in SETTINGS.split():
        builder = builder.config(*setting.split("="))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path) -> Frame:
    """Makes a DataFrame of columns, read from two files: rows that a driver makes would be in its plans."""

    def make(points: FloatArray, **columns: object) -> DataFrame:
        table = pa.table({"latitude": points[:, 0], "longitude": points[:, 1], **columns})
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        half = (len(table) + 1) // 2
        for number in range(2):
            pq.write_table(table.slice(number * half, half), folder / f"{number}.parquet")
        return spark.read.parquet(str(folder))

    return make


@pytest.fixture(scope="session")
def world() -> FloatArray:
    """Locations all over the Earth, some at the poles and the antimeridian."""
    rng = np.random.default_rng(11)
    around = np.column_stack([np.degrees(np.arcsin(rng.uniform(-1, 1, 3000))), rng.uniform(-180, 180, 3000)])
    edges = [(90.0, 0.0), (-90.0, 30.0), (89.999, -120.0), (-17.0, 180.0), (-17.0, -180.0), (10.0, 179.9999)]
    return np.vstack([around, np.repeat(edges, 100, axis=0)])
