"""People of a table of PostgreSQL, read in batches through a cursor of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from nearveil.errors import DataError, UsageError
from nearveil.types import FloatArray

BATCH_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleTable:
    """Which table, and which of its columns: points of PostGIS in any reference system, or WGS84 degrees."""

    table: str
    """Its name, or ``schema.name``."""
    id: str
    """Column that tells people apart."""
    location: str | None = None
    latitude: str | None = None
    longitude: str | None = None

    def __post_init__(self) -> None:
        both = self.latitude is not None and self.longitude is not None
        if (self.location is None) != both or (self.latitude is None) != (self.longitude is None):
            raise UsageError(
                "say where the table has locations: location=COLUMN of points, or latitude= and longitude="
            )

    def batches(self, address: str) -> Iterator[tuple[list[str | None], FloatArray]]:
        """Read ids, and latitudes and longitudes, which are not numbers where there are none."""
        with _connected(address) as connection, connection.cursor(name="nearveil_import") as cursor:
            cursor.itersize = BATCH_ROWS
            cursor.execute(self._query())
            while rows := cursor.fetchmany(BATCH_ROWS):
                places = np.array([row[1:] for row in rows], dtype=np.float64)
                yield [None if row[0] is None else str(row[0]) for row in rows], places

    @property
    def _name(self) -> sql.Composable:
        return sql.Identifier(*self.table.split(".", 1))

    def _query(self) -> sql.Composed:
        if self.location is not None:
            # Without a reference system points are taken for degrees, as in most tables without one.
            point = sql.SQL(
                "CASE WHEN ST_SRID({0}::geometry) IN (0, 4326) THEN {0}::geometry "
                "ELSE ST_Transform({0}::geometry, 4326) END"
            ).format(sql.Identifier(self.location))
            place = sql.SQL("ST_Y({0})::float8, ST_X({0})::float8").format(point)
        else:
            place = sql.SQL("{}::float8, {}::float8").format(
                sql.Identifier(str(self.latitude)), sql.Identifier(str(self.longitude))
            )
        return sql.SQL("SELECT {}::text, {} FROM {}").format(sql.Identifier(self.id), place, self._name)


@contextmanager
def _connected(address: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    try:
        with psycopg.connect(address, options="-c default_transaction_read_only=on", connect_timeout=10) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise DataError(
            f"the database cannot be read ({type(error).__name__}); see that it runs and that the address, the user "
            "and the password are right"
        ) from None
    except psycopg.Error as error:
        # What is said of names (class 42) quotes the question; everything else may quote a value of a row.
        about_names = (error.sqlstate or "").startswith("42")
        reason = (error.diag.message_primary if about_names else None) or type(error).__name__
        raise DataError(f"the table cannot be read: {reason}; see that its columns are named right") from None
