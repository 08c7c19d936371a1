"""The embedded store: one file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.nearby.stores._sqlite_connections import Connection, Connections, Housekeeper
from nearveil.nearby.stores.base import (
    Ahead,
    Held,
    NoisyLocation,
    PlatformKey,
    PublishedBatch,
    StoreError,
    Totals,
    Writing,
    check_ids,
    held_location,
    is_id,
    new_token_mark,
    person_record,
)

# The people of the embedded store.


_KNOWN = "SELECT json_group_array(people.id) FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"
_ADD = "INSERT INTO people (id, created_s, token_mark) SELECT value, ?, ? FROM json_each(?)"
_ERASE_CHARGES = "DELETE FROM charges WHERE in_window IN (SELECT in_window FROM charged) AND person = ?"
_CHARGES = "SELECT in_window, tag FROM charges WHERE in_window IN (SELECT in_window FROM charged) AND person = ?"
_PENDING = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM pending WHERE person = ?"
_PUBLISHED = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM published WHERE person = ?"


class SqlitePeople:
    """The part of the store that is about people."""

    _connections: Connections

    def add_people(self, people: Sequence[str]) -> list[str]:
        """Add people; return those who were not there before."""
        check_ids(people)
        with self._connections.writing() as connection:
            row = connection.one(_KNOWN, (json.dumps(people),))
            known = set(json.loads(row[0])) if row else set()
            added = [person for person in dict.fromkeys(people) if person not in known]
            connection.run(_ADD, (int(time.time()), new_token_mark(), json.dumps(added)))
        return added

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known."""
        with self._connections.reading() as connection:
            number = _number(connection, person)
            row = connection.one("SELECT token_mark FROM people WHERE number = ?", (number,))
        return row[0] if row else None

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens; whether known."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            connection.run("UPDATE people SET token_mark = ? WHERE number = ?", (new_token_mark(), number))
        return number is not None

    def erase(self, person: str) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            if number is None:
                return False
            connection.run(_ERASE_CHARGES, (number,))
            # What waits and what is published goes with the person.
            connection.run("DELETE FROM people WHERE number = ?", (number,))
        self._connections.empty_log()
        return True

    def withdraw(self, person: str) -> bool:
        """Take a person off the map and keep the charges; whether known."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            if number is None:
                return False
            connection.run("DELETE FROM pending WHERE person = ?", (number,))
            connection.run("DELETE FROM published WHERE person = ?", (number,))
        self._connections.empty_log()
        return True

    def record(self, person: str) -> dict[str, Any] | None:
        """Return everything held about a person; None if not known."""
        with self._connections.reading() as connection:
            number = _number(connection, person)
            if number is None:
                return None
            made = connection.one("SELECT created_s, token_mark FROM people WHERE number = ?", (number,)) or (0, 0)
            return person_record(
                person,
                *made,
                pending=held_location(person, connection.one(_PENDING, (number,))),
                published=held_location(person, connection.one(_PUBLISHED, (number,))),
                charges=[(window, bytes(tag)) for window, tag in connection.rows(_CHARGES, (number,))],
            )


def _number(connection: Connection, person: str) -> int | None:
    row = connection.one("SELECT number FROM people WHERE id = ?", (person,)) if is_id(person) else None
    return row[0] if row else None


# Platforms' keys and settings in the embedded store.


class SqliteSettings:
    """The part of the store that keeps keys and settings."""

    _connections: Connections
    # Nobody else can change settings, and they are asked for with every report.
    _settings: dict[str, str]
    _settling: threading.Lock

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""
        with self._connections.writing() as connection:
            connection.run("REPLACE INTO platform_keys (name, digest) VALUES (?, ?)", (key.name, key.digest))

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""
        with self._connections.writing() as connection:
            statement = "INSERT OR IGNORE INTO platform_keys (name, digest) VALUES (?, ?)"
            return connection.count_changed(statement, (key.name, key.digest)) > 0

    def remove_key_but_the_last(self, name: str) -> bool:
        """Forget a key if there is another one; whether it was forgotten."""
        with self._connections.writing() as connection:
            statement = "DELETE FROM platform_keys WHERE name = ? AND (SELECT count(*) FROM platform_keys) > 1"
            return connection.count_changed(statement, (name,)) > 0

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""
        with self._connections.writing() as connection:
            return connection.count_changed("DELETE FROM platform_keys WHERE name = ?", (name,)) > 0

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""
        with self._connections.reading() as connection:
            rows = connection.rows("SELECT name, digest FROM platform_keys ORDER BY name")
        return [PlatformKey(name=name, digest=bytes(digest)) for name, digest in rows]

    def setting(self, name: str) -> str | None:
        """Return a setting kept before."""
        return self._settings.get(name)

    def settle(self, name: str, value: str) -> str:
        """Keep a setting unless there is one; return what is kept."""
        with self._settling:
            if name not in self._settings:
                self.keep_setting(name, value)
            return self._settings[name]

    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._connections.writing() as connection:
            connection.run("REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))
        self._settings[name] = value


# What the embedded store does at an epoch boundary.


# The total comes first: it counts the places that are not charged yet.
_STEPS = (
    """INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM pending
    WHERE epoch <= :epoch AND NOT EXISTS (
        SELECT 1 FROM charges
        WHERE charges.in_window = pending.in_window AND charges.person = pending.person AND charges.tag = pending.tag
    )
    GROUP BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = places + excluded.places""",
    """INSERT INTO charges (in_window, person, tag)
    SELECT in_window, person, tag FROM pending WHERE epoch <= :epoch ORDER BY in_window, person
    ON CONFLICT DO NOTHING""",
    """INSERT INTO published (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT person, x_steps, y_steps, tag, in_window, receipt, :epoch FROM pending WHERE epoch <= :epoch ORDER BY person
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch""",
    "DELETE FROM pending WHERE epoch <= :epoch",
    "INSERT INTO epochs (epoch) VALUES (:epoch)",
)

_AHEAD = """
    SELECT min(epoch), max(epoch), count(*) FILTER (WHERE epoch > :epoch),
        (SELECT count(*) FROM published WHERE epoch > :epoch), (SELECT count(*) FROM pending WHERE epoch > :epoch + 1)
    FROM epochs"""
_SET_BACK = (
    "DELETE FROM epochs WHERE epoch > :epoch",
    "INSERT OR IGNORE INTO epochs (epoch) VALUES (:epoch)",
    "UPDATE published SET epoch = :epoch WHERE epoch > :epoch",
    "UPDATE pending SET epoch = :epoch + 1 WHERE epoch > :epoch + 1",
)

_FORGET = """
    DELETE FROM charges WHERE (in_window, person, tag) IN (
        SELECT in_window, person, tag FROM charges WHERE in_window < ? LIMIT ?
    )"""
FORGET_AT_ONCE = 50_000


def publish_waiting(connection: Connection, epoch: int) -> bool:
    """Publish and charge what waits, unless this epoch or a later one was published before."""
    if connection.one("SELECT 1 FROM epochs WHERE epoch >= ? LIMIT 1", (epoch,)):
        return False
    for step in _STEPS:
        connection.run(step, {"epoch": epoch})
    return True


def forget_some(connection: Connection, oldest_window: int) -> bool:
    """Forget some of the tags of windows gone by; whether there may be more."""
    return connection.count_changed(_FORGET, (oldest_window, FORGET_AT_ONCE)) == FORGET_AT_ONCE


# One transaction of the embedded store.
#
# Each method is one statement however many people it is about, and answers in one row: Python's interpreter lock is
# given up for every row and statement, and in a busy server it takes long to get it back.


DRAW_COLUMNS = "x_steps, y_steps, tag, in_window, receipt"

_NUMBERS = """
    SELECT json_group_array(json_array(people.id, people.number))
    FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"""

_HELD = """
    SELECT json_group_array(json_array(
        people.id, people.number,
        pending.x_steps, pending.y_steps, hex(pending.tag), pending.in_window, pending.receipt,
        published.x_steps, published.y_steps, hex(published.tag), published.in_window, published.receipt,
        (SELECT group_concat(hex(tag)) FROM charges WHERE in_window = :window AND person = people.number)
    ))
    FROM json_each(:people) AS wanted CROSS JOIN people ON people.id = wanted.value
    LEFT JOIN pending ON pending.person = people.number
    LEFT JOIN published ON published.person = people.number"""

# Tags come as one run of bytes, of which each location knows its part: JSON has no bytes.
_PUT = """
    INSERT INTO DRAWS (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        substr(:tags, json_extract(value, '$[3]'), json_extract(value, '$[4]')),
        json_extract(value, '$[5]'), json_extract(value, '$[6]'), :epoch
    FROM json_each(:rows) WHERE true
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch"""
_PUT_PENDING = _PUT.replace("DRAWS", "pending")
_PUT_PUBLISHED = _PUT.replace("DRAWS", "published")

_DROP = "DELETE FROM pending WHERE person IN (SELECT value FROM json_each(?))"


class SqliteWriting:
    """A transaction that somebody else began and ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those who are known; nobody else can write meanwhile."""
        rows = self._json_of(_HELD, {"people": _json_ids(people), "window": window})
        self._numbers.update((row[0], row[1]) for row in rows)
        return {row[0]: _held(row) for row in rows}

    def put_pending(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        """Let locations wait, each in place of what waited before."""
        self._put(_PUT_PENDING, locations, epoch)

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""
        if people:
            self._connection.run(_DROP, (json.dumps(list(self._known(people).values())),))

    def publish_now(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        """Publish without waiting and without charge."""
        self._put(_PUT_PUBLISHED, locations, epoch)
        self.drop_pending([location.person for location in locations])

    def _put(self, statement: str, locations: Sequence[NoisyLocation], epoch: int) -> None:
        if not locations:
            return
        numbers = self._known([location.person for location in locations])
        rows: list[tuple[int, int, int, int, int, int, str]] = []
        begin = 1
        for location in locations:
            if location.person in numbers:
                number, length = numbers[location.person], len(location.tag)
                rows.append(
                    (number, location.x_steps, location.y_steps, begin, length, location.window, location.receipt)
                )
            begin += len(location.tag)
        tags = b"".join(location.tag for location in locations)
        self._connection.run(statement, {"rows": json.dumps(rows), "tags": tags, "epoch": epoch})

    def _known(self, people: Sequence[str]) -> dict[str, int]:
        """Return the numbers of those who are known."""
        strangers = [person for person in people if person not in self._numbers]
        if strangers:
            self._numbers.update(self._json_of(_NUMBERS, (_json_ids(strangers),)))
        return {person: self._numbers[person] for person in people if person in self._numbers}

    def _json_of(self, statement: str, parameters: Any) -> list[Any]:
        row = self._connection.one(statement, parameters)
        return json.loads(row[0]) if row else []


def _json_ids(people: Sequence[str]) -> str:
    return json.dumps([person for person in people if is_id(person)])


def _held(row: Sequence[Any]) -> Held:
    charged = row[12].split(",") if row[12] else []
    return Held(
        pending=_location(row[0], row[2:7]),
        published=_location(row[0], row[7:12]),
        charged=frozenset(bytes.fromhex(tag) for tag in charged),
    )


def _location(person: str, columns: Sequence[Any]) -> NoisyLocation | None:
    x_steps, y_steps, tag, window, receipt = columns
    if receipt is None:
        return None
    return NoisyLocation(
        person=person, x_steps=x_steps, y_steps=y_steps, tag=bytes.fromhex(tag), window=window, receipt=receipt
    )


# SqliteStore: everything in one file, for one process; nothing else to install or to run.


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


class SqliteStore(SqlitePeople, SqliteSettings):
    """The embedded store: SQLite in one file, with a write-ahead log beside it while it is open.

    A write has returned when the disk has it. One process uses the file at a time; its threads share the store. What is
    erased or replaced is overwritten with zeros, and the log is emptied after an erasure and, in a service by a thread
    of the store, after every epoch. SQLite
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
        self._housekeeper: Housekeeper | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._housekeeper is not None:
            self._housekeeper.close()
            self._housekeeper = None
        self._connections.close()

    def follow(
        self,
        *,
        on_erased: Callable[[str], None],
        on_withdrawn: Callable[[str], None],
        on_published_now: Callable[[PublishedBatch], None],
        on_epoch: Callable[[int], None],
        on_lost: Callable[[], None],
        on_away: Callable[[StoreError], None] = lambda _: None,
        on_back: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Nothing to follow: no other process can be on the file. But a service should not wait for tidying."""
        if self._housekeeper is None and not self._connections.in_memory:
            self._housekeeper = Housekeeper(self._connections)

    # -- reports and epochs ------------------------------------------------------------------------------------

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
        # It is published, whatever becomes of the rest, which the next epoch does again.
        if self._housekeeper is not None:
            self._housekeeper.do(lambda: self._tidy(oldest_window))
            return True
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

    def set_back(self, epoch: int, *, oldest_window: int, dry_run: bool = False) -> Ahead:
        """Let this be the newest epoch; return what was ahead. Nobody else can be on the file."""
        with self._connections.writing() as connection:
            row = connection.one(_AHEAD, {"epoch": epoch}) or (None, None, 0, 0, 0)
            if not dry_run:
                for step in _SET_BACK:
                    connection.run(step, {"epoch": epoch})
        rewritten = self.setting(_REWRITTEN_SETTING)
        if not dry_run and rewritten is not None and int(rewritten) > oldest_window:
            self.keep_setting(_REWRITTEN_SETTING, str(oldest_window))
        return Ahead(first_epoch=row[0], last_epoch=row[1], epochs=row[2], published=row[3], pending=row[4])

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
