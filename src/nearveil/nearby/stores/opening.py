"""Open a store by its address: a connection string of PostgreSQL, or a file."""

from __future__ import annotations

from pathlib import Path

from nearveil.nearby.stores.base import Store
from nearveil.nearby.stores.sqlite import SqliteStore

_POSTGRES = ("postgresql://", "postgres://")


def is_postgres(address: str) -> bool:
    """Whether an address is a connection string, which may hold a password, and not a file."""
    return address.startswith(_POSTGRES)


def open_store(address: str) -> Store:
    """Open the store at an address: ``postgresql://…``, or the path of a file, which is made if it is not there."""
    if not is_postgres(address):
        return SqliteStore(Path(address))
    # Whoever keeps a file does not wait for a database's driver to load.
    from nearveil.nearby.stores.postgis import PostgisStore  # noqa: PLC0415

    return PostgisStore(address)
