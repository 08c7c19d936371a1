"""``nearveil keys``: the secrets of a service, and the keys of the platforms that may use it."""

from __future__ import annotations

import os
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

keys_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Make and change the secrets of a service, and the keys of the platforms that may use it.",
)

_FileArgument = Annotated[Path, typer.Argument(help="The key file.", metavar="FILE")]


_ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file of the service, TOML.", metavar="FILE")
]
_EpochOption = Annotated[
    str | None, typer.Option("--epoch", help="Epoch of the service.", metavar="TIME", show_default=Settings().epoch)
]
_WindowOption = Annotated[
    str | None, typer.Option("--window", help="Window of the service.", metavar="TIME", show_default=Settings().window)
]


@keys_app.command()
def create(file: _FileArgument) -> None:
    """Make a file with fresh keys, which only its owner can read. An existing file is left alone."""
    write_keys(file, new_keys())
    say(f"keys written to {file}; keep a copy where nobody else can read it: without it places are drawn anew")


@keys_app.command()
def rotate(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Add a key for the noise from the next window on, and drop keys of windows gone by.

    A running service that reads this file takes it by itself; one with keys from NEARVEIL_KEYS is to be restarted
    before that window begins. People's tokens stay valid. Epoch and window are those of the service's settings.
    """
    schedule = _schedule(config, epoch, window)
    following = _next_unused(schedule)
    keys = read_keys(file)
    if keys.noise[-1].from_window >= following:
        raise UsageError("there is a key for the next window already; rotate again when it has begun")
    write_keys(file, keys.rotated(following), replace_existing=True)
    say(f"a new key is used from {_beginning(schedule, following)} on; keep a copy of the file")


@keys_app.command()
def postpone(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Let the newest key begin with the next window: where a service was not given it in time.

    A service refuses a key that differs from the one that its store was used with in the same window.
    """
    schedule = _schedule(config, epoch, window)
    following = _next_unused(schedule)
    write_keys(file, read_keys(file).postponed(following), replace_existing=True)
    say(f"the newest key is used from {_beginning(schedule, following)} on")


@keys_app.command()
def prune(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Drop keys of windows gone by, so that nobody can find out any more which places people visited in them.

    Copies of the file are yours to destroy.
    """
    schedule = _schedule(config, epoch, window)
    before = read_keys(file)
    after = before.pruned(schedule.window_of(schedule.epoch_at(time.time())))
    if after == before:
        say("there is no key of a window gone by; nothing was changed")
        return
    write_keys(file, after, replace_existing=True)
    say(f"{len(before.noise) - len(after.noise)} old key(s) dropped; destroy copies of the file too")


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

    A service on PostgreSQL notices within seconds. An embedded store belongs to the service while it runs: stop it, or
    use POST and DELETE /v1/platform-keys/NAME with a key that works.
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


def _schedule(config: Path | None, epoch: str | None, window: str | None) -> Schedule:
    """Return the service's schedule, from where the service itself takes it."""
    return Settings.load(config, os.environ, {"epoch": epoch, "window": window}).protection().schedule


def _next_unused(schedule: Schedule) -> int:
    # A report of the last epoch of a window is published in the next one: that one may be in use already.
    return schedule.window_of(schedule.epoch_at(time.time()) + 1) + 1


def _beginning(schedule: Schedule, window: int) -> str:
    begins = schedule.starts_at(window * schedule.epochs_per_window)
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begins))
