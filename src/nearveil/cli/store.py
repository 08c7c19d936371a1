"""``nearveil store``: look after the store of a service."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._output import say, warn
from nearveil.server.settings import Settings
from nearveil.server.store_tools import ClockRepair, repair_clock

store_app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Look after the store of a service.")

_StoreArgument = Annotated[
    str | None,
    typer.Argument(
        help="Store of the service: a SQLite file, or postgresql://…; with a password, put it into NEARVEIL_STORE.",
        metavar="[STORE]",
        show_default=False,
    ),
]


@store_app.callback()
def _group() -> None:
    """Look after the store of a service."""


@store_app.command(name="repair-clock")
def repair_the_clock(
    store: _StoreArgument = None,
    config: Annotated[Path | None, typer.Option(help="Settings file of the service (TOML).", metavar="FILE")] = None,
    epoch: Annotated[str | None, typer.Option(help="Length of an epoch of the service.", metavar="TIME")] = None,
    window: Annotated[str | None, typer.Option(help="Length of its budget window.", metavar="TIME")] = None,
    keys: Annotated[Path | None, typer.Option(help="Key file of the service.", metavar="FILE")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Change the store, and do not only say what would change.")
    ] = False,
) -> None:
    """Set a store back to this machine's clock, after it was used with a clock that was ahead.

    Such a store publishes nothing, and its service takes no reports, until the time of the wrong clock has come. Set
    the clock right and stop the service first. Epoch and window are read from the key file, if there is one.
    """
    options = {"store": store, "epoch": epoch, "window": window, "keys": keys}
    found = repair_clock(Settings.load(config, os.environ, options), dry_run=not yes)
    if found is None:
        say("the store is not ahead of this machine's clock; nothing was changed")
        return
    for line in _lines(found):
        say(line)
    if found.forgets_charges:
        warn(
            "the clock was ahead by more than a budget window, so the ledger has forgotten which places of this window "
            "were charged: they count as new once more. Their noise is the same"
        )
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
