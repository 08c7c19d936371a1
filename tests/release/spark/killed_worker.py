"""Kill a worker in the middle of a release, again and again, and look at what is published.

``python -m tests.release.spark.killed_worker --times 10`` does it ten times; a test does it once.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.release.spark.cluster import SPARK_DEFAULTS, Cluster, running_cluster
from tests.release.spark.rows import by_key
from tests.waiting import until

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.region import named_region
from nearveil.release.spark import protect

FILE_ROWS = 1000
REGION = named_region("san-francisco")
Places = dict[object, tuple[float, float]]


@dataclass
class Release:
    """A release of one file with one secret, to be repeated under worse conditions."""

    spark: SparkSession
    source: Path
    mechanism: Mechanism
    secret: bytes
    error: BaseException | None = field(default=None)

    def run(self, output: Path, group: str) -> None:
        """Release; keep an error for whoever waits."""
        try:
            self.spark.sparkContext.setJobGroup(group, "a release")
            people = self.spark.read.parquet(str(self.source))
            rows = protect(people, mechanism=self.mechanism, key="id", secret=self.secret).rows
            rows.write.parquet(str(output))
        except BaseException as error:
            self.error = error

    def tasks_done(self, group: str) -> int:
        """How many tasks of the release are finished."""
        tracker = self.spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = [tracker.getStageInfo(stage) for stage in stages]
        return sum(stage.numCompletedTasks for stage in found if stage is not None)

    def published(self, output: Path) -> Places:
        """Return what is published; raise what went wrong instead."""
        if self.error is not None:
            raise self.error
        return by_key(self.spark.read.parquet(str(output)))


def make_people(folder: Path, *, files: int) -> Path:
    """Write people to as many files as there are to be tasks."""
    city = synthetic_city(files * FILE_ROWS, REGION, rng=4)
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(city)), files)):
        table = pa.table({"id": part, "latitude": city[part, 0], "longitude": city[part, 1]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def make_release(spark: SparkSession, source: Path) -> Release:
    """Return a release with intervals and noise confined to them."""
    intervals = build_grid_intervals(synthetic_city(5000, REGION, rng=3), region=REGION, epsilon=1.0, centres=60)
    # Rows that executors alone held would be lost with them, rather than drawn again.
    spark.sparkContext.setCheckpointDir((source.parent / "checkpoints").as_uri())
    own = spark.newSession()
    # One task for each file, small as they are, and queries planned as they are elsewhere.
    for name, value in {**SPARK_DEFAULTS, "spark.sql.files.maxPartitionBytes": "1m"}.items():
        own.conf.set(name, value)
    return Release(own, source, DPRS(intervals=intervals, epsilon=2.0), bytes(range(50, 66)))


def tasks_repeated(cluster: Cluster) -> int:
    """How many tasks were lost with an executor, or run again because their results were."""
    reasons = ('"Reason":"ExecutorLostFailure"', '"Reason":"Resubmitted"', '"Reason":"FetchFailed"')
    logs = [path.read_text() for path in (cluster.folder / "events").iterdir()]
    return sum(log.count(reason) for log in logs for reason in reasons)


def undisturbed(release: Release, folder: Path) -> tuple[Places, int]:
    """Return what is published if nothing happens, and after how many tasks."""
    release.run(folder / "undisturbed", "undisturbed")
    places = release.published(folder / "undisturbed")
    assert places.keys() == set(range(len(places)))
    assert len(places) == FILE_ROWS * len(list(release.source.iterdir()))
    return places, release.tasks_done("undisturbed")


def killed(cluster: Cluster, release: Release, output: Path, *, worker: int, after_tasks: int) -> Places:
    """Return what is published if a worker and its executor are killed after so many tasks, and do not return."""
    group = output.name
    work = threading.Thread(target=release.run, args=(output, group))
    work.start()
    until(lambda: release.tasks_done(group) >= after_tasks or not work.is_alive())
    assert work.is_alive(), f"the release ended before the kill: {release.error!r}"
    assert cluster.kill_worker(worker), "the worker had no executor"
    assert work.is_alive() or release.error is None
    work.join(300)
    assert not work.is_alive(), "the release does not end"
    return release.published(output)


def compare(before: Places, after: Places) -> list[str]:
    """Return what is different, in words."""
    faults = []
    if before.keys() != after.keys():
        faults.append(f"{len(before.keys() ^ after.keys())} people are missing or made up")
    changed = sum(before[key] != after[key] for key in before.keys() & after.keys())
    return [*faults, f"{changed} people were drawn a second time"] if changed else faults


def main() -> None:
    """Kill so often, at random moments, either worker in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name, running_cluster(Path(name) / "spark") as (cluster, spark):
        release = make_release(spark, make_people(Path(name) / "true", files=40))
        before, tasks = undisturbed(release, Path(name))
        print(f"{len(before):,} people in {tasks} tasks", flush=True)
        for number in range(options.times):
            moment, started, repeated = chance.uniform(0.1, 0.85), time.monotonic(), tasks_repeated(cluster)
            output = Path(name) / f"killed-{number}"
            after = killed(cluster, release, output, worker=number % 2, after_tasks=int(moment * tasks))
            found = compare(before, after)
            faults += found
            print(
                f"kill {number + 1}: after {moment:.0%} of the tasks, {time.monotonic() - started:.1f} s, "
                f"{tasks_repeated(cluster) - repeated} tasks repeated, "
                f"{'; '.join(found) or 'everybody once, nothing drawn twice'}",
                flush=True,
            )
            cluster.complete(spark)
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
