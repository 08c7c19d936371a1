"""SecretKeys: what the noise, the tokens and the order of equals are keyed with. Never printed, never logged."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.nearby.publishing.keyed import keyed_bytes

FORMAT = "nearveil-keys"
FORMAT_VERSION = 1
KEY_BYTES = 32

_NO_KEYS = "these are no Nearveil keys, or damaged ones; restore the file, or make new ones with 'nearveil keys create'"


class Keys(Protocol):
    """What a service needs of its keys: `SecretKeys`, or a `KeyFile` that follows rotations."""

    @property
    def tokens(self) -> bytes:
        """The key that signs people's tokens."""

    def noise_key(self, window: int) -> bytes:
        """Return the key in use in a window."""

    def tie_key(self, window: int, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """A key and the window from which on it is used."""

    from_window: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """All secrets of a service. Whoever has them and the store can find out where people were.

    Parameters
    ----------
    noise : tuple of NoiseKey
        In the order of their windows.
    tokens : bytes
        Signs people's tokens; it does not change when the noise's key does.
    """

    noise: tuple[NoiseKey, ...] = field(repr=False)
    tokens: bytes = field(repr=False)

    def noise_key(self, window: int) -> bytes:
        """Return the key in use in a window."""
        usable = [key for key in self.noise if key.from_window <= window]
        return (usable[-1] if usable else self.noise[0]).secret

    def tie_key(self, window: int, epoch: int) -> bytes:
        """Return 16 bytes that order people at one distance, others in every epoch."""
        return tie_key_from(self.noise_key(window), epoch)

    def rotated(self, from_window: int) -> SecretKeys:
        """Return the same with a fresh key for the noise from a window on; keys of windows gone by are dropped."""
        current = [key for key in self.noise if key.from_window < from_window][-1:]
        return replace(self, noise=(*current, NoiseKey(from_window, secrets.token_bytes(KEY_BYTES))))

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
        document = {"format": FORMAT, "version": FORMAT_VERSION, "noise": noise, "tokens": self.tokens.hex()}
        return json.dumps(document, indent=1)


def tie_key_from(noise_key: bytes, epoch: int) -> bytes:
    """Return 16 bytes that order people at one distance in an epoch."""
    return keyed_bytes(noise_key, "nearveil ties", str(epoch).encode())[:16]


def new_keys() -> SecretKeys:
    """Return fresh keys from the operating system's randomness."""
    first = NoiseKey(0, secrets.token_bytes(KEY_BYTES))
    return SecretKeys(noise=(first,), tokens=secrets.token_bytes(KEY_BYTES))


def keys_from_json(text: str) -> SecretKeys:
    """Read what `SecretKeys.to_json` wrote."""
    try:
        document = json.loads(text)
        if (document["format"], document["version"]) != (FORMAT, FORMAT_VERSION):
            raise KeyError("format")
        noise = tuple(NoiseKey(int(key["from_window"]), bytes.fromhex(key["secret"])) for key in document["noise"])
        keys = SecretKeys(noise=noise, tokens=bytes.fromhex(document["tokens"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(_NO_KEYS) from None
    windows = [key.from_window for key in keys.noise]
    long_enough = all(len(secret) >= KEY_BYTES for secret in (keys.tokens, *(key.secret for key in keys.noise)))
    if not windows or windows != sorted(set(windows)) or not long_enough:
        raise DataError(_NO_KEYS)
    return keys


def read_keys(path: Path) -> SecretKeys:
    """Read a key file; refuse one that others on this machine can read."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise DataError(f"others can read the key file {path}; run 'chmod 600 {path}'")
        return keys_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the key file {path} cannot be read ({error.strerror}); name another, or make one") from None


def write_keys(path: Path, keys: SecretKeys, *, replace_existing: bool = False) -> None:
    """Write a key file that only its owner can read, whole or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(keys.to_json())
            file.flush()
            os.fsync(file.fileno())
        if replace_existing:
            partial.replace(path)
        else:
            # Unlike a rename, a link never replaces a key that somebody made meanwhile.
            path.hardlink_to(partial)
    except OSError as error:
        raise OutputError(f"the key file {path} cannot be written ({error.strerror}); choose another place") from None
    finally:
        partial.unlink(missing_ok=True)
