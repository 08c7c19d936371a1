"""SqliteStore: everything in one file, for one process; nothing else to install or to run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from nearveil.nearby.stores.base import PublishedBatch, StoreError, Totals, Writing
from nearveil.nearby.stores.sqlite.borders import forget_some, publish_waiting
from nearveil.nearby.stores.sqlite.connection import Connection
from nearveil.nearby.stores.sqlite.connections import Connections
from nearveil.nearby.stores.sqlite.keeping import SqliteKeeping
from nearveil.nearby.stores.sqlite.people import SqlitePeople
from nearveil.nearby.stores.sqlite.writing import SqliteWriting

BATCH_PEOPLE = 20_000
_REWRITTEN_SETTING = "rewritten_in_window"

# A batch is one row, for the same reason as in `writing`.
_BATCH = """
    SELECT max(person), json_group_array(id), json_group_array(x_steps), json_group_array(y_steps) FROM (
        SELECT published.person, people.id, published.x_steps, published.y_steps
        FROM published CROSS JOIN people ON people.number = published.person
        WHERE published.person > :after AND published.epoch >= :since
        ORDER BY published.person LIMIT :most
    )"""


class SqliteStore(SqlitePeople, SqliteKeeping):
    """The embedded store: SQLite in one file, with a write-ahead log beside it while it is open.

    A write has returned when the disk has it. One process uses the file at a time; its threads share the store. What is
    erased or replaced is overwritten with zeros, and the log is emptied after an erasure and after every border. SQLite
    may leave a copy of a row in the free part of a page when it moves rows to another; so the file is written anew when
    a window begins, after which nothing of what was erased before is in it.

    Parameters
    ----------
    path : Path
        Made if it does not exist, for its owner's eyes only. It must be on a local disk.

    Raises
    ------
    StoreError
        If the file is no store, is damaged, is of a later version, or is used by another process.
    """

    def __init__(self, path: Path) -> None:
        self._open(path)

    @classmethod
    def in_memory(cls) -> SqliteStore:
        """Return a store that is gone when it is closed."""
        store = cls.__new__(cls)
        store._open(None)
        return store

    def _open(self, path: Path | None) -> None:
        self._connections = Connections(path)
        with self._connections.reading() as connection:
            self._settings = dict(connection.rows("SELECT name, value FROM settings"))
        self._settling = threading.Lock()

    def close(self) -> None:
        """Let go of the file."""
        self._connections.close()

    def follow(
        self,
        *,
        on_erased: Callable[[str], None],
        on_withdrawn: Callable[[str], None],
        on_published_now: Callable[[PublishedBatch], None],
        on_epoch: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Nothing to follow: no other process can be on the file."""

    # -- reports and borders -----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Begin a transaction."""
        with self._connections.writing() as connection:
            yield SqliteWriting(connection)

    def publish(self, epoch: int, *, oldest_window: int) -> bool:
        """Publish what waits, charge it, and forget the tags of windows gone by; whether this call did it."""
        with self._connections.writing() as connection:
            if not publish_waiting(connection, epoch):
                return False
        # It is published, whatever becomes of the rest, which the next border does again.
        with suppress(StoreError):
            self._tidy(oldest_window)
        return True

    def _tidy(self, oldest_window: int) -> None:
        self._connections.empty_log()
        rewritten = self.setting(_REWRITTEN_SETTING)
        if rewritten is not None and int(rewritten) >= oldest_window:
            return
        more = True
        while more:
            with self._connections.writing() as connection:
                more = forget_some(connection, oldest_window)
        if rewritten is not None:
            self._connections.rewrite()
        self.keep_setting(_REWRITTEN_SETTING, str(oldest_window))

    def last_epoch(self) -> int | None:
        """Return the newest epoch that was published."""
        with self._connections.reading() as connection:
            row = connection.one("SELECT max(epoch) FROM epochs")
        return row[0] if row else None

    def published(self, *, since_epoch: int | None = None) -> Iterator[PublishedBatch]:
        """Return everybody who is published, or since an epoch, as of now, in batches."""
        with self._connections.reading() as connection:
            batches = _batches(connection, since_epoch)
            if not self._connections.in_memory:
                yield from batches
                return
            # Others cannot have their turn while this one lasts, so it must not last as long as the caller likes.
            found = list(batches)
        yield from found

    def totals(self) -> Totals:
        """Return the ledger's state."""
        with self._connections.reading() as connection:
            counts = connection.one(
                "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM published), (SELECT count(*) FROM pending)"
            ) or (0, 0, 0)
            charged = dict(connection.rows("SELECT in_window, places FROM charged ORDER BY in_window"))
        return Totals(people=counts[0], published=counts[1], pending=counts[2], charged_by_window=charged)


def _batches(connection: Connection, since_epoch: int | None) -> Iterator[PublishedBatch]:
    since, after = -1 if since_epoch is None else since_epoch, 0
    while row := connection.one(_BATCH, {"after": after, "since": since, "most": BATCH_PEOPLE}):
        if row[0] is None:
            return
        after = row[0]
        steps = np.column_stack([np.array(json.loads(values), dtype=np.int64) for values in row[2:]])
        yield PublishedBatch(json.loads(row[1]), steps)
