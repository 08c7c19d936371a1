"""The embedded store: one file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from nearveil.nearby.stores._sqlite_connections import Connection, Connections, Housekeeper
from nearveil.nearby.stores._sqlite_tags import SqliteTags, blocked_by, number_of
from nearveil.nearby.stores.base import (
    Ahead,
    Computing,
    ErasedMark,
    Handlers,
    Held,
    NoisyLocation,
    PlatformKey,
    Point,
    PublishedBatch,
    Standing,
    StoreError,
    StoreExtent,
    Totals,
    Writing,
    check_ids,
    is_id,
    new_token_mark,
    person_record,
)

# The people of the embedded store.


_KNOWN = "SELECT json_group_array(people.id) FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"
_ADD = "INSERT INTO people (id, created_s, token_mark) SELECT value, ?, ? FROM json_each(?)"
_SPENT_BEFORE = """
    UPDATE people SET spent_window = :window, spent = found.places FROM (
        SELECT json_extract(value, '$[0]') AS id, erased.places
        FROM json_each(:rows) CROSS JOIN erased
            ON erased.mark = substr(:marks, json_extract(value, '$[1]'), json_extract(value, '$[2]'))
        WHERE erased.in_window = :window
    ) AS found WHERE people.id = found.id"""
_REMEMBER = """
    INSERT INTO erased (mark, in_window, places)
    SELECT :mark, :window, max(:at_least, count(tag) + CASE WHEN spent_window = :window THEN spent ELSE 0 END)
    FROM people LEFT JOIN known_places ON known_places.person = people.number AND in_window = :window
    WHERE number = :number
    ON CONFLICT (mark) DO UPDATE SET in_window = excluded.in_window, places = excluded.places"""
_CHAIN_GOES_ON = """
    UPDATE standings SET candidate = NULL, candidate_epoch = -1, seen = 0 WHERE person = ? AND chain <> ''"""
_PUBLISHED = "SELECT x_steps, y_steps FROM published WHERE person = ?"
_TAGS = "SELECT name FROM people JOIN tag_names ON people.tags & (1 << bit) <> 0 WHERE number = ?"


class SqlitePeople:
    """The part of the store that is about people."""

    _connections: Connections

    def add_people(self, people: Sequence[str], marks: Sequence[ErasedMark] | None = None) -> list[str]:
        """Add people; return those who were not there before."""
        check_ids(people)
        with self._connections.writing() as connection:
            row = connection.one(_KNOWN, (json.dumps(people),))
            known = set(json.loads(row[0])) if row else set()
            added = [person for person in dict.fromkeys(people) if person not in known]
            connection.run(_ADD, (int(time.time()), new_token_mark(), json.dumps(added)))
            if marks:
                mark_of = {person: one.mark for person, one in zip(people, marks, strict=True)}
                connection.run(_SPENT_BEFORE, _spent_rows([(person, mark_of[person]) for person in added], marks[0]))
        return added

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known."""
        with self._connections.reading() as connection:
            number = number_of(connection, person)
            row = connection.one("SELECT token_mark FROM people WHERE number = ?", (number,))
        return row[0] if row else None

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens; whether known."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            connection.run("UPDATE people SET token_mark = ? WHERE number = ?", (new_token_mark(), number))
            connection.run("DELETE FROM pending WHERE person = ?", (number,))
            connection.run("DELETE FROM standings WHERE person = ?", (number,))
        return number is not None

    def erase(self, person: str, mark: ErasedMark | None = None) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            if number is None:
                return False
            if mark is not None:
                connection.run(
                    _REMEMBER,
                    {"mark": mark.mark, "window": mark.window, "number": number, "at_least": mark.at_least},
                )
            # Everything else goes with the person.
            connection.run("DELETE FROM people WHERE number = ?", (number,))
        self._connections.empty_log()
        return True

    def withdraw(self, person: str) -> bool:
        """Take a person off the map and keep the charges; whether known."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            if number is None:
                return False
            connection.run("DELETE FROM pending WHERE person = ?", (number,))
            connection.run("DELETE FROM published WHERE person = ?", (number,))
            connection.run("DELETE FROM standings WHERE person = ? AND chain = ''", (number,))
            connection.run(_CHAIN_GOES_ON, (number,))
        self._connections.empty_log()
        return True

    def record(self, person: str) -> dict[str, Any] | None:
        """Return what callers may see of a person; None if not known."""
        with self._connections.reading() as connection:
            number = number_of(connection, person)
            made = connection.one("SELECT created_s FROM people WHERE number = ?", (number,))
            if made is None or number is None:
                return None
            return person_record(
                person,
                made[0],
                _point(connection.one(_PUBLISHED, (number,))),
                tags=[name for (name,) in connection.rows(_TAGS, (number,))],
                blocked=blocked_by(connection, number),
            )


def _spent_rows(marked: Sequence[tuple[str, bytes]], any_mark: ErasedMark) -> dict[str, Any]:
    """Marks come as one run of bytes, so that they are looked up in the index: JSON has no bytes."""
    rows: list[tuple[str, int, int]] = []
    begin = 1
    for person, mark in marked:
        rows.append((person, begin, len(mark)))
        begin += len(mark)
    return {"rows": json.dumps(rows), "marks": b"".join(mark for _, mark in marked), "window": any_mark.window}


def _point(row: Sequence[Any] | None) -> Point | None:
    return None if row is None else (row[0], row[1])


# Platforms' keys and settings in the embedded store.


_REMOVE_BUT_LAST = """
    DELETE FROM platform_keys WHERE name = ? AND EXISTS (
        SELECT 1 FROM platform_keys AS other WHERE other.name <> ? AND ' ' || other.scopes || ' ' LIKE ?
    )"""


class SqliteSettings:
    """The part of the store that keeps keys and settings."""

    _connections: Connections
    # Nobody else can change settings, and they are asked for with every report.
    _settings: dict[str, str]
    _settling: threading.Lock

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""
        with self._connections.writing() as connection:
            connection.run("REPLACE INTO platform_keys (name, digest, scopes) VALUES (?, ?, ?)", key.row)

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""
        with self._connections.writing() as connection:
            statement = "INSERT OR IGNORE INTO platform_keys (name, digest, scopes) VALUES (?, ?, ?)"
            return connection.count_changed(statement, key.row) > 0

    def remove_key_but_the_last(self, name: str, *, scope: str) -> bool:
        """Forget a key if another one has this scope; whether it was forgotten."""
        with self._connections.writing() as connection:
            return connection.count_changed(_REMOVE_BUT_LAST, (name, name, f"% {scope} %")) > 0

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""
        with self._connections.writing() as connection:
            return connection.count_changed("DELETE FROM platform_keys WHERE name = ?", (name,)) > 0

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""
        with self._connections.reading() as connection:
            rows = connection.rows("SELECT name, digest, scopes FROM platform_keys ORDER BY name")
        return [PlatformKey.from_row(*row) for row in rows]

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


# Of some of those who wait. The total comes first: it counts the places that are not charged yet.
_DUE = "person IN (SELECT value FROM json_each(:people)) AND epoch <= :epoch"
_STEPS = (
    f"""INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM pending
    WHERE {_DUE} AND NOT EXISTS (
        SELECT 1 FROM known_places
        WHERE known_places.person = pending.person AND known_places.tag = pending.tag
    )
    GROUP BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = places + excluded.places""",  # noqa: S608 - no values
    f"""INSERT INTO known_places (person, tag, in_window, x_steps, y_steps, draw_number)
    SELECT person, tag, in_window, x_steps, y_steps,
        (SELECT coalesce(max(draw_number), 0) + 1 FROM known_places WHERE known_places.person = pending.person)
    FROM pending WHERE {_DUE} ORDER BY person
    ON CONFLICT (person, tag) DO UPDATE SET x_steps = excluded.x_steps, y_steps = excluded.y_steps""",  # noqa: S608
    f"""INSERT INTO published (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT person, x_steps, y_steps, tag, in_window, receipt, :epoch FROM pending WHERE {_DUE} ORDER BY person
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch""",  # noqa: S608
    f"DELETE FROM pending WHERE {_DUE}",  # noqa: S608
)
_SOME_DUE = """
    SELECT json_group_array(person) FROM (
        SELECT person FROM pending WHERE epoch <= ? ORDER BY person LIMIT ?
    )"""
# Some milliseconds: reports wait for one of these transactions at a time.
PUBLISHED_AT_ONCE = 256

_AHEAD = """
    SELECT min(epoch), max(epoch), count(*) FILTER (WHERE epoch > :epoch),
        (SELECT count(*) FROM published WHERE epoch > :epoch), (SELECT count(*) FROM pending WHERE epoch > :epoch + 1)
    FROM epochs"""
_SET_BACK = (
    "DELETE FROM epochs WHERE epoch > :epoch",
    "INSERT OR IGNORE INTO epochs (epoch) VALUES (:epoch)",
    "UPDATE published SET epoch = :epoch WHERE epoch > :epoch",
    "UPDATE pending SET epoch = :epoch + 1 WHERE epoch > :epoch + 1",
    "UPDATE standings SET candidate_epoch = min(candidate_epoch, :epoch), epoch = min(epoch, :epoch)",
)


def is_published(connection: Connection, epoch: int) -> bool:
    """Return whether this epoch or a later one was published."""
    return connection.one("SELECT 1 FROM epochs WHERE epoch >= ? LIMIT 1", (epoch,)) is not None


def some_due(connection: Connection, epoch: int) -> list[int]:
    """Return the numbers of some of those whose locations wait for an epoch."""
    row = connection.one(_SOME_DUE, (epoch, PUBLISHED_AT_ONCE))
    return list(json.loads(row[0])) if row else []


def publish_some(connection: Connection, people: Iterable[int], epoch: int) -> None:
    """Publish and charge what waits for an epoch of people with these numbers."""
    for step in _STEPS:
        connection.run(step, {"people": json.dumps(list(people)), "epoch": epoch})


# One transaction of the embedded store.
#
# Each method is one statement however many people it is about, and answers in one row: Python's interpreter lock is
# given up for every row and statement, and in a busy server it takes long to get it back.


_NUMBERS = """
    SELECT json_group_array(json_array(people.id, people.number))
    FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"""

_HELD = """
    SELECT json_group_array(json_array(
        people.id, people.number,
        pending.x_steps, pending.y_steps, hex(pending.tag), pending.in_window, pending.receipt,
        published.x_steps, published.y_steps, hex(published.tag), published.in_window, published.receipt,
        CASE WHEN people.spent_window = :window THEN people.spent ELSE 0 END,
        (SELECT json_group_array(json_array(draw_number, in_window, hex(tag), x_steps, y_steps))
            FROM known_places WHERE person = people.number),
        standings.receipt, standings.epoch, hex(standings.candidate), standings.candidate_epoch, standings.seen,
        standings.chain
    ))
    FROM json_each(:people) AS wanted CROSS JOIN people ON people.id = wanted.value
    LEFT JOIN pending ON pending.person = people.number
    LEFT JOIN published ON published.person = people.number
    LEFT JOIN standings ON standings.person = people.number"""

# Tags come as one run of bytes, of which each location knows its part: JSON has no bytes.
_PUT_PENDING = """
    INSERT INTO pending (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        substr(:tags, json_extract(value, '$[3]'), json_extract(value, '$[4]')),
        json_extract(value, '$[5]'), json_extract(value, '$[6]'), :epoch
    FROM json_each(:rows) WHERE true
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch"""

_DROP = "DELETE FROM pending WHERE person IN (SELECT value FROM json_each(?))"
_PLACES = """(
        SELECT json_extract(value, '$[0]') AS person,
            substr(:tags, json_extract(value, '$[3]'), json_extract(value, '$[4]')) AS tag,
            json_extract(value, '$[5]') AS in_window,
            json_extract(value, '$[1]') AS x_steps, json_extract(value, '$[2]') AS y_steps, key
        FROM json_each(:rows)
    ) AS drawn"""
_COUNT_CHARGES = f"""
    INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM {_PLACES} WHERE NOT EXISTS (
        SELECT 1 FROM known_places WHERE known_places.person = drawn.person AND known_places.tag = drawn.tag
    ) GROUP BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = places + excluded.places"""  # noqa: S608 - no values
_CHARGE = f"""
    INSERT INTO known_places (person, tag, in_window, x_steps, y_steps, draw_number)
    SELECT person, tag, in_window, x_steps, y_steps,
        (SELECT coalesce(max(draw_number), 0) FROM known_places WHERE known_places.person = drawn.person) + 1 + key
    FROM {_PLACES} WHERE true
    ON CONFLICT (person, tag) DO NOTHING"""  # noqa: S608 - no values
_PUT_STANDINGS = """
    INSERT INTO standings (person, receipt, epoch, candidate, candidate_epoch, seen, chain)
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        nullif(substr(:tags, json_extract(value, '$[3]'), json_extract(value, '$[4]')), x''),
        json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]')
    FROM json_each(:rows) WHERE true
    ON CONFLICT (person) DO UPDATE SET
        receipt = excluded.receipt, epoch = excluded.epoch, candidate = excluded.candidate,
        candidate_epoch = excluded.candidate_epoch, seen = excluded.seen, chain = excluded.chain"""


class SqliteWriting:
    """A transaction that somebody else began and ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those who are known; nobody else can write meanwhile."""
        rows = self._json_of(_HELD, {"people": _json_ids(people), "window": window})
        self._numbers.update((row[0], row[1]) for row in rows)
        return {row[0]: _held(row, window) for row in rows}

    def settle_due(self, people: Sequence[str], epoch: int) -> None:
        """Publish what waits of these people, if the epoch is not published yet."""
        if not is_published(self._connection, epoch):
            # Also if nothing waits: how long it takes must not tell.
            publish_some(self._connection, self._known(people).values(), epoch)

    def put_pending(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        """Let locations wait, each in place of what waited before."""
        if locations:
            self._connection.run(_PUT_PENDING, {**self._rows(locations), "epoch": epoch})

    def charge(self, locations: Sequence[NoisyLocation]) -> None:
        """Charge places that will not be published."""
        # Each place once, of which the first counts: what a place costs is counted before it is kept.
        different: dict[tuple[str, bytes], NoisyLocation] = {}
        for one in locations:
            different.setdefault((one.person, one.tag), one)
        if different:
            rows = self._rows(list(different.values()))
            self._connection.run(_COUNT_CHARGES, rows)
            self._connection.run(_CHARGE, rows)

    def put_standings(self, standings: Mapping[str, Standing]) -> None:
        """Keep what people's last reports left."""
        numbers = self._known(list(standings))
        rows: list[tuple[Any, ...]] = []
        tags = b""
        for person, one in standings.items():
            if person in numbers:
                tag = one.candidate or b""
                place = (len(tags) + 1, len(tag), one.candidate_epoch, one.seen, " ".join(one.chain))
                rows.append((numbers[person], one.receipt, one.epoch, *place))
                tags += tag
        self._connection.run(_PUT_STANDINGS, {"rows": json.dumps(rows), "tags": tags})

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""
        if people:
            self._connection.run(_DROP, (json.dumps(list(self._known(people).values())),))

    def _rows(self, locations: Sequence[NoisyLocation]) -> dict[str, Any]:
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
        return {"rows": json.dumps(rows), "tags": b"".join(location.tag for location in locations)}

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


def _held(row: Sequence[Any], window: int) -> Held:
    # In the order in which they were drawn.
    known = sorted(json.loads(row[13]) if isinstance(row[13], str) else row[13])
    candidate = bytes.fromhex(row[16]) if row[16] else None
    return Held(
        pending=_location(row[0], row[2:7]),
        published=_location(row[0], row[7:12]),
        known={bytes.fromhex(tag): (x, y) for _, _, tag, x, y in known},
        charged=row[12] + sum(in_window == window for _, in_window, *_ in known),
        standing=Standing.from_row((row[14], row[15], candidate, *row[17:20])),
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
    SELECT
        max(person), json_group_array(id), json_group_array(x_steps), json_group_array(y_steps), json_group_array(tags)
    FROM (
        SELECT published.person, people.id, published.x_steps, published.y_steps, people.tags
        FROM published CROSS JOIN people ON people.number = published.person
        WHERE published.person > :after AND published.epoch >= :since
        ORDER BY published.person LIMIT :most
    )"""


class SqliteStore(SqlitePeople, SqliteTags, SqliteSettings):
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
        If the file is no store, is damaged, is of another version, or is used by another process.
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

    def follow(self, **handlers: Unpack[Handlers]) -> None:
        """Nothing to follow: no other process can be on the file. But a service should not wait for tidying."""
        if self._housekeeper is None and not self._connections.in_memory:
            self._housekeeper = Housekeeper(self._connections)

    # -- reports and epochs ------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, computing: Computing = nullcontext) -> Iterator[Writing]:
        """Begin a transaction."""
        with self._connections.writing(computing) as connection:
            yield SqliteWriting(connection)

    def publish(self, epoch: int, *, window: int, computing: Computing = nullcontext) -> bool:
        """Publish what waits and charge it; whether this call did it."""
        is_done = False
        while not is_done:
            with self._connections.writing(computing) as connection:
                if is_published(connection, epoch):
                    return False
                some = some_due(connection, epoch)
                publish_some(connection, some, epoch)
                is_done = len(some) < PUBLISHED_AT_ONCE
                if is_done:
                    connection.run("INSERT INTO epochs (epoch) VALUES (?)", (epoch,))
                    connection.run("DELETE FROM erased WHERE in_window < ?", (window,))
        # It is published, whatever becomes of the rest, which the next epoch does again.
        if self._housekeeper is not None:
            self._housekeeper.do(lambda: self._tidy(window))
            return True
        with suppress(StoreError):
            self._tidy(window)
        return True

    def _tidy(self, window: int) -> None:
        self._connections.empty_log()
        rewritten = self.setting(_REWRITTEN_SETTING)
        if rewritten is not None and int(rewritten) >= window:
            return
        if rewritten is not None:
            self._connections.rewrite()
        self.keep_setting(_REWRITTEN_SETTING, str(window))

    def last_epoch(self) -> int | None:
        """Return the newest epoch that was published."""
        with self._connections.reading() as connection:
            row = connection.one("SELECT max(epoch) FROM epochs")
        return row[0] if row else None

    def set_back(self, epoch: int, *, window: int, dry_run: bool = False) -> Ahead:
        """Let this be the newest epoch; return what was ahead. Nobody else can be on the file."""
        with self._connections.writing() as connection:
            row = connection.one(_AHEAD, {"epoch": epoch}) or (None, None, 0, 0, 0)
            if not dry_run:
                for step in _SET_BACK:
                    connection.run(step, {"epoch": epoch})
        rewritten = self.setting(_REWRITTEN_SETTING)
        if not dry_run and rewritten is not None and int(rewritten) > window:
            self.keep_setting(_REWRITTEN_SETTING, str(window))
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
            counts = connection.one("SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM published)") or (0, 0)
            charged = dict(connection.rows("SELECT in_window, places FROM charged ORDER BY in_window"))
        return Totals(people=counts[0], published=counts[1], charged_by_window=charged)

    def extent(self) -> StoreExtent:
        """Return how large the store is."""
        with self._connections.reading() as connection:
            version, pages, page_bytes = (
                (connection.one(f"PRAGMA {name}") or (0,))[0] for name in ("user_version", "page_count", "page_size")
            )
        return StoreExtent(version=version, size_bytes=pages * page_bytes)


def _batches(connection: Connection, since_epoch: int | None) -> Iterator[PublishedBatch]:
    since, after = -1 if since_epoch is None else since_epoch, 0
    while row := connection.one(_BATCH, {"after": after, "since": since, "most": BATCH_PEOPLE}):
        if row[0] is None:
            return
        after = row[0]
        steps = np.column_stack([np.array(json.loads(values), dtype=np.int64) for values in row[2:4]])
        yield PublishedBatch(json.loads(row[1]), steps, np.array(json.loads(row[4]), dtype=np.uint64))
