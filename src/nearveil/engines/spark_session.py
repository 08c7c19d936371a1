"""Spark itself: whether it is there, and what is wrong with a session that cannot be used."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nearveil.engines.safe_errors import sparks_errors_told
from nearveil.engines.spark_stopping import handlers_kept, jobs_cancelled_at_signals
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


@contextmanager
def session(settings: Mapping[str, str], *, show_progress: bool) -> Iterator[SparkSession]:
    """Give the session of this program, or one as spark-submit, Spark's own settings and these describe it.

    One that was made here is stopped at the end. Errors of Spark become a sentence without values.
    """
    require_spark()
    # Where nothing else is said, executors run the same Python: Spark's own default has hardly ever Nearveil in it.
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    with warnings.catch_warnings():
        # Of libraries that Spark would rather have older, and that are not used here.
        warnings.simplefilter("ignore", FutureWarning)
        spark, made_here = _started({**settings, "spark.ui.showConsoleProgress": str(show_progress).lower()})
    try:
        with sparks_errors_told(), jobs_cancelled_at_signals(spark):
            yield spark
    finally:
        if made_here:
            spark.stop()


def _started(settings: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """Return the session, and whether there was none before."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    before = SparkSession.getActiveSession()
    if before is not None:
        return before, False
    builder = SparkSession.builder.appName("nearveil").config("spark.log.level", "ERROR")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with sparks_errors_told(), handlers_kept():
        return builder.getOrCreate(), True


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
