"""Logs: JSON lines on standard error, without locations, bodies, queries or messages of other packages.

Nothing is written because it was not thought of: an event's name and fields must be on a list and look as they should,
an error is its type and the lines of Nearveil that it passed, and of what other packages log only known sentences are
repeated. Their messages, and those of errors, may hold anything.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

_LOGGER = logging.getLogger("nearveil.service")
AUDIT_LOGGER = logging.getLogger("nearveil.audit")
AUDIT_LOGGER.setLevel(logging.INFO)
AUDIT_ENTRY = "nearveil_audit_entry"
"""Attribute of a record of the audit log: the whole line. It is written at every log level, or an error is raised."""

_PACKAGE = Path(__file__).parents[1]
_FRAMES = 6

_NUMBERS = frozenset(
    (
        "batch", "charged", "code_number", "count", "epoch", "intervals", "ms", "pending", "people", "pid", "port",
        "published", "seconds", "status", "waiting", "window",
    )
)  # fmt: skip
_WORDS = frozenset(
    (
        "caller", "caused_by", "code", "error", "fingerprint", "host", "index", "logger", "method", "policy",
        "problem", "reason", "route", "signal", "store_kind", "version", "where",
    )
)  # fmt: skip
_EVENT = re.compile(r"[A-Za-z][A-Za-z ,_-]{0,80}\.?")
_WORD = re.compile(r"[A-Za-z0-9_/{}.:<> \[\]-]{0,400}")
# Sentences of uvicorn that hold nothing of a request.
_KNOWN_SENTENCES = frozenset(
    {
        "Waiting for application startup.",
        "Application startup complete.",
        "Application startup failed. Exiting.",
        "Waiting for application shutdown.",
        "Application shutdown complete.",
        "Shutting down",
        "Waiting for connections to close. (CTRL+C to force quit)",
        "Waiting for background tasks to complete. (CTRL+C to force quit)",
        "Invalid HTTP request received.",
        "Exception in ASGI application\n",
        "Started server process [%d]",
        "Finished server process [%d]",
    }
)


def set_up_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Write all logs of this process as JSON lines, those of uvicorn and other packages included.

    Start uvicorn with ``log_config=None``, or it takes its loggers back.
    """
    _seldom.clear()
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(_Formatter())
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    for name in ("nearveil.service", "uvicorn", "uvicorn.error", "uvicorn.asgi"):
        _take_over(logging.getLogger(name), number)
    # Its lines hold paths, queries and addresses; what is wanted of them is logged as an event.
    access = logging.getLogger("uvicorn.access")
    access.handlers.clear()
    access.propagate, access.disabled = False, True
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_failure
    sys.excepthook = _log_failure
    sys.unraisablehook = _log_unraisable


def log_event(event: str, *, level: str = "info", **fields: object) -> None:
    """Log that something happened; fields that are not on the list, or do not look as they should, are dropped."""
    number = logging.getLevelNamesMapping()[level.upper()]
    if _LOGGER.isEnabledFor(number):
        _LOGGER.log(number, _event_name(event), extra={"nearveil_fields": _allowed(fields)})


def log_exception(event: str, error: BaseException, **fields: object) -> None:
    """Log an error by its type and where in Nearveil it arose, without its message."""
    log_event(event, level="error", **fields, **_summary(error))


_SELDOM_S = 10.0
_seldom: dict[tuple[str, str, str], tuple[float, int]] = {}
_seldom_lock = threading.Lock()


def log_seldom(event: str, error: BaseException, **fields: object) -> None:
    """Log an error that may come with every request: of one kind at most one line in ten seconds, with their number."""
    kind = (event, type(error).__name__ + str(getattr(error, "reason", "")), _own_lines(error))
    now = time.monotonic()
    with _seldom_lock:
        since, unlogged = _seldom.get(kind, (-math.inf, 0))
        if now - since < _SELDOM_S:
            _seldom[kind] = since, unlogged + 1
            return
        _seldom[kind] = now, 0
    log_exception(event, error, **fields, **({"count": 1 + unlogged} if unlogged else {}))


def _take_over(logger: logging.Logger, number: int) -> None:
    logger.handlers.clear()
    logger.propagate, logger.disabled = True, False
    logger.setLevel(number)


def _event_name(event: str) -> str:
    return event if _EVENT.fullmatch(event) else "event without a proper name"


def _allowed(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if _is_allowed(name, value)}


def _is_allowed(name: str, value: object) -> bool:
    if name in _NUMBERS:
        return isinstance(value, bool | int | float) and math.isfinite(value)
    return name in _WORDS and isinstance(value, str) and _WORD.fullmatch(value) is not None


# -- errors ------------------------------------------------------------------------------------------------------


def _summary(error: BaseException) -> dict[str, object]:
    """Return an error's type, those of the errors before it, reasons and codes by name, and the lines it passed."""
    causes = [type(cause).__name__ for cause in _causes(error)]
    summary: dict[str, object] = {"error": type(error).__name__, "where": _own_lines(error)}
    if causes:
        summary["caused_by"] = " < ".join(causes)
    for found in (error, *_causes(error)):
        for name, value in _codes(found):
            summary.setdefault(name, value)
    return summary


def _codes(error: BaseException) -> Iterator[tuple[str, object]]:
    """Name why an error arose: by a store's reason, a SQLSTATE, SQLite's name or the system's; values are not named."""
    for name in ("reason", "code"):
        word = getattr(error, name, None) if type(error).__module__.startswith("nearveil.") else None
        if isinstance(word, str) and re.fullmatch("[A-Za-z][A-Za-z0-9_-]{1,60}", word):
            yield name, word
    state, lite = getattr(error, "sqlstate", None), getattr(error, "sqlite_errorname", None)
    if isinstance(state, str) and re.fullmatch("[0-9A-Z]{5}", state):
        yield "code", state
    if isinstance(lite, str) and re.fullmatch("SQLITE_[A-Z_]{1,40}", lite):
        yield "code", lite
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        yield "code_number", number
        if number in errno.errorcode:
            yield "code", errno.errorcode[number]


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _own_lines(error: BaseException) -> str:
    lines = [
        f"{Path(frame.f_code.co_filename).relative_to(_PACKAGE)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).is_relative_to(_PACKAGE)
    ]
    return " > ".join(lines[-_FRAMES:])


def _log_thread_failure(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        log_exception("thread failed", args.exc_value)


def _log_failure(_kind: type[BaseException], error: BaseException, _trace: object) -> None:
    log_exception("process failed", error)


def _log_unraisable(args: Any) -> None:
    if args.exc_value is not None:
        log_exception("cleaning up failed", args.exc_value)


# -- lines -------------------------------------------------------------------------------------------------------


class _Formatter(logging.Formatter):
    """One JSON object per record; of a record that is not ours, next to nothing."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == AUDIT_LOGGER.name and (entry := getattr(record, AUDIT_ENTRY, None)) is not None:
            return json.dumps(entry)
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
        own = getattr(record, "nearveil_fields", None) if record.name == _LOGGER.name else None
        return json.dumps(line | (self._foreign(record) if own is None else {"event": record.msg, **own}))

    @staticmethod
    def _foreign(record: logging.LogRecord) -> dict[str, object]:
        known = isinstance(record.msg, str) and record.msg in _KNOWN_SENTENCES
        event = record.msg.partition(" [")[0].strip() if known else "message of another package"
        fields = _allowed({"logger": record.name, "where": f"{record.module}:{record.lineno}"})
        error = record.exc_info[1] if record.exc_info else None
        return {"event": event, **fields, **(_allowed(_summary(error)) if error is not None else {})}


class _Handler(logging.StreamHandler[TextIO]):
    """A handler that keeps quiet when it cannot write, where Python would print the record."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the method it replaces
        """Raise the error if the record is of the audit log: what cannot be logged must not be done."""
        if hasattr(record, AUDIT_ENTRY):
            raise  # noqa: PLE0704 - called while the error is handled
