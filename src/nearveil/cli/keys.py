"""``nearveil keys``: the secrets of a service, and the keys of the platforms that may use it."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.console import say, warn
from nearveil.errors import DataError, UsageError
from nearveil.nearby.publishing.schedule import Schedule
from nearveil.nearby.publishing.secret_keys import new_keys, read_keys, write_keys
from nearveil.nearby.stores.opening import open_store
from nearveil.server.access import new_platform_key
from nearveil.server.settings import Settings
from nearveil.server.settings_values import duration

keys_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Make and change the secrets of a service, and the keys of the platforms that may use it.",
)

_FileArgument = Annotated[Path, typer.Argument(help="The key file.", metavar="FILE")]


@keys_app.command()
def create(file: _FileArgument) -> None:
    """Make a file with fresh keys, which only its owner can read. An existing file is left alone."""
    write_keys(file, new_keys())
    say(f"keys written to {file}; keep a copy where nobody else can read it: without it places are drawn anew")


@keys_app.command()
def rotate(
    file: _FileArgument,
    *,
    epoch: Annotated[str, typer.Option(help="Epoch of the service, as in its settings.", metavar="TIME")] = "1h",
    window: Annotated[str, typer.Option(help="Window of the service, as in its settings.", metavar="TIME")] = "30d",
) -> None:
    """Add a key for the noise from the next window on, and drop keys of windows gone by.

    Restart the service before that window begins. People's tokens stay valid.
    """
    schedule = Schedule(epoch=duration(epoch, "--epoch"), window=duration(window, "--window"))
    # A report of the last epoch of a window is published in the next one: that one may be in use already.
    following = schedule.window_of(schedule.epoch_at(time.time()) + 1) + 1
    keys = read_keys(file)
    if keys.noise[-1].from_window >= following:
        raise UsageError("there is a key for the next window already; rotate again when it has begun")
    write_keys(file, keys.rotated(following), replace_existing=True)
    begins = schedule.starts_at(following * schedule.epochs_per_window)
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begins))
    say(f"a new key is used from {moment} on; restart the service before")


@keys_app.command()
def platform(
    *,
    store: Annotated[
        str | None,
        typer.Option(
            help="The service's store: a SQLite file, or postgresql://…",
            metavar="ADDRESS",
            envvar="NEARVEIL_STORE",
            show_default=Settings().store,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Make a key of this name, or replace it.", metavar="NAME")] = None,
    remove: Annotated[str | None, typer.Option(help="Remove the key of this name.", metavar="NAME")] = None,
) -> None:
    """Make a platform's key and print it, once; or remove one.

    A service on PostgreSQL notices within seconds; stop one on an embedded store first.
    """
    if (name is None) == (remove is None):
        raise UsageError("name the key to make with --name, or the one to remove with --remove")
    with closing(open_store(store or Settings().store)) as opened:
        if remove is not None:
            if not opened.remove_key(remove):
                raise DataError("there is no key of that name; nothing was changed")
            say("the key was removed")
        elif name is not None:
            secret, kept = new_platform_key(name)
            opened.add_key(kept)
            warn("this key is shown once and kept nowhere; whoever has it may do everything with the service")
            say(secret)
