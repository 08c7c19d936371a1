"""Work spread over the machine's cores; results in the order of the work."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from nearveil.errors import NearveilError
from nearveil.types import Progress

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_parallel(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, cores: int, progress: Progress | None = None
) -> Iterator[_Result]:
    """Do the work for every item, in processes of their own where there is more than one core.

    ``work`` is a function of a module; ``progress`` is called with 1 for each item that is done.
    """
    todo = list(items)
    workers = min(cores, len(todo))
    if workers <= 1:
        results: Iterable[Any] = map(work, todo)
    else:
        # joblib replaces a worker that has grown large, which nobody needs to know.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        pool = joblib.Parallel(workers, return_as="generator", initializer=_end_with, initargs=(os.getpid(),))
        results = pool(joblib.delayed(work)(item) for item in todo)
    try:
        for result in results:
            if progress:
                progress(1)
            yield result
    except TerminatedWorkerError:
        raise NearveilError("a worker process was ended, perhaps for want of memory; try cores=1") from None


def _end_with(parent: int) -> None:
    """Leave Ctrl-C to the parent, and do not wait for more work of a parent that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
