"""Errors end up in logs, so those of executors and of Spark say what kind of thing went wrong and never a value."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from nearveil.errors import DataError, NearveilError, OutputError, UsageError

_Task = TypeVar("_Task")
Batches = Iterator[pa.RecordBatch]

_NO_JAVA = "Spark's Java did not start; install Java 17 or newer, and let JAVA_HOME name its folder"
_NO_START = (
    "Spark did not start; look at its settings (--spark-conf, spark-defaults.conf) and whether its Java is 17 or "
    "newer; with spark.log.level=INFO Spark says more"
)
_REMEDY = "look at paths, formats and settings; with spark.log.level=INFO Spark says more"
_NO_PYTHON = (
    "its executors' Python must be there and have Nearveil in it, the same version as here (PYSPARK_PYTHON or "
    "spark.pyspark.python names that Python)"
)

# How conditions, names of Java's classes and messages begin, of an error or what caused it.
_OF_PYTHON = ("org.apache.spark.api.python.PythonException", "Cannot run program")
_OF_INPUT = (
    "PATH_NOT_FOUND",
    "UNABLE_TO_INFER_SCHEMA",
    "FAILED_READ_FILE",
    "CANNOT_READ",
    "CANNOT_MERGE_SCHEMAS",
    "CAST_INVALID_INPUT",
    "MALFORMED_",
    "UNSUPPORTED_DATA",
)
_OF_OUTPUT = (
    "PATH_ALREADY_EXISTS",
    "Mkdirs failed",
    "No space left on device",
    "java.nio.file.",
    "org.apache.hadoop.fs.",
    "org.apache.hadoop.security.AccessControlException",
)
_OF_ANALYSIS = ("org.apache.spark.sql.AnalysisException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException")
# What a task of ours says of an error that it did not expect.
_OWN = re.compile(
    r"Nearveil failed on an executor \(\w+\); please report it"
    r"|executors cannot import [\w.]+; install it on them, or use the local engine"
)
_PHRASES = ("Cannot run program", "Mkdirs failed", "No space left on device")
# Both print a whole message of Spark, with values, as soon as there is an error.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class ExecutorError(NearveilError):
    """Something failed on an executor that is neither the data's nor the caller's fault."""


class SparkFailedError(NearveilError):
    """Spark could not do it, and neither the input nor the output is known to be the reason; its own log says more."""


class _Failure(NamedTuple):
    """The message of an error of Spark, and what distinguishes its kinds."""

    kind: str
    signs: tuple[str, ...]
    own: str | None = None


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an error of Spark into a sentence with its kind; what else it says may have values of the data in it.

    Also a decorator. Without pyspark it does nothing.
    """
    try:
        with _nothing_logged():
            yield
    except NearveilError:
        raise
    except Exception as error:
        if (ours := _as_error(error)) is None:
            raise
        raise ours from None


@contextmanager
def _nothing_logged() -> Iterator[None]:
    if find_spec("pyspark") is None:
        yield
        return
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - an extra

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _as_error(error: Exception) -> NearveilError | None:
    """Return what to raise instead; None where it is not an error of Spark."""
    if not sys.modules.get("pyspark"):
        return None
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    if isinstance(error, Py4JJavaError):
        return _judged(_in_java(error.java_exception), error)
    if isinstance(error, Py4JError):
        return SparkFailedError(f"Spark is gone ({type(error).__name__}); {_REMEDY}")
    if not isinstance(error, PySparkException):
        return None
    if (origin := getattr(error, "_origin", None)) is not None:
        return _judged(_in_java(origin), error)
    kind = error.getCondition() or type(error).__name__
    if kind == "JAVA_GATEWAY_EXITED":
        return UsageError(_NO_START if _java_is_there() else _NO_JAVA)
    return _judged(_Failure(kind, (kind,)), error)


def _judged(failure: _Failure, error: Exception) -> NearveilError:
    """Say whose fault it is, as far as that is known."""

    def has(begins: tuple[str, ...]) -> bool:
        return any(sign.startswith(begins) for sign in failure.signs)

    if failure.own is not None:
        return ExecutorError(failure.own)
    sentence = f"Spark could not do it ({failure.kind}); "
    if has(_OF_PYTHON):
        return SparkFailedError(sentence + _NO_PYTHON)
    if has(_OF_INPUT):
        return DataError(sentence + _REMEDY)
    if has(_OF_OUTPUT) and _was_writing(error):
        return OutputError(f"Spark could not write the result ({failure.kind}); {_REMEDY}")
    return (DataError if has(_OF_ANALYSIS) else SparkFailedError)(sentence + _REMEDY)


def _in_java(thrown: Any) -> _Failure:
    """Read conditions, classes and a few fixed phrases of a Java exception and of what caused it, and nothing else."""
    conditions, classes, phrases, own = list[str](), list[str](), list[str](), None
    while thrown is not None:
        classes.append(thrown.getClass().getName())
        # Not all have one.
        with suppress(Exception):
            conditions.append(thrown.getCondition())
        message = thrown.getMessage() or ""
        phrases += [phrase for phrase in _PHRASES if message.startswith(phrase)]
        own = own or _OWN.search(message)
        thrown = thrown.getCause()
    conditions = [condition for condition in conditions if condition]
    # Spark's own classes say least, and the first cause most.
    return _Failure((conditions or classes[::-1])[0], (*conditions, *classes, *phrases), own and own[0])


def _was_writing(error: Exception) -> bool:
    """Whether Spark was asked to write: what is not permitted there, or has no room, is not the input."""
    return any(frame.f_code.co_qualname.startswith("DataFrameWriter") for frame, _ in walk_tb(error.__traceback__))


def _java_is_there() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(home, "bin", "java") if home else "java") is not None


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
