"""A Spark session: whether it can be used, and how it is interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from nearveil.errors import UsageError, require_package
from nearveil.release.spark.errors import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNENCRYPTED = (
    "Spark may write what executors hold in memory, the job's secret included, to their disks unencrypted; set "
    "spark.io.encryption.enabled, and spark.authenticate and spark.network.crypto.enabled for what travels"
)
_PART_BYTES = 1 << 16


def require_spark() -> None:
    """Raise if pyspark is not installed."""
    require_package("pyspark", "the Spark engine")


@contextmanager
def session(settings: Mapping[str, str], *, show_progress: bool) -> Iterator[SparkSession]:
    """Give the session of this program, or one as spark-submit, Spark's own settings and these describe it.

    One that was made here is stopped at the end. Errors of Spark become a sentence without values.
    """
    require_spark()
    with warnings.catch_warnings(), spark_errors():
        # Of libraries that Spark would rather have older, and that are not used here.
        warnings.simplefilter("ignore", FutureWarning)
        spark, made_here = _started({**settings, "spark.ui.showConsoleProgress": str(show_progress).lower()})
        try:
            with jobs_cancelled_at_signals(spark):
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
    with handlers_kept(), _java_running(settings):
        builder = SparkSession.builder.appName("nearveil")
        for name, value in _with_defaults(settings).items():
            builder = builder.config(name, value)
        return builder.getOrCreate(), True


def _with_defaults(settings: Mapping[str, str]) -> dict[str, str]:
    """Add what neither these settings nor those of Java, from spark-defaults.conf or spark-submit, say."""
    from pyspark import SparkConf  # noqa: PLC0415 - an extra

    said = {**dict(SparkConf().getAll()), **settings}
    # From Python, Spark looks for this one in the environment alone. Where nothing is said, executors run the same
    # Python: Spark's own default has hardly ever Nearveil in it.
    if "spark.pyspark.python" in said:
        os.environ["PYSPARK_PYTHON"] = said["spark.pyspark.python"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark logs what it raises as well, with values of the data in it.
    return {"spark.log.level": said.get("spark.log.level", "OFF"), **settings}


@contextmanager
def _java_running(settings: Mapping[str, str]) -> Iterator[None]:
    """Start Spark's Java, if it does not run already, and keep back what it prints until the session is there.

    Who asks for a ``spark.log.level`` sees it all.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - an extra

    wanted = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    if SparkContext._gateway or "PYSPARK_GATEWAY_PORT" in os.environ or "spark.log.level" in settings:
        SparkContext._ensure_initialized(conf=wanted)
        yield
        return
    reading, writing = os.pipe()
    shown = threading.Event()
    threading.Thread(target=_pass_on, args=(reading, shown), daemon=True).start()
    try:
        gateway = launch_gateway(wanted, {"stderr": writing})  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway)
    yield
    shown.set()


def _pass_on(reading: int, shown: threading.Event) -> None:
    """Copy what comes to standard error, such as Spark's bar, from the moment on that it is to be shown."""
    with open(reading, "rb", buffering=0) as stream:
        while part := stream.read(_PART_BYTES):
            if shown.is_set():
                with suppress(OSError):
                    os.write(2, part)


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


# Ctrl-C, and other requests to end, while Spark is at work.


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PAUSE_S = 0.1


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C; a session that starts replaces it."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def jobs_cancelled_at_signals(spark: SparkSession) -> Iterator[None]:
    """Cancel what Spark is doing when the program is asked to end, and then let the handler of before have its way.

    Not at once: an exception in the middle of a conversation with Spark would leave an answer behind, which the next
    question, perhaps that to clean up, would take for its own. Who asks twice does not want to wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {int(number): signal.getsignal(number) for number in _SIGNALS}
    asked: list[int] = []
    over = threading.Event()

    def cancel(number: int, frame: Any) -> None:
        if asked:
            _call(before[number], number, frame)
        asked.append(number)
        threading.Thread(target=_cancel_until, args=(spark, over), daemon=True).start()

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, cancel)
    try:
        yield
    except Exception:
        if asked:
            _call(before[asked[0]], asked[0], None)
        raise
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _cancel_until(spark: SparkSession, over: threading.Event) -> None:
    """Cancel again and again: what was asked for between two jobs is meant for the next one."""
    while not over.is_set():
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        over.wait(_PAUSE_S)


def _call(handler: Callable[[int, Any], Any] | Any, number: int, frame: Any) -> None:
    if callable(handler):
        handler(number, frame)
