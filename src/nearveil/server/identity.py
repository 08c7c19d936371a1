"""What a store was made with: another key, region or grid would silently change everybody's noise."""

from __future__ import annotations

import hmac

from nearveil.errors import UsageError
from nearveil.nearby.publishing.keyed import keyed_bytes
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.secret_keys import Keys
from nearveil.nearby.stores.base import Store

IDENTITY_SETTING = "identity"
NOISE_SETTING = "identity of the noise of window"

_OTHER_PROTECTION = (
    "this store was made with another key file, region, policy, hide-within, epoch or window, and with these people's "
    "noise would change; start with those, or with another store"
)
_OTHER_NOISE = (
    "the key of the noise is not the one that this store was used with in this window; start with the right key file, "
    "or let a key that was added too late begin with the next window ('nearveil keys postpone')"
)


def check_identity(store: Store, protection: Protection, keys: Keys, window: int) -> None:
    """Remember what the noise of a window comes from; raise if the store remembers otherwise."""
    _check(store, IDENTITY_SETTING, _made_with(protection, keys), _OTHER_PROTECTION)
    noise = _digest(keys.noise_key(window), "nearveil noise identity", str(window))
    _check(store, f"{NOISE_SETTING} {window}", noise, _OTHER_NOISE)


def _check(store: Store, name: str, identity: str, complaint: str) -> None:
    if not hmac.compare_digest(store.settle(name, identity), identity):
        raise UsageError(complaint)


def _made_with(protection: Protection, keys: Keys) -> str:
    region, schedule = protection.region, protection.schedule
    # Keyed, so that the setting tells nothing to whoever reads the store; the tokens' key outlives rotations.
    parts = (
        repr((region.south, region.west, region.north, region.east)),
        str(protection.policy),
        repr(protection.hide_within_m),
        repr((schedule.epoch_s, schedule.epochs_per_window)),
    )
    return _digest(keys.tokens, "nearveil store identity", *parts)


def _digest(key: bytes, purpose: str, *parts: str) -> str:
    return keyed_bytes(key, purpose, *(part.encode() for part in parts))[:16].hex()
