"""``nearveil keys``: manage the secret keys of a service, and the keys of the platforms that may use it."""

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
from nearveil.nearby.publishing.keys import SecretKeys, new_keys, read_keys, schedule_as_written, write_keys
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.publishing.store_identity import check_postponable
from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import Store, StoreInUseError, is_person_id
from nearveil.server.audit_log import audit_id
from nearveil.server.auth import new_platform_key
from nearveil.server.scopes import ABOUT, Scope, parse_scopes
from nearveil.server.settings import Settings

keys_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Manage the secret keys of a service, and the keys of the platforms that may use it.",
)

_FileArgument = Annotated[Path, typer.Argument(help="The key file.", metavar="FILE")]
_ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file of the service (TOML).", metavar="FILE")
]
_EpochOption = Annotated[str | None, typer.Option("--epoch", help="Length of an epoch of the service.", metavar="TIME")]
_WindowOption = Annotated[
    str | None, typer.Option("--window", help="Length of a budget window of the service.", metavar="TIME")
]
_StoreOption = Annotated[
    str | None,
    typer.Option(
        help="Store of the service: a SQLite file, or postgresql://…",
        metavar="ADDRESS",
        show_default=f"NEARVEIL_STORE, or {Settings().store}",
    ),
]


@keys_app.command()
def create(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Write new secret keys to FILE, which only its owner can read. An existing file is not replaced.

    The keys are for the epoch and the budget window in the settings of one service (by default 1h and 30d).
    """
    schedule = _settings(config, epoch, window).protection().schedule
    write_keys(file, new_keys(schedule))
    say(f"keys for {_describe(schedule)} written to {file}")
    say("keep a copy in a safe place: if the keys are lost, people get new noise for the same locations")


@keys_app.command()
def rotate(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Add a noise key that is used for new places from the next budget window on.

    Places that are known keep their noise, for which the keys before are kept: 'nearveil keys prune' deletes these.
    A running service that reads this file loads the key by itself. Restart a service that has its keys in
    NEARVEIL_KEYS before that window begins. People's tokens stay valid. Epoch and window are read from the key file.
    """
    keys = read_keys(file)
    schedule = _schedule(keys, _settings(config, epoch, window))
    first_window = _next_unused(schedule)
    rotated = keys.rotated(first_window)
    write_keys(file, replace(rotated, schedule=schedule), replace_existing=True)
    say(f"a new key is used from {_beginning(schedule, first_window)} on; keep a copy of the file")


@keys_app.command()
def postpone(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
    store: _StoreOption = None,
) -> None:
    """Move the start of the newest key to the next budget window, if a service did not get the key in time.

    A service refuses a key that differs from the one that its store was used with in the same window. The store
    records which key that was. Stop a service with a SQLite store first, because it locks the store.
    """
    keys = read_keys(file)
    settings = _settings(config, epoch, window, store)
    schedule = _schedule(keys, settings)
    first_window = _next_unused(schedule)
    postponed = keys.postponed(first_window)
    if keys.noise[-1].from_window >= first_window:
        raise UsageError("the newest key is not in use yet, so there is nothing to postpone; nothing was changed")
    with closing(_open_existing(settings.store)) as opened:
        # In the last epoch of a window, the next window is in use too.
        in_use = range(max(_current(schedule), keys.noise[-1].from_window), first_window)
        check_postponable(opened, keys, postponed, in_use)
        write_keys(file, postponed, replace_existing=True)
    say(f"the newest key is used from {_beginning(schedule, first_window)} on")


@keys_app.command()
def prune(
    file: _FileArgument,
    config: _ConfigOption = None,
    epoch: _EpochOption = None,
    window: _WindowOption = None,
) -> None:
    """Delete keys before the one in use, so that they can no longer help to find the locations reported then.

    Whoever is back at a place that was drawn with a deleted key gets new noise for it: one more release of that place.
    Destroy copies of the file yourself. Epoch and window are read from the key file.
    """
    before = read_keys(file)
    after = before.pruned(_current(_schedule(before, _settings(config, epoch, window))))
    if after == before:
        say("there is no key of a past window; nothing was changed")
        return
    write_keys(file, after, replace_existing=True)
    say(f"{len(before.noise) - len(after.noise)} old key(s) deleted; destroy copies of the file too")


@keys_app.command()
def platform(
    *,
    config: _ConfigOption = None,
    store: _StoreOption = None,
    name: Annotated[
        str | None, typer.Option(help="Create a key with this name, or replace it.", metavar="NAME")
    ] = None,
    scopes: Annotated[
        str | None,
        typer.Option(help=f"What the key may do: some of {', '.join(Scope)}, or all.", metavar="SCOPE,SCOPE"),
    ] = None,
    remove: Annotated[str | None, typer.Option(help="Remove the key with this name.", metavar="NAME")] = None,
) -> None:
    """Create a platform key and print it, or remove one.

    Give a key only the scopes that its program needs: one that only reports cannot ask who is near.

    A service on PostgreSQL notices within seconds. A running service locks its SQLite store: stop it, or use POST and
    DELETE /v1/platform-keys/NAME with a key that has the scope admin.
    """
    if (name is None) == (remove is None):
        raise UsageError("give either --name, to create a key, or --remove, to remove one")
    if (name is None) != (scopes is None):
        raise UsageError(f"--name goes with --scopes, which says what the key may do: {', '.join(Scope)}, or all")
    allowed = parse_scopes(scopes) if scopes is not None else frozenset()
    try:
        found = open_store(_settings(config, None, None, store).store)
    except StoreInUseError as error:
        raise StoreInUseError(f"{error}; a running service takes POST and DELETE /v1/platform-keys/NAME") from None
    with closing(found) as opened:
        if remove is not None:
            if not opened.remove_key(remove):
                raise DataError("there is no key with that name; nothing was changed")
            say("the key was removed")
        elif name is not None:
            secret, kept = new_platform_key(name, allowed)
            opened.add_key(kept)
            may = "; ".join(ABOUT[scope] for scope in Scope if scope in allowed)
            warn(f"this key is shown only once and is not stored; anyone who has it may: {may}")
            say(secret)


@keys_app.command("audit-id")
def audit_id_of(
    file: _FileArgument,
    person: Annotated[str, typer.Argument(help="A person's id in the service.", metavar="PERSON")],
) -> None:
    """Print what a person is called in the audit log and the access log of the service with these keys."""
    if not is_person_id(person):
        raise UsageError("a person's id has 1 to 128 letters, digits or any of _ . : @ -, and not only dots")
    say(audit_id(read_keys(file).tokens, person))


def _settings(config: Path | None, epoch: str | None, window: str | None, store: str | None = None) -> Settings:
    """Return the settings of the service, from the same sources as the service."""
    return Settings.load(config, os.environ, {"epoch": epoch, "window": window, "store": store})


def _schedule(keys: SecretKeys, settings: Settings) -> Schedule:
    """Return the schedule in the key file; if it has none, that of the settings."""
    chosen, sources = settings.protection().schedule, settings.sources
    if keys.schedule is None:
        where = f"epoch: {sources['epoch']}, window: {sources['window']}"
        say(f"the key file has no epoch and window; {_describe(chosen)} are used ({where})")
        return chosen
    for name in ("epoch", "window"):
        if sources[name] != "default" and getattr(chosen, name) != getattr(keys.schedule, name):
            raise UsageError(
                f"these keys are for {_describe(keys.schedule)}, but the {name} is {getattr(settings, name)} "
                f"({sources[name]}); leave it out, or name the key file of that service"
            )
    return keys.schedule


def _describe(schedule: Schedule) -> str:
    epoch, window = schedule_as_written(schedule)
    return f"an epoch of {epoch} and a window of {window}"


def _current(schedule: Schedule) -> int:
    return schedule.window_of(schedule.epoch_at(time.time()))


def _next_unused(schedule: Schedule) -> int:
    # A report of the last epoch of a window is published in the next window, which may therefore be in use already.
    return schedule.window_of(schedule.epoch_at(time.time()) + 1) + 1


def _beginning(schedule: Schedule, window: int) -> str:
    begins = schedule.starts_at(window * schedule.epochs_per_window)
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begins))


def _open_existing(address: str) -> Store:
    if not is_postgres(address) and not Path(address).exists():
        raise UsageError("there is no such store; name the store of the service with --store")
    return open_store(address)
