"""``nearveil keys``: manage the secret keys of a service, and the keys of the platforms that may use it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import click

from nearveil.cli._command import group, option
from nearveil.cli._options import FILE
from nearveil.cli._output import say, warn
from nearveil.errors import DataError, UsageError
from nearveil.nearby.publishing.keys import new_keys, read_keys, schedule_as_written, write_keys
from nearveil.nearby.publishing.protection import Schedule
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import StoreInUseError, is_person_id
from nearveil.server.audit_log import audit_id
from nearveil.server.auth import new_platform_key
from nearveil.server.scopes import ABOUT, Scope, parse_scopes
from nearveil.server.settings import Settings

_file_argument = click.argument("file", type=FILE, metavar="FILE", help="The key file.")
config_option = option("--config", type=FILE, metavar="FILE", help="Settings file of the service (TOML).")


@group()
def keys() -> None:
    """Manage the secret keys of a service, and the keys of the platforms that may use it."""


@keys.command()
@_file_argument
@config_option
@option("--epoch", metavar="TIME", help="Length of an epoch of the service.")
@option("--window", metavar="TIME", help="Length of a budget window of the service.")
def create(file: Path, *, config: Path | None, **schedule_options: str | None) -> None:
    """Write new secret keys to FILE, which only its owner can read. An existing file is not replaced.

    The keys are for the epoch and the budget window in the settings of one service (by default 1h and 30d).
    """
    schedule = Settings.load(config, os.environ, schedule_options).schedule
    write_keys(file, new_keys(schedule))
    say(f"keys for {_describe(schedule)} written to {file}")
    say("keep a copy in a safe place: if the keys are lost, people get new noise for the same locations")


@keys.command()
@config_option
@option(
    "--store",
    metavar="ADDRESS",
    help="Store of the service: a SQLite file, or postgresql://…",
    show_default=f"NEARVEIL_STORE, or {Settings().store}",
)
@option("--name", metavar="NAME", help="Create a key with this name, or replace it.")
@option("--scopes", metavar="SCOPE,SCOPE", help=f"What the key may do: some of {', '.join(Scope)}, or all.")
@option("--remove", metavar="NAME", help="Remove the key with this name.")
def platform(
    *, config: Path | None, store: str | None, name: str | None, scopes: str | None, remove: str | None
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
        found = open_store(Settings.load(config, os.environ, {"store": store}).store)
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


@keys.command("audit-id")
@_file_argument
@click.argument("person", metavar="PERSON", help="A person's id in the service.")
def audit_id_of(file: Path, *, person: str) -> None:
    """Print what a person is called in the audit log and the access log of the service with these keys."""
    if not is_person_id(person):
        raise UsageError("a person's id has 1 to 128 letters, digits or any of _ . : @ -, and not only dots")
    say(audit_id(read_keys(file).tokens, person))


def _describe(schedule: Schedule) -> str:
    epoch, window = schedule_as_written(schedule)
    return f"an epoch of {epoch} and a window of {window}"
