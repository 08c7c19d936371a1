"""Ctrl-C, and other requests to end, while Spark is at work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PAUSE_S = 0.1


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Let whoever handles Ctrl-C go on doing so; a session that starts takes it over."""
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
