"""KnownPeople: whether somebody still exists, without asking the store at every request."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearveil.nearby.stores.base import Store

HORIZON_S = 5.0
"""So long at most somebody who was erased by another process, or whose tokens were revoked there, is known here."""

_MOST_REMEMBERED = 50_000


class KnownPeople:
    """Remembers for a few seconds who is known, and the mark of their tokens.

    Parameters
    ----------
    store : Store
        Knows for certain.
    clock : callable, optional
        Seconds, from any moment on.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._found: dict[str, tuple[float, int | None]] = {}

    def has(self, person: str) -> bool:
        """Whether somebody is known."""
        return self.token_mark(person) is not None

    def token_mark(self, person: str) -> int | None:
        """Return the mark that a person's tokens bear; None if not known."""
        now = self._clock()
        until, mark = self._found.get(person, (now, None))
        if until > now:
            return mark
        found = self._store.token_mark(person)
        if found is None:
            self._found.pop(person, None)
            return None
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        self._found[person] = (now + HORIZON_S, found)
        return found

    def remembers(self, person: str, mark: int) -> bool:
        """Whether it is remembered that a person's tokens bear this mark."""
        now = self._clock()
        until, found = self._found.get(person, (now, None))
        return until > now and found == mark

    def forget(self, person: str) -> None:
        """Ask the store the next time."""
        self._found.pop(person, None)

    def forget_all(self) -> None:
        """Ask the store about everybody."""
        self._found.clear()
