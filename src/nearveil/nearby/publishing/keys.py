"""Keys: what the noise, the tokens and the order of equals are keyed with, and what is derived from them.

Keys are never printed and never logged. What is derived is keyed BLAKE2b over a purpose and length-prefixed parts, so
that no two inputs can be confused. (HMAC would do as well, but Python's gives up the interpreter's lock at every call,
and a busy server waits for it.)
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import make_secret_file, replace_secret_file
from nearveil.nearby.publishing.protection import Cell, Protection, Schedule
from nearveil.types import FloatArray, WordArray

FORMAT = "nearveil-keys"
FORMAT_VERSION = 1
KEY_BYTES = 32
TAG_BYTES = 16

_UNIFORMS = 6
_UNITS_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_NO_KEYS = "these are no Nearveil keys, or damaged ones; restore the file, or make new ones with 'nearveil keys create'"


class Keys(Protocol):
    """What a service needs of its keys: `SecretKeys`, or a `KeyFile` that follows rotations."""

    @property
    def tokens(self) -> bytes:
        """The key that signs people's tokens."""

    def noise_key(self, window: int) -> bytes:
        """Return the key in use in a window."""

    @property
    def from_windows(self) -> tuple[int, ...]:
        """The windows with which keys of the noise begin, in order."""

    def tie_key(self, window: int, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""

    def forget(self, window: int) -> None:
        """Look the key of a window up anew: the store says that another one is in use."""


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """A key and the window from which on it is used."""

    from_window: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """All secrets of a service. Anyone who has them and the store can find out where people were.

    Parameters
    ----------
    noise : tuple of NoiseKey
        In the order of their windows.
    tokens : bytes
        Signs people's tokens; it does not change when the noise's key does.
    schedule : Schedule, optional
        What the windows are counted by; None where that is not known.
    """

    noise: tuple[NoiseKey, ...] = field(repr=False)
    tokens: bytes = field(repr=False)
    schedule: Schedule | None = None

    def noise_key(self, window: int) -> bytes:
        """Return the key in use in a window."""
        usable = [key for key in self.noise if key.from_window <= window]
        return (usable[-1] if usable else self.noise[0]).secret

    @property
    def from_windows(self) -> tuple[int, ...]:
        """The windows with which keys of the noise begin, in order."""
        return tuple(key.from_window for key in self.noise)

    def tie_key(self, window: int, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""
        return tie_key_from(self.noise_key(window), epoch)

    def forget(self, window: int) -> None:
        """Do nothing: these keys never change."""

    def check_schedule(self, schedule: Schedule) -> None:
        """Refuse keys whose windows are counted by another schedule than a service's."""
        if self.schedule is not None and self.schedule != schedule:
            epoch, window = schedule_as_written(self.schedule)
            raise UsageError(
                f"the keys are for an epoch of {epoch} and a window of {window}, and the service has "
                f"{' and '.join(schedule_as_written(schedule))}; start it with --epoch {epoch} --window {window}, or "
                "make keys for a new store ('nearveil keys create' with its --epoch and --window)"
            )

    def rotated(self, from_window: int) -> SecretKeys:
        """Return the same with a fresh key for the noise of new places from a window on.

        Keys before it stay: places that were drawn with them are known by them, and keep their noise.
        """
        if self.noise[-1].from_window >= from_window:
            raise UsageError("there is a key for the next window already; rotate again when it has begun")
        return replace(self, noise=(*self.noise, NoiseKey(from_window, secrets.token_bytes(KEY_BYTES))))

    def postponed(self, from_window: int) -> SecretKeys:
        """Return the same with the newest key beginning later: where it was added and no service took it in time."""
        if len(self.noise) < 2:
            raise UsageError("there is one key only, which is in use; nothing was changed")
        return replace(self, noise=(*self.noise[:-1], replace(self.noise[-1], from_window=from_window)))

    def pruned(self, window: int) -> SecretKeys:
        """Return the same without the keys of windows before this one."""
        begun = [key for key in self.noise if key.from_window <= window]
        return replace(self, noise=(*begun[-1:], *self.noise[len(begun) :]))

    def to_json(self) -> str:
        """Write the keys as one JSON document; keep it secret."""
        noise = [{"from_window": key.from_window, "secret": key.secret.hex()} for key in self.noise]
        document: dict[str, Any] = {"format": FORMAT, "version": FORMAT_VERSION}
        document |= {"noise": noise, "tokens": self.tokens.hex()}
        if self.schedule is not None:
            epoch_s, window_s = (int(part.total_seconds()) for part in (self.schedule.epoch, self.schedule.window))
            document["schedule"] = {"epoch_s": epoch_s, "window_s": window_s}
        return json.dumps(document, indent=1)


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
        Called when the file cannot be read any more, or holds the keys of another service or schedule.
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

    @property
    def from_windows(self) -> tuple[int, ...]:
        """The windows with which keys of the noise begin, in order, as last read."""
        return self._keys.from_windows

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


def new_keys(schedule: Schedule | None = None) -> SecretKeys:
    """Return fresh keys from the operating system's randomness, for a service with this schedule."""
    first = NoiseKey(0, secrets.token_bytes(KEY_BYTES))
    return SecretKeys(noise=(first,), tokens=secrets.token_bytes(KEY_BYTES), schedule=schedule)


def keys_from_json(text: str) -> SecretKeys:
    """Read what `SecretKeys.to_json` wrote."""
    try:
        document = json.loads(text)
        if (document["format"], document["version"]) != (FORMAT, FORMAT_VERSION):
            raise KeyError("format")
        noise = tuple(NoiseKey(int(key["from_window"]), bytes.fromhex(key["secret"])) for key in document["noise"])
        keys = SecretKeys(noise=noise, tokens=bytes.fromhex(document["tokens"]), schedule=_schedule_in(document))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError(_NO_KEYS) from None
    windows = [key.from_window for key in keys.noise]
    long_enough = all(len(secret) >= KEY_BYTES for secret in (keys.tokens, *(key.secret for key in keys.noise)))
    if not windows or windows != sorted(set(windows)) or not long_enough:
        raise DataError(_NO_KEYS)
    return keys


def _schedule_in(document: dict[str, Any]) -> Schedule | None:
    if "schedule" not in document:
        return None
    lengths = [document["schedule"][name] for name in ("epoch_s", "window_s")]
    if any(type(length) is not int for length in lengths):
        raise TypeError("schedule")
    epoch, window = (timedelta(seconds=length) for length in lengths)
    return Schedule(epoch=epoch, window=window)


def read_keys(path: Path) -> SecretKeys:
    """Read a key file; refuse one that others on this machine can read."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise DataError(f"others can read the key file {path}; run 'chmod 600 {path}'")
        return keys_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the key file {path} cannot be read ({error.strerror}); name another, or make one") from None


def write_keys(path: Path, keys: SecretKeys, *, replace_existing: bool = False) -> None:
    """Write a key file that only its owner can read, whole or not at all.

    A file that is replaced keeps its owner and group, and a symbolic link to it still leads to it.
    """
    text = keys.to_json()
    if replace_existing:
        replace_secret_file(path, text)
    else:
        make_secret_file(path, text)


def schedule_as_written(schedule: Schedule) -> tuple[str, str]:
    """Return the epoch and the window as options take them.

    Examples
    --------
    >>> schedule_as_written(Schedule())
    ('1h', '30d')
    """
    return _as_written(schedule.epoch), _as_written(schedule.window)


def _as_written(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    unit, unit_s = next(unit for unit in _UNITS_S.items() if seconds % unit[1] == 0)
    return f"{seconds // unit_s}{unit}"


# -- derived from a key: the noise and the tag of a place, the order of equals, a service's own key


def keyed_bytes(key: bytes, purpose: str, *parts: bytes, size: int = 64) -> bytes:
    """Return ``size`` bytes, at most 64, that depend on the key, the purpose and every part."""
    return hashlib.blake2b(_joined(purpose.encode(), *parts), digest_size=size, key=key).digest()


def _joined(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def place_tags(key: bytes, person: str, cells: Iterable[Cell], window: int, grid: float | str) -> list[bytes]:
    """Return by what the ledger recognises a person's places within a window; ``grid`` is the grid's identity."""
    # What all of them have in common is hashed once: every report asks for several cells.
    common = hashlib.blake2b(_joined(b"nearveil place tag", person.encode()), digest_size=TAG_BYTES, key=key)
    tags = []
    for cell in cells:
        tag = common.copy()
        tag.update(_joined(_cell_bytes(cell, window, grid)))
        tags.append(tag.digest())
    return tags


def place_uniforms(key: bytes, places: Iterable[tuple[str, Cell]], window: int, grid: float | str) -> FloatArray:
    """Return the uniform numbers in [0, 1) that make the noise of people's places: shape (n, 3, 2)."""
    # The upper 53 bits, as NumPy's own generators do.
    words = place_words(key, places, window, grid, count=_UNIFORMS)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(-1, 3, 2)


def place_words(
    key: bytes, places: Iterable[tuple[str, Cell]], window: int, grid: float | str, *, count: int
) -> WordArray:
    """Return so many random 64-bit numbers for each of people's places, always the same: shape (n, count)."""
    drawn = b"".join(
        keyed_bytes(key, "nearveil place noise", person.encode(), _cell_bytes(cell, window, grid), size=8 * count)
        for person, cell in places
    )
    return np.frombuffer(drawn, dtype=">u8").astype(np.uint64).reshape(-1, count)


def _cell_bytes(cell: Cell, window: int, grid: float | str) -> bytes:
    # The grid is part of the place: another grid is another noise.
    return f"{' '.join(map(str, cell))} {window} {grid!r}".encode()


def erased_mark(tokens_key: bytes, person: str) -> bytes:
    """Return by what somebody who was erased is known until the window ends; it names nobody without the key."""
    return keyed_bytes(tokens_key, "nearveil erased", person.encode(), size=TAG_BYTES)


def introduced_tag(tokens_key: bytes, person: str) -> bytes:
    """Return the tag of the place that an import brought in: no cell has it, so no report is compared with it."""
    return keyed_bytes(tokens_key, "nearveil introduced", person.encode(), size=TAG_BYTES)


def service_key(noise_key: bytes, protection: Protection) -> bytes:
    """Return the key of one service's places.

    Services that share a key file and differ in anything that is fixed have nothing in common: with one noise around
    two centres, or at two scales, anyone who sees both could solve for the place.
    """
    return keyed_bytes(noise_key, "nearveil service", *(part.encode() for part in protection.fixed))


def tie_key_from(noise_key: bytes, epoch: int) -> bytes:
    """Return 16 bytes that order people at one distance in an epoch."""
    return keyed_bytes(noise_key, "nearveil ties", str(epoch).encode())[:16]
