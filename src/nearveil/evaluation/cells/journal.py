"""Finished cells on disk: one line each, so that whatever is killed goes on where it was."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nearveil.errors import OutputError, UsageError

_MARK = 16
_ELSEWHERE = "choose another folder with --out"


class CellJournal:
    """Results by key. A line that is damaged, or was not written to its end, is measured again.

    Parameters
    ----------
    stream : file
        Open for reading and appending, held by nobody else.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._found = self._read()

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._found[key]

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result; once this returns, ending the process does not lose it."""
        told = json.dumps({"key": key, "result": result}, allow_nan=True).encode()
        try:
            self._stream.write(_mark(told) + b" " + told + b"\n")
            self._stream.flush()
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or "the system refused")
            raise OutputError(f"finished work cannot be kept: {reason}; free some space and run it again") from None
        self._found[key] = json.loads(told)["result"]

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        self._stream.seek(0)
        end = 0
        for line in self._stream:
            # What has no end was being written when the process ended.
            if not line.endswith(b"\n"):
                break
            mark, _, told = line.rstrip(b"\n").partition(b" ")
            if mark == _mark(told):
                document = json.loads(told)
                found[document["key"]] = document["result"]
            else:
                self._refuse_strangers(end)
            end += len(line)
        self._stream.seek(end)
        self._stream.truncate()
        return found

    @staticmethod
    def _refuse_strangers(end: int) -> None:
        """A file that begins with something else is somebody's; a damaged line further on is measured again."""
        if end == 0:
            raise UsageError(f"there is a file in this folder that only looks like finished work; {_ELSEWHERE}")


def _mark(told: bytes) -> bytes:
    return hashlib.sha256(told).hexdigest()[:_MARK].encode()


@contextmanager
def open_journal(path: Path) -> Iterator[CellJournal]:
    """Open a journal for this process alone; made if it is not there."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; choose another folder with --out") from None
    with os.fdopen(descriptor, "r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another run is writing to {path.parent}; wait for it, or choose another folder with --out"
            ) from None
        yield CellJournal(stream)
