"""One cluster for all tests of the Spark engine."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.engines.cluster import Cluster, running_cluster

from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.private_grid import build_grid_intervals
from nearveil.region import Region
from nearveil.types import FloatArray


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests on one process, where tests are dealt by group: each process would start a cluster."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, SparkSession]]:
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
    """The made-up city with a key, in a few partitions."""
    table = pa.table({"id": np.arange(len(city)), "latitude": city[:, 0], "longitude": city[:, 1]})
    return spark.createDataFrame(table).repartition(4)
