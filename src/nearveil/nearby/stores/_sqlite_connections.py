"""The file behind the embedded store: private to its owner, one process's at a time, with a writer and readers."""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from nearveil.nearby.stores.base import Computing, Reason, StoreError, StoreInUseError

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
        self._writer_lock = FairLock(self._name)
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
    def writing(self, computing: Computing = nullcontext) -> Iterator[Connection]:
        """Begin a transaction, kept at the end of the block and undone if it raises.

        ``computing`` is entered from when it is this thread's turn until only the disk is left to wait for.
        """
        with self._writer_lock.held():
            try:
                with computing():
                    self._check_open()
                    # A failing disk may not have let the last transaction be undone; none could begin until it is.
                    self._writer.roll_back()
                    self._writer.run("BEGIN IMMEDIATE")
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
            with self._writer_lock.held_or_nested():
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
            with self._writer_lock.held():
                self._empty_log()

    def bring_log_in(self) -> None:
        """Bring the write-ahead log into the file while others write; empty it if it has grown all the same."""
        frames = 0
        # What is written during the first time is little, so that the second time may reach the end of the log: then
        # the next transaction begins it anew.
        for _ in range(2):
            with self.reading() as connection:
                connection.roll_back()
                row = connection.one("PRAGMA wal_checkpoint(PASSIVE)")
            frames = row[1] if row else 0
        if frames > _MOST_FRAMES:
            self.empty_log()

    def checkpoint_elsewhere(self) -> None:
        """Let no transaction bring the log into the file: somebody calls `bring_log_in` from now on."""
        with self._writer_lock.held():
            self._check_open()
            self._writer.run("PRAGMA wal_autocheckpoint = 0")

    def rewrite(self) -> None:
        """Write the whole file anew, so that no page holds a left-over of what was moved or deleted."""
        with self._writer_lock.held():
            self._check_open()
            self._writer.run("VACUUM")
        self.empty_log()

    def close(self) -> None:
        """Let go of everything; readers at work let go when they are done."""
        with self._writer_lock.held():
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
            make_tables(writer)
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


# Housekeeper: what must be done after writing, in a thread that nobody waits for.


_EVERY_S = 1.0
# 64 MB of pages of 4 kB.
_MOST_FRAMES = 16_384


class Housekeeper:
    """Brings the log into the file every second, so that no report waits for that, and does what it is given.

    Parameters
    ----------
    connections : Connections
        Of a store in a file.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nearveil-housekeeper", daemon=True)
        connections.checkpoint_elsewhere()
        self._thread.start()

    def do(self, work: Callable[[], None]) -> None:
        """Do something soon."""
        self._work.put(work)

    def close(self) -> None:
        """Do what is left, and stop."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_EVERY_S)
            except queue.Empty:
                work = self._connections.bring_log_in
            if work is None:
                return
            # A full disk, for instance: the next time is in a second, or at the next epoch.
            with suppress(StoreError):
                work()


# A connection to the embedded store whose errors are sentences.


Parameters = Sequence[Any] | Mapping[str, Any]

_BUSY_S = 10.0

_SENTENCES = {
    "SQLITE_FULL": "the disk of the store {name} is full and nothing of this was kept; make room and try again",
    "SQLITE_NOTADB": "{name} is no Nearveil store, or a damaged one; name another file, or restore it from a backup",
    "SQLITE_CORRUPT": "the store {name} is damaged; restore it from a backup",
    "SQLITE_BUSY": "another program holds the store {name}; end it and try again",
    "SQLITE_READONLY": "the store {name} cannot be written; see to the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "the store {name} cannot be opened; see to the permissions of the file and its folder",
    "SQLITE_IOERR": "the disk of the store {name} fails and nothing of this was kept; see to it and try again",
}


_REASONS: dict[str, Reason] = {
    "SQLITE_FULL": "disk-full",
    "SQLITE_NOTADB": "damaged",
    "SQLITE_CORRUPT": "damaged",
    "SQLITE_BUSY": "busy",
    "SQLITE_READONLY": "read-only",
    "SQLITE_CANTOPEN": "disk-failed",
    "SQLITE_IOERR": "disk-failed",
}


class Connection:
    """One connection. Every statement of the store goes through it, and none holds a value in its text.

    Parameters
    ----------
    source : str
        Path of the file, or ``:memory:``.
    name : str
        How errors speak of it.
    """

    def __init__(self, source: str, name: str, *, query_only: bool = False) -> None:
        self.name = name
        try:
            self._connection = sqlite3.connect(
                source, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=64
            )
        except sqlite3.Error as error:
            raise store_error(error, name) from None
        try:
            self._set_up(query_only=query_only)
        except StoreError:
            self.close()
            raise

    def _set_up(self, *, query_only: bool) -> None:
        # FULL: a commit has returned when the disk has it. What is deleted is overwritten with zeros.
        for pragma in ("synchronous = FULL", "secure_delete = ON", "foreign_keys = ON", "temp_store = MEMORY"):
            self.run(f"PRAGMA {pragma}")
        self.run(f"PRAGMA cache_size = {-8_192 if query_only else -65_536}")
        if query_only:
            self.run("PRAGMA query_only = ON")

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        """Run a statement that answers nothing."""
        self.rows(statement, parameters)

    def one(self, statement: str, parameters: Parameters = ()) -> tuple[Any, ...] | None:
        """Return the first row."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows."""
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise store_error(error, self.name) from None

    def count_changed(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return how many rows it changed."""
        try:
            return self._connection.execute(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise store_error(error, self.name) from None

    def roll_back(self) -> None:
        """Undo a transaction, if one is open."""
        # What a failing disk does not let us undo now is undone before the next transaction, or when it is opened next.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.rollback()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(sqlite3.Error):
            self._connection.close()


def store_error(error: sqlite3.Error, name: str) -> StoreError:
    """Say in one sentence what is wrong and what to do."""
    code = getattr(error, "sqlite_errorname", "")
    for begin, sentence in _SENTENCES.items():
        if code.startswith(begin):
            return StoreError(sentence.format(name=name), reason=_REASONS[begin], code=code)
    return StoreError(f"the store {name} cannot be used ({error}); see to it and try again", code=code)


# FairLock: threads write one after the other, in the order in which they came.


class FairLock:
    """A fair lock: a thread that writes without a pause cannot keep a publication waiting for ever.

    Parameters
    ----------
    name : str
        How errors speak of the store.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._door = threading.Lock()
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, and hold it during the block."""
        if self._is_own:
            raise StoreError(f"a transaction on the store {self._name} is open in this thread already; end it first")
        # A waiting thread holds the door, and the thread that had the lock must pass it to get the lock again.
        with self._door:
            self._lock.acquire()
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._lock.release()

    @contextmanager
    def held_or_nested(self) -> Iterator[None]:
        """Have the turn during the block, also if this thread has it already."""
        if self._is_own:
            yield
            return
        with self.held():
            yield

    @property
    def _is_own(self) -> bool:
        return self._owner == threading.get_ident()


# The tables of the embedded store.


APPLICATION_ID = 0x4E76656C
"""Marks a file as a Nearveil store, so that no other program's database is ever written to."""
VERSION = 1
"""Of the tables. A store of another version is refused."""

_DRAWS = """
    CREATE TABLE DRAWS (
        person INTEGER PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        x_steps INTEGER NOT NULL,
        y_steps INTEGER NOT NULL,
        tag BLOB NOT NULL,
        in_window INTEGER NOT NULL,
        receipt TEXT NOT NULL,
        epoch INTEGER NOT NULL
    )"""
_TABLES = (
    # The tags of people are bits.
    """CREATE TABLE people (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        created_s INTEGER NOT NULL,
        token_mark INTEGER NOT NULL,
        spent_window INTEGER NOT NULL DEFAULT -1,
        spent INTEGER NOT NULL DEFAULT 0,
        tags INTEGER NOT NULL DEFAULT 0
    )""",
    _DRAWS.replace("DRAWS", "pending"),
    _DRAWS.replace("DRAWS", "published"),
    # Noise lasts: a place that was charged keeps its noisy place, by which it is known again. The draw number counts a
    # person's places in the order in which they were drawn.
    """CREATE TABLE known_places (
        person INTEGER NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        tag BLOB NOT NULL,
        in_window INTEGER NOT NULL,
        x_steps INTEGER NOT NULL,
        y_steps INTEGER NOT NULL,
        draw_number INTEGER NOT NULL,
        PRIMARY KEY (person, tag)
    ) WITHOUT ROWID""",
    "CREATE TABLE charged (in_window INTEGER PRIMARY KEY, places INTEGER NOT NULL)",
    # The chain: the receipts of which a person's next report must bring one, with spaces between; empty for none.
    """CREATE TABLE standings (
        person INTEGER PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        receipt TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        candidate BLOB,
        candidate_epoch INTEGER NOT NULL,
        seen INTEGER NOT NULL,
        chain TEXT NOT NULL
    )""",
    "CREATE TABLE erased (mark BLOB PRIMARY KEY, in_window INTEGER NOT NULL, places INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE epochs (epoch INTEGER PRIMARY KEY)",
    "CREATE TABLE platform_keys (name TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tag_names (bit INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    """CREATE TABLE blocked (
        person INTEGER NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        other INTEGER NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        PRIMARY KEY (person, other)
    ) WITHOUT ROWID""",
    "CREATE INDEX blocked_by_other ON blocked (other)",
)


def check_ours(connection: Connection) -> None:
    """Refuse another program's database, and one of another version, before anything is written."""
    if connection.one("SELECT 1 FROM sqlite_master LIMIT 1") is None:
        return
    if _mark(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{connection.name} is another program's database; name another file for the store")
    if _mark(connection, "user_version") != VERSION:
        raise StoreError(f"the store {connection.name} was written by another version of Nearveil; use that one")


def make_tables(connection: Connection) -> None:
    """Make the tables in an empty file, all or none."""
    connection.run("BEGIN IMMEDIATE")
    try:
        if connection.one("SELECT 1 FROM sqlite_master LIMIT 1") is None:
            for statement in _TABLES:
                connection.run(statement)
            connection.run(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.run(f"PRAGMA user_version = {VERSION}")
        connection.run("COMMIT")
    except BaseException:
        connection.roll_back()
        raise


def _mark(connection: Connection, pragma: str) -> int:
    row = connection.one(f"PRAGMA {pragma}")
    return int(row[0]) if row else 0


# The file itself: locked against other processes, and readable by its owner alone.


def lock(path: Path) -> int:
    """Keep every other store off the file: what it wrote, the index in this one's memory would miss."""
    beside = path.with_name(f"{path.name}.lock")
    descriptor = None
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise StoreInUseError(
                f"another process uses the store {path}; stop it first, or use PostgreSQL, which several may share"
            ) from None
        raise _cannot(path, error) from None
    return descriptor


def make(path: Path) -> None:
    """Make the file, for its owner alone, if it is not there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise _cannot(path, error) from None


def make_private(path: Path) -> None:
    """Let only the owner read and write the file; the log beside it inherits that."""
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise _cannot(path, error) from None


def _cannot(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or "the system refused"
    return StoreError(
        f"the store {path} cannot be opened ({reason}); see to its folder and permissions",
        reason="disk-full" if error.errno == errno.ENOSPC else "disk-failed",
        code=errno.errorcode.get(error.errno or 0, ""),
    )
