"""How processes on one database tell each other what they did: PostgreSQL's notifications."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import psycopg

from nearveil.nearby.stores.base import Draw, PublishedBatch, StoreError
from nearveil.nearby.stores.postgis.database import Database, Session, told

CHANNEL = "nearveil"
# A notification holds 8,000 bytes, and an id up to 512.
_DRAWS_AT_ONCE = 10
_LOOK_S = 0.2
_AGAIN_S = 1.0
_NOTIFY = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"

_log = logging.getLogger(__name__)

Handler = Callable[[Any], None]


class Announcer:
    """Tells others, when a transaction is kept, what this process did in it."""

    def __init__(self) -> None:
        self.sender = secrets.token_hex(8)

    def erased(self, session: Session, person: str) -> None:
        """Somebody is erased."""
        self._tell(session, "erased", [person])

    def withdrawn(self, session: Session, person: str) -> None:
        """Somebody is off the map."""
        self._tell(session, "withdrawn", [person])

    def epoch(self, session: Session, epoch: int) -> None:
        """An epoch is published."""
        self._tell(session, "epoch", [epoch])

    def published_now(self, session: Session, draws: Sequence[Draw]) -> None:
        """Places are published without a border, which only happens where protection is off."""
        rows = [(draw.person, draw.x_steps, draw.y_steps) for draw in draws]
        parts = [rows[begin : begin + _DRAWS_AT_ONCE] for begin in range(0, len(rows), _DRAWS_AT_ONCE)]
        self._tell(session, "published_now", parts)

    def _tell(self, session: Session, kind: str, contents: Sequence[Any]) -> None:
        payloads = [json.dumps([self.sender, kind, content], ensure_ascii=False) for content in contents]
        if payloads:
            session.run(_NOTIFY, (CHANNEL, payloads))


class Follower:
    """Listens on a connection of its own, in a thread of its own, until it is closed.

    Parameters
    ----------
    sender : str
        Who this process is; it is not told what it did itself.
    handlers : dict
        What to call for each kind of notification.
    on_lost : callable
        Called when notifications may have been missed, after listening has begun again.
    """

    def __init__(
        self, database: Database, *, sender: str, handlers: dict[str, Handler], on_lost: Callable[[], None]
    ) -> None:
        self._database = database
        self._sender = sender
        self._handlers = handlers
        self._on_lost = on_lost
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
        while not self._stop.wait(_AGAIN_S):
            with suppress(StoreError):
                self._listen(self._on_lost)

    def _listen(self, begun: Callable[[], None]) -> None:
        """Listen until told to stop, or until the connection or a handler fails."""
        with self._database.connect() as connection:
            with told(self._database.name):
                connection.autocommit = True
                connection.execute(f"LISTEN {CHANNEL}".encode())
            try:
                begun()
                while not self._stop.is_set():
                    with told(self._database.name):
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
        if sender != self._sender and kind in self._handlers:
            self._handlers[kind](content)


def as_batch(content: Sequence[tuple[str, int, int]]) -> PublishedBatch:
    """Read people and places out of a notification."""
    steps = np.array([row[1:] for row in content], dtype=np.int64).reshape(-1, 2)
    return PublishedBatch([row[0] for row in content], steps)
