"""``nearveil keys``: the secrets of a service, and the keys of the platforms that may use it."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._output import say, warn
from nearveil.errors import DataError, UsageError
from nearveil.nearby.publishing.keys import (
    SecretKeys,
    check_postponable,
    new_keys,
    read_keys,
    schedule_as_written,
    write_keys,
)
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import Store
from nearveil.server.auth import new_platform_key
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
_EpochOption = Annotated[str | None, typer.Option("--epoch", help="Epoch of the service.", metavar="TIME")]
_WindowOption = Annotated[str | None, typer.Option("--window", help="Window of the service.", metavar="TIME")]
_StoreOption = Annotated[
    str | None,
    typer.Option(
        help="The service's store: a SQLite file, or postgresql://…",
        metavar="ADDRESS",
        envvar="NEARVEIL_STORE",
        show_default=Settings().store,
    ),
]


@keys_app.command()
def create(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Make a file with fresh keys, which only its owner can read. An existing file is left alone.

    The keys are for the epoch and the window of one service, from its settings: 1h and 30d if they do not say.
    """
    schedule = _settings(config, epoch, window).protection().schedule
    write_keys(file, new_keys(schedule))
    say(f"keys for {_in_words(schedule)} written to {file}")
    say("keep a copy where nobody else can read it: without it places are drawn anew")


@keys_app.command()
def rotate(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Add a key for the noise from the next window on, and drop keys of windows gone by.

    A running service that reads this file takes it by itself; one with keys from NEARVEIL_KEYS is to be restarted
    before that window begins. People's tokens stay valid. Epoch and window are those that the file is for.
    """
    keys = read_keys(file)
    schedule = _schedule(keys, _settings(config, epoch, window))
    following = _next_unused(schedule)
    rotated = keys.rotated(following, in_use_window=_current(schedule))
    write_keys(file, replace(rotated, schedule=schedule), replace_existing=True)
    say(f"a new key is used from {_beginning(schedule, following)} on; keep a copy of the file")


@keys_app.command()
def postpone(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
    store: _StoreOption = None,
) -> None:
    """Let the newest key begin with the next window: where a service was not given it in time.

    A service refuses a key that differs from the one that its store was used with in the same window. The store says
    which one that was; an embedded one belongs to the service while it runs: stop it first.
    """
    keys = read_keys(file)
    settings = _settings(config, epoch, window, store)
    schedule = _schedule(keys, settings)
    following = _next_unused(schedule)
    postponed = keys.postponed(following)
    if keys.noise[-1].from_window >= following:
        raise UsageError("the newest key is not to be used yet, so that no service missed it; nothing was changed")
    with closing(_open_existing(settings.store)) as opened:
        # In the last epoch of a window the next one is in use too.
        in_use = range(max(_current(schedule), keys.noise[-1].from_window), following)
        check_postponable(opened, keys, postponed, in_use)
        write_keys(file, postponed, replace_existing=True)
    say(f"the newest key is used from {_beginning(schedule, following)} on")


@keys_app.command()
def prune(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Drop keys of windows gone by, so that nobody can find out any more which places people visited in them.

    Copies of the file are yours to destroy. Epoch and window are those that the file is for.
    """
    before = read_keys(file)
    after = before.pruned(_current(_schedule(before, _settings(config, epoch, window))))
    if after == before:
        say("there is no key of a window gone by; nothing was changed")
        return
    write_keys(file, after, replace_existing=True)
    say(f"{len(before.noise) - len(after.noise)} old key(s) dropped; destroy copies of the file too")


@keys_app.command()
def platform(
    *,
    store: _StoreOption = None,
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


def _settings(config: Path | None, epoch: str | None, window: str | None, store: str | None = None) -> Settings:
    """Return the service's settings, from where the service itself takes them."""
    return Settings.load(config, os.environ, {"epoch": epoch, "window": window, "store": store})


def _schedule(keys: SecretKeys, settings: Settings) -> Schedule:
    """Return the schedule that keys are for; if they do not say, the one of the settings."""
    chosen, sources = settings.protection().schedule, settings.sources
    if keys.schedule is None:
        where = f"epoch: {sources['epoch']}, window: {sources['window']}"
        say(f"the file does not say what it is for; {_in_words(chosen)} are taken ({where})")
        return chosen
    for name in ("epoch", "window"):
        if sources[name] != "default" and getattr(chosen, name) != getattr(keys.schedule, name):
            raise UsageError(
                f"these keys are for {_in_words(keys.schedule)}, and the {name} {getattr(settings, name)} "
                f"({sources[name]}) is another; leave it out, or name the key file of that service"
            )
    return keys.schedule


def _in_words(schedule: Schedule) -> str:
    epoch, window = schedule_as_written(schedule)
    return f"an epoch of {epoch} and a window of {window}"


def _current(schedule: Schedule) -> int:
    return schedule.window_of(schedule.epoch_at(time.time()))


def _next_unused(schedule: Schedule) -> int:
    # A report of the last epoch of a window is published in the next one: that one may be in use already.
    return schedule.window_of(schedule.epoch_at(time.time()) + 1) + 1


def _beginning(schedule: Schedule, window: int) -> str:
    begins = schedule.starts_at(window * schedule.epochs_per_window)
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begins))


def _open_existing(address: str) -> Store:
    if not is_postgres(address) and not Path(address).exists():
        raise UsageError("there is no such store; name the service's with --store")
    return open_store(address)
