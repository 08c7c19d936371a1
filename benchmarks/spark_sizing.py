"""How long Spark takes for how many people: ``python -m benchmarks.spark_sizing --people 1000000 10000000``.

Made-up people in a Parquet folder, protected to another one; each size by each way to protect. By default on two
workers on this machine, processes of their own; with ``--master`` on a cluster that sees the same ``--folder``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_grid import build_grid_intervals
from nearveil.mechanisms.intervals import PAPER_CENTRES
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import named_region
from nearveil.release.spark import protect

REGION = named_region("san-francisco")
_FILE_ROWS = 1_000_000


def make_people(folder: Path, count: int, rng: np.random.Generator) -> None:
    """Write made-up people, a million to a file."""
    folder.mkdir(parents=True)
    city = synthetic_city(100_000, REGION, rng=1)
    for first in range(0, count, _FILE_ROWS):
        ids = np.arange(first, min(first + _FILE_ROWS, count))
        # The same city over and over, a little shaken, so that no two people are at one place.
        places = REGION.clip(city[ids % len(city)] + rng.normal(0.0, 1e-4, (len(ids), 2)))
        table = pa.table({"id": ids, "latitude": places[:, 0], "longitude": places[:, 1]})
        pq.write_table(table, folder / f"{first}.parquet")


def ways() -> Iterator[tuple[str, Mechanism]]:
    """Return ways to protect, from the cheapest to the dearest."""
    public = build_grid_intervals(
        synthetic_city(100_000, REGION, rng=2), region=REGION, epsilon=1.0, centres=PAPER_CENTRES
    )
    yield "planar Laplace", PlanarLaplace(region=REGION)
    yield "metric, intervals given", DPRS(intervals=public, release="metric")
    yield "interval, intervals given", DPRS(intervals=public, epsilon=1.0)
    yield "interval, private grid fitted", DPRS(epsilon=1.0, region=REGION)
    yield "interval, private k-means fitted", DPRS(epsilon=1.0, fit_method="pic", region=REGION)


def main() -> None:
    """Measure, and print one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=3, help="the best and the median count")
    parser.add_argument("--only", default="", help="ways whose name has this in it")
    parser.add_argument("--master", default="local-cluster[2,1,2048]")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        spark = _session(options.master)
        for count in options.people:
            source = Path(name) / "true"
            make_people(source, count, np.random.default_rng(5))
            for way, mechanism in ways():
                if options.only not in way:
                    continue
                seconds = [_seconds(spark, source, Path(name) / "published", mechanism) for _ in range(options.rounds)]
                line = {
                    "people": count,
                    "way": way,
                    "best_s": round(min(seconds), 2),
                    "median_s": round(float(np.median(seconds)), 2),
                    "master": options.master,
                    "cores": os.cpu_count(),
                    "machine": platform.machine(),
                    "spark": spark.version,
                }
                print(json.dumps(line), flush=True)
            shutil.rmtree(source)
        spark.stop()


def _session(master: str) -> SparkSession:
    if master.startswith("local"):
        # Nobody else needs to reach processes of this machine.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("nearveil sizing").config("spark.ui.enabled", "false")
    builder = builder.config("spark.executor.memory", "2g").config("spark.executor.cores", "1")
    return builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536").getOrCreate()


def _seconds(spark: SparkSession, source: Path, output: Path, mechanism: Mechanism) -> float:
    started = time.perf_counter()
    rows = protect(spark.read.parquet(str(source)), mechanism=mechanism, key="id").rows
    rows.write.mode("overwrite").parquet(str(output))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
