"""An append-only file of records that survives being killed at any byte.

The file is one header line and one line for each record::

    nearveil-ledger 1
    <length of the payload> <checksum> <payload>

The checksum is taken over the payload and the checksum before it, so that no record can be altered, lost, added or
moved in the middle without notice. It guards against accidents; anyone who may write to the file can make a new chain.

A record has happened when its line is complete, and is acknowledged when the disk has it. What a killed writer leaves
of a line was never acknowledged and is cut off by the next writer. Everything else that is not as written is
refused: a ledger that skips records would let them be spent again.

Writers and readers exclude each other by ``flock`` on the file, taken anew for each operation, so that processes,
threads and several objects in one process are all the same to it. The file must be on a local disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearveil.errors import DataError, OutputError

HEADER = b"nearveil-ledger 1\n"
_HEADER_OF_ANY_VERSION = re.compile(rb"nearveil-ledger \d+\n")
_CHECKSUM_LENGTH = 32
_TORN = re.compile(rb"\d{0,15}|(\d{1,15}) (?:[0-9a-f]{0,32}|[0-9a-f]{32} .*)", re.DOTALL)


class Journal:
    """One file of records.

    Parameters
    ----------
    path : Path
        Made if it does not exist, for its owner's eyes only; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._identity: tuple[int, int] | None = None
        self.start_over()
        with self._open(os.O_CREAT) as descriptor:
            self._make_header(descriptor)
            _check_header(self.path, os.pread(descriptor, 100, 0))
            # Each time, since the process that made the file may have been killed before this.
            _sync_folder(self.path.parent)

    def start_over(self) -> None:
        """Forget what was read, so that everything is read again."""
        self._end = len(HEADER)
        self._chain = HEADER

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Give the descriptor of the file, under an exclusive lock."""
        with self._open(0) as descriptor:
            yield descriptor

    def read_new(self, descriptor: int) -> list[bytes]:
        """Return the payloads that were appended since the last look, by whomever; cut off a torn one."""
        size = os.fstat(descriptor).st_size
        if size < self._end:
            raise DataError(f"the ledger {self.path} has become shorter while in use; restore it from a backup")
        if size == self._end:
            return []
        *lines, torn = _read(descriptor, self._end, size).split(b"\n")
        payloads = [self._payload(line + b"\n") for line in lines]
        if torn:
            self._cut_off(descriptor, torn)
        # Their writer may have been killed before it came to this, and we are about to rely on them.
        os.fsync(descriptor)
        return payloads

    def append(self, descriptor: int, payload: bytes) -> None:
        """Write one record and return when the disk has it; call `read_new` under the same lock before."""
        line = _line(payload, self._chain)
        try:
            _write(descriptor, line, self._end)
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._advance(line)

    @contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        descriptor = None
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._check_file(os.fstat(descriptor), self.path.stat())
            yield descriptor
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            reason = error.strerror or "the system refused"
            raise OutputError(
                f"the ledger {self.path} cannot be used: {reason}; publish nothing, see to its disk, folder and "
                "permissions, and record again"
            ) from None
        finally:
            # Closing also gives the lock back.
            if descriptor is not None:
                os.close(descriptor)

    def _check_file(self, opened: os.stat_result, named: os.stat_result) -> None:
        """Refuse to write to a file that is no longer the ledger: it would be lost with all that is on record in it."""
        if not stat.S_ISREG(opened.st_mode):
            raise DataError(f"{self.path} is not an ordinary file; name another one for the ledger")
        identity = (opened.st_dev, opened.st_ino)
        if identity != (named.st_dev, named.st_ino) or self._identity not in (None, identity):
            raise DataError(f"the ledger {self.path} was replaced while in use; start again with the right file")
        self._identity = identity

    def _make_header(self, descriptor: int) -> None:
        """Write the header of a new file, or what a killed writer left out of it."""
        there = os.pread(descriptor, len(HEADER), 0)
        if len(there) == len(HEADER) or not HEADER.startswith(there):
            return
        os.fchmod(descriptor, 0o600)
        _write(descriptor, HEADER, 0)
        os.fsync(descriptor)

    def _payload(self, line: bytes) -> bytes:
        payload = line[:-1].split(b" ", 2)[-1]
        if _line(payload, self._chain) != line:
            raise self._damaged()
        self._advance(line)
        return payload

    def _advance(self, line: bytes) -> None:
        self._end += len(line)
        self._chain = line.split(b" ", 2)[1]

    def _cut_off(self, descriptor: int, torn: bytes) -> None:
        """Remove what a killed writer left; it must be less than a record, and look like the beginning of one."""
        begun = _TORN.fullmatch(torn)
        if not begun:
            raise self._damaged()
        if begun[1] and len(torn) >= len(begun[1]) + 1 + _CHECKSUM_LENGTH + 1 + int(begun[1]) + 1:
            raise self._damaged()
        os.ftruncate(descriptor, self._end)

    def _damaged(self) -> DataError:
        return DataError(
            f"the ledger {self.path} is damaged at byte {self._end}, and what was spent from there on is not known; "
            "restore it from a backup"
        )


def _line(payload: bytes, chain: bytes) -> bytes:
    checksum = hashlib.sha256(chain + payload).hexdigest()[:_CHECKSUM_LENGTH]
    return b"%d %s %s\n" % (len(payload), checksum.encode(), payload)


def _check_header(path: Path, there: bytes) -> None:
    if there.startswith(HEADER):
        return
    if _HEADER_OF_ANY_VERSION.match(there):
        raise DataError(f"the ledger {path} was written by another version of Nearveil; use that one")
    raise DataError(f"{path} is not a ledger; name another file")


def _read(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write(descriptor: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
