"""How many rows per second Spark protects: ``python -m benchmarks.spark_sizing --rows 1000000``.

From one Parquet folder to another, with and without users, everything but Spark's start included.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from nearveil.spark import protect

_FILES = 8


def write_rows(folder: Path, count: int) -> None:
    """Write locations all over the Earth, ten of them per user."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    for number in range(_FILES):
        size = count // _FILES + (number < count % _FILES)
        latitude, longitude = rng.uniform(-60, 60, size), rng.uniform(-180, 180, size)
        table = pa.table({"user": rng.integers(0, count // 10, size), "latitude": latitude, "longitude": longitude})
        pq.write_table(table, folder / f"{number}.parquet")


def main() -> None:
    """Measure, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="the best one counts")
    parser.add_argument("--master", default="local[2]", help="a cluster must see the temporary folder")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(options.master).config("spark.driver.memory", "2g")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", 65_536).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name) / "true", options.rows)
        for user in (None, "user"):
            seconds = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                df = spark.read.parquet(f"{name}/true")
                protect(df, user=user).rows.write.mode("overwrite").parquet(f"{name}/published")
                seconds.append(time.perf_counter() - start)
            rate = options.rows / min(seconds)
            print(f"user={user}: {rate:,.0f} rows/s, {min(seconds):.1f} s for {options.rows:,} rows")
    spark.stop()


if __name__ == "__main__":
    main()
