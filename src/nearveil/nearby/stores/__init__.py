"""Where noisy locations and the ledger are kept: one file, or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

from nearveil.nearby.stores.base import Store

__all__ = ["is_postgres", "open_store"]

_POSTGRES = ("postgresql://", "postgres://")


def is_postgres(address: str) -> bool:
    """Whether an address is a connection string, which may hold a password, and not a file."""
    return address.startswith(_POSTGRES)


def open_store(address: str, *, timeout_s: float | None = None) -> Store:
    """Open the store at an address: ``postgresql://…``, or the path of a file, which is made if it is not there.

    ``timeout_s`` is how long a database may take to connect, and to answer.
    """
    # Loaded when it is needed: neither waits for the other's driver, and what only knows of stores for none.
    if is_postgres(address):
        from nearveil.nearby.stores.postgis import PostgisStore  # noqa: PLC0415

        return PostgisStore(address) if timeout_s is None else PostgisStore(address, timeout_s=timeout_s)
    from nearveil.nearby.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(Path(address))
