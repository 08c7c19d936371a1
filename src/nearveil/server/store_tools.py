"""What an operator does to the store of a service: check it, copy it, and repair its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearveil.errors import UsageError
from nearveil.nearby.publishing.intervals_in_use import set_intervals_back
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.publishing.publisher import OFFSET_SETTING, current_epoch
from nearveil.nearby.publishing.store_identity import refuse_other_store
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.backup import back_up, restore
from nearveil.nearby.stores.base import Ahead, Store
from nearveil.nearby.stores.published import PublishedReader, StoreState, reading_published
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
    """

    ahead: Ahead
    epoch: int
    now: float
    last_epoch_at: float
    next_epoch_at: float


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
    _refuse_missing(settings)
    store = open_store(settings.store)
    try:
        return _repair(store, settings, schedule, dry_run, clock())
    finally:
        store.close()


def _repair(store: Store, settings: Settings, schedule: Schedule, dry_run: bool, now: float) -> ClockRepair | None:
    offset = int(store.setting(OFFSET_SETTING) or 0)
    epoch = schedule.epoch_at(now) + offset
    window = schedule.window_of(epoch)
    ahead = store.set_back(epoch, window=window, dry_run=True)
    # One epoch ahead is what a process may be whose clock is a moment ahead of ours.
    if ahead.last_epoch is None or ahead.first_epoch is None or ahead.last_epoch <= epoch + 1:
        return None
    if ahead.first_epoch > epoch and settings.sources["epoch"] == "default":
        raise UsageError(
            "every epoch of this store is ahead of the clock; if the clock is right, say how long an epoch of the "
            "service is (--epoch, or --config)"
        )
    if not dry_run:
        set_intervals_back(store, epoch)
        store.set_back(epoch, window=window)
    return ClockRepair(
        ahead=ahead,
        epoch=epoch,
        now=now,
        last_epoch_at=schedule.starts_at(ahead.last_epoch - offset),
        next_epoch_at=schedule.starts_at(epoch + 1 - offset),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What a look at a store found.

    Attributes
    ----------
    state : StoreState
        How much it holds.
    sound : tuple of str
        What is in order.
    findings : tuple of str
        What is not, with what to do about it.
    """

    state: StoreState
    sound: tuple[str, ...]
    findings: tuple[str, ...]


def check_store(settings: Settings, *, clock: Callable[[], float] = time.time) -> StoreCheck:
    """Look whether a store is whole, fits its keys and settings, is not ahead of the clock, and is private.

    Nothing is written, and a service may be running on the store.
    """
    _refuse_missing(settings)
    with reading_published(settings.store) as reader:
        state = reader.state()
        looks = [_wholeness(state)]
        if not state.damage:
            looks += [_fit(reader, settings), _clock(reader, state, _schedule(settings), clock())]
    if not is_postgres(settings.store):
        looks.append(_privacy(Path(settings.store)))
    sound, findings = (tuple(text for is_sound, text in looks if is_sound is wanted) for wanted in (True, False))
    return StoreCheck(state=state, sound=sound, findings=findings)


def _wholeness(state: StoreState) -> tuple[bool, str]:
    if state.damage:
        return False, f"the store is damaged ({state.damage}): restore it from a backup"
    return True, "it is whole: no page is damaged, and every noisy location belongs to a person"


def _fit(reader: PublishedReader, settings: Settings) -> tuple[bool, str]:
    keys = settings.kept_keys()
    if keys is None:
        return False, "its keys were not checked, because no key file was found: name it with --keys"
    try:
        keys.check_schedule(settings.schedule)
        refuse_other_store(reader, settings.protection(), keys)
    except UsageError as error:
        return False, str(error)
    return True, "keys and settings are those that it was made with"


def _clock(reader: PublishedReader, state: StoreState, schedule: Schedule, now: float) -> tuple[bool, str]:
    # One epoch ahead is what a process may be whose clock is a moment ahead of ours.
    if state.last_epoch is not None and state.last_epoch > current_epoch(schedule, reader, now) + 1:
        return False, "it is ahead of this machine's clock: set the clock right, or see 'nearveil store repair-clock'"
    return True, "it is not ahead of this machine's clock"


def _privacy(store: Path) -> tuple[bool, str]:
    beside = (store, store.with_name(f"{store.name}-wal"), store.parent / "keys.json")
    for path in beside:
        if path.exists() and path.stat().st_mode & 0o077:
            return False, f"others on this machine can read {path}: run 'chmod 600 {path}'"
    return True, "only its owner can read it"


_WITH_ITS_OWN_TOOLS = (
    "a database is copied with PostgreSQL's own tools: use 'pg_dump --format=custom --schema=nearveil' and "
    "'pg_restore', as docs/guides/operating.md shows"
)


def back_up_store(settings: Settings, target: Path) -> StoreState:
    """Copy a SQLite store to a new file, also while its service runs."""
    if is_postgres(settings.store):
        raise UsageError(_WITH_ITS_OWN_TOOLS)
    return back_up(Path(settings.store), target)


def restore_store(settings: Settings, backup: Path) -> StoreState:
    """Copy a backup to where the SQLite store of the settings is to be."""
    if is_postgres(settings.store):
        raise UsageError(_WITH_ITS_OWN_TOOLS)
    return restore(backup, Path(settings.store))


def _refuse_missing(settings: Settings) -> None:
    if not is_postgres(settings.store) and not Path(settings.store).exists():
        raise UsageError("there is no such store; name the store of the service")


def _schedule(settings: Settings) -> Schedule:
    """Return the schedule of a service: that of its key file, unless the settings say otherwise."""
    chosen, keys = settings.schedule, settings.kept_keys()
    if keys is None:
        return chosen
    if {settings.sources["epoch"], settings.sources["window"]} == {"default"}:
        return keys.schedule
    keys.check_schedule(chosen)
    return chosen
