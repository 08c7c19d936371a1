"""Work spread over the machine's cores; results in the order of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from nearveil.errors import NearveilError
from nearveil.types import Progress

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class WorkerError(NearveilError):
    """A process that did part of the work is gone."""

    exit_code = 1


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
        results = joblib.Parallel(n_jobs=workers, return_as="generator")(joblib.delayed(work)(item) for item in todo)
    try:
        for result in results:
            if progress:
                progress(1)
            yield result
    except TerminatedWorkerError:
        raise WorkerError("a worker process was ended, perhaps for want of memory; try cores=1") from None
