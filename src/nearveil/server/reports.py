"""ReportWriter: a thread writes reports in batches, one transaction each; every request waits for its own answer."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from nearveil.nearby.publishing.publisher import Answer, Report
from nearveil.server.problems import Problem, not_ready, problem_of, too_busy

MOST_PER_TRANSACTION = 512
MOST_WAITING = 20_000
BATCH_WAIT_S = 0.01
"""Under load, the time to collect a batch: many small transactions cost far more than few large ones."""

_UNDER_LOAD_S = 0.1

ANSWER_TICK_S = 0.01
"""Answers leave at whole multiples of this time, so that they do not tell how long a report took to work out."""

LONGEST_PAUSE_S = 0.01
"""How long questions wait for a batch of reports that is worked out, at most."""

Receive = Callable[[Sequence[Report]], list[Answer]]
Reply = Answer | Problem


@dataclass(slots=True, eq=False)
class _Waiting:
    report: Report
    settle: Callable[[Reply], None]
    loop: asyncio.AbstractEventLoop


class RightOfWay:
    """Lets the writer's thread compute without the event loop's, for some milliseconds.

    Two threads that both want Python's interpreter lock take turns, at a price to both: under load, a batch took three
    times as long that way, and twice the time of a processor.
    """

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have it, in the writer's thread; not while waiting for the disk."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def give(self) -> None:
        """Wait, in the event loop, while the writer has it; of each batch `LONGEST_PAUSE_S` at most."""
        if not self._free.is_set() and not self._free.wait(LONGEST_PAUSE_S):
            self._free.set()


class ReportWriter:
    """Takes reports from requests of an event loop, and writes them durably to the store, a batch at a time.

    Parameters
    ----------
    receive : callable
        Keeps a batch of reports durably and answers each: `Publisher.receive`.
    most_waiting : int
        How many reports may wait; more are refused.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._receive = receive
        self._most_waiting = most_waiting
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nearveil-reports", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Take no more, write what waits, and return when all of it is answered."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._refuse_rest()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_running(self) -> bool:
        """Whether reports are taken and written."""
        return self._thread.is_alive() and not self._closing

    async def submit(self, report: Report) -> Answer:
        """Wait until a report is kept, and return its answer; raise a problem if it was not kept."""
        [reply] = await self.submit_all([report])
        if isinstance(reply, Problem):
            raise reply
        return reply

    async def submit_all(self, reports: Sequence[Report]) -> list[Reply]:
        """Wait until reports are kept, and return the answer to each, or why it was not kept.

        Raises a problem, and takes none of them, if there is no room for all.
        """
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Reply]] = [loop.create_future() for _ in reports]
        settlers = [partial(_settle_future, future) for future in futures]
        self._put([_Waiting(report, settle, loop) for report, settle in zip(reports, settlers, strict=True)])
        return await asyncio.gather(*futures)

    def submit_then(self, report: Report, settle: Callable[[Reply], None]) -> None:
        """Let ``settle`` be called in the running event loop when a report is kept, or was not kept."""
        self._put([_Waiting(report, settle, asyncio.get_running_loop())])

    def _put(self, waiting: Sequence[_Waiting]) -> None:
        with self._changed:
            if self._closing:
                raise not_ready()
            if len(self._queue) + len(waiting) > self._most_waiting:
                raise too_busy()
            was_empty = not self._queue
            self._queue.extend(waiting)
            if was_empty:
                self._changed.notify()

    # -- the writer's thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        last_s = -math.inf
        while batch := self._next_batch(gather=time.monotonic() - last_s < _UNDER_LOAD_S):
            _settle_all(batch, self._outcomes([waiting.report for waiting in batch]))
            last_s = time.monotonic()

    def _next_batch(self, *, gather: bool) -> list[_Waiting]:
        """Return what waits, at most a transaction's worth; nothing when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if gather:
                # Nobody wakes a writer that has something to write, so this ends early only to stop.
                self._changed.wait_for(lambda: self._closing, timeout=BATCH_WAIT_S)
            return [self._queue.popleft() for _ in range(min(len(self._queue), MOST_PER_TRANSACTION))]

    def _outcomes(self, reports: list[Report]) -> Sequence[Reply]:
        try:
            return self._receive(reports)
        except Exception as error:  # the writer must outlive whatever goes wrong with one batch
            return [problem_of(error)] * len(reports)

    def _refuse_rest(self) -> None:
        """Answer what a writer that never started, or died, has left."""
        with self._changed:
            rest = list(self._queue)
            self._queue.clear()
        _settle_all(rest, [not_ready() for _ in rest])


def _settle_all(batch: Sequence[_Waiting], outcomes: Sequence[Reply]) -> None:
    """Wake each loop once for all its requests: waking costs more than answering."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Reply]]] = {}
    for waiting, outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(waiting.loop, []).append((waiting, outcome))
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_at_tick, loop, settled)
        except RuntimeError:
            # The loop is closed; no request waits any more.
            continue


def _settle_at_tick(loop: asyncio.AbstractEventLoop, settled: list[tuple[_Waiting, Reply]]) -> None:
    loop.call_at(math.ceil(loop.time() / ANSWER_TICK_S) * ANSWER_TICK_S, _settle, settled)


def _settle(settled: list[tuple[_Waiting, Reply]]) -> None:
    for waiting, outcome in settled:
        waiting.settle(outcome)


def _settle_future(future: asyncio.Future[Reply], reply: Reply) -> None:
    # It is done already if the client has disconnected.
    if not future.done():
        future.set_result(reply)
