"""Scheduler: publishes at epoch boundaries and updates the index, in its own thread."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores.base import Store, StoreError
from nearveil.server.logs import log_event, log_seldom
from nearveil.server.metrics import Metrics
from nearveil.server.store_health import StoreHealth

LONGEST_WAIT_S = 30.0
"""The clock is read at least this often, because clocks are adjusted and machines sleep."""

RETRY_S = 1.0


class Scheduler:
    """Keeps the store and the index at the current epoch; ``loaded`` is set when the first epoch is loaded.

    Parameters
    ----------
    publisher, store, index, intervals, keys, metrics
        Of the service.
    clock : callable
        Seconds since 1970.
    at_epoch : callable, optional
        Called with each epoch that was loaded.
    health : StoreHealth, optional
        Told what became of publications.
    """

    def __init__(
        self,
        *,
        publisher: Publisher,
        store: Store,
        index: NearbyIndex[str],
        intervals: IntervalsInUse,
        keys: SecretKeys,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
        at_epoch: Callable[[int], None] | None = None,
        health: StoreHealth | None = None,
    ) -> None:
        self._publisher = publisher
        self._store = store
        self._index = index
        self._intervals = intervals
        self._keys = keys
        self._metrics = metrics
        self._clock = clock
        self._at_epoch = at_epoch
        self._health = health
        self._newest: int | None = None
        self._was_ahead = False
        self._due_at: float | None = None
        self._failed_until = -math.inf
        self.loaded = threading.Event()
        self._turning = threading.Lock()
        self._loaded: tuple[int, str | None] | None = None
        self._missed_something = False
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nearveil-scheduler", daemon=True)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Publish what is overdue at once, and load the index in the background."""
        self._publisher.publish_due()
        self._newest = self._store.last_epoch()
        self._thread.start()

    def close(self) -> None:
        """Stop after the current work."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def epoch(self) -> int | None:
        """The epoch that questions are answered from; None before the index is loaded."""
        return self._loaded[0] if self._loaded else None

    @property
    def is_ready(self) -> bool:
        """Whether the index is loaded, the thread that updates it runs, and the clock is right."""
        return self._loaded is not None and not self._stopping.is_set() and not self._was_ahead

    @property
    def is_store_ahead(self) -> bool:
        """Whether the store was ahead of the clock when that was last looked at."""
        return self._was_ahead

    def check_clock(self) -> None:
        """Raise if what is reported now could not be published at the next boundary, because the store is ahead."""
        try:
            self._publisher.check_clock(self._newest)
        except StoreError as error:
            self._was_ahead = error.reason == "clock"
            raise
        self._was_ahead = False

    # -- epochs ----------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Publish what is due and update the index, also with what other processes published."""
        with self._turning:
            started = time.perf_counter()
            self._publisher.publish_due()
            newest = self._newest = self._store.last_epoch()
            self._look_at_clock()
            missed, self._missed_something = self._missed_something, False
            if newest is not None and (missed or self._loaded is None or newest > self._loaded[0]):
                self._load(newest, everything=missed)
                self._metrics.published(time.perf_counter() - started, epoch=newest)

    def _look_at_clock(self) -> None:
        """Notice that the store is ahead of the clock: until it is caught up with, nothing is published."""
        was_ahead = self._was_ahead
        try:
            self.check_clock()
        except StoreError:
            if not was_ahead:
                log_event("the store is ahead of the clock", level="error", epoch=self._newest)

    def lost(self) -> None:
        """Load everything again soon, because changes by other processes may have been missed."""
        self._missed_something = True
        self._wake.set()

    def soon(self) -> None:
        """Let the thread read the clock now."""
        self._wake.set()

    def _load(self, epoch: int, *, everything: bool) -> None:
        dated = self._intervals.at(epoch)
        fingerprint = dated.fingerprint if dated else None
        remap = self._intervals.remap(epoch)
        tie_key = self._keys.tie_key(epoch)
        if not everything and self._loaded is not None and self._loaded[1] == fingerprint:
            self._index.advance(self._store.published(since_epoch=self._loaded[0] + 1), remap, tie_key)
        else:
            # At the start, and when new intervals move everybody.
            self._index.load(self._store.published(), remap, tie_key)
        self._loaded = (epoch, fingerprint)
        self.loaded.set()
        self._metrics.set_index_size(len(self._index))
        log_event("epoch", epoch=epoch, people=len(self._index))
        if self._at_epoch is not None:
            self._at_epoch(epoch)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.clear()
            # Checked after clearing, so that a close just before is not missed.
            if self._stopping.is_set():
                return
            self._wake.wait(self._turn_and_wait())

    def _turn_and_wait(self) -> float:
        """Do what is due; return the time until there is work again, in seconds."""
        try:
            self.turn()
            # Relative to the loaded epoch, not to now: an epoch may have begun during loading.
            loaded = self._publisher.epoch if self._loaded is None else self._loaded[0]
            begins_at = self._due_at = self._publisher.starts_at(loaded + 1)
        except Exception as error:  # after any error, the next epoch must not be missed
            log_seldom("epoch failed", error)
            self._count_failure(error)
            return RETRY_S
        return min(max(begins_at - self._clock(), 0.0), LONGEST_WAIT_S)

    def _count_failure(self, error: Exception) -> None:
        """Count an epoch that is due and could not be published, once however often it is tried."""
        if self._health is not None:
            self._health.failed(error)
        now = self._clock()
        if self._due_at is not None and now >= max(self._due_at, self._failed_until):
            epoch_s = self._publisher.protection.schedule.epoch_s
            self._failed_until = self._due_at + epoch_s * (1 + (now - self._due_at) // epoch_s)
            self._metrics.epoch_failed()
