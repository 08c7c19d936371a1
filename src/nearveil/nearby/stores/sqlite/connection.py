"""A connection to the embedded store whose errors are sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from nearveil.nearby.stores.base import StoreError

Parameters = Sequence[Any] | Mapping[str, Any]

_BUSY_S = 10.0

_SENTENCES = {
    "SQLITE_FULL": "the disk of the store {name} is full and nothing of this was kept; make room and try again",
    "SQLITE_NOTADB": "{name} is no Nearveil store, or a damaged one; name another file, or restore it from a backup",
    "SQLITE_CORRUPT": "the store {name} is damaged; restore it from a backup",
    "SQLITE_BUSY": "another program holds the store {name}; end it and try again",
    "SQLITE_READONLY": "the store {name} cannot be written; see to the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "the store {name} cannot be opened; see to the permissions of the file and its folder",
    "SQLITE_IOERR": "the disk of the store {name} fails and nothing of this was kept; see to it and try again",
}


class Connection:
    """One connection. Every statement of the store goes through it, and none holds a value in its text.

    Parameters
    ----------
    source : str
        Path of the file, or ``:memory:``.
    name : str
        How errors speak of it.
    """

    def __init__(self, source: str, name: str, *, query_only: bool = False) -> None:
        self.name = name
        try:
            self._connection = sqlite3.connect(
                source, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=64
            )
        except sqlite3.Error as error:
            raise told(error, name) from None
        try:
            self._set_up(query_only=query_only)
        except StoreError:
            self.close()
            raise

    def _set_up(self, *, query_only: bool) -> None:
        # FULL: a commit has returned when the disk has it. What is deleted is overwritten with zeros.
        for pragma in ("synchronous = FULL", "secure_delete = ON", "foreign_keys = ON", "temp_store = MEMORY"):
            self.run(f"PRAGMA {pragma}")
        self.run(f"PRAGMA cache_size = {-8_192 if query_only else -65_536}")
        if query_only:
            self.run("PRAGMA query_only = ON")

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        """Run a statement that answers nothing."""
        self.rows(statement, parameters)

    def one(self, statement: str, parameters: Parameters = ()) -> tuple[Any, ...] | None:
        """Return the first row."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows."""
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise told(error, self.name) from None

    def count_changed(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return how many rows it changed."""
        try:
            return self._connection.execute(statement, parameters).rowcount
        except sqlite3.Error as error:
            raise told(error, self.name) from None

    def roll_back(self) -> None:
        """Undo a transaction, if one is open."""
        # What a failing disk does not let us undo now is undone by whoever opens the file next.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.rollback()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(sqlite3.Error):
            self._connection.close()


def told(error: sqlite3.Error, name: str) -> StoreError:
    """Say in one sentence what is wrong and what to do."""
    code = getattr(error, "sqlite_errorname", "")
    for begin, sentence in _SENTENCES.items():
        if code.startswith(begin):
            return StoreError(sentence.format(name=name))
    return StoreError(f"the store {name} cannot be used ({error}); see to it and try again")
