"""The store that several processes share: PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Unpack

import numpy as np

from nearveil.nearby.stores._postgis_connections import (
    BORDER_LOCK,
    DEFAULT_TIMEOUT_S,
    LOCK_PAUSE_S,
    SCHEMA,
    SERVING_LOCK,
    Announcer,
    Database,
    Follower,
    Session,
    lock_people,
    share_epoch_lock,
)
from nearveil.nearby.stores._postgis_tags import PostgisTags, blocked_by
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

# The people in PostgreSQL.


# Sorted, so that two processes that add the same people wait for each other in one order.
_ADD = """
    INSERT INTO people (id, created_s, token_mark)
    SELECT id, %s, %s FROM unnest(%s::text[]) AS new (id) ORDER BY id COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING id"""
_SPENT_BEFORE = """
    UPDATE people SET spent_window = erased.in_window, spent = erased.places
    FROM unnest(%s::text[], %s::bytea[]) AS wanted (id, mark) JOIN erased ON erased.mark = wanted.mark
    WHERE erased.in_window = %s AND people.id = wanted.id"""
_REMEMBER = """
    INSERT INTO erased (mark, in_window, places)
    SELECT %(mark)s, %(window)s,
        greatest(%(at_least)s, count(tag) + max(CASE WHEN spent_window = %(window)s THEN spent ELSE 0 END))
    FROM people LEFT JOIN known_places ON known_places.person = people.number AND in_window = %(window)s
    WHERE number = %(number)s
    ON CONFLICT (mark) DO UPDATE SET in_window = excluded.in_window, places = excluded.places"""
_PERSON = "SELECT number, created_s, token_mark FROM people WHERE id = %s"
_CHAIN_GOES_ON = """
    UPDATE standings SET candidate = NULL, candidate_epoch = -1, seen = 0 WHERE person = %s AND chain <> ''"""
_PUBLISHED = "SELECT x_steps, y_steps FROM published WHERE person = %s"
_TAGS = "SELECT name FROM people JOIN tag_names ON people.tags & (1::bigint << bit) <> 0 WHERE number = %s"


class PostgisPeople(PostgisTags):
    """The part of the store that is about people."""

    def add_people(self, people: Sequence[str], marks: Sequence[ErasedMark] | None = None) -> list[str]:
        """Add people; return those who were not there before."""
        check_ids(people)
        wanted = list(dict.fromkeys(people))
        with self._database.transaction() as session:
            added = {row[0] for row in session.rows(_ADD, (int(time.time()), new_token_mark(), wanted))}
            if marks:
                new = [(person, mark.mark) for person, mark in zip(people, marks, strict=True) if person in added]
                names, hashes = [person for person, _ in new], [mark for _, mark in new]
                session.run(_SPENT_BEFORE, (names, hashes, marks[0].window))
        return [person for person in wanted if person in added]

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known."""
        with self._database.looking() as session:
            known = _person(session, person)
        return known[2] if known else None

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens; whether known."""
        with self._locked(person) as (session, number):
            session.run("UPDATE people SET token_mark = %s WHERE number = %s", (new_token_mark(), number))
            session.run("DELETE FROM pending WHERE person = %s", (number,))
            session.run("DELETE FROM standings WHERE person = %s", (number,))
        return number is not None

    def erase(self, person: str, mark: ErasedMark | None = None) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person."""
        with self._locked(person) as (session, number):
            if number is None:
                return False
            if mark is not None:
                session.run(
                    _REMEMBER,
                    {"mark": mark.mark, "window": mark.window, "number": number, "at_least": mark.at_least},
                )
            # Everything else goes with the person.
            session.run("DELETE FROM people WHERE number = %s", (number,))
            self._announcer.erased(session, person)
        return True

    def withdraw(self, person: str) -> bool:
        """Take a person off the map and keep the charges; whether known."""
        with self._locked(person) as (session, number):
            if number is None:
                return False
            session.run("DELETE FROM pending WHERE person = %s", (number,))
            session.run("DELETE FROM published WHERE person = %s", (number,))
            session.run("DELETE FROM standings WHERE person = %s AND chain = ''", (number,))
            session.run(_CHAIN_GOES_ON, (number,))
            self._announcer.withdrawn(session, person)
        return True

    def record(self, person: str) -> dict[str, Any] | None:
        """Return what callers may see of a person; None if not known."""
        with self._database.looking() as session:
            known = _person(session, person)
            if known is None:
                return None
            return person_record(
                person,
                known[1],
                _point(session.one(_PUBLISHED, (known[0],))),
                tags=[name for (name,) in session.rows(_TAGS, (known[0],))],
                blocked=blocked_by(session, known[0]),
            )


def _point(row: Sequence[Any] | None) -> Point | None:
    return None if row is None else (row[0], row[1])


def _person(session: Session, person: str) -> tuple[int, int, int] | None:
    row = session.one(_PERSON, (person,)) if is_id(person) else None
    return (row[0], row[1], row[2]) if row else None


# Platforms' keys and settings in PostgreSQL.


_KEEP_KEY = """
    INSERT INTO platform_keys (name, digest, scopes) VALUES (%s, %s, %s)
    ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, scopes = excluded.scopes"""
_KEEP_SETTING = """
    INSERT INTO settings (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

_ADD_NEW_KEY = "INSERT INTO platform_keys (name, digest, scopes) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_REMOVE_BUT_LAST = """
    DELETE FROM platform_keys WHERE name = %s AND EXISTS (
        SELECT 1 FROM platform_keys AS other WHERE other.name <> %s AND ' ' || other.scopes || ' ' LIKE %s
    )"""
_SETTLE = "INSERT INTO settings (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING"


class PostgisSettings:
    """The part of the store that keeps keys and settings."""

    _database: Database

    def add_key(self, key: PlatformKey) -> None:
        """Keep a platform's key; one of the same name is replaced."""
        with self._database.transaction() as session:
            session.run(_KEEP_KEY, key.row)

    def add_new_key(self, key: PlatformKey) -> bool:
        """Keep a platform's key unless there is one of the same name; whether it was kept."""
        with self._database.transaction() as session:
            return session.run(_ADD_NEW_KEY, key.row) > 0

    def remove_key_but_the_last(self, name: str, *, scope: str) -> bool:
        """Forget a key if another one has this scope; whether it was forgotten."""
        with self._database.transaction() as session:
            # Two who each remove the other's key must not both find two.
            session.run("LOCK TABLE platform_keys IN SHARE ROW EXCLUSIVE MODE")
            return session.run(_REMOVE_BUT_LAST, (name, name, f"% {scope} %")) > 0

    def remove_key(self, name: str) -> bool:
        """Forget a key; whether there was one."""
        with self._database.transaction() as session:
            return session.run("DELETE FROM platform_keys WHERE name = %s", (name,)) > 0

    def keys(self) -> list[PlatformKey]:
        """Return all keys."""
        with self._database.looking() as session:
            rows = session.rows('SELECT name, digest, scopes FROM platform_keys ORDER BY name COLLATE "C"')
        return [PlatformKey.from_row(*row) for row in rows]

    def setting(self, name: str) -> str | None:
        """Return a setting kept before."""
        with self._database.looking() as session:
            row = session.one("SELECT value FROM settings WHERE name = %s", (name,))
        return row[0] if row else None

    def settle(self, name: str, value: str) -> str:
        """Keep a setting unless there is one; return what is kept."""
        with self._database.transaction() as session:
            session.run(_SETTLE, (name, value))
            row = session.one("SELECT value FROM settings WHERE name = %s", (name,))
        return row[0] if row else value

    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self._database.transaction() as session:
            session.run(_KEEP_SETTING, (name, value))


# What happens in PostgreSQL at an epoch boundary.


_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_IS_LATE = "SELECT 1 FROM epochs WHERE epoch >= %s LIMIT 1"
_SOME_DUE = "SELECT person FROM pending WHERE epoch <= %s ORDER BY person LIMIT %s"
# Reports wait for one of these transactions at a time.
PUBLISHED_AT_ONCE = 8_192

# Of some of those who wait. The total comes first: it counts the places that are not charged yet.
_STEPS = (
    """INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM pending
    WHERE person = ANY(%(people)s) AND epoch <= %(epoch)s AND NOT EXISTS (
        SELECT 1 FROM known_places
        WHERE known_places.person = pending.person AND known_places.tag = pending.tag
    )
    GROUP BY in_window ORDER BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = charged.places + excluded.places""",
    """INSERT INTO known_places (person, tag, in_window, x_steps, y_steps, draw_number)
    SELECT person, tag, in_window, x_steps, y_steps,
        (SELECT coalesce(max(draw_number), 0) + 1 FROM known_places WHERE known_places.person = pending.person)
    FROM pending WHERE person = ANY(%(people)s) AND epoch <= %(epoch)s
    ON CONFLICT (person, tag) DO UPDATE SET x_steps = excluded.x_steps, y_steps = excluded.y_steps""",
    """WITH due AS (DELETE FROM pending WHERE person = ANY(%(people)s) AND epoch <= %(epoch)s RETURNING *)
    INSERT INTO published (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT person, x_steps, y_steps, tag, in_window, receipt, %(epoch)s FROM due
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch""",
)

_AHEAD = """
    SELECT min(epoch), max(epoch), count(*) FILTER (WHERE epoch > %(epoch)s),
        (SELECT count(*) FROM published WHERE epoch > %(epoch)s),
        (SELECT count(*) FROM pending WHERE epoch > %(epoch)s + 1)
    FROM epochs"""
_SET_BACK = (
    "DELETE FROM epochs WHERE epoch > %(epoch)s",
    "INSERT INTO epochs (epoch) VALUES (%(epoch)s) ON CONFLICT DO NOTHING",
    "UPDATE published SET epoch = %(epoch)s WHERE epoch > %(epoch)s",
    "UPDATE pending SET epoch = %(epoch)s + 1 WHERE epoch > %(epoch)s + 1",
    "UPDATE standings SET candidate_epoch = least(candidate_epoch, %(epoch)s), epoch = least(epoch, %(epoch)s)",
)


def publish_some(session: Session, people: Sequence[int], epoch: int) -> None:
    """Publish and charge what waits for an epoch of people with these numbers."""
    for step in _STEPS:
        session.run(step, {"people": list(people), "epoch": epoch})


# One transaction in PostgreSQL that takes reports.


_HELD = """
    SELECT
        wanted.number,
        pending.x_steps, pending.y_steps, pending.tag, pending.in_window, pending.receipt,
        published.x_steps, published.y_steps, published.tag, published.in_window, published.receipt,
        CASE WHEN people.spent_window = %s THEN people.spent ELSE 0 END,
        standings.receipt, standings.epoch, standings.candidate, standings.candidate_epoch, standings.seen,
        standings.chain
    FROM unnest(%s::bigint[]) AS wanted (number)
    JOIN people ON people.number = wanted.number
    LEFT JOIN pending ON pending.person = wanted.number
    LEFT JOIN published ON published.person = wanted.number
    LEFT JOIN standings ON standings.person = wanted.number"""
# In the order in which they were drawn.
_KNOWN_PLACES = """
    SELECT person, tag, in_window, x_steps, y_steps FROM known_places WHERE person = ANY(%s)
    ORDER BY draw_number"""
_PUT_PENDING = """
    INSERT INTO pending (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT *, %s::bigint FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::bytea[], %s::bigint[], %s::text[])
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch"""
_DROP = "DELETE FROM pending WHERE person = ANY(%s)"
_CHARGE = """
    WITH new AS (
        INSERT INTO known_places (person, x_steps, y_steps, tag, in_window, draw_number)
        SELECT drawn.person, x, y, tag, in_window,
            (SELECT coalesce(max(draw_number), 0) FROM known_places WHERE known_places.person = drawn.person) + nth
        FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::bytea[], %s::bigint[])
            WITH ORDINALITY AS drawn (person, x, y, tag, in_window, nth)
        ON CONFLICT (person, tag) DO NOTHING RETURNING in_window
    )
    INSERT INTO charged (in_window, places) SELECT in_window, count(*) FROM new GROUP BY in_window ORDER BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = charged.places + excluded.places"""
_PUT_STANDINGS = """
    INSERT INTO standings (person, receipt, epoch, candidate, candidate_epoch, seen, chain)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bytea[], %s::bigint[], %s::int[], %s::text[])
    ON CONFLICT (person) DO UPDATE SET
        receipt = excluded.receipt, epoch = excluded.epoch, candidate = excluded.candidate,
        candidate_epoch = excluded.candidate_epoch, seen = excluded.seen, chain = excluded.chain"""


class PostgisWriting:
    """A transaction that somebody else began and ends."""

    def __init__(self, session: Session, announcer: Announcer) -> None:
        self._session = session
        self._announcer = announcer
        self._numbers: dict[str, int] = {}
        share_epoch_lock(session)

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those who are known, who stay locked until the end."""
        numbers = self._known(people)
        names = {number: person for person, number in numbers.items()}
        rows = self._session.rows(_HELD, (window, list(names)))
        known: dict[int, list[tuple[bytes, int, Point]]] = {}
        for number, tag, in_window, x_steps, y_steps in self._session.rows(_KNOWN_PLACES, (list(names),)):
            known.setdefault(number, []).append((bytes(tag), in_window, (x_steps, y_steps)))
        return {names[row[0]]: _held(names[row[0]], row, known.get(row[0], []), window) for row in rows}

    def settle_due(self, people: Sequence[str], epoch: int) -> None:
        """Publish what waits of these people, if the epoch is not published yet."""
        if not self._session.one(_IS_LATE, (epoch,)):
            # Also if nothing waits: how long it takes must not tell.
            publish_some(self._session, sorted(self._known(people).values()), epoch)

    def put_pending(self, locations: Sequence[NoisyLocation], epoch: int) -> None:
        """Let locations wait, each in place of what waited before."""
        # Of several locations of one person the last counts; PostgreSQL refuses to change a row twice in a statement.
        last = {location.person: location for location in locations}
        numbers = self._known(list(last))
        kept = [location for person, location in last.items() if person in numbers]
        if kept:
            self._session.run(_PUT_PENDING, (epoch, *self._columns(kept, numbers)))

    def charge(self, locations: Sequence[NoisyLocation]) -> None:
        """Charge places that will not be published."""
        numbers = self._known([location.person for location in locations])
        kept = [location for location in locations if location.person in numbers]
        if kept:
            self._session.run(_CHARGE, self._columns(kept, numbers)[:5])

    def put_standings(self, standings: Mapping[str, Standing]) -> None:
        """Keep what people's last reports left."""
        numbers = self._known(list(standings))
        kept = [(numbers[person], one) for person, one in standings.items() if person in numbers]
        columns: list[list[Any]] = [
            [number for number, _ in kept],
            [one.receipt for _, one in kept],
            [one.epoch for _, one in kept],
            [one.candidate for _, one in kept],
            [one.candidate_epoch for _, one in kept],
            [one.seen for _, one in kept],
            [" ".join(one.chain) for _, one in kept],
        ]
        if kept:
            self._session.run(_PUT_STANDINGS, columns)

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""
        if people:
            self._session.run(_DROP, (list(self._known(people).values()),))

    def _columns(self, kept: Sequence[NoisyLocation], numbers: Mapping[str, int]) -> list[list[Any]]:
        return [
            [numbers[location.person] for location in kept],
            [location.x_steps for location in kept],
            [location.y_steps for location in kept],
            [location.tag for location in kept],
            [location.window for location in kept],
            [location.receipt for location in kept],
        ]

    def _known(self, people: Sequence[str]) -> dict[str, int]:
        """Return the numbers of those who are known, and lock them if they are not locked yet."""
        strangers = [person for person in people if person not in self._numbers]
        if strangers:
            self._numbers.update(lock_people(self._session, strangers))
        return {person: self._numbers[person] for person in people if person in self._numbers}


def _held(person: str, row: Sequence[Any], known: Sequence[tuple[bytes, int, Point]], window: int) -> Held:
    return Held(
        pending=_location(person, row[1:6]),
        published=_location(person, row[6:11]),
        known={tag: point for tag, _, point in known},
        charged=row[11] + sum(in_window == window for _, in_window, _ in known),
        standing=Standing.from_row(row[12:18]),
    )


def _location(person: str, columns: Sequence[Any]) -> NoisyLocation | None:
    x_steps, y_steps, tag, window, receipt = columns
    if receipt is None:
        return None
    return NoisyLocation(
        person=person, x_steps=x_steps, y_steps=y_steps, tag=bytes(tag), window=window, receipt=receipt
    )


# PostgisStore: the tables in PostgreSQL, shared by several processes.


BATCH_PEOPLE = 20_000

_EVERYBODY = """
    SELECT people.id, published.x_steps, published.y_steps, people.tags FROM published
    JOIN people ON people.number = published.person WHERE published.epoch >= %s"""
# With indexes.
_EXTENT = """
    SELECT (SELECT max(version) FROM schema_version), (
        SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relkind = 'r' AND relnamespace = %s::regnamespace
    )"""


class PostgisStore(PostgisPeople, PostgisSettings):
    """PostgreSQL, in a schema of its own; any number of processes can use one database.

    Erased rows are invisible at once; their bytes stay in PostgreSQL's files until it vacuums the tables and recycles
    its write-ahead log, which it does by itself, and in backups and replicas for as long as those are kept.

    Parameters
    ----------
    conninfo : str
        A connection string, for instance ``postgresql://user:password@host/database``. It is never printed.
    timeout_s : float, optional
        Limit for a connection, and for each statement that is not about everybody.

    Raises
    ------
    StoreError
        If the database does not answer, or is of another version.
    """

    def __init__(self, conninfo: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._database = Database(conninfo, timeout_s=timeout_s)
        self._announcer = Announcer()
        self._followers: list[Follower] = []

    def close(self) -> None:
        """Let go of all connections."""
        for follower in self._followers:
            follower.close()
        self._followers.clear()
        self._database.close()

    def follow(self, **handlers: Unpack[Handlers]) -> None:
        """Call the handlers for what other processes do; returns when nothing can be missed any more."""
        circuit = self._database.circuit
        circuit.on_away = handlers.get("on_away", circuit.on_away)
        circuit.on_back = handlers.get("on_back", circuit.on_back)
        follower = Follower(self._database, self._announcer.sender, dict[str, Any](handlers))
        follower.start()
        self._followers.append(follower)

    # -- reports and epochs ------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, computing: Computing = nullcontext) -> Iterator[Writing]:
        """Begin a transaction."""
        del computing  # the database does it elsewhere
        with self._database.transaction() as session:
            yield PostgisWriting(session, self._announcer)

    def publish(self, epoch: int, *, window: int, computing: Computing = nullcontext) -> bool:
        """Publish what waits and charge it; whether this call did it."""
        del computing  # the database does it elsewhere
        while True:
            with self._database.transaction(long=True) as session:
                # Alone: no report is between what it read and what it writes. A statement of its own, so that the next
                # ones see what those who had the lock before have done.
                session.run(_LOCK, (BORDER_LOCK,))
                if session.one(_IS_LATE, (epoch,)):
                    return False
                some = [row[0] for row in session.rows(_SOME_DUE, (epoch, PUBLISHED_AT_ONCE))]
                publish_some(session, some, epoch)
                if len(some) < PUBLISHED_AT_ONCE:
                    session.run("INSERT INTO epochs (epoch) VALUES (%s)", (epoch,))
                    session.run("DELETE FROM erased WHERE in_window < %s", (window,))
                    self._announcer.epoch(session, epoch)
                    return True
            # Those who report ask for the lock every so often.
            time.sleep(2 * LOCK_PAUSE_S)

    def last_epoch(self) -> int | None:
        """Return the newest epoch that was published."""
        with self._database.looking() as session:
            row = session.one("SELECT max(epoch) FROM epochs")
        return row[0] if row else None

    def set_back(self, epoch: int, *, window: int, dry_run: bool = False) -> Ahead:
        """Let this be the newest epoch; return what was ahead. Refused while a service is on the database."""
        del window  # nothing here is done once in a window
        with self._database.transaction(long=True) as session:
            if session.one("SELECT pg_try_advisory_xact_lock(%s)", (SERVING_LOCK,)) != (True,):
                raise StoreError("a service uses the database; stop all services on it first", reason="busy")
            session.run(_LOCK, (BORDER_LOCK,))
            row = session.one(_AHEAD, {"epoch": epoch}) or (None, None, 0, 0, 0)
            if not dry_run:
                for step in _SET_BACK:
                    session.run(step, {"epoch": epoch})
        return Ahead(first_epoch=row[0], last_epoch=row[1], epochs=row[2], published=row[3], pending=row[4])

    def published(self, *, since_epoch: int | None = None) -> Iterator[PublishedBatch]:
        """Return everybody who is published, or since an epoch, as of now, in batches."""
        since = -1 if since_epoch is None else since_epoch
        with (
            self._database.transaction(long=True) as session,
            closing(session.batches(_EVERYBODY, (since,), BATCH_PEOPLE)) as batches,
        ):
            for rows in batches:
                people, x_steps, y_steps, tags = zip(*rows, strict=True)
                steps = np.column_stack([x_steps, y_steps]).astype(np.int64)
                yield PublishedBatch(list(people), steps, np.array(tags, dtype=np.uint64))

    def totals(self) -> Totals:
        """Return the ledger's state."""
        with self._database.transaction(long=True) as session:
            counts = session.one("SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM published)") or (0, 0)
            charged = dict(session.rows("SELECT in_window, places FROM charged ORDER BY in_window"))
        return Totals(people=counts[0], published=counts[1], charged_by_window=charged)

    def extent(self) -> StoreExtent:
        """Return how large the store is."""
        with self._database.looking() as session:
            version, size_bytes = session.one(_EXTENT, (SCHEMA,)) or (0, 0)
        return StoreExtent(version=version, size_bytes=size_bytes)
