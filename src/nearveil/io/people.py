"""People as read from a file: their places, and everything else about them, kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.io.arrow_numbers import arrow_floats, floats_from_arrow, taken_rows
from nearveil.types import FloatArray, IntArray


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

    @property
    def nbytes(self) -> int:
        """How much memory the columns take."""
        return int(self.points.nbytes + self.carried.nbytes)

    def with_points(self, points: FloatArray) -> People:
        """Return the same people at other places."""
        return replace(self, points=points)

    def part(self, start: int, stop: int) -> People:
        """Return the people of some rows, without a copy of their columns."""
        features = None if self.features is None else self.features[start:stop]
        return replace(
            self, points=self.points[start:stop], carried=self.carried.slice(start, stop - start), features=features
        )

    def taken(self, rows: IntArray) -> People:
        """Return the people of these rows, in this order."""
        features = None if self.features is None else [self.features[row] for row in rows.tolist()]
        return replace(self, points=self.points[rows], carried=taken_rows(self.carried, rows), features=features)


def joined_people(parts: Sequence[People]) -> People:
    """Return people of one layout one after the other."""
    first = parts[0]
    features = None if first.features is None else [one for part in parts for one in part.features or ()]
    return replace(
        first,
        points=np.concatenate([part.points for part in parts]),
        carried=pa.concat_tables([part.carried for part in parts]),
        features=features,
    )


def table_of_people(people: People) -> pa.Table:
    """Return all columns in one table, the places in its last two; `people_from_table` reads it."""
    table = people.carried
    for axis, name in enumerate(("latitude", "longitude")):
        table = with_column(table, Place(name, table.num_columns), arrow_floats(people.points[:, axis]))
    return table


def people_from_table(table: pa.Table, layout: Layout) -> People:
    """Read what `table_of_people` gave."""
    columns = table.num_columns - 2
    points = np.column_stack([floats_from_arrow(table.column(columns + axis)) for axis in (0, 1)])
    return People(points, table.select(range(columns)), layout)


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
