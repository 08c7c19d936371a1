"""One session for all tests of the Spark engine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.release.spark.cluster import Cluster, running_cluster, running_in_one_process

from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region
from nearveil.types import FloatArray


class Running(NamedTuple):
    """A session, the folder of all that it writes, and the cluster that it runs on, if on any."""

    spark: SparkSession
    folder: Path
    cluster: Cluster | None


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One session for all tests: on a cluster if any of those that run asks for one, or else in one process."""
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    # Two processes of one run with a Spark each would be twice as slow, and nothing else would tell.
    (common / "the-only-spark").mkdir()
    folder = tmp_path_factory.mktemp("spark")
    if any("cluster" in getattr(item, "fixturenames", ()) for item in request.session.items):
        with running_cluster(folder) as (cluster, spark):
            yield Running(spark, folder, cluster)
    else:
        with running_in_one_process(folder) as spark:
            yield Running(spark, folder, None)


@pytest.fixture(scope="session")
def cluster(running: Running) -> Cluster:
    assert running.cluster is not None
    return running.cluster


@pytest.fixture(scope="session")
def spark(running: Running) -> SparkSession:
    return running.spark


@pytest.fixture(scope="session")
def spark_folder(running: Running) -> Path:
    return running.folder


@pytest.fixture(scope="session")
def intervals(san_francisco: Region, city: FloatArray) -> Intervals:
    return build_grid_intervals(city, region=san_francisco, epsilon=1.0, centres=60)


@pytest.fixture(scope="session")
def people(spark: SparkSession, city: FloatArray) -> DataFrame:
    """The made-up city with a key, in a partition for each executor."""
    table = pa.table({"id": np.arange(len(city)), "latitude": city[:, 0], "longitude": city[:, 1]})
    return spark.createDataFrame(table)
