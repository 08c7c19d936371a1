"""A Spark DataFrame, in a process of its own: Spark leaves threads and settings behind.

Its ``protect`` is the one documented function that is not in ``nv``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.acceptance.helpers import Array, check_moved, in_order

PROGRAM = """
import json
import sys

from pyspark.sql import SparkSession

import nearveil as nv
from nearveil.release.spark import protect

# To compile a query for 300 rows takes longer than to compute it.
settings = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.read.csv(sys.argv[1], header=True, inferSchema=True)
result = protect(frame, mechanism=nv.PlanarLaplace(noise_m=500, region="san-francisco"), key="id")
again = [[row.asDict() for row in result.rows.collect()] for _ in range(2)]
with open(sys.argv[2], "w") as file:
    json.dump({"rows": again[0], "same": again[0] == again[1], "epsilon": result.guarantee.epsilon}, file)
spark.stop()
"""


def test_a_spark_data_frame(users_csv: Path, users: Array, tmp_path: Path) -> None:
    """All rows are there once, moved, in another order, and the same however often Spark computes them."""
    program = [sys.executable, "-c", PROGRAM, str(users_csv), str(tmp_path / "out.json")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["same"]
    assert np.isclose(result["epsilon"], 0.004, rtol=0.01)
    check_moved(users, in_order(result["rows"]))
    assert [row["id"] for row in result["rows"]] != [f"u{number}" for number in range(len(users))]
