"""Errors of executors end up in logs, so they say what kind of thing went wrong and never a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeVar

import pyarrow as pa

from nearveil.errors import NearveilError

_Task = TypeVar("_Task")
Batches = Iterator[pa.RecordBatch]


class ExecutorError(NearveilError):
    """Something failed on an executor that is neither the data's nor the caller's fault."""


def tells_no_values(
    work: Callable[[_Task, Batches], Batches],
) -> Callable[[_Task, Batches], Batches]:
    """Let only Nearveil's own sentences out of a task; of other errors, the name of their kind."""

    @wraps(work)
    def guarded(task: _Task, batches: Batches) -> Batches:
        try:
            yield from work(task, batches)
        except NearveilError as error:
            raise error from None
        except Exception as error:
            raise ExecutorError(f"Nearveil failed on an executor ({type(error).__name__}); please report it") from None

    return guarded
