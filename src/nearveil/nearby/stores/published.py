"""How much a store holds, read without opening the store for use.

Nothing is written, no table is made or changed, and no key is needed. A service may be running on the store. Of people,
only how many there are is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nearveil.errors import require_package
from nearveil.nearby.stores import is_postgres
from nearveil.nearby.stores.base import StoreError

if TYPE_CHECKING:
    from nearveil.nearby.stores._postgis_connections import Session
    from nearveil.nearby.stores._sqlite_connections import Connection

_NO_STORE = "there is no Nearveil store at that address; name the store of a service"
_STATE = """
    SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM published), (SELECT count(*) FROM pending),
        (SELECT max(epoch) FROM epochs)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """How much a store holds, and whether it is sound.

    Attributes
    ----------
    version : int
        Of the tables.
    people, published, pending : int
        How many people are known, and how many noisy locations are published or wait.
    last_epoch : int or None
        The newest epoch that was published.
    damage : str
        What is wrong with the file, if it is one; empty if nothing is.
    """

    version: int
    people: int
    published: int
    pending: int
    last_epoch: int | None
    damage: str = ""


class PublishedReader(Protocol):
    """What can be read of a store from outside."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the store."""

    def state(self) -> StoreState:
        """Return how much the store holds. Of a file every page is read, to see whether it is damaged."""


@contextmanager
def reading_published(address: str) -> Iterator[PublishedReader]:
    """Read from the store at an address: ``postgresql://…``, or the path of a file.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be read. The address, which may hold a password, is not named.
    """
    with _reading_postgis(address) if is_postgres(address) else _reading_sqlite(Path(address)) as reader:
        yield reader


@contextmanager
def _reading_sqlite(path: Path) -> Iterator[PublishedReader]:
    from nearveil.nearby.stores._sqlite_connections import Connection, check_ours  # noqa: PLC0415

    if not path.is_file():
        raise StoreError(_NO_STORE)
    with closing(Connection(str(path.absolute()), str(path), query_only=True)) as connection:
        check_ours(connection)
        if connection.one("SELECT 1 FROM sqlite_master LIMIT 1") is None:
            raise StoreError(_NO_STORE)
        yield _SqliteReader(connection)


class _SqliteReader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def setting(self, name: str) -> str | None:
        row = self._connection.one("SELECT value FROM settings WHERE name = ?", (name,))
        return row[0] if row else None

    def state(self) -> StoreState:
        # Before anything else is read: what a damaged page answers is no use.
        damaged = [found for (found,) in self._connection.rows("PRAGMA integrity_check(5)") if found != "ok"]
        orphans = [] if damaged else self._connection.rows("PRAGMA foreign_key_check")
        damage = f"{len(damaged)} of its pages or more are damaged" if damaged else ""
        damage = f"{len(orphans)} of its rows belong to nobody" if orphans else damage
        version = self._connection.one("PRAGMA user_version") or (0,)
        counts = (0, 0, 0, None) if damaged else self._connection.one(_STATE) or (0, 0, 0, None)
        return _state(version[0], counts, damage)


@contextmanager
def _reading_postgis(address: str) -> Iterator[PublishedReader]:
    require_package("psycopg", "a store in PostgreSQL")
    from nearveil.nearby.stores._postgis_connections import reading_session  # noqa: PLC0415 - an extra

    with reading_session(address) as session:
        if session is None:
            raise StoreError(_NO_STORE)
        yield _PostgisReader(session)


class _PostgisReader:
    def __init__(self, session: Session) -> None:
        self._session = session

    def setting(self, name: str) -> str | None:
        row = self._session.one("SELECT value FROM settings WHERE name = %s", (name,))
        return row[0] if row else None

    def state(self) -> StoreState:
        version = self._session.one("SELECT max(version) FROM schema_version") or (0,)
        return _state(version[0], self._session.one(_STATE) or (0, 0, 0, None))


def _state(version: int, counts: tuple[Any, ...], damage: str = "") -> StoreState:
    people, published, pending, last_epoch = counts
    return StoreState(
        version=version, people=people, published=published, pending=pending, last_epoch=last_epoch, damage=damage
    )
