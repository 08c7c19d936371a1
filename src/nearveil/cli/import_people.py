"""``nearveil import``: bring the people of a file or of a table into the store of a service."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from nearveil.cli._command import command, option
from nearveil.cli._options import FILE, reading_options
from nearveil.cli._output import progress_bar, say, warn
from nearveil.errors import UsageError
from nearveil.io.location import id_columns, only_column
from nearveil.io.readers import ReadOptions, Source, open_source
from nearveil.nearby import importing
from nearveil.nearby.importing import Imported, PlacesOfPeople
from nearveil.nearby.stores import is_postgres
from nearveil.server.service import Service
from nearveil.server.setting_types import has_password
from nearveil.server.settings import Settings

_VARIABLE = "NEARVEIL_IMPORT_FROM"


@command()
@click.argument(
    "source",
    metavar="[SOURCE]",
    required=False,
    help=f"A CSV, GeoJSON or Parquet file, - for standard input, or postgresql://…; without it, {_VARIABLE}.",
)
@reading_options
@option("--id", "id_column", metavar="COLUMN", help="Column that tells people apart.", show_default="id")
@option("--table", metavar="TABLE", help="Table of the database.")
@option("--store", metavar="STORE", help="Store of the service.")
@option("--config", type=FILE, metavar="FILE", help="Settings file of the service (TOML).")
@option("--keys", type=FILE, metavar="FILE", help="Key file of the service.")
@option("--region", metavar="REGION", help="Region of the service.")
@option("--noise", metavar="LENGTH", help="Noise of the service.")
def import_people(
    source: str | None,
    *,
    reading: ReadOptions,
    id_column: str | None,
    table: str | None,
    store: str | None,
    config: Path | None,
    keys: Path | None,
    region: str | None,
    noise: str | None,
) -> None:
    """Bring the users of a file or of a table of PostgreSQL into the store of a service.

    Everybody is published at the next epoch boundary, with noise; only noisy locations are kept. Who has reported, or
    was imported before, is left alone: if it is interrupted, run it again. A service on a SQLite store must be stopped
    meanwhile; on PostgreSQL it may run. Give the settings of the service: the same settings file and NEARVEIL_…
    variables.

    An import does not know who has left. It adds people again who were erased, and publishes them in the next window;
    and it brings back those who took themselves off the map before they were first published. Remove them from the
    source first.
    """
    address = source or os.environ.get(_VARIABLE)
    if address is None:
        raise UsageError(f"name a file or a database to import from, or set {_VARIABLE}")
    if source is not None and is_postgres(source) and has_password(source):
        raise UsageError(
            f"every user of this machine can see a password in a command; put the address into {_VARIABLE}"
        )
    options = {"store": store, "keys": keys, "region": region, "noise": noise}
    total, people = _people(address, table, id_column, reading)
    with closing(Service.open(Settings.load(config, os.environ, options))) as service:
        with progress_bar("importing people", total) as advance:
            imported = importing.import_people(service.publisher, people, progress=advance)
        publishes_at = service.publisher.starts_at(service.publisher.epoch + 1)
    _say(imported, publishes_at)


def _people(
    address: str, table: str | None, id_column: str | None, reading: ReadOptions
) -> tuple[int | None, Iterator[PlacesOfPeople]]:
    if not is_postgres(address):
        if table is not None:
            raise UsageError("--table is for databases; a file has one table")
        file = open_source(address, reading)
        return file.rows, _of_file(file, id_column)
    # Only now: its driver takes time to load.
    from nearveil.io.postgres_table import PeopleTable  # noqa: PLC0415

    if table is None:
        raise UsageError("name the table with --table, and its columns with --id and --location")
    given = PeopleTable(
        table=table,
        id=id_column or "id",
        location=reading.location,
        latitude=reading.latitude,
        longitude=reading.longitude,
    )
    return None, given.batches(address)


def _of_file(file: Source, id_column: str | None) -> Iterator[PlacesOfPeople]:
    usual = id_columns(file.columns)
    if id_column is None and len(usual) != 1:
        raise UsageError(
            f"say which column tells people apart with --id; there are {', '.join(file.columns) or 'none'}"
        )
    for batch in file.batches([only_column(file.columns, id_column or usual[0])]):
        ids = batch.table.column(0).to_pylist()
        yield [None if one is None else str(one) for one in ids], batch.points


def _say(imported: Imported, publishes_at: float) -> None:
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(publishes_at))
    say(f"{imported.taken:,} of {imported.rows:,} people were taken; the service publishes them with noise at {when}")
    if imported.there_before:
        say(f"{imported.there_before:,} were there before, or are further rows of one person, and are left alone")
    if imported.without_place:
        warn(f"{imported.without_place:,} have no location in the region and are left out")
    if imported.without_id:
        warn(f"{imported.without_id:,} have no id that a service takes and are left out: letters, digits and _ : @ - .")
