"""What a store was made with: another key, region or strength of the noise would silently change everybody's noise.

The store remembers a keyed digest of all that its noise comes from, by which anything else is noticed. Beside it are
the settings in words, which are public, so that an error can say which of them differs and what it was.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from typing import Protocol

from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import SecretKeys, keyed_bytes, schedule_as_written
from nearveil.nearby.publishing.protection import Protection, cells_digest
from nearveil.nearby.stores.base import Store
from nearveil.region import NAMED_REGIONS

IDENTITY_SETTING = "identity"
FRAME_SETTING = "identity of region and schedule"
MADE_WITH_SETTING = "settings that the store was made with"
REDRAWN_SETTING = "noise drawn anew in window"
NOISE_SETTING = "identity of the noise"

OTHER_NOISE = (
    "the key of the noise is not the one that this store was used with; start with the keys that it was used with"
)
_REDRAWS = (
    "with that everybody's noise is drawn anew, which is a further release of every place and charged as a new place"
)
_ANOTHER_KEY_FILE = (
    "this store was made with another key file, and with this one people's noise would change; start with that key "
    "file, or with another store"
)


class KeptSettings(Protocol):
    """What says with what a store was made: an open `Store`, or a reader of one."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the store."""


class OtherStoreError(UsageError):
    """A store was made, or used, with something else than it is opened with now.

    Attributes
    ----------
    made_with : str
        The options that differ, with the values that the store was made with; empty if none does.
    """

    def __init__(self, message: str, *, made_with: str = "") -> None:
        super().__init__(message)
        self.made_with = made_with


def refuse_other_store(store: KeptSettings, protection: Protection, keys: SecretKeys, *, redraw: bool = False) -> None:
    """Raise if a store was made with something else, or used with another key.

    Nothing is written. With ``redraw``, another noise, hide-among or other cells are accepted.
    """
    kept, has_frame = store.setting(IDENTITY_SETTING), _has_frame(store, protection, keys)
    if kept is not None and not (redraw and has_frame) and not hmac.compare_digest(kept, _identity(protection, keys)):
        raise _other_store(store, protection, has_frame=has_frame)
    noise = store.setting(NOISE_SETTING)
    if noise is not None and not hmac.compare_digest(noise, _noise_identity(keys)):
        raise OtherStoreError(OTHER_NOISE)


def check_identity(store: Store, protection: Protection, keys: SecretKeys) -> None:
    """Remember what the noise comes from; raise if the store remembers otherwise."""
    refuse_other_store(store, protection, keys)
    # Another process may be on the store, and faster.
    identity = _identity(protection, keys)
    if not hmac.compare_digest(store.settle(IDENTITY_SETTING, identity), identity):
        raise _other_store(store, protection, has_frame=False)
    store.settle(FRAME_SETTING, _frame(protection, keys))
    if not settle_noise(store, keys):
        raise OtherStoreError(OTHER_NOISE)
    _keep_settings(store, protection)


def redraw_noise(store: Store, protection: Protection, keys: SecretKeys, windows: Iterable[int]) -> bool:
    """Let a store go on with another noise, hide-among or other cells from now on; whether that is a change.

    Everybody's noise is drawn anew with their next report. The ledger charges that as a new place, in the budget of
    the window in which the former places were charged: the losses add up, and `was_redrawn` says so for these windows.
    """
    kept = store.setting(IDENTITY_SETTING)
    if kept is None or hmac.compare_digest(kept, _identity(protection, keys)):
        return False
    refuse_other_store(store, protection, keys, redraw=True)
    # Before the change itself: what is said too early does no harm.
    for window in windows:
        store.keep_setting(f"{REDRAWN_SETTING} {window}", "yes")
    store.keep_setting(IDENTITY_SETTING, _identity(protection, keys))
    _keep_settings(store, protection)
    return True


def was_redrawn(store: KeptSettings, window: int) -> bool:
    """Whether noise of two kinds was drawn for places of a window."""
    return store.setting(f"{REDRAWN_SETTING} {window}") is not None


def settle_noise(store: Store, keys: SecretKeys) -> bool:
    """Remember the key of the noise; whether it is the one that the store remembers."""
    identity = _noise_identity(keys)
    return hmac.compare_digest(store.settle(NOISE_SETTING, identity), identity)


def _noise_identity(keys: SecretKeys) -> str:
    return _short_digest(keys.noise, "nearveil noise identity")


def _identity(protection: Protection, keys: SecretKeys) -> str:
    # Keyed, so that the setting tells nothing to a reader of the store.
    return _short_digest(keys.tokens, "nearveil store identity", *protection.fixed)


def _has_frame(store: KeptSettings, protection: Protection, keys: SecretKeys) -> bool:
    kept = store.setting(FRAME_SETTING)
    return kept is not None and hmac.compare_digest(kept, _frame(protection, keys))


def _frame(protection: Protection, keys: SecretKeys) -> str:
    return _short_digest(keys.tokens, "nearveil store frame", *protection.frame)


def _short_digest(key: bytes, purpose: str, *parts: str) -> str:
    return keyed_bytes(key, purpose, *(part.encode() for part in parts))[:16].hex()


# -- which setting differs


def settings_in_words(protection: Protection) -> dict[str, str]:
    """Return the settings that a store's noise depends on, as options of the service.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> settings_in_words(Protection(region=named_region("berlin")))["strength"]
    '--noise 500m'
    """
    region, among = protection.region, protection.among
    edges = (region.south, region.west, region.north, region.east)
    name = next((name for name, known in NAMED_REGIONS.items() if known == edges), ",".join(map(repr, edges)))
    epoch, window = schedule_as_written(protection.schedule)
    if among is None:
        strength = f"--noise {str(protection.noise_m).removesuffix('.0')}m"
    else:
        strength = f"--hide-among {among.hide_among} and cells of SHA-256 {cells_digest(among.current_cells)[:12]}"
    return {
        "region": f"--region {name}",
        "strength": strength,
        "epoch": f"--epoch {epoch}",
        "window": f"--window {window}",
    }


def _keep_settings(store: Store, protection: Protection) -> None:
    made_with = json.dumps(settings_in_words(protection))
    if store.setting(MADE_WITH_SETTING) != made_with:
        store.keep_setting(MADE_WITH_SETTING, made_with)


def _other_store(store: KeptSettings, protection: Protection, *, has_frame: bool) -> OtherStoreError:
    """Return the error that names the settings that differ, those of the store first."""
    # A process that is opening the store at this moment may not have kept it yet.
    before: Mapping[str, str] = json.loads(store.setting(MADE_WITH_SETTING) or "{}")
    given = settings_in_words(protection)
    differing = [name for name in given if before.get(name) != given[name]]
    if not differing:
        return OtherStoreError(_ANOTHER_KEY_FILE)
    made_with = " and ".join(before.get(name, name) for name in differing)
    wanted = " and ".join(given[name] for name in differing)
    differs = f"this store was made with {made_with}, and the service is given {wanted}"
    never = " and ".join(name for name in differing if name != "strength")
    if has_frame:
        advice = f"{_REDRAWS}; start with {made_with}, or add --redraw-noise"
    elif never:
        advice = f"a store keeps its {never} for good; start with {made_with}, or with another store"
    else:
        advice = f"the key file is another one too; start with {made_with} and the store's key file"
    return OtherStoreError(f"{differs}; {advice}", made_with=made_with)
