"""KeyFile: keys that can be rotated while they are in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nearveil.errors import DataError
from nearveil.nearby.publishing.schedule import Schedule
from nearveil.nearby.publishing.secret_keys import SecretKeys, read_keys, tie_key_from


class KeyFile:
    """The keys in a file, which is looked at again for every new window; the key of a window in use never changes.

    Parameters
    ----------
    path : Path
        As `write_keys` writes it. It must be there at the start; if it is not when a window begins, the keys last read
        are used.
    schedule : Schedule, optional
        The service's; a file for another one is refused. What the file says at the start if not given.
    on_trouble : callable, optional
        Told that the file cannot be read any more, or holds the keys of another service or schedule.
    """

    def __init__(
        self,
        path: Path,
        *,
        schedule: Schedule | None = None,
        on_trouble: Callable[[DataError], None] | None = None,
    ) -> None:
        self._path = path
        self._on_trouble = on_trouble
        self._keys = read_keys(path)
        if schedule is not None:
            self._keys.check_schedule(schedule)
        self._schedule = schedule or self._keys.schedule
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

    def forget(self, window: int) -> None:
        """Look into the file again for the key of a window: the store says that another one is in use."""
        self._of_window.pop(window, None)

    def _read_again(self) -> None:
        try:
            self._keys = self._still_fitting(read_keys(self._path))
        except DataError as error:
            if self._on_trouble is not None:
                self._on_trouble(error)

    def _still_fitting(self, newest: SecretKeys) -> SecretKeys:
        if newest.tokens != self._keys.tokens:
            raise DataError(f"the key file {self._path} holds the keys of another service; restore it")
        if None not in (newest.schedule, self._schedule) and newest.schedule != self._schedule:
            raise DataError(f"the key file {self._path} is for another epoch and window than the service; restore it")
        return newest
