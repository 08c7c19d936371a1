"""Connections to PostgreSQL whose errors are sentences. The connection string may hold a password: nobody prints it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.postgis.schema import migrate, search_path

Parameters = Sequence[Any] | Mapping[str, Any]

PATIENCE_S = 10
MOST_CONNECTIONS = 8
# A database that is gone without a word is noticed within half a minute.
_DEFAULTS = {
    "application_name": "nearveil",
    "connect_timeout": PATIENCE_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}

_REFUSED = re.compile(r"(?:connection failed: )?connection to server .*? failed: (?:FATAL: +)?(.+)")


class Session:
    """One connection during a transaction."""

    def __init__(self, connection: psycopg.Connection, name: str) -> None:
        self.connection = connection
        self._name = name

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return how many rows it touched."""
        with told(self._name):
            return self.connection.execute(statement.encode(), parameters).rowcount

    def rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows, which travel in binary."""
        with told(self._name):
            return self.connection.execute(statement.encode(), parameters, binary=True).fetchall()

    def one(self, statement: str, parameters: Parameters = ()) -> tuple[Any, ...] | None:
        """Return the first row."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def batches(
        self, statement: str, parameters: Parameters, size: int
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """Return rows as they come, so many at a time, all as of now."""
        with told(self._name):
            cursor = self.connection.cursor("batches", binary=True)
            cursor.execute(statement.encode(), parameters)
        try:
            while rows := self._fetch(cursor, size):
                yield rows
        finally:
            with suppress(psycopg.Error):
                cursor.close()

    def _fetch(self, cursor: psycopg.ServerCursor[tuple[Any, ...]], size: int) -> list[tuple[Any, ...]]:
        with told(self._name):
            return cursor.fetchmany(size)

    def copy(self, statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
        """Write many rows at once."""
        with told(self._name), self.connection.cursor().copy(statement.encode()) as copy:
            for row in rows:
                copy.write_row(row)


class Database:
    """A pool of connections, with the tables in order.

    Parameters
    ----------
    conninfo : str
        A connection string of PostgreSQL.
    """

    def __init__(self, conninfo: str) -> None:
        self._options, self.name = _options(conninfo)
        with self.connect() as connection, told(self.name):
            self._postgis = migrate(connection)
        self._pool = ConnectionPool(
            kwargs=self._options,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=PATIENCE_S,
            open=False,
            configure=self._configure,
            check=ConnectionPool.check_connection,
        )
        self._pool.open()

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection]:
        """Give a connection outside the pool."""
        with told(self.name):
            connection: psycopg.Connection = psycopg.connect(**self._options)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Begin a transaction, kept at the end of the block and undone if it raises."""
        with told(self.name):
            connection = self._pool.getconn()
        try:
            yield Session(connection, self.name)
            with told(self.name):
                connection.commit()
        except BaseException:
            with suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._pool.putconn(connection)

    @contextmanager
    def looking(self) -> Iterator[Session]:
        """Give a connection for single questions, which need no transaction and half the ways to the database."""
        with told(self.name):
            connection = self._pool.getconn()
        try:
            connection.autocommit = True
            yield Session(connection, self.name)
        finally:
            with suppress(psycopg.Error):
                connection.autocommit = False
            self._pool.putconn(connection)

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.close()

    def _configure(self, connection: psycopg.Connection) -> None:
        # Each statement sees what was committed before it, whatever the database's default: locks rely on it.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.execute(search_path(self._postgis))
        # What is acknowledged must be on disk; a stricter setting stays.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.commit()


@contextmanager
def told(name: str) -> Iterator[None]:
    """Say in one sentence what is wrong and what to do; values of rows stay out of it."""
    try:
        yield
    except (PoolTimeout, PoolClosed) as error:
        state = "is closed" if isinstance(error, PoolClosed) else "does not answer"
        raise StoreError(f"the database {name} {state}; see to it and try again") from None
    except psycopg.errors.DiskFull:
        raise StoreError(f"the disk of the database {name} is full and nothing of this was kept; make room") from None
    except psycopg.Error as error:
        raise StoreError(f"the database {name} cannot be used ({_reason(error)}); see to it and try again") from None


def _reason(error: psycopg.Error) -> str:
    """Return what the server says, without details, which may quote a row; anything else could quote a password."""
    if error.diag.message_primary:
        return error.diag.message_primary
    refused = _REFUSED.match(str(error))
    return refused[1] if refused else f"{type(error).__name__}, no connection"


def _options(conninfo: str) -> tuple[dict[str, Any], str]:
    """Return the connection's options, and a name for it without a secret."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # Its message would quote a part of the string.
        raise StoreError(
            "the connection string cannot be read; write postgresql://user:password@host:5432/database"
        ) from None
    options = {**_DEFAULTS, **given}
    name = f"{given.get('dbname') or given.get('user') or 'postgres'} on {given.get('host') or 'this machine'}"
    return options, name
