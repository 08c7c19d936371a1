"""KeyFile: keys that can be rotated while they are in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nearveil.errors import DataError
from nearveil.nearby.publishing.secret_keys import read_keys, tie_key_from


class KeyFile:
    """The keys in a file, which is looked at again for every new window; the key of a window in use never changes.

    Parameters
    ----------
    path : Path
        As `write_keys` writes it. It must be there at the start; if it is not when a window begins, the keys last read
        are used.
    on_trouble : callable, optional
        Told that the file cannot be read any more, or holds the keys of another service.
    """

    def __init__(self, path: Path, *, on_trouble: Callable[[DataError], None] | None = None) -> None:
        self._path = path
        self._on_trouble = on_trouble
        self._keys = read_keys(path)
        self._of_window: dict[int, bytes] = {}

    def __repr__(self) -> str:
        return f"KeyFile({self._path})"

    @property
    def tokens(self) -> bytes:
        """The key that signs people's tokens."""
        return self._keys.tokens

    def noise_key(self, window: int) -> bytes:
        """Return the key in use in a window."""
        known = self._of_window.get(window)
        if known is not None:
            return known
        self._read_again()
        # Whichever thread comes first decides for all.
        return self._of_window.setdefault(window, self._keys.noise_key(window))

    def tie_key(self, window: int, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""
        return tie_key_from(self.noise_key(window), epoch)

    def _read_again(self) -> None:
        try:
            newest = read_keys(self._path)
        except DataError as error:
            self._complain(error)
            return
        if newest.tokens == self._keys.tokens:
            self._keys = newest
        else:
            self._complain(DataError(f"the key file {self._path} holds the keys of another service; restore it"))

    def _complain(self, trouble: DataError) -> None:
        if self._on_trouble is not None:
            self._on_trouble(trouble)
