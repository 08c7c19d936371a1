"""Read, work and write at the same time, in order, with little in flight."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Full, Queue
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_AHEAD = 2
_LOOK_UP_S = 0.05


def mapped_in_order(work: Callable[[_Item], _Result], items: Iterator[_Item]) -> Generator[_Result, None, None]:
    """Give the results of ``work`` in the order of the items, which another thread fetches and all cores work on.

    The caller takes the results meanwhile. When it stops, for any reason, all threads stop.
    """
    cores = os.cpu_count() or 1
    waiting: deque[Future[_Result]] = deque()
    with closing(_fetched_ahead(items)) as fetched, ThreadPoolExecutor(cores) as pool:
        try:
            for item in fetched:
                waiting.append(pool.submit(work, item))
                if len(waiting) > cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _End:
    """The items have come to an end, or to an error."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def _fetched_ahead(items: Iterator[_Item]) -> Generator[_Item, None, None]:
    """Give items that another thread fetches, a few ahead."""
    queue: Queue[_Item | _End] = Queue(_AHEAD)
    stopped = threading.Event()
    thread = threading.Thread(target=_fetch, args=(items, queue, stopped), daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        thread.join()


def _fetch(items: Iterator[_Item], queue: Queue[_Item | _End], stopped: threading.Event) -> None:
    try:
        for item in items:
            if not _put(queue, item, stopped):
                return
        _put(queue, _End(), stopped)
    except BaseException as error:  # raised again where items are waited for
        _put(queue, _End(error), stopped)
    finally:
        if isinstance(items, Generator):
            items.close()


def _put(queue: Queue[_Item | _End], item: _Item | _End, stopped: threading.Event) -> bool:
    """Put an item into the queue unless it is no longer wanted."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=_LOOK_UP_S)
        except Full:
            continue
        return True
    return False
