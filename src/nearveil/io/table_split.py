"""Which columns of a file hold the location, and which are carried; and rows of it as people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.columns import find_coordinates
from nearveil.io.coordinates import degrees_column
from nearveil.io.people import Layout, People, Place
from nearveil.io.table_source import Columns
from nearveil.io.wkb import points_from_wkb
from nearveil.types import FloatArray

_SAME_PLACE_DEG = 1e-9


@dataclass(frozen=True, slots=True)
class TableSplit:
    """Positions of columns in a file.

    Attributes
    ----------
    layout : Layout
        Names and places of the location's columns among those that are published.
    latitude, longitude, geometry : int, optional
        Where they are in the file.
    native : bool
        Whether the geometry is a structure of x and y, instead of well-known binary.
    carried : tuple of int
        All others that are published.
    """

    layout: Layout
    latitude: int | None
    longitude: int | None
    geometry: int | None
    native: bool
    carried: tuple[int, ...]

    @property
    def location(self) -> tuple[int, ...]:
        """Columns that hold the location."""
        return tuple(place for place in (self.latitude, self.longitude, self.geometry) if place is not None)

    def people(self, columns: Columns, carried: Sequence[int], schema: pa.Schema, rows_before: int) -> People:
        """Return rows of the file as people, with some of the carried columns."""
        fields = [schema.field(place) for place in carried]
        arrays = [_as_type(columns[place], field) for place, field in zip(carried, fields, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        return People(self._points(columns, rows_before), table, self.layout)

    def _points(self, columns: Columns, rows_before: int) -> FloatArray:
        beside = None
        if self.latitude is not None and self.longitude is not None:
            beside = np.column_stack(
                [
                    degrees_column(columns[self.latitude], "latitude", rows_before),
                    degrees_column(columns[self.longitude], "longitude", rows_before),
                ]
            )
        if self.geometry is None:
            assert beside is not None  # noqa: S101 - one or the other is there
            return beside
        column = columns[self.geometry]
        points = _points_from_struct(column, rows_before) if self.native else points_from_wkb(column, rows_before)
        if beside is not None:
            _refuse_apart(points, beside, rows_before)
        return points


def split_at_coordinates(
    names: list[str], kept: tuple[int, ...], latitude: str | None, longitude: str | None, *, gains_geometry: bool
) -> TableSplit:
    """Find the coordinate columns among those kept, and carry the rest."""
    found = find_coordinates([names[place] for place in kept], latitude, longitude)
    if found is None:
        raise DataError(
            "there are no coordinate columns such as 'latitude' and 'longitude'; "
            "name them with --latitude and --longitude"
        )
    own = kept[found.latitude], kept[found.longitude]
    layout = Layout(
        latitude=Place(names[own[0]], found.latitude),
        longitude=Place(names[own[1]], found.longitude),
        gains_geometry=gains_geometry,
    )
    return TableSplit(layout, *own, None, False, tuple(place for place in kept if place not in own))


def split_at_geometry(
    names: list[str],
    kept: tuple[int, ...],
    geometry: int,
    latitude: str | None,
    longitude: str | None,
    *,
    native: bool,
) -> TableSplit:
    """Take the geometry, and coordinate columns beside it: the same place written twice, to be replaced in both."""
    shown = Place(names[geometry], kept.index(geometry))
    rest = tuple(place for place in kept if place != geometry)
    if find_coordinates([names[place] for place in rest], latitude, longitude) is None:
        return TableSplit(Layout(geometry=shown), None, None, geometry, native, rest)
    beside = split_at_coordinates(names, rest, latitude, longitude, gains_geometry=True)
    layout = Layout(beside.layout.latitude, beside.layout.longitude, shown)
    return TableSplit(layout, beside.latitude, beside.longitude, geometry, native, beside.carried)


def _as_type(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        raise DataError(
            f"column {field.name!r} holds values of a type that cannot be carried; leave it out with --drop "
            f"{field.name!r}"
        ) from None


def _refuse_apart(points: FloatArray, beside: FloatArray, rows_before: int) -> None:
    apart = ~(np.abs(beside - points) <= _SAME_PLACE_DEG).all(axis=1)
    if apart.any():
        row = rows_before + int(np.argmax(apart)) + 1
        raise DataError(f"row {row}: the geometry and the coordinate columns differ; leave one of them out with --drop")


def _points_from_struct(column: pa.ChunkedArray, rows_before: int) -> FloatArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and others do without

    try:
        parts = [pc.struct_field(column, axis) for axis in ("y", "x")]
    except (KeyError, ValueError, NotImplementedError, pa.ArrowException):
        raise DataError("the geometry column holds no points; give one point per person") from None
    return np.column_stack([degrees_column(part, "geometry", rows_before) for part in parts])
