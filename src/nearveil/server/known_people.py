"""KnownPeople: whether somebody still exists, without asking the store at every request."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearveil.nearby.stores.base import Store

HORIZON_S = 5.0
"""So long at most somebody who was erased by another process still counts as known here."""

_MOST_REMEMBERED = 50_000


class KnownPeople:
    """Remembers for a few seconds who is known.

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
        self._until: dict[str, float] = {}

    def has(self, person: str) -> bool:
        """Whether somebody is known."""
        now = self._clock()
        if self._until.get(person, now) > now:
            return True
        if not self._store.has_person(person):
            self._until.pop(person, None)
            return False
        if len(self._until) >= _MOST_REMEMBERED:
            self._until.clear()
        self._until[person] = now + HORIZON_S
        return True

    def forget(self, person: str) -> None:
        """Ask the store the next time."""
        self._until.pop(person, None)

    def forget_all(self) -> None:
        """Ask the store about everybody."""
        self._until.clear()
