"""What an operator does to the store of a service that is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearveil.errors import UsageError
from nearveil.nearby.publishing.intervals_in_use import IntervalsInUse
from nearveil.nearby.publishing.keys import SecretKeys, keys_from_json, read_keys
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.publishing.publisher import OFFSET_SETTING
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import Ahead, Store
from nearveil.region import parse_region
from nearveil.server.setting_types import PERMANENT, duration
from nearveil.server.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRepair:
    """What the repair of a store changes, or has changed.

    Attributes
    ----------
    ahead : Ahead
        What the store held of epochs that have not begun.
    epoch : int
        The epoch that the clock is in.
    now, last_epoch_at, next_epoch_at : float
        The clock, the beginning of the store's last epoch before the repair, and the next boundary, in seconds since
        1970.
    forgets_charges : bool
        Whether the clock was so far ahead that the ledger has forgotten which places of this window were charged.
    """

    ahead: Ahead
    epoch: int
    now: float
    last_epoch_at: float
    next_epoch_at: float
    forgets_charges: bool


def repair_clock(
    settings: Settings, *, dry_run: bool = True, clock: Callable[[], float] = time.time
) -> ClockRepair | None:
    """Set a store back to the clock's epoch, if a clock was ahead when it was used; None if it is not ahead.

    The last epoch, the epochs of published locations and of those that wait, and the beginning of intervals are set
    back. Places, charges, keys and budgets stay: a place that was drawn is found by its tag and not drawn again.

    Parameters
    ----------
    settings : Settings
        Of the service: the store, and epoch and window or the key file that has them.
    dry_run : bool
        Change nothing.
    clock : callable, optional
        Seconds since 1970.
    """
    schedule = _schedule(settings)
    if not is_postgres(settings.store) and not Path(settings.store).exists():
        raise UsageError("there is no such store; name the store of the service")
    store = open_store(settings.store)
    try:
        return _repair(store, settings, schedule, dry_run, clock())
    finally:
        store.close()


def _repair(store: Store, settings: Settings, schedule: Schedule, dry_run: bool, now: float) -> ClockRepair | None:
    offset = int(store.setting(OFFSET_SETTING) or 0)
    epoch = schedule.epoch_at(now) + offset
    oldest_window = schedule.window_of(epoch) - 1
    ahead = store.set_back(epoch, oldest_window=oldest_window, dry_run=True)
    # One epoch ahead is what a process may be whose clock is a moment ahead of ours.
    if ahead.last_epoch is None or ahead.first_epoch is None or ahead.last_epoch <= epoch + 1:
        return None
    if ahead.first_epoch > epoch and settings.sources["epoch"] == "default":
        raise UsageError(
            "every epoch of this store is ahead of the clock; if the clock is right, say how long an epoch of the "
            "service is (--epoch, or --config)"
        )
    if not dry_run:
        IntervalsInUse(store, parse_region(settings.region)).set_back(epoch)
        store.set_back(epoch, oldest_window=oldest_window)
    return ClockRepair(
        ahead=ahead,
        epoch=epoch,
        now=now,
        last_epoch_at=schedule.starts_at(ahead.last_epoch - offset),
        next_epoch_at=schedule.starts_at(epoch + 1 - offset),
        # Noise that lasts for good is known for good.
        forgets_charges=settings.noise_lifetime != PERMANENT
        and schedule.window_of(ahead.last_epoch) - 1 > schedule.window_of(epoch),
    )


def _schedule(settings: Settings) -> Schedule:
    """Return the schedule of a service: that of its key file, unless the settings say otherwise."""
    chosen = Schedule(epoch=duration(settings.epoch), window=duration(settings.window))
    keys = _keys(settings)
    if keys is None or keys.schedule is None:
        return chosen
    if {settings.sources["epoch"], settings.sources["window"]} == {"default"}:
        return keys.schedule
    keys.check_schedule(chosen)
    return chosen


def _keys(settings: Settings) -> SecretKeys | None:
    if settings.keys_text is not None:
        return keys_from_json(settings.keys_text)
    if settings.keys is not None:
        return read_keys(settings.keys)
    beside = Path(settings.store).parent / "keys.json"
    return read_keys(beside) if not is_postgres(settings.store) and beside.exists() else None
