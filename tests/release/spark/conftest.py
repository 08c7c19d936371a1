"""One cluster for all tests of the Spark engine."""

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.release.spark.cluster import Cluster, running_cluster

from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, SparkSession]]:
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    # Two processes of one run with a Spark each would be twice as slow, and nothing else would tell.
    (common / "the-only-spark").mkdir()
    with running_cluster(tmp_path_factory.mktemp("spark")) as both:
        yield both


@pytest.fixture(scope="session")
def cluster(running: tuple[Cluster, SparkSession]) -> Cluster:
    return running[0]


@pytest.fixture(scope="session")
def spark(running: tuple[Cluster, SparkSession]) -> SparkSession:
    return running[1]


@pytest.fixture(scope="session")
def intervals(san_francisco: Region, city: FloatArray) -> Intervals:
    return build_grid_intervals(city, region=san_francisco, epsilon=1.0, centres=60)


@pytest.fixture(scope="session")
def people(spark: SparkSession, city: FloatArray) -> DataFrame:
    """The made-up city with a key, in a partition for each executor."""
    table = pa.table({"id": np.arange(len(city)), "latitude": city[:, 0], "longitude": city[:, 1]})
    return spark.createDataFrame(table)
