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
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import make_secret_file
from nearveil.nearby.publishing.protection import Cell, Protection, Schedule
from nearveil.types import FloatArray, WordArray

FORMAT = "nearveil-keys"
FORMAT_VERSION = 1
KEY_BYTES = 32
TAG_BYTES = 16

_UNITS_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_NO_KEYS = "these are no Nearveil keys, or damaged ones; restore the file, or make new ones with 'nearveil keys create'"


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """All secrets of a service. Anyone who has them and the store can find out where people were.

    Parameters
    ----------
    noise : bytes
        What the noise of places comes from.
    tokens : bytes
        Signs people's tokens.
    schedule : Schedule, optional
        That of the service.
    """

    noise: bytes = field(repr=False)
    tokens: bytes = field(repr=False)
    schedule: Schedule = field(default_factory=Schedule)

    def tie_key(self, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""
        return keyed_bytes(self.noise, "nearveil ties", str(epoch).encode())[:16]

    def check_schedule(self, schedule: Schedule) -> None:
        """Refuse keys that are for another schedule than a service's."""
        if self.schedule != schedule:
            epoch, window = schedule_as_written(self.schedule)
            raise UsageError(
                f"the keys are for an epoch of {epoch} and a window of {window}, and the service has "
                f"{' and '.join(schedule_as_written(schedule))}; start it with --epoch {epoch} --window {window}, or "
                "make keys for a new store ('nearveil keys create' with its --epoch and --window)"
            )

    def to_json(self) -> str:
        """Write the keys as one JSON document; keep it secret."""
        epoch_s, window_s = (int(part.total_seconds()) for part in (self.schedule.epoch, self.schedule.window))
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "noise": self.noise.hex(),
            "tokens": self.tokens.hex(),
            "schedule": {"epoch_s": epoch_s, "window_s": window_s},
        }
        return json.dumps(document, indent=1)


def new_keys(schedule: Schedule | None = None) -> SecretKeys:
    """Return fresh keys from the operating system's randomness, for a service with this schedule."""
    return SecretKeys(secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES), schedule or Schedule())


def keys_from_json(text: str) -> SecretKeys:
    """Read what `SecretKeys.to_json` wrote."""
    try:
        document = json.loads(text)
        if (document["format"], document["version"]) != (FORMAT, FORMAT_VERSION):
            raise KeyError("format")
        noise, tokens = (bytes.fromhex(document[name]) for name in ("noise", "tokens"))
        if min(len(noise), len(tokens)) < KEY_BYTES:
            raise ValueError("length")
        return SecretKeys(noise, tokens, _schedule_in(document))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError(_NO_KEYS) from None


def _schedule_in(document: dict[str, Any]) -> Schedule:
    lengths = [document["schedule"][name] for name in ("epoch_s", "window_s")]
    if any(type(length) is not int for length in lengths):
        raise TypeError("schedule")
    epoch, window = (timedelta(seconds=length) for length in lengths)
    return Schedule(epoch=epoch, window=window)


def read_keys(path: Path, schedule: Schedule | None = None) -> SecretKeys:
    """Read a key file; refuse one that others on this machine can read, or that is for another schedule."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise DataError(f"others can read the key file {path}; run 'chmod 600 {path}'")
        keys = keys_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the key file {path} cannot be read ({error.strerror}); name another, or make one") from None
    if schedule is not None:
        keys.check_schedule(schedule)
    return keys


def write_keys(path: Path, keys: SecretKeys) -> None:
    """Write a new key file that only its owner can read, whole or not at all."""
    make_secret_file(path, keys.to_json())


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


def place_tags(key: bytes, person: str, cells: Iterable[Cell], grid: float | str) -> list[bytes]:
    """Return by what the ledger recognises a person's places; ``grid`` is the grid's identity."""
    # What all of them have in common is hashed once: every report asks for several cells.
    common = hashlib.blake2b(_joined(b"nearveil place tag", person.encode()), digest_size=TAG_BYTES, key=key)
    tags = []
    for cell in cells:
        tag = common.copy()
        tag.update(_joined(_cell_bytes(cell, grid)))
        tags.append(tag.digest())
    return tags


def place_uniforms(words: WordArray) -> FloatArray:
    """Return the uniform numbers in [0, 1) that make the noise of people's places: shape (n, 3, 2)."""
    # The upper 53 bits, as NumPy's own generators do.
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(-1, 3, 2)


def place_words(key: bytes, places: Iterable[tuple[str, Cell]], grid: float | str, *, count: int) -> WordArray:
    """Return so many random 64-bit numbers for each of people's places, always the same: shape (n, count)."""
    drawn = b"".join(
        keyed_bytes(key, "nearveil place noise", person.encode(), _cell_bytes(cell, grid), size=8 * count)
        for person, cell in places
    )
    return np.frombuffer(drawn, dtype=">u8").astype(np.uint64).reshape(-1, count)


def _cell_bytes(cell: Cell, grid: float | str) -> bytes:
    # The grid is part of the place: another grid is another noise.
    return f"{' '.join(map(str, cell))} {grid!r}".encode()


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
