"""PostgreSQL behind the store: tables, connections whose errors are sentences, and notifications."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from nearveil.nearby.stores._postgis_pool import LONG_S, Circuit, LimitedConnection, Pool
from nearveil.nearby.stores.base import Reason, StoreError, is_id

Parameters = Sequence[Any] | Mapping[str, Any]

DEFAULT_TIMEOUT_S = 3.0
MOST_CONNECTIONS = 8
# For statements that may last long: a machine that is gone without a word is noticed within about ten seconds.
_DEFAULTS = {
    "application_name": "nearveil",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
# The server lets go of the locks of a client that is gone.
_SERVER_LIMITS = """
    SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', '60s', false),
        set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
        set_config('tcp_keepalives_count', '3', false)"""

_REFUSED = re.compile(r"(?:connection failed: )?connection to server .*? failed: (?:FATAL: +)?(.+)")


class Session:
    """One connection during a transaction."""

    def __init__(self, connection: psycopg.Connection, name: str) -> None:
        self.connection = connection
        self._name = name

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return how many rows it touched."""
        with store_errors(self._name):
            return self.connection.execute(statement.encode(), parameters).rowcount

    def rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows, which travel in binary."""
        with store_errors(self._name):
            return self.connection.execute(statement.encode(), parameters, binary=True).fetchall()

    def one(self, statement: str, parameters: Parameters = ()) -> tuple[Any, ...] | None:
        """Return the first row."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def batches(
        self, statement: str, parameters: Parameters, size: int
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """Return rows as they come, ``size`` at a time, all as of now."""
        with store_errors(self._name):
            cursor = self.connection.cursor("batches", binary=True)
            cursor.execute(statement.encode(), parameters)
        try:
            while rows := self._fetch(cursor, size):
                yield rows
        finally:
            with suppress(psycopg.Error):
                cursor.close()

    def _fetch(self, cursor: psycopg.ServerCursor[tuple[Any, ...]], size: int) -> list[tuple[Any, ...]]:
        with store_errors(self._name):
            return cursor.fetchmany(size)


class Database:
    """A pool of connections, with the tables in order; while the database is away, every call fails at once.

    Parameters
    ----------
    conninfo : str
        A connection string of PostgreSQL.
    timeout_s : float
        Limit for a connection, and for each statement that is not about everybody.
    """

    def __init__(self, conninfo: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._options, self.name = _options(conninfo, timeout_s)
        self.timeout_s = timeout_s
        with self.connect() as connection, store_errors(self.name):
            make_tables(connection)
        self._pool = Pool(self._configured, most=MOST_CONNECTIONS, limit_s=timeout_s)
        self.circuit = Circuit(self._attempt, self.name)

    @contextmanager
    def connect(self) -> Iterator[LimitedConnection]:
        """Give a connection outside the pool."""
        with store_errors(self.name):
            connection = LimitedConnection.connect(**self._options)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def transaction(self, *, long: bool = False) -> Iterator[Session]:
        """Begin a transaction, kept at the end of the block and undone if it raises.

        A ``long`` one is about everybody: its statements have minutes and not seconds.
        """
        with self._connection() as connection:
            try:
                if long:
                    connection.limit_s = LONG_S
                    with store_errors(self.name):
                        connection.execute(b"SET LOCAL statement_timeout = 0")
                yield Session(connection, self.name)
                with store_errors(self.name):
                    connection.commit()
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            finally:
                connection.limit_s = self.timeout_s

    @contextmanager
    def looking(self) -> Iterator[Session]:
        """Give a connection for single questions, which need no transaction and half the ways to the database."""
        with self._connection() as connection:
            try:
                connection.autocommit = True
                yield Session(connection, self.name)
            finally:
                with suppress(psycopg.Error):
                    connection.autocommit = False

    @contextmanager
    def _connection(self) -> Iterator[LimitedConnection]:
        self.circuit.check()
        try:
            with ExitStack() as stack:
                with store_errors(self.name):
                    connection = stack.enter_context(self._pool.connection())
                yield connection
        except StoreError as error:
            self.circuit.note(error)
            raise

    def close(self) -> None:
        """Let go of all connections."""
        self.circuit.stop()
        self._pool.close()

    def _attempt(self) -> None:
        """See whether the database answers."""
        with self.connect() as connection, store_errors(self.name):
            connection.limit_s = self.timeout_s
            connection.execute(b"SELECT 1")
        self._pool.drop_idle()

    def _configured(self) -> LimitedConnection:
        connection = LimitedConnection.connect(**self._options)
        try:
            connection.limit_s = self.timeout_s
            # Each statement sees what was committed before it, whatever the database's default: locks rely on it.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.execute(_SEARCH_PATH)
            # What is acknowledged must be on disk; a stricter setting stays.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            # Sooner than the limit here: a statement that waits for others is ended by a server that answers.
            connection.execute(_SERVER_LIMITS, (f"{round(800 * self.timeout_s)}ms",))
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def reading_session(conninfo: str) -> Iterator[Session | None]:
    """Give a session that can write nothing, on the tables as they are; None if there are none."""
    options, name = _options(conninfo, DEFAULT_TIMEOUT_S)
    with store_errors(name):
        connection: psycopg.Connection = psycopg.connect(**options)
    try:
        connection.read_only = True
        session = Session(connection, name)
        if session.one("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.published",)) == (True,):
            with store_errors(name):
                connection.execute(_SEARCH_PATH)
            yield session
        else:
            yield None
    finally:
        connection.close()


@contextmanager
def store_errors(name: str) -> Iterator[None]:
    """Say in one sentence what is wrong and what to do; values of rows stay out of it."""
    try:
        yield
    except psycopg.errors.DiskFull:
        sentence = f"the disk of the database {name} is full and nothing of this was kept; make room"
        raise StoreError(sentence, reason="disk-full", code="DiskFull") from None
    except psycopg.Error as error:
        sentence = f"the database {name} cannot be used ({_explanation(error)}); see to it and try again"
        raise StoreError(sentence, reason=_reason(error), code=_code(error)) from None


# By SQLSTATE, the longest beginning that fits.
_REASONS: dict[str, Reason] = {
    "08": "database-away",
    "25006": "read-only",
    "40": "busy",
    "53100": "disk-full",
    "53300": "database-away",
    "55P03": "busy",
    "57014": "busy",
    "57P": "database-away",
    "58030": "disk-failed",
    "XX001": "damaged",
    "XX002": "damaged",
}
# What a server says that refuses a connection has no SQLSTATE here.
_REFUSALS = {
    "the database system is": "CannotConnectNow",
    "sorry, too many clients": "TooManyConnections",
    "remaining connection slots": "TooManyConnections",
    "password authentication failed": "InvalidPassword",
    "no pg_hba.conf entry": "InvalidAuthorizationSpecification",
}
_ERRNO_NAMES = {os.strerror(number): name for number, name in errno.errorcode.items()}


def _reason(error: psycopg.Error) -> Reason:
    if error.sqlstate is None:
        # Without a word of the server there is no connection, or none any more.
        return "database-away" if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else "failed"
    return next((_REASONS[error.sqlstate[:n]] for n in (5, 3, 2) if error.sqlstate[:n] in _REASONS), "failed")


def _code(error: psycopg.Error) -> str:
    """Return the name of an error's SQLSTATE, or of the system's error; never what the server says."""
    refused = _REFUSED.match(str(error))
    if error.sqlstate is None and refused:
        found = (code for text, code in _REFUSALS.items() if refused[1].startswith(text))
        return _ERRNO_NAMES.get(refused[1]) or next(found, type(error).__name__)
    return type(error).__name__


def _explanation(error: psycopg.Error) -> str:
    """Return what the server says, without details, which may quote a row; anything else could quote a password."""
    if error.diag.message_primary:
        return error.diag.message_primary
    refused = _REFUSED.match(str(error))
    return refused[1] if refused else f"{type(error).__name__}, no connection"


def _options(conninfo: str, timeout_s: float) -> tuple[dict[str, Any], str]:
    """Return the connection's options, and a name for it without a secret."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # Its message would quote a part of the string.
        raise StoreError(
            "the connection string cannot be read; write postgresql://user:password@host:5432/database"
        ) from None
    options = {**_DEFAULTS, "connect_timeout": max(1, math.ceil(timeout_s)), **given}
    name = f"{given.get('dbname') or given.get('user') or 'postgres'} on {given.get('host') or 'this machine'}"
    return options, name


# Locks of transactions.
#
# A transaction that takes reports shares the epoch's lock with others of its kind, and a publication has that lock
# alone: what is held about somebody cannot be published between being read and being written. People are locked in the
# order of their numbers.


BORDER_LOCK = 0x6E76_0002

_LOCK_SHARED = "SELECT pg_try_advisory_xact_lock_shared(%s)"
LOCK_PAUSE_S = 0.02
_LONGEST_PUBLICATION_S = 60.0
_LOCK_PEOPLE = "SELECT number, id FROM people WHERE id = ANY(%s) ORDER BY number FOR UPDATE"


def share_epoch_lock(session: Session) -> None:
    """Keep epochs from being published until the transaction ends."""
    # A statement of its own, so that the next one sees what the last publication did. It does not wait in the database:
    # a statement that waits for a publication could not be told from a database that does not answer.
    end = time.monotonic() + _LONGEST_PUBLICATION_S
    while session.one(_LOCK_SHARED, (BORDER_LOCK,)) != (True,):
        if time.monotonic() > end:
            raise StoreError("an epoch is being published and takes long; try again", reason="busy")
        time.sleep(LOCK_PAUSE_S)


def lock_people(session: Session, people: Sequence[str]) -> dict[str, int]:
    """Lock those who are known, and return their numbers."""
    rows = session.rows(_LOCK_PEOPLE, ([person for person in people if is_id(person)],))
    return {person: number for number, person in rows}


# The tables.


SCHEMA = "nearveil"
VERSION = 1
"""Of the tables. A database of another version is refused."""
TABLES_LOCK = 0x6E76_0001
"""Advisory lock: only one process at a time makes the tables."""

_SEARCH_PATH = f"SET search_path TO {SCHEMA}".encode()
_DRAWS = """
    CREATE TABLE DRAWS (
        person bigint PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        x_steps integer NOT NULL,
        y_steps integer NOT NULL,
        tag bytea NOT NULL,
        in_window bigint NOT NULL,
        receipt text NOT NULL,
        epoch bigint NOT NULL
    )"""
_TABLES = (
    # The tags of people are bits.
    """CREATE TABLE people (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        created_s bigint NOT NULL,
        token_mark bigint NOT NULL,
        spent_window bigint NOT NULL DEFAULT -1,
        spent bigint NOT NULL DEFAULT 0,
        tags bigint NOT NULL DEFAULT 0
    )""",
    _DRAWS.replace("DRAWS", "pending"),
    _DRAWS.replace("DRAWS", "published"),
    # Noise lasts: a place that was charged keeps its noisy place, by which it is known again. The draw number counts a
    # person's places in the order in which they were drawn.
    """CREATE TABLE known_places (
        person bigint NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        tag bytea NOT NULL,
        in_window bigint NOT NULL,
        x_steps integer NOT NULL,
        y_steps integer NOT NULL,
        draw_number bigint NOT NULL,
        PRIMARY KEY (person, tag)
    )""",
    "CREATE TABLE charged (in_window bigint PRIMARY KEY, places bigint NOT NULL)",
    # The chain: the receipts of which a person's next report must bring one, with spaces between; empty for none.
    """CREATE TABLE standings (
        person bigint PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        receipt text NOT NULL,
        epoch bigint NOT NULL,
        candidate bytea,
        candidate_epoch bigint NOT NULL,
        seen integer NOT NULL,
        chain text NOT NULL
    )""",
    "CREATE TABLE erased (mark bytea PRIMARY KEY, in_window bigint NOT NULL, places bigint NOT NULL)",
    "CREATE TABLE epochs (epoch bigint PRIMARY KEY)",
    "CREATE TABLE platform_keys (name text PRIMARY KEY, digest bytea NOT NULL, scopes text NOT NULL)",
    "CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE tag_names (bit integer PRIMARY KEY, name text NOT NULL UNIQUE)",
    """CREATE TABLE blocked (
        person bigint NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        other bigint NOT NULL REFERENCES people (number) ON DELETE CASCADE,
        PRIMARY KEY (person, other)
    )""",
    "CREATE INDEX blocked_by_other ON blocked (other)",
)


def make_tables(connection: Connection) -> None:
    """Make the tables in a new database, all or none; refuse a database of another version."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (TABLES_LOCK,))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
    connection.execute(_SEARCH_PATH)
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
    row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    version = row[0] if row else None
    if version is None:
        for statement in _TABLES:
            connection.execute(statement.encode())
        connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (VERSION,))
    elif version != VERSION:
        raise StoreError("the database was written by another version of Nearveil; use that one")
    connection.commit()


# How processes on one database tell each other what they did: PostgreSQL's notifications.


CHANNEL = "nearveil"
SERVING_LOCK = 0x6E76_0003
_LOOK_S = 0.2
_AGAIN_S = 0.2
_NOTIFY = "SELECT pg_notify(%s, %s)"

_log = logging.getLogger(__name__)

Handler = Callable[..., None]


class Announcer:
    """Tells others, when a transaction is kept, what this process did in it."""

    def __init__(self) -> None:
        self.sender = secrets.token_hex(8)

    def erased(self, session: Session, person: str) -> None:
        """Somebody is erased."""
        self._tell(session, "erased", person)

    def withdrawn(self, session: Session, person: str) -> None:
        """Somebody is off the map."""
        self._tell(session, "withdrawn", person)

    def tagged(self, session: Session, person: str) -> None:
        """Somebody has other tags."""
        self._tell(session, "tagged", person)

    def blocked(self, session: Session, person: str) -> None:
        """Somebody has blocked others than before."""
        self._tell(session, "blocked", person)

    def epoch(self, session: Session, epoch: int) -> None:
        """An epoch is published."""
        self._tell(session, "epoch", epoch)

    def _tell(self, session: Session, kind: str, content: Any) -> None:
        # A notification holds 8,000 bytes, and an id up to 512.
        session.run(_NOTIFY, (CHANNEL, json.dumps([self.sender, kind, content], ensure_ascii=False)))


class Follower:
    """Listens on a connection of its own, in a thread of its own, until it is closed.

    Parameters
    ----------
    sender : str
        The name of this process; it gets no notification of what it did itself.
    handlers : dict
        What to call for each kind of notification, as `Store.follow` takes them; ``on_lost`` when notifications may
        have been missed, after listening has begun again.
    """

    def __init__(self, database: Database, sender: str, handlers: Mapping[str, Handler]) -> None:
        self._database = database
        self._sender = sender
        self._handlers = handlers
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._failure: StoreError | None = None
        self._thread = threading.Thread(target=self._run, name="nearveil-follower", daemon=True)

    def start(self) -> None:
        """Begin, and return when nothing can be missed any more."""
        self._thread.start()
        self._listening.wait()
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._listen(self._listening.set)
        except StoreError as error:
            if not self._listening.is_set():
                self._failure = error
                self._listening.set()
                return
            self._database.circuit.note(error)
        while not self._stop.wait(_AGAIN_S):
            # After an outage at once, and not when the next attempt is due.
            if not self._database.circuit.wait_until_back(_LOOK_S):
                continue
            try:
                self._listen(self._handlers["on_lost"])
            except StoreError as error:
                self._database.circuit.note(error)

    def _listen(self, begun: Callable[[], None]) -> None:
        """Listen until told to stop, or until the connection or a handler fails."""
        with self._database.connect() as connection:
            with store_errors(self._database.name):
                connection.limit_s = self._database.timeout_s
                connection.autocommit = True
                # Held for as long as this process serves: what needs the store to itself asks for it.
                connection.execute("SELECT pg_advisory_lock_shared(%s)", (SERVING_LOCK,))
                connection.execute(f"LISTEN {CHANNEL}".encode())
            try:
                begun()
                while not self._stop.is_set():
                    with store_errors(self._database.name):
                        notices = list(connection.notifies(timeout=_LOOK_S))
                    for notice in notices:
                        self._hear(notice)
            except StoreError:
                raise
            except Exception as error:
                # Whatever it was, what followed from the notification did not happen: everything is loaded again.
                _log.warning("following other processes failed: %s", type(error).__name__)
                raise StoreError("a notification could not be followed; everything is loaded again") from None

    def _hear(self, notice: psycopg.Notify) -> None:
        sender, kind, content = json.loads(notice.payload)
        if sender != self._sender and f"on_{kind}" in self._handlers:
            self._handlers[f"on_{kind}"](content)
