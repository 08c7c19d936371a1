"""Spark itself: whether it is there, and what is wrong with a session that cannot be used."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from nearveil.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNENCRYPTED = (
    "Spark may write what executors hold in memory, the job's secret included, to their disks as it is; set "
    "spark.io.encryption.enabled, and spark.authenticate and spark.network.crypto.enabled for what travels"
)


def require_spark() -> None:
    """Raise if pyspark is not installed."""
    if find_spec("pyspark") is None:
        raise UsageError("the Spark engine needs pyspark, which is not installed; run pip install 'nearveil[spark]'")


def new_session() -> SparkSession:
    """Return the session of this program, as spark-submit or Spark's own settings describe it."""
    require_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    # A bar on standard error would run into what commands say there.
    return SparkSession.builder.appName("nearveil").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def check_session(spark: object) -> None:
    """Refuse Spark Connect: it puts functions, and the secret in them, into plans that servers keep."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "Spark Connect writes a job's functions, and so its secret, into plans that servers log; use a classic "
            "session, as spark-submit makes it"
        )


def session_warnings(spark: SparkSession) -> tuple[str, ...]:
    """Return what an operator should know about the session's settings."""
    context = spark.sparkContext
    encrypted = (context.getConf().get("spark.io.encryption.enabled", "false") or "").lower() == "true"
    return () if encrypted or (context.master or "").startswith("local") else (_UNENCRYPTED,)
