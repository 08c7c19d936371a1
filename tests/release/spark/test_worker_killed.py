"""A worker is killed in the middle of a release: the result is complete, each person once, and nobody drawn twice.

The last file to run, so that the worker needs no successor; tests that need both complete the cluster first.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.release.spark.cluster import Cluster
from tests.release.spark.killed_worker import compare, killed, make_people, make_release, tasks_repeated, undisturbed


@pytest.mark.evidence
def test_a_killed_worker_changes_nothing(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """Where a worker of Spark is killed, everybody is published once, and nobody is drawn twice."""
    cluster.complete(spark)
    release = make_release(spark, make_people(tmp_path / "true", files=16))
    before, tasks = undisturbed(release, tmp_path)
    repeated = tasks_repeated(cluster)
    # The last third is the release itself, after the rows were looked at.
    after = killed(cluster, release, tmp_path / "killed", worker=0, after_tasks=int(0.8 * tasks))
    assert compare(before, after) == []
    assert tasks_repeated(cluster) > repeated
