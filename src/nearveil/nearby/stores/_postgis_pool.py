"""Connections to a PostgreSQL that may be away: every wait has a limit, and a known outage is not waited for again.

`psycopg_pool` is not used. It connects in threads of its own, so that callers wait until their limit also where the
connection is refused at once, and the pause between its attempts doubles up to minutes, which a recovery then takes.
"""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from nearveil.nearby.stores.base import StoreError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
"""The longest pause between two attempts to reach a database that is away."""

MOMENT_S = 0.25

LONG_S = 600.0
"""Limit of statements that are about everybody, such as a publication."""

# `wait` takes a limit since psycopg 3.3. Without it, the server's own limit and keep-alives end a wait, only later.
_WAITS_WITH_LIMIT = "timeout" in inspect.signature(psycopg.Connection.wait).parameters
_WaitTimeout: type[Exception] = getattr(errors, "_WaitTimeout", TimeoutError)


class LimitedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server does not answer within ``limit_s``, whatever it is doing."""

    limit_s: float = LONG_S

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server, but not for ever."""
        if timeout is not None or not _WAITS_WITH_LIMIT:
            return super().wait(gen, interval, *(() if timeout is None else (timeout,)))
        try:
            return super().wait(gen, interval, self.limit_s)
        except _WaitTimeout:
            # What the server makes of the statement is not known any more.
            self.pgconn.finish()
            raise errors.ConnectionTimeout("the server does not answer") from None


class Pool:
    """Connections that are used again, at most ``most`` at a time; a refused connection is the caller's error at once.

    Parameters
    ----------
    connect : callable
        Makes a connection, within ``limit_s``.
    most : int
        How many connections there may be.
    limit_s : float
        How long to wait for a connection that others use.
    """

    def __init__(self, connect: Callable[[], LimitedConnection], *, most: int, limit_s: float) -> None:
        self._connect = connect
        self._limit_s = limit_s
        self._turns = threading.BoundedSemaphore(most)
        self._idle: list[LimitedConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[LimitedConnection]:
        """Give a connection that answers."""
        if not self._turns.acquire(timeout=self._limit_s):
            raise StoreError("all connections to the database are in use; try again", reason="busy")
        try:
            connection = self._taken()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._turns.release()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: they are from before an outage."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all connections; those in use when they are given back."""
        self._closed = True
        self.drop_idle()

    def _taken(self) -> LimitedConnection:
        if self._closed:
            raise StoreError("the store is closed; open it again")
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            return self._connect()
        try:
            # An empty statement: the connection may have been closed since it was last used.
            connection.autocommit = True
            connection.execute(b"")
            connection.autocommit = False
        except errors.ConnectionTimeout:
            raise
        except psycopg.Error:
            # The others are of the same age.
            connection.close()
            self.drop_idle()
            return self._connect()
        return connection

    def _give_back(self, connection: LimitedConnection) -> None:
        with suppress(psycopg.Error):
            if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.rollback()
        with self._lock:
            if not self._closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()


class Circuit:
    """Open while the database is away: calls then fail at once, and one thread tries whether it is back.

    Parameters
    ----------
    attempt : callable
        Returns if the database answers, and raises `StoreError` if not.
    name : str
        How errors speak of the database.
    """

    def __init__(self, attempt: Callable[[], None], name: str) -> None:
        self._attempt = attempt
        self._name = name
        self._changed = threading.Condition()
        # From the first sign of trouble until an attempt succeeds; confirmed when an attempt has failed.
        self._is_open = self._is_confirmed = False
        self._stop = threading.Event()
        self._code = ""
        self.on_away: Callable[[StoreError], None] = lambda _: None
        self.on_back: Callable[[float], None] = lambda _: None

    def check(self) -> None:
        """Raise if the database is away."""
        if not self._is_open:
            return
        with self._changed:
            # A single connection that broke is not an outage: that takes a moment to find out.
            self._changed.wait_for(lambda: not self._is_open or self._is_confirmed, MOMENT_S)
            if self._is_open:
                sentence = f"the database {self._name} is away; it is tried again every second"
                raise StoreError(sentence, reason="database-away", code=self._code)

    def note(self, error: StoreError) -> None:
        """Open if an error says that the database is away, until an attempt succeeds."""
        with self._changed:
            if error.reason != "database-away" or self._is_open or self._stop.is_set():
                return
            self._is_open, self._is_confirmed, self._code = True, False, error.code
        threading.Thread(target=self._try_until_back, name="nearveil-database", daemon=True).start()

    def wait_until_back(self, timeout_s: float) -> bool:
        """Wait for the database; whether it is not away."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_open, timeout_s)

    def stop(self) -> None:
        """Try no more."""
        self._stop.set()

    def _try_until_back(self) -> None:
        began, pause_s = time.monotonic(), FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                self._attempt()
            except StoreError as error:
                self._confirm(error)
            else:
                break
            # A random part, so that many processes do not come back at one moment.
            self._stop.wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        with self._changed:
            was_away, self._is_open = self._is_confirmed, False
            self._changed.notify_all()
        if was_away and not self._stop.is_set():
            self.on_back(time.monotonic() - began)

    def _confirm(self, error: StoreError) -> None:
        if self._is_confirmed:
            return
        with self._changed:
            self._is_confirmed, self._code = True, error.code
            self._changed.notify_all()
        self.on_away(error)
