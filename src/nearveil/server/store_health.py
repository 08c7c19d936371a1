"""Whether the store can be written, found out by small writes; and threads for calls that may wait for the store."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from nearveil.nearby.stores.base import Reason, Store, StoreError
from nearveil.server.logs import log_event, log_exception
from nearveil.server.metrics import Metrics
from nearveil.server.problems import UnreadyReason, too_busy

PROBE_SETTING = "probe of writing"
PROBE_EVERY_S = 5.0
PROBE_LATE_S = 30.0
"""A small write may wait for the publication of an epoch; a store that takes longer than this does not write."""

_PROBE_BYTES = 16
# After a full disk, room for this much shows that there is room again, and not only in a file that is there already.
_LARGE_PROBE_BYTES = 256 * 1024
# Other errors do not say that the next write will fail.
_LASTING: dict[Reason, UnreadyReason] = {
    "damaged": "damaged",
    "database-away": "database-away",
    "disk-failed": "disk-failed",
    "disk-full": "disk-full",
    "read-only": "read-only",
}

_Result = TypeVar("_Result")


class StoreHealth:
    """Knows whether the last write succeeded; `probe` writes where nothing else was written lately.

    Parameters
    ----------
    store : Store
        What is written.
    metrics : Metrics
        Count failures and outages.
    clock : callable, optional
        Seconds, from any moment on.
    """

    def __init__(self, store: Store, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._failure: UnreadyReason | None = None
        self._written_at = -math.inf
        self._probe_began_at: float | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> UnreadyReason | None:
        """Why the store cannot be written; None if it could lately."""
        began_at = self._probe_began_at
        if self._failure is None and began_at is not None and self._clock() - began_at > PROBE_LATE_S:
            return "slow"
        return self._failure

    @property
    def written_ago_s(self) -> float | None:
        """Time since something was last kept; None if nothing was since the process started."""
        ago_s = self._clock() - self._written_at
        return ago_s if math.isfinite(ago_s) else None

    @property
    def is_probe_due(self) -> bool:
        """Whether nothing was written for some seconds, and nobody is trying."""
        return self._probe_began_at is None and (
            self._failure is not None or self._clock() - self._written_at >= PROBE_EVERY_S
        )

    def written(self) -> None:
        """Note that something was kept."""
        self._written_at, self._failure = self._clock(), None

    def failed(self, error: Exception) -> None:
        """Note that something was not kept, and why."""
        if not isinstance(error, StoreError):
            return
        self._metrics.store_failed(error.reason)
        self._failure = _LASTING.get(error.reason, self._failure)

    def probe(self) -> None:
        """Write a little, in a row of its own; returns when it is known what became of it."""
        with self._lock:
            if not self.is_probe_due:
                return
            self._probe_began_at = self._clock()
        size = _LARGE_PROBE_BYTES if self._failure == "disk-full" else _PROBE_BYTES
        try:
            self._store.keep_setting(PROBE_SETTING, secrets.token_hex(size))
        except StoreError as error:
            if self._failure is None:
                log_exception("store cannot be written", error)
            self.failed(error)
        else:
            if self._failure is not None:
                log_event("store can be written again", level="warning")
            self.written()
        finally:
            self._probe_began_at = None

    # -- outages of a database ------------------------------------------------------------------------------------

    def away(self, error: StoreError) -> None:
        """Note that the database cannot be reached."""
        self._failure = "database-away"
        self._metrics.store_away()
        log_exception("database is away", error)

    def back(self, seconds: float) -> None:
        """Note that the database can be reached again; whether it can be written is found out by the next write."""
        self._failure = None
        self._metrics.store_back()
        log_event("database is back", level="warning", seconds=round(seconds, 1))


class StoreThreads:
    """A few threads for calls of the store: a store that hangs holds up those who need it, and nobody else.

    Parameters
    ----------
    threads : int
        How many calls are made at a time.
    most_waiting : int
        How many calls may be under way or wait; more are refused.
    """

    def __init__(self, threads: int = 6, most_waiting: int = 1000) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="nearveil-store")
        self._most = most_waiting
        self._count = 0
        self._lock = threading.Lock()

    async def run(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Wait for a call's result."""
        return await asyncio.wrap_future(self.submit(call, *arguments))

    def submit(self, call: Callable[..., _Result], *arguments: Any) -> Future[_Result]:
        """Begin a call; raises the problem ``too-busy`` if too many wait."""
        with self._lock:
            if self._count >= self._most:
                raise too_busy()
            self._count += 1
        try:
            future = self._executor.submit(call, *arguments)
        except BaseException:
            self._done()
            raise
        future.add_done_callback(self._done)
        return future

    def close(self) -> None:
        """Begin no more calls, and wait for those under way."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _done(self, _: object = None) -> None:
        with self._lock:
            self._count -= 1
