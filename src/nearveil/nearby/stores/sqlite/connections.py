"""All connections to one file: a writer, readers of their own, and a lock that keeps other processes out."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.sqlite.connection import Connection
from nearveil.nearby.stores.sqlite.file import lock, make, make_private
from nearveil.nearby.stores.sqlite.schema import check_ours, migrate
from nearveil.nearby.stores.sqlite.turns import Turns

_OLDEST_SQLITE = (3, 35)


class Connections:
    """The connections of one store.

    Parameters
    ----------
    path : Path or None
        The file; None keeps everything in memory, where all threads take turns on one connection.
    """

    def __init__(self, path: Path | None) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError("this Python comes with a SQLite older than 3.35; use a newer Python")
        self._path = path.absolute() if path else None
        self._name = str(self._path) if self._path else "in memory"
        self._lock = lock(self._path) if self._path else None
        self._turns = Turns(self._name)
        self._idle: list[Connection] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        self._owes_empty_log = False
        try:
            self._writer = self._open_writer()
        except BaseException:
            self._unlock()
            raise

    @property
    def in_memory(self) -> bool:
        """Whether there is no file."""
        return self._path is None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction, kept at the end of the block and undone if it raises."""
        with self._turns.mine():
            self._check_open()
            self._writer.run("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.run("COMMIT")
            except BaseException:
                self._writer.roll_back()
                raise
            if self._owes_empty_log:
                self._empty_log()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Look at the store as it is now, whatever is written meanwhile."""
        if self.in_memory:
            with self._turns.mine_or_nested():
                self._check_open()
                yield self._writer
            return
        connection = self._take_reader()
        try:
            connection.run("BEGIN")
            yield connection
        finally:
            connection.roll_back()
            self._give_back(connection)

    def empty_log(self) -> None:
        """Bring everything into the file and empty the write-ahead log, which keeps what was deleted from the file.

        While somebody reads it cannot be emptied; then the next transaction does it.
        """
        if self.in_memory:
            return
        with suppress(StoreError):
            # The long part, while others write.
            with self.reading() as connection:
                connection.roll_back()
                connection.run("PRAGMA wal_checkpoint(PASSIVE)")
            with self._turns.mine():
                self._empty_log()

    def rewrite(self) -> None:
        """Write the whole file anew, so that no page holds a left-over of what was moved or deleted."""
        with self._turns.mine():
            self._check_open()
            self._writer.run("VACUUM")
        self.empty_log()

    def close(self) -> None:
        """Let go of everything; readers at work let go when they are done."""
        with self._turns.mine():
            if self._closed:
                return
            with self._idle_lock:
                self._closed = True
                idle, self._idle = self._idle, []
            for connection in (*idle, self._writer):
                connection.close()
            self._unlock()

    def _empty_log(self) -> None:
        """Try, without waiting for readers; the caller has the turn."""
        self._owes_empty_log = True
        with suppress(StoreError):
            self._check_open()
            self._writer.run("PRAGMA busy_timeout = 0")
            try:
                row = self._writer.one("PRAGMA wal_checkpoint(TRUNCATE)")
                self._owes_empty_log = bool(row and row[0])
            finally:
                self._writer.run("PRAGMA busy_timeout = 10000")

    def _open_writer(self) -> Connection:
        if self._path is None:
            writer = Connection(":memory:", self._name)
        else:
            make(self._path)
            writer = Connection(str(self._path), self._name)
        try:
            check_ours(writer)
            if self._path is not None:
                make_private(self._path)
                writer.run("PRAGMA journal_mode = WAL")
            migrate(writer)
        except BaseException:
            writer.close()
            raise
        return writer

    def _take_reader(self) -> Connection:
        with self._idle_lock:
            self._check_open()
            if self._idle:
                return self._idle.pop()
        return Connection(self._name, self._name, query_only=True)

    def _give_back(self, connection: Connection) -> None:
        with self._idle_lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open it again")

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
