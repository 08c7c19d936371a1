"""PostgisStore: the tables in PostgreSQL, shared by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np

from nearveil.nearby.stores.base import PublishedBatch, StoreError, Totals, Writing
from nearveil.nearby.stores.postgis.borders import forget_some, publish_waiting
from nearveil.nearby.stores.postgis.database import Database
from nearveil.nearby.stores.postgis.following import Announcer, Follower, as_batch
from nearveil.nearby.stores.postgis.keeping import PostgisKeeping
from nearveil.nearby.stores.postgis.people import PostgisPeople
from nearveil.nearby.stores.postgis.searching import keep_places, nearest
from nearveil.nearby.stores.postgis.writing import PostgisWriting, share_border
from nearveil.types import FloatArray

BATCH_PEOPLE = 20_000

_EVERYBODY = """
    SELECT people.id, published.x_steps, published.y_steps FROM published
    JOIN people ON people.number = published.person WHERE published.epoch >= %s"""


class PostgisStore(PostgisPeople, PostgisKeeping):
    """PostgreSQL with PostGIS, in a schema of its own; any number of processes can use one database.

    Erased rows are invisible at once; their bytes stay in PostgreSQL's files until it vacuums the tables and recycles
    its write-ahead log, which it does by itself, and in backups and replicas for as long as those are kept.

    Parameters
    ----------
    conninfo : str
        A connection string, for instance ``postgresql://user:password@host/database``. It is never printed.

    Raises
    ------
    StoreError
        If the database does not answer, has no PostGIS, or is of a later version.
    """

    def __init__(self, conninfo: str) -> None:
        self._database = Database(conninfo)
        self._announcer = Announcer()
        self._followers: list[Follower] = []

    def close(self) -> None:
        """Let go of all connections."""
        for follower in self._followers:
            follower.close()
        self._followers.clear()
        self._database.close()

    def follow(
        self,
        *,
        on_erased: Callable[[str], None],
        on_withdrawn: Callable[[str], None],
        on_published_now: Callable[[PublishedBatch], None],
        on_epoch: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Be told what other processes do; returns when nothing can be missed any more."""
        handlers: dict[str, Callable[[Any], None]] = {
            "erased": on_erased,
            "withdrawn": on_withdrawn,
            "published_now": lambda content: on_published_now(as_batch(content)),
            "epoch": on_epoch,
        }
        follower = Follower(self._database, sender=self._announcer.sender, handlers=handlers, on_lost=on_lost)
        follower.start()
        self._followers.append(follower)

    # -- reports and borders -----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Begin a transaction."""
        with self._database.transaction() as session:
            yield PostgisWriting(session, self._announcer)

    def publish(self, epoch: int, *, oldest_window: int) -> bool:
        """Publish what waits, charge it, and forget the tags of windows gone by; whether this call did it."""
        with self._database.transaction() as session:
            if not publish_waiting(session, epoch):
                return False
            self._announcer.epoch(session, epoch)
        # It is published, whatever becomes of the rest, which the next border does again.
        with suppress(StoreError):
            self._forget(oldest_window)
        return True

    def _forget(self, oldest_window: int) -> None:
        more = True
        while more:
            with self._database.transaction() as session:
                more = forget_some(session, oldest_window)

    def last_epoch(self) -> int | None:
        """Return the newest epoch that was published."""
        with self._database.looking() as session:
            row = session.one("SELECT max(epoch) FROM epochs")
        return row[0] if row else None

    def published(self, *, since_epoch: int | None = None) -> Iterator[PublishedBatch]:
        """Return everybody who is published, or since an epoch, as of now, in batches."""
        since = -1 if since_epoch is None else since_epoch
        with (
            self._database.transaction() as session,
            closing(session.batches(_EVERYBODY, (since,), BATCH_PEOPLE)) as batches,
        ):
            for rows in batches:
                people, x_steps, y_steps = zip(*rows, strict=True)
                yield PublishedBatch(list(people), np.column_stack([x_steps, y_steps]).astype(np.int64))

    def totals(self) -> Totals:
        """Return the ledger's state."""
        with self._database.transaction() as session:
            counts = session.one(
                "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM published), (SELECT count(*) FROM pending)"
            ) or (0, 0, 0)
            charged = dict(session.rows("SELECT in_window, places FROM charged ORDER BY in_window"))
        return Totals(people=counts[0], published=counts[1], pending=counts[2], charged_by_window=charged)

    # -- questions ---------------------------------------------------------------------------------------------

    def keep_places(self, batches: Iterable[tuple[list[str], FloatArray]]) -> None:
        """Keep where people are published after the move to the intervals, in metres, all at once."""
        with self._database.transaction() as session:
            share_border(session)
            keep_places(session, batches)

    def nearest(
        self,
        place_m: tuple[float, float],
        k: int,
        *,
        exclude: str | None = None,
        within_m: float | None = None,
        tie_key: bytes = b"",
    ) -> list[str]:
        """Return the k nearest published people, nearest first; a keyed hash orders those at one distance."""
        with self._database.looking() as session:
            return nearest(session, place_m, k, exclude=exclude, within_m=within_m, tie_key=tie_key)
