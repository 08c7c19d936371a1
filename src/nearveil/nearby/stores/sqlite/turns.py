"""Turns: threads write one after the other, in the order in which they came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nearveil.nearby.stores.base import StoreError


class Turns:
    """A lock that is fair: whoever writes without a pause cannot keep a border waiting for ever.

    Parameters
    ----------
    name : str
        How errors speak of the store.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._door = threading.Lock()
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for the turn, and have it during the block."""
        if self._is_mine:
            raise StoreError(f"a transaction on the store {self._name} is open in this thread already; end it first")
        # Who waits for the turn stands in the door, where whoever had it must pass to have it again.
        with self._door:
            self._lock.acquire()
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None
            self._lock.release()

    @contextmanager
    def mine_or_nested(self) -> Iterator[None]:
        """Have the turn during the block, also if this thread has it already."""
        if self._is_mine:
            yield
            return
        with self.mine():
            yield

    @property
    def _is_mine(self) -> bool:
        return self._owner == threading.get_ident()
