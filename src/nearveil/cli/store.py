"""``nearveil store``: look after the store of a service."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import group, option
from nearveil.cli._options import FILE
from nearveil.cli._output import say, warn
from nearveil.server.settings import Settings
from nearveil.server.store_tools import ClockRepair, back_up_store, check_store, repair_clock, restore_store

_store_argument = click.argument(
    "store",
    metavar="[STORE]",
    required=False,
    help="Store of the service: a SQLite file, or postgresql://…; with a password, put it into NEARVEIL_STORE.",
)
_store_option = option("--store", metavar="FILE", help="Store of the service: a SQLite file.")
_config_option = option("--config", type=FILE, metavar="FILE", help="Settings file of the service (TOML).")
_keys_option = option("--keys", type=FILE, metavar="FILE", help="Key file of the service.")
_UNSOUND = 3


@group(name="store")
def store() -> None:
    """Look after the store of a service."""


@store.command()
@_store_argument
@_config_option
@_keys_option
def check(config: Path | None, **options: Any) -> None:
    """Look whether a store is whole, fits its keys and settings, and is private; exit code 3 if not.

    Nothing is changed, and the service may be running. Give it the settings of the service: the same settings file and
    NEARVEIL_… variables. A backup can be checked too.
    """
    found = check_store(Settings.load(config, os.environ, options))
    state = found.state
    say(
        f"tables of version {state.version}; {state.people:,} people, {state.published:,} published, "
        f"{state.pending:,} noisy location(s) wait"
    )
    for line in found.sound:
        say(f"in order: {line}")
    for line in found.findings:
        warn(line)
    if found.findings:
        raise click.exceptions.Exit(_UNSOUND)


@store.command()
@click.argument("file", type=FILE, metavar="FILE", help="New file for the backup.")
@_store_option
@_config_option
def backup(file: Path, config: Path | None, **options: Any) -> None:
    """Copy a SQLite store to FILE, which only its owner can read. The service may be running.

    The backup holds ids, noisy locations, keyed tags and the ledger, as the store does. The key file is not in it:
    keep a copy of it elsewhere, because both together tell where people were.
    """
    state = back_up_store(Settings.load(config, os.environ, options), file)
    say(f"{state.people:,} people and {state.published:,} published locations are in {file}; the key file is not")


@store.command()
@click.argument("file", type=FILE, metavar="FILE", help="File from 'store backup'.")
@_store_option
@_config_option
def restore(file: Path, config: Path | None, **options: Any) -> None:
    """Copy a backup to where the store of a service is to be. The service must not run, and no store be there.

    What happened since the backup is undone: see the warnings.
    """
    state = restore_store(Settings.load(config, os.environ, options), file)
    say(f"{state.people:,} people and {state.published:,} published locations were restored")
    for undone in _UNDONE:
        warn(undone)


_UNDONE = (
    "people who were erased since the backup are there again: erase them once more",
    "platform keys that were removed since, and tokens that were revoked since, work again: remove and revoke them",
    "new places since are not in the ledger, so that this window's budget is larger than promised: start the service "
    "in the next window",
    "phones whose reports are chained have later receipts and are refused: revoke their tokens",
)


@store.command("repair-clock")
@_store_argument
@_config_option
@option("--epoch", metavar="TIME", help="Length of an epoch of the service.")
@option("--window", metavar="TIME", help="Length of its budget window.")
@_keys_option
@option("--yes", is_flag=True, help="Change the store, and do not only say what would change.")
def repair_the_clock(config: Path | None, *, yes: bool, **options: Any) -> None:
    """Set a store back to this machine's clock, after it was used with a clock that was ahead.

    Such a store publishes nothing, and its service takes no reports, until the time of the wrong clock has come. Set
    the clock right and stop the service first. Epoch and window are read from the key file, if there is one.
    """
    found = repair_clock(Settings.load(config, os.environ, options), dry_run=not yes)
    if found is None:
        say("the store is not ahead of this machine's clock; nothing was changed")
        return
    for line in _lines(found):
        say(line)
    say("the store was changed; start the service" if yes else "nothing was changed; if this clock is right, add --yes")


def _lines(found: ClockRepair) -> list[str]:
    ahead, boundary = found.ahead, _moment(found.next_epoch_at)
    return [
        f"this machine's clock: {_moment(found.now)}; the store's last epoch began: {_moment(found.last_epoch_at)}",
        f"set back: {ahead.epochs:,} epoch(s) that lie ahead; the next boundary is at {boundary}",
        f"published then: {ahead.published:,} noisy location(s); they stay where they are, and count as of this epoch",
        f"waiting for a later epoch: {ahead.pending:,} noisy location(s); they are published at {boundary}",
        "what was charged stays charged, also in a later budget window; nobody's noise is drawn a second time",
    ]


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
