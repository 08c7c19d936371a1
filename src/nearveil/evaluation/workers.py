"""Work spread over the machine's cores, in processes of their own; results as they come."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from nearveil.errors import NearveilError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class WorkerError(NearveilError):
    """A process that did part of the work is gone."""

    exit_code = 1


def map_in_processes(
    work: Callable[[_Item], _Result], items: Sequence[_Item], *, cores: int
) -> Generator[tuple[int, _Result]]:
    """Do the work for every item; yield the item's number and its result, in the order in which they are finished.

    ``work`` must be a function of a module, and items and results must be picklable. One core means this process.
    """
    if min(cores, len(items)) <= 1:
        yield from ((index, work(item)) for index, item in enumerate(items))
        return
    # A process of its own for each core: the work is mostly Python. Fresh ones, as forking threads is unsafe.
    strangers = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(cores, len(items)), mp_context=context, initializer=_begin_worker)
    try:
        yield from _as_completed(pool, work, items, cores)
    except BrokenProcessPool:
        raise WorkerError("a worker process was ended, perhaps for want of memory; try cores=1") from None
    except BaseException:
        # A caller that is stopped does not wait for work whose result is not used.
        for worker in set(multiprocessing.active_children()) - strangers:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Start processes that do not run the caller's script from the top, unless it is written for that.

    A new process imports the main script again, to know the classes in it. Without ``if __name__ == "__main__":`` that
    would do all its work once more, in every process.
    """
    main = sys.modules["__main__"]
    path, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if path is None or spec is not None or "__name__" in _source(path):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path


@cache
def _source(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _as_completed(
    pool: ProcessPoolExecutor, work: Callable[[_Item], _Result], items: Sequence[_Item], cores: int
) -> Iterator[tuple[int, _Result]]:
    """Keep every core busy without holding all items in flight at once."""
    waiting = iter(enumerate(items))
    running: dict[Future[_Result], int] = {}

    def start_more() -> None:
        with _script_hidden():
            while len(running) < 2 * cores and (following := next(waiting, None)) is not None:
                running[pool.submit(work, following[1])] = following[0]

    start_more()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
        start_more()
