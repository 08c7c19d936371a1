"""The embedded store: one file."""

from nearveil.nearby.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
