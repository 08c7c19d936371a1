"""Let every write of a service fail once, one after the other, and see that its promises hold.

``python -m tests.services.faults`` lets every write fail in every way, on both stores; a test lets some fail in one.

A chapter is what an app does with a few people: create, report, ask, publish, return, revoke, withdraw, erase. A first
chapter without a fault counts the calls that write: statements and commits of the store, and the audit log's opening,
writing and syncing of its file. In each later chapter, with other people, the next one of these calls fails, as a full
disk, a read-only or a broken one, or a lost connection would let it fail, before it is done or, a commit, after it. New
calls are counted as they come, so nothing is listed here. Whoever gets a 503 sends the request again. Then

- no answer is a 500, and the same request succeeds soon, in the same process;
- people, charges, and what is published and waits are those of the chapter without a fault; the last report that was
  acknowledged is the last one;
- somebody who returns is published at the very place of before: no noise is drawn twice;
- an epoch publishes all that waits, or nothing;
- every change that was acknowledged is in the audit log; no place is in either log.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import re
import sqlite3
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import psycopg
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HERE, Clock, Running, running
from tests.server.test_abuse import captured_log
from tests.services.leaks import leaks
from tests.services.postgres import private_database
from tests.waiting import PATIENCE_S, until

from nearveil.errors import NearveilError
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores._postgis_pool import LimitedConnection
from nearveil.nearby.stores.base import StoreError
from nearveil.region import named_region
from nearveil.server import audit_log, reports
from nearveil.server.service import Service
from nearveil.server.settings import Settings

_MOST_WAYS = 4
_CALLS_BETWEEN = 12
AWAY = {"latitude": 37.612345, "longitude": -122.512345}
ELSEWHERE = {"latitude": 37.712346, "longitude": -122.452346}
REGION = named_region("san-francisco")
KEYS = new_keys()
_READS = re.compile(rb"\s*(SELECT|BEGIN$|PRAGMA (?!wal_checkpoint|journal_mode))", re.IGNORECASE)
_WRITES_ALL_THE_SAME = (b"pg_notify", b"pg_advisory")


# -- calls that fail -----------------------------------------------------------------------------------------------


Call = tuple[str, int]
"""A call that writes: what it does, and how often a chapter did that before."""


class Faults:
    """Counts calls that write, and lets some of them fail.

    Attributes
    ----------
    calls : list of Call
        Every call since `begin`, in order.
    failed : list of Call
        Those that failed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ways = 0
        self.begin(set())

    def begin(self, wanted: Set[Call], way: int | None = None) -> None:
        """Count anew, and let these calls fail once each, but so that a request that is sent again is not hit again.

        ``way`` is the number of the way in which a call fails, modulo the ways that it has; by itself they alternate.
        """
        with self._lock:
            self._wanted, self._way, self._last = wanted, way, -_CALLS_BETWEEN
            self._counts: Counter[str] = Counter()
            self.calls: list[Call] = []
            self.failed: list[Call] = []

    def chosen(self, what: str, ways: tuple[str, ...]) -> str | None:
        """Count a call; return how it must fail, if it must."""
        with self._lock:
            call = what, self._counts[what]
            self._counts[what] += 1
            self.calls.append(call)
            if call not in self._wanted or len(self.calls) < self._last + _CALLS_BETWEEN:
                return None
            self.failed.append(call)
            self._last = len(self.calls)
            self._ways += 1
            return ways[(self._ways if self._way is None else self._way) % len(ways)]


def _is_write(statement: bytes) -> bool:
    return bool(statement) and (
        _READS.match(statement) is None or any(word in statement for word in _WRITES_ALL_THE_SAME)
    )


@contextmanager
def faulty_sqlite(faults: Faults) -> Iterator[None]:
    """Let statements of SQLite fail."""

    class Faulty(sqlite3.Connection):
        fails_again = False

        def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
            if not _is_write(statement.encode()):
                return super().execute(statement, *parameters)
            ways: tuple[str, ...] = ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_WRITE twice")
            if statement == "COMMIT":
                ways = ("SQLITE_FULL", "SQLITE_IOERR_FSYNC after it", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_FSYNC twice")
            way = faults.chosen(" ".join(statement.split()), ways)
            if way is None:
                return super().execute(statement, *parameters)
            if way.endswith("after it"):
                super().execute(statement, *parameters)
            elif way in {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"} and self.in_transaction:
                # SQLite undoes the whole transaction by itself.
                super().rollback()
            self.fails_again = way.endswith("twice")
            raise _sqlite_error(way.split()[0])

        def rollback(self) -> None:
            fails, self.fails_again = self.fails_again, False
            if fails:
                raise _sqlite_error("SQLITE_IOERR_WRITE")
            super().rollback()

    connect = sqlite3.connect

    def connect_faulty(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Faulty, **options)

    with mock.patch.object(sqlite3, "connect", connect_faulty):
        yield


def _sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("made up")
    error.sqlite_errorname, error.sqlite_errorcode = name, getattr(sqlite3, name)
    return error


@contextmanager
def faulty_postgres(faults: Faults) -> Iterator[None]:
    """Let statements and commits of PostgreSQL fail; where a connection is lost, it is lost."""

    def lose(connection: Any) -> psycopg.OperationalError:
        connection.pgconn.finish()
        return psycopg.OperationalError("server closed the connection unexpectedly")

    execute, commit, copy = LimitedConnection.execute, LimitedConnection.commit, psycopg.Cursor.copy

    def execute_or_fail(self: Any, statement: Any, *parameters: Any, **options: Any) -> Any:
        text = (
            statement if isinstance(statement, bytes) else statement.encode() if isinstance(statement, str) else b"SET"
        )
        if _is_write(text):
            way = faults.chosen(b" ".join(text.split()).decode(), ("lost", "disk full", "read-only"))
            if way == "lost":
                raise lose(self)
            if way is not None:
                raise psycopg.errors.DiskFull("made up") if way == "disk full" else _READ_ONLY("made up")
        return execute(self, statement, *parameters, **options)

    def commit_or_fail(self: Any) -> None:
        way = faults.chosen("COMMIT", ("lost after it", "lost", "disk full"))
        if way == "disk full":
            raise psycopg.errors.DiskFull("made up")
        if way != "lost":
            commit(self)
        if way is not None:
            raise lose(self)

    def copy_or_fail(self: Any, statement: bytes, *parameters: Any, **options: Any) -> Any:
        way = faults.chosen(statement.decode(), ("lost", "disk full"))
        if way is not None:
            raise lose(self.connection) if way == "lost" else psycopg.errors.DiskFull("made up")
        return copy(self, statement, *parameters, **options)

    with (
        mock.patch.object(LimitedConnection, "execute", execute_or_fail),
        mock.patch.object(LimitedConnection, "commit", commit_or_fail),
        mock.patch.object(psycopg.Cursor, "copy", copy_or_fail),
    ):
        yield


_READ_ONLY = psycopg.errors.ReadOnlySqlTransaction


@contextmanager
def faulty_files(faults: Faults) -> Iterator[None]:
    """Let calls of the audit log to the system fail."""

    class Faulty:
        """The module ``os``, of which some calls fail."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        @staticmethod
        def open(*arguments: Any) -> int:
            _fail_os(faults.chosen("open", ("EROFS", "EMFILE")))
            return os.open(*arguments)

        @staticmethod
        def write(descriptor: int, text: bytes) -> int:
            way = faults.chosen("write", ("cut off", "ENOSPC")) if text else None
            if way == "cut off":
                return os.write(descriptor, text[: len(text) // 2])
            _fail_os(way)
            return os.write(descriptor, text)

        @staticmethod
        def fsync(descriptor: int) -> None:
            _fail_os(faults.chosen("fsync", ("EIO",)))
            os.fsync(descriptor)

    with mock.patch.object(audit_log, "os", Faulty()):
        yield


def _fail_os(way: str | None) -> None:
    if way is not None:
        raise OSError(getattr(errno, way), os.strerror(getattr(errno, way)))


# -- a chapter -----------------------------------------------------------------------------------------------------


@dataclass
class Book:
    """A service that lives through all chapters, and what it said so far."""

    place: Running
    faults: Faults
    log: io.StringIO
    audit: Path
    audit_read: int = 0
    chapters: int = 0
    receipts: dict[str, str] = field(default_factory=dict)

    def chapter(self, wanted: Set[Call] = frozenset(), way: int | None = None) -> tuple[Any, ...]:
        """Live through a chapter in which calls fail, as `Faults.begin` says; return what any chapter comes to."""
        self.chapters += 1
        names = {name: f"{name}-{self.chapters}" for name in ("ann", "bob", "carol")}
        ann, bob, carol = names.values()
        self.faults.begin(wanted, way)
        charged = self._charged()
        self._do("POST", "/v1/people", json={"ids": [ann, bob, carol]})
        token = self._do("POST", f"/v1/people/{ann}/tokens", json={"expires_in_s": 36_000}).json()["token"]
        receipts = {name: self._report(name, HERE) for name in (ann, bob, carol)}
        self._next_epoch(lambda: self._all_or_none(names))
        first = self._record(ann)["published"]
        near = sorted(self._nearby())
        self._report(ann, AWAY)
        self._report(ann, ELSEWHERE)
        self._next_epoch()
        second = self._record(ann)["published"]
        receipts[ann] = self._report(ann, HERE, key=token)
        self._next_epoch()
        returned = self._record(ann)["published"]
        self._do("DELETE", f"/v1/people/{ann}/tokens")
        is_void = self._do("POST", "/v1/nearby", key=token, json={**HERE, "k": 1}).status_code
        self._do("DELETE", f"/v1/people/{bob}/location")
        self._do("POST", f"/v1/platform-keys/key-{self.chapters}", json={"scopes": ["ask"]})
        self._do("DELETE", f"/v1/platform-keys/key-{self.chapters}")
        self.place.service.health._written_at = -PATIENCE_S
        self._do("GET", "/readyz")
        records = [self._record(name) for name in (ann, bob, carol)]
        found = (
            [near == [ann, bob, carol], first == returned, first != second, is_void],
            [one["receipt"] == receipts[one["id"]] for one in (records[0], records[2])],
            [
                (one["pending"], one["published"] is None, len(one["tags"]), sum(one["charges"].values()))
                for one in records
            ],
            self._charged() - charged,
            sorted(self._nearby()) == [ann, carol],
        )
        for name in (ann, bob, carol):
            self._do("DELETE", f"/v1/people/{name}")
        # The fourth epoch is the first of a window.
        self._next_epoch()
        self._tidied()
        gone = [self._do("GET", f"/v1/people/{name}").status_code for name in (ann, bob, carol)]
        self._check_logs()
        return (*found, gone, self._nearby(), self._audited(names))

    def _do(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, again and again while it gets a 503, as whoever is told to do so."""
        answers: list[httpx.Response] = []

        def is_taken() -> bool:
            answers[:] = [self.place.call(method, path, **request)]
            if answers[0].status_code == 503:
                assert answers[0].headers["content-type"] == "application/problem+json"
            return answers[0].status_code != 503

        until(is_taken)
        (answer,) = answers
        assert answer.status_code < 500, answer.text
        return answer

    def _report(self, person: str, where: dict[str, float], key: str = "") -> str:
        # With the first report any receipt, so that it is taken again when its answer was lost.
        previous = self.receipts.get(person, "0" * 24)
        answer = self._do("PUT", f"/v1/people/{person}/location", json={**where, "previous": previous}, key=key)
        assert answer.status_code == 202, answer.text
        receipt: str = answer.json()["receipt"]
        self.receipts[person] = receipt
        return receipt

    def _nearby(self) -> list[str]:
        ids: list[str] = self._do("POST", "/v1/nearby", json={**HERE, "k": 100}).json()["ids"]
        return ids

    def _next_epoch(self, check: Callable[[], None] = lambda: None) -> None:
        """Let an epoch begin, and the scheduler do its work as its thread does it, until it has."""
        service = self.place.service
        self.place.clock.now += service.protection.schedule.epoch_s

        def is_published() -> bool:
            if (service.scheduler.epoch or 0) >= service.publisher.epoch:
                return True
            service.scheduler._turn_and_wait()
            check()
            return False

        until(is_published)

    def _all_or_none(self, names: dict[str, str]) -> None:
        published = {self._record(name)["published"] is not None for name in names.values()}
        assert len(published) == 1, "an epoch was published in part"

    def _record(self, person: str) -> dict[str, Any]:
        record = patiently(lambda: everything_kept(self.place.service.store, person))
        assert record is not None, "a person is gone"
        return record

    def _charged(self) -> int:
        return sum(patiently(self.place.service.store.totals).charged_by_window.values())

    def _tidied(self) -> None:
        """Wait for the thread that tidies up after an epoch."""
        housekeeper = getattr(self.place.service.store, "_housekeeper", None)
        if housekeeper is not None:
            done = threading.Event()
            housekeeper.do(done.set)
            assert done.wait(PATIENCE_S)

    def _check_logs(self) -> None:
        log = self.log.getvalue()
        places = [tuple(each.values()) for each in (HERE, AWAY, ELSEWHERE)]
        contents = [("log", log.encode()), ("audit log", self.audit.read_bytes()[self.audit_read :])]
        assert leaks(contents, places, REGION) == []  # type: ignore[arg-type]
        assert "Traceback" not in log
        assert '"internal"' not in log
        self.log.seek(0)
        self.log.truncate()

    def _audited(self, names: dict[str, str]) -> set[tuple[str, str]]:
        """Return what was done to whom, as the audit log says."""
        text = self.audit.read_text()[self.audit_read :]
        self.audit_read += len(text)
        key = self.place.service.keys.tokens
        hashed = {audit_log.audit_id(key, name): role for role, name in names.items()}
        entries: dict[str, dict[str, Any]] = {}
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut off by a fault
            if entry.get("result") == "not done":
                entries.pop(entry["entry"], None)
            elif "result" not in entry:
                entries[entry["entry"]] = entry
        return {
            (entry["action"], hashed[person]) for entry in entries.values() for person in entry.get("people", [])
        } | {(entry["action"], "") for entry in entries.values()}


def patiently(call: Callable[[], Any]) -> Any:
    """Call until it works, and return what came of it."""
    results: list[Any] = []

    def works() -> bool:
        with suppress(StoreError):
            results.append(call())
        return bool(results)

    until(works)
    return results[0]


# -- all of them ---------------------------------------------------------------------------------------------------


@contextmanager
def book(folder: Path, address: str | None = None) -> Iterator[Book]:
    """Start a service on SQLite in a folder, or on PostGIS, with writes that can fail."""
    faults = Faults()
    faulty = faulty_sqlite if address is None else faulty_postgres
    options: dict[str, Any] = {
        "epoch": "1h",
        "window": "4h",
        "dwell": 1,
        "new_places": 8,
        "chained_reports": "always",
        "questions_per_minute": 0.0,
        "key_questions_per_s": 0.0,
        "audit_log": folder / "audit.log",
    }
    with (
        captured_log() as log,
        mock.patch.object(reports, "BATCH_WAIT_S", 0.0),
        mock.patch.object(Settings, "_check"),  # it does not know the store
        faulty(faults),
        faulty_files(faults),
        running(
            open_store(address or str(folder / "people.db")), clock=Clock(400_000 * 3600.0 + 60.0), **options
        ) as place,
    ):
        yield Book(place, faults, log, folder / "audit.log")


def all_faults(opened: Book, *, ways: Sequence[int | None] = (None,), every: int = 1) -> str:
    """Let every call, or every so many, fail, several in a chapter; in one way each, or in these ways."""
    expected = opened.chapter()
    assert opened.chapter() == expected, "two chapters without a fault differ"
    calls, number = opened.faults.calls[::every], 0
    for way in ways:
        left = set(calls)
        while left:
            failed = _chapter_with_faults(opened, expected, left, way)
            assert failed, f"these calls did not come again: {left}"
            left, number = left - set(failed), number + len(failed)
    return f"{len(calls)} calls, {number:,} faults in {opened.chapters:,} chapters, every promise kept"


def start_faults(folder: Path) -> int:
    """Let every write of the first start on an embedded store fail; return how many there are.

    Each time the service says in one sentence what is wrong, or starts all the same; and it starts the next time.
    """
    faults = Faults()

    def start(path: Path, wanted: Set[Call]) -> None:
        faults.begin(wanted)
        store = open_store(str(path))
        try:
            service = Service(Settings.load(options={"region": "san-francisco"}), store, KEYS)
            service.check()
            store.add_people(["ann"])
        finally:
            store.close()

    with faulty_sqlite(faults):
        start(folder / "first.db", set())
        calls = list(faults.calls)
        for number, call in enumerate(calls):
            path = folder / f"{number}.db"
            with suppress(NearveilError):
                start(path, {call})
            assert faults.failed == [call]
            start(path, set())
    return len(calls)


def _chapter_with_faults(
    opened: Book, expected: tuple[Any, ...], wanted: Set[Call], way: int | None = None
) -> list[Call]:
    """Live through a chapter, compare it with one without faults, and return which calls failed."""
    try:
        found = opened.chapter(wanted, way)
        assert found[:-1] == expected[:-1], f"{found} is not {expected}"
        # An entry that claims too much does no harm: its end could not be written.
        assert found[-1] >= expected[-1], f"not in the audit log: {expected[-1] - found[-1]}"
    except AssertionError as error:
        raise AssertionError(f"{error}; these failed: {opened.faults.failed}") from error
    return opened.faults.failed


def main() -> None:
    """Let every write fail in every way, on both stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"first start on the embedded store: {start_faults(Path(folder))} calls", flush=True)
    with tempfile.TemporaryDirectory() as folder, book(Path(folder)) as opened:
        print(f"embedded: {all_faults(opened, ways=range(_MOST_WAYS))}", flush=True)
    with tempfile.TemporaryDirectory() as folder, private_database() as address, book(Path(folder), address) as opened:
        print(f"PostGIS: {all_faults(opened, ways=range(_MOST_WAYS))}", flush=True)


if __name__ == "__main__":
    main()
