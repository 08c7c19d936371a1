"""The tables of the embedded store, and how a file of an earlier version becomes one of this."""

from __future__ import annotations

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.sqlite.connection import Connection

APPLICATION_ID = 0x4E76656C
"""Marks a file as a Nearveil store, so that no other program's database is ever written to."""

_DRAWS = """
    CREATE TABLE DRAWS (
        person INTEGER PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        x_steps INTEGER NOT NULL,
        y_steps INTEGER NOT NULL,
        tag BLOB NOT NULL,
        in_window INTEGER NOT NULL,
        receipt TEXT NOT NULL,
        epoch INTEGER NOT NULL
    )"""

# Steps are never changed once released; a new version of the tables is a new step at the end.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE people (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created_s INTEGER NOT NULL)",
        _DRAWS.replace("DRAWS", "pending"),
        _DRAWS.replace("DRAWS", "published"),
        # By window first: a border asks for one window, and a window gone by is forgotten as one stretch. Nothing
        # refers to people here, which would need a second index as large as the table.
        """CREATE TABLE charges (
            in_window INTEGER NOT NULL,
            person INTEGER NOT NULL,
            tag BLOB NOT NULL,
            PRIMARY KEY (in_window, person, tag)
        ) WITHOUT ROWID""",
        "CREATE TABLE charged (in_window INTEGER PRIMARY KEY, places INTEGER NOT NULL)",
        "CREATE TABLE epochs (epoch INTEGER PRIMARY KEY)",
        "CREATE TABLE platform_keys (name TEXT PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    ),
    ("ALTER TABLE people ADD COLUMN token_mark INTEGER NOT NULL DEFAULT 0",),
)


def check_ours(connection: Connection) -> None:
    """Refuse another program's database, and one of a later version, before anything is written."""
    application, version = _mark(connection, "application_id"), _mark(connection, "user_version")
    has_tables = connection.one("SELECT 1 FROM sqlite_master LIMIT 1") is not None
    if has_tables and application != APPLICATION_ID:
        raise StoreError(f"{connection.name} is another program's database; name another file for the store")
    if version > len(MIGRATIONS):
        raise StoreError(f"the store {connection.name} was written by a later version of Nearveil; use that one")


def migrate(connection: Connection) -> None:
    """Take every step that a file has not seen, each as a whole or not at all."""
    for version in range(_mark(connection, "user_version") + 1, len(MIGRATIONS) + 1):
        connection.run("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[version - 1]:
                connection.run(statement)
            connection.run(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.run(f"PRAGMA user_version = {version}")
            connection.run("COMMIT")
        except BaseException:
            connection.roll_back()
            raise


def _mark(connection: Connection, pragma: str) -> int:
    row = connection.one(f"PRAGMA {pragma}")
    return int(row[0]) if row else 0
