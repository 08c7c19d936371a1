"""What a store has published, read without opening the store for use.

Nothing is written, no table is made or changed, and no key is needed. A service may be running on the store. Of people,
only their published noisy places are read: no ids, and nothing that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nearveil.errors import require_package
from nearveil.nearby.stores import is_postgres
from nearveil.nearby.stores.base import StoreError
from nearveil.types import IntArray

if TYPE_CHECKING:
    from nearveil.nearby.stores._postgis_connections import Session
    from nearveil.nearby.stores._sqlite_connections import Connection

_NO_STORE = "there is no Nearveil store at that address; name the store of a service"
_STEPS = "SELECT x_steps, y_steps FROM published WHERE epoch >="


class PublishedReader(Protocol):
    """What can be read of a store from outside."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the store."""

    def steps(self, since_epoch: int) -> IntArray:
        """Return the noisy places published in this epoch or later, in steps of `STEP_M`: shape (n, 2)."""


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

    def steps(self, since_epoch: int) -> IntArray:
        return _as_steps(self._connection.rows(f"{_STEPS} ?", (since_epoch,)))


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

    def steps(self, since_epoch: int) -> IntArray:
        return _as_steps(self._session.rows(f"{_STEPS} %s", (since_epoch,)))


def _as_steps(rows: list[tuple[int, int]]) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
