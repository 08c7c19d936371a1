"""What a store was made with: another key, region or grid would silently change everybody's noise."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import Keys
from nearveil.nearby.publishing.noise import keyed_bytes
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.stores.base import Store

IDENTITY_SETTING = "identity"
NOISE_SETTING = "identity of the noise of window"

_OTHER_PROTECTION = (
    "this store was made with another key file, region, policy, hide-within, epoch or window, and with these people's "
    "noise would change; start with those, or with another store"
)
_OTHER_NOISE = (
    "the key of the noise is not the one that this store was used with in this window; start with the keys that it was "
    "used with, or, if the newest key came too late, let it begin later ('nearveil keys postpone FILE --store ADDRESS')"
)


def check_identity(store: Store, protection: Protection, keys: Keys, window: int) -> None:
    """Remember what the noise of a window comes from; raise if the store remembers otherwise."""
    _check(store, IDENTITY_SETTING, _made_with(protection, keys), _OTHER_PROTECTION)
    _check(store, _noise_setting(window), _noise_identity(keys, window), _OTHER_NOISE)


def noise_in_use(store: Store, keys: Keys, window: int) -> bool | None:
    """Whether the store was used in a window with the key that these keys have for it; None if it was not used then."""
    settled = store.setting(_noise_setting(window))
    return None if settled is None else hmac.compare_digest(settled, _noise_identity(keys, window))


def check_postponable(store: Store, keys: Keys, postponed: Keys, windows: Iterable[int]) -> None:
    """Refuse to postpone a key unless the store was used in one of these windows with the key before it instead."""
    windows = list(windows)
    if any(noise_in_use(store, keys, window) for window in windows):
        raise UsageError("the newest key is in use, so that no service missed it; nothing was changed")
    if not any(noise_in_use(store, postponed, window) for window in windows):
        raise UsageError(
            "the store was not used with the key before the newest one in this window; nothing was changed, start the "
            "service with this file, or name its store with --store"
        )


def _noise_setting(window: int) -> str:
    return f"{NOISE_SETTING} {window}"


def _noise_identity(keys: Keys, window: int) -> str:
    return _digest(keys.noise_key(window), "nearveil noise identity", str(window))


def _check(store: Store, name: str, identity: str, complaint: str) -> None:
    if not hmac.compare_digest(store.settle(name, identity), identity):
        raise UsageError(complaint)


def _made_with(protection: Protection, keys: Keys) -> str:
    # Keyed, so that the setting tells nothing to whoever reads the store; the tokens' key outlives rotations.
    return _digest(keys.tokens, "nearveil store identity", *protection.fixed)


def _digest(key: bytes, purpose: str, *parts: str) -> str:
    return keyed_bytes(key, purpose, *(part.encode() for part in parts))[:16].hex()
