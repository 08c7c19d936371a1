"""Errors end up in logs, so those of executors and of Spark say what kind of thing went wrong and never a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TypeVar

import pyarrow as pa

from nearveil.errors import NearveilError, UsageError

_Task = TypeVar("_Task")
Batches = Iterator[pa.RecordBatch]

_NO_JAVA = "Spark's Java did not start; install Java 17 or newer, and let JAVA_HOME name its folder"
_REMEDY = "look at paths, formats and settings; with spark.log.level=INFO Spark says more"
_NO_PYTHON = "its executors' Python needs Nearveil in it, the same version as here (PYSPARK_PYTHON names that Python)"


class ExecutorError(NearveilError):
    """Something failed on an executor that is neither the data's nor the caller's fault."""


class SparkFailedError(NearveilError):
    """Spark could not do it; its own log says more."""

    exit_code = 3


@contextmanager
def sparks_errors_told() -> Iterator[None]:
    """Turn an error of Spark into a sentence with its kind; what else it says may have values of the data in it."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    try:
        yield
    except PySparkException as error:
        kind = error.getCondition() or type(error).__name__
        if kind == "JAVA_GATEWAY_EXITED":
            raise UsageError(_NO_JAVA) from None
        remedy = _NO_PYTHON if kind == "PYTHON_EXCEPTION" else _REMEDY
        raise SparkFailedError(f"Spark could not do it ({kind}); {remedy}") from None
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        raise SparkFailedError(f"Spark could not do it ({kind}); {_REMEDY}") from None
    except Py4JError as error:
        raise SparkFailedError(f"Spark is gone ({type(error).__name__}); {_REMEDY}") from None


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
