"""Nothing that Spark writes or shows has a secret or a true location in it."""

import base64
import struct
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.spark.conftest import Frame

import nearveil.spark
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.spark import SparkFailedError, protect
from nearveil.veil import Veil

SECRET = bytes.fromhex("d1c7a93e5b8846f2a0e4c3917b6d25f8")
KEY = bytes.fromhex("5be1c093d7f2486a91be07d34cfa6e281d90b5c2a7e8431f6c0d95be3a72f418")
# Nine digits, so that none is met by chance.
TRUE = np.array([(37.712345678 + number / 1e4, -122.412345678 - number / 1e4) for number in range(60)])


def traces(secrets: list[bytes], numbers: list[float]) -> list[bytes]:
    """All ways to write them down."""
    found = [way for each in secrets for way in (each, each.hex().encode(), repr(each)[2:-1].encode())]
    found += [base64.b64encode(each).rstrip(b"=") for each in secrets]
    found += [struct.pack(order + "d", number) for number in numbers for order in "<>"]
    return [*found, *(repr(number).encode() for number in numbers)]


def leaking(folder: Path, wanted: list[bytes]) -> list[Path]:
    """Files with one of the traces."""
    files = [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    return [path for path, content in files if any(trace in content for trace in wanted)]


@pytest.mark.parametrize("user", [None, "id"])
def test_secrets_and_true_locations_are_written_nowhere(
    frame: Frame, spark_folder: Path, monkeypatch: pytest.MonkeyPatch, user: str | None
) -> None:
    monkeypatch.setattr(nearveil.spark, "stream_key", lambda: SECRET)
    monkeypatch.setattr(Veil, "new_key", staticmethod(KEY.hex))
    plans: list[Any] = []
    mapped = nearveil.spark._mapped

    def watched(*args: Any) -> Any:
        plans.append(mapped(*args))
        return plans[-1]

    monkeypatch.setattr(nearveil.spark, "_mapped", watched)
    result = protect(frame(TRUE, id=np.arange(60)), user=user, keep=["id"])
    private = traces([SECRET, KEY], TRUE.ravel().tolist())
    assert leaking(spark_folder, private) == []
    executions = [plan._jdf.queryExecution() for plan in [*plans, result.rows]]
    texts = repr(result) + "".join(execution.toString() + execution.logical().toJSON() for execution in executions)
    assert texts.count("MapInArrow") > 2
    assert not any(trace in texts.encode() for trace in private)
    # The search does find what is written: what is published, and plans.
    assert leaking(spark_folder, traces([], [result.rows.collect()[0]["latitude"]])) != []
    assert leaking(spark_folder / "events", [b"MapInArrow"]) != []


def test_errors_tell_no_values(frame: Frame, spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    class Fails(PlanarLaplace):
        def draw(self, x: Any, rows: Any) -> Any:
            if TaskContext.get() is None:
                return super().draw(x, rows)  # the driver tries it first, on locations of its own
            raise ValueError(f"no noise for {x.tolist()} and {rows.key!r}")

    cast = "cast(text as double) as latitude", "-122.4D as longitude"
    text = spark.createDataFrame([("37.712345678x",)], "text string").selectExpr(*cast)
    capfd.readouterr()
    with pytest.raises(SparkFailedError, match=r"failed on an executor \(ValueError\)") as own:
        protect(frame(TRUE), Fails())
    with pytest.raises(SparkFailedError, match="Spark failed") as of_spark:
        protect(text)
    for error in (own.value, of_spark.value):
        assert "12345678" not in "".join(traceback.format_exception(error))
    # Spark's own log has its own error, with the value; ours has nothing of it.
    said = "".join(capfd.readouterr())
    assert "37.712345678" not in said.replace("37.712345678x", "")
    assert "-122.412345678" not in said
