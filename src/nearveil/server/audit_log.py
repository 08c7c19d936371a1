"""The audit log: who did what to whom, as JSON lines in a file of its own or in the service's log.

An entry is written before anything is done (to a file: it is on disk); if that fails, nothing is done. So an entry says
that something was done, unless another line with the same ``entry`` says that it was not (``"result": "not done"``) or
that it failed and may have been done or not (``"result": "failed"``). After a crash, the last entry may not have been
done.

People's ids are hashed with a key that is derived from the service's keys: the log alone names nobody, and whoever has
the keys can look somebody up (`audit_id`). No entry holds a place, a token or a secret. Times are in whole seconds.

Reports and questions are not in it. They are no changes by an operator, there are thousands a second, and a list of
when somebody reported tells when they were out, which the service publishes of nobody.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearveil.errors import OutputError
from nearveil.nearby.publishing.keys import keyed_bytes
from nearveil.server.auth import Caller
from nearveil.server.logs import AUDIT_ENTRY, AUDIT_LOGGER, log_exception
from nearveil.server.problems import Problem, not_logged

PEOPLE_PER_LINE = 100
"""More people than that are spread over several lines of one entry."""

_HASH_BYTES = 16


def audit_id(token_key: bytes, person: str) -> str:
    """Return what a person is called in the audit log and the access log of the service with this key."""
    return keyed_bytes(token_key, "nearveil audit id", person.encode(), size=_HASH_BYTES).hex()


class AuditLog:
    """Writes entries; for any number of threads, and for processes that share a file.

    Parameters
    ----------
    token_key : bytes
        The service's key of tokens, which outlives rotations; ids are hashed with a key that is derived from it.
    path : Path, optional
        The file, made for its owner alone; it may be renamed at any time, and is then made anew. If not given, entries
        are lines of the service's log.
    clock : callable, optional
        Seconds since 1970.

    Raises
    ------
    OutputError
        If the file cannot be opened.
    """

    def __init__(self, token_key: bytes, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._token_key, self._path, self._clock = token_key, path, clock
        self._lock = threading.Lock()
        if path is not None:
            try:
                self._append(b"")
            except OSError as error:
                raise OutputError(
                    f"the audit log {path} cannot be written ({error.strerror}); name another file (--audit-log)"
                ) from None

    def __repr__(self) -> str:
        return f"AuditLog({self._path or 'in the log'})"

    def caller_name(self, caller: Caller) -> str:
        """Return how logs name a caller: a platform by its key's name, a person by their hashed id."""
        if caller.kind == "platform":
            return f"key {caller.name}"
        return f"person {audit_id(self._token_key, caller.name)}"

    @asynccontextmanager
    async def recorded(
        self, caller: Caller, action: str, *, people: Sequence[str] = (), **about: Any
    ) -> AsyncIterator[None]:
        """Write an entry, then do what is in the block; raises the problem ``not-logged`` instead if that fails."""
        entry = secrets.token_hex(8)
        hashed = [audit_id(self._token_key, person) for person in people]
        parts: list[dict[str, Any]] = [
            {"people": hashed[start : start + PEOPLE_PER_LINE]} for start in range(0, len(hashed), PEOPLE_PER_LINE)
        ]
        begun = {"entry": entry, "action": action, "by": self.caller_name(caller), **about}
        try:
            await asyncio.to_thread(self._write, [begun | part for part in parts or [{}]])
        except (OSError, ValueError) as error:
            # A stream that is closed raises a ValueError.
            log_exception("audit log not written", error)
            raise not_logged() from None
        try:
            yield
        except BaseException as error:
            result = {
                "entry": entry,
                "action": action,
                "result": "not done" if isinstance(error, Problem) else "failed",
            }
            written = asyncio.get_running_loop().run_in_executor(None, self._write_result, result)
            if isinstance(error, Exception):
                # A task that is cancelled cannot wait; the line is written all the same.
                await asyncio.shield(written)
            raise

    def _write_result(self, line: dict[str, Any]) -> None:
        """Say what became of an entry. One that claims too much, because this line is missing, does no harm."""
        try:
            self._write([line])
        except (OSError, ValueError) as failure:
            log_exception("audit log not written", failure)

    def _write(self, entries: Sequence[dict[str, Any]]) -> None:
        moment = datetime.fromtimestamp(int(self._clock()), UTC).isoformat().replace("+00:00", "Z")
        lines = [{"time": moment, "event": "audit", **entry} for entry in entries]
        if self._path is not None:
            self._append("".join(json.dumps(line) + "\n" for line in lines).encode())
            return
        for line in lines:
            AUDIT_LOGGER.info("audit", extra={AUDIT_ENTRY: line})

    def _append(self, text: bytes) -> None:
        """Append to the file and wait for the disk. It is opened each time, so that it can be renamed in between."""
        if self._path is None:
            return
        with self._lock:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
                if is_file:
                    # A long entry of another process grows page by page: it must not be taken for one that was cut.
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                status = os.fstat(descriptor)
                if is_file and status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n" and text:
                    # A full disk has cut the line before this one.
                    text = b"\n" + text
                if os.write(descriptor, text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if is_file:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
