"""People as read from a file: their places, and everything else about them, kept apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from nearveil.io.arrow_numbers import arrow_floats
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True)
class Place:
    """A column that holds part of the location: its name, and where it stood in the file."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file writes locations down: a latitude and a longitude column, a geometry column, or all three.

    ``gains_geometry`` says whether columns alone get a geometry beside them in a format that has one: what was a plain
    Parquet file stays one.
    """

    latitude: Place | None = None
    longitude: Place | None = None
    geometry: Place | None = None
    gains_geometry: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """One row per person or event.

    Attributes
    ----------
    points : ndarray of shape (n, 2)
        Latitude and longitude. True places as read; published places after `with_points`.
    carried : pyarrow.Table
        All other columns, unchanged. No location columns.
    layout : Layout
        How the locations stood in the file.
    features : list, optional
        For GeoJSON, the members of every feature other than its geometry and bbox.
    warnings : tuple of str
        What the reader noticed.
    """

    points: FloatArray = field(repr=False)
    carried: pa.Table = field(repr=False)
    layout: Layout
    features: list[dict[str, Any]] | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)

    def with_points(self, points: FloatArray) -> People:
        """Return the same people at other places."""
        return replace(self, points=points)


def table_with_coordinates(people: People) -> pa.Table:
    """Return all columns with latitude and longitude at their old positions (named so, where they had none)."""
    layout = people.layout
    latitude, longitude = layout.latitude, layout.longitude
    if latitude is None or longitude is None:
        position = layout.geometry.position if layout.geometry else people.carried.num_columns
        latitude, longitude = Place("latitude", position), Place("longitude", position + 1)
    table = people.carried
    values = [(latitude, people.points[:, 0]), (longitude, people.points[:, 1])]
    for place, column in sorted(values, key=lambda pair: pair[0].position):
        table = with_column(table, place, arrow_floats(column))
    return table


def with_column(table: pa.Table, place: Place, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the table with one more column, at its place; a table without columns gets its rows with it."""
    if table.num_columns == 0:
        return pa.table({place.name: column})
    return table.add_column(min(place.position, table.num_columns), place.name, column)
