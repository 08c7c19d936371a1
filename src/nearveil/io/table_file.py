"""Files with columns, whatever their format: which columns hold the location, and their rows as people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.geodesy import degrees_from, degrees_to, reference_system
from nearveil.io.carried import check_carried
from nearveil.io.columns import (
    column_position,
    degrees_column,
    find_coordinates,
    looks_like_data,
    may_be_location,
    metres_column,
    no_coordinates,
    points_from_wkb,
)
from nearveil.io.people import Layout, LocationColumn, People, PeopleStream, ReadOptions, UnreadableRow, no_rows
from nearveil.types import FloatArray, IntArray

Columns = Mapping[int, pa.ChunkedArray]
"""Columns of some rows, by their position in the file."""


class TableSource(ABC):
    """A file with columns.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of all columns, without what the file says of them besides.
    rows : int, optional
        How many there are, where the file says so beforehand.
    """

    schema: pa.Schema
    rows: int | None

    @property
    def unreadable(self) -> Mapping[int, UnreadableRow]:
        """Rows, counted from 1, that have no values for the columns; after `batches` has ended."""
        return {}

    @abstractmethod
    def batches(self, positions: Sequence[int]) -> Iterator[Columns]:
        """Read the columns at these positions from the first row on; no batch is empty."""

    @abstractmethod
    def first_rows(self) -> Columns:
        """Return the first few rows of all columns; raise if there are none."""


def by_position(batch: pa.RecordBatch | pa.Table, positions: Sequence[int], schema: pa.Schema) -> Columns:
    """Return the columns of a batch that was read by name, or whole where names repeat."""
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    whole = table.num_columns == len(schema)
    return {place: table.column(place if whole else schema.field(place).name) for place in positions}


def names_to_read(positions: Sequence[int], schema: pa.Schema) -> list[str] | None:
    """Return the names of the columns to read, or None for all: those with one name can only be read together."""
    if len(set(schema.names)) < len(schema.names) or len(set(positions)) == len(schema):
        return None
    return [schema.field(place).name for place in sorted(set(positions))]


class PeopleInTable(PeopleStream):
    """People in the rows of a file with columns.

    Parameters
    ----------
    source : TableSource
        The file.
    split : TableSplit
        Which of its columns are what.
    first_rows : mapping of columns
        The first rows of all columns, to look at.
    carry : bool
        Whether the other columns will be published: then a second exact location among them is refused.
    """

    def __init__(self, source: TableSource, split: TableSplit, first_rows: Columns, *, carry: bool) -> None:
        self.layout = split.layout
        self.carried = pa.schema([source.schema.field(place) for place in split.carried])
        self.rows = source.rows
        self._source = source
        self._split = split
        first = split.people(first_rows, split.carried, source.schema, 0)
        # Coordinates in the file's own system are as exact as degrees.
        crs = split.layout.crs
        in_file = None if crs is None else degrees_to(crs, first.points)
        self.warnings = check_carried(first.carried, first.points, in_file) if carry else ()

    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Read the file from its first row."""
        split = self._split
        wanted = split.carried if carried is None else [split.carried[place] for place in carried]
        rows_before = 0
        for columns in self._source.batches([*split.location, *wanted]):
            people = split.people(columns, wanted, self._source.schema, rows_before)
            rows_before += len(people)
            yield people
        if not rows_before and not self._source.unreadable:
            raise no_rows()

    @property
    def names_as_read(self) -> list[str]:
        """Names of all columns of the file."""
        return list(self._source.schema.names)

    def rows_as_read(self, rows: IntArray) -> Iterator[Sequence[Any]]:
        """Read the file once more, for these rows."""
        before = 0
        for columns in self._source.batches(range(len(self._source.schema))):
            count = len(columns[0])
            wanted = pa.array(rows[(rows >= before) & (rows < before + count)] - before)
            if len(wanted):
                values = [columns[place].take(wanted).to_pylist() for place in range(len(columns))]
                yield from zip(*values, strict=True)
            before += count

    @property
    def unreadable(self) -> Mapping[int, UnreadableRow]:
        """Rows without values for the columns."""
        return self._source.unreadable


# Which columns of a file hold the location, and which are carried; and rows of it as people.


_SAME_PLACE_DEG = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSplit:
    """Positions of columns in a file.

    Attributes
    ----------
    layout : Layout
        Names and places of the location's columns among those that are published.
    latitude, longitude, geometry, text : int, optional
        Where they are in the file.
    native : bool
        Whether the geometry is a structure of x and y, instead of well-known binary.
    carried : tuple of int
        All others that are published.
    lenient : bool
        Whether locations that cannot be read are NaN instead of an error.
    """

    layout: Layout
    latitude: int | None = None
    longitude: int | None = None
    geometry: int | None = None
    text: int | None = None
    native: bool = False
    carried: tuple[int, ...]
    lenient: bool = False

    @property
    def location(self) -> tuple[int, ...]:
        """Columns that hold the location."""
        places = (self.latitude, self.longitude, self.geometry, self.text)
        return tuple(place for place in places if place is not None)

    def people(self, columns: Columns, carried: Sequence[int], schema: pa.Schema, rows_before: int) -> People:
        """Return rows of the file as people, with some of the carried columns."""
        fields = [schema.field(place) for place in carried]
        arrays = [_as_type(columns[place], field) for place, field in zip(carried, fields, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        return People(self._points(columns, rows_before), table, self.layout)

    def _points(self, columns: Columns, rows_before: int) -> FloatArray:
        beside = self._from_columns(columns, rows_before)
        if self.geometry is None:
            assert beside is not None  # noqa: S101 - one or the other is there
            return beside
        column, lenient, crs = columns[self.geometry], self.lenient, self.layout.geometry_crs
        read = _points_from_struct if self.native else points_from_wkb
        points = read(column, rows_before, lenient=lenient)
        points = points if crs is None else degrees_from(crs, points)
        if beside is not None:
            # A projection there and back changes the last digits.
            apart = ~(np.abs(beside - points) <= (_SAME_PLACE_DEG if crs is None else 1e-7)).all(axis=1)
            if apart.any() and not lenient:
                row = rows_before + int(np.argmax(apart)) + 1
                raise DataError(
                    f"row {row}: the geometry and the coordinate columns differ; leave one of them out with drop="
                )
            points[apart] = np.nan
        return points

    def _from_columns(self, columns: Columns, rows_before: int) -> FloatArray | None:
        """Latitude and longitude from the columns other than the geometry."""
        crs, lenient = self.layout.crs, self.lenient
        if self.text is not None:
            from nearveil.io.location_text import TextStyle, points_from_text  # noqa: PLC0415 - slow to load

            style = TextStyle(self.layout.style)
            points = points_from_text(
                columns[self.text], style, srid=self.layout.srid, rows_before=rows_before, lenient=lenient
            )
        elif self.latitude is not None and self.longitude is not None:
            projected = crs is not None and reference_system(crs).is_projected
            names = ("northing", "easting") if projected else ("latitude", "longitude")
            read = metres_column if projected else degrees_column
            named = [(columns[place], name) for place, name in zip((self.latitude, self.longitude), names, strict=True)]
            points = np.column_stack([read(column, name, rows_before, lenient=True) for column, name in named])
            bad = ~np.isfinite(points).all(axis=1)
            if bad.any() and not lenient:
                # Of the first row, whichever column it is, what is wrong; a missing number is refused with the region.
                first = int(np.argmax(bad))
                for column, name in named:
                    read(column.slice(first, 1), name, rows_before + first)
        else:
            return None
        return points if crs is None else degrees_from(crs, points)


def split_at_coordinates(
    names: list[str], kept: tuple[int, ...], read: ReadOptions, *, first: Columns, gains_geometry: bool
) -> TableSplit:
    """Find the columns of the location among those kept, by their names and first values, and carry the rest."""
    own_names = [names[place] for place in kept]
    found = None
    if read.location is None:
        found = find_coordinates(own_names, read.latitude, read.longitude, projected=read.is_projected)
    if found is None:
        return _split_at_text(names, kept, read, first=first, gains_geometry=gains_geometry)
    own = kept[found.latitude], kept[found.longitude]
    layout = Layout(
        latitude=LocationColumn(names[own[0]], found.latitude),
        longitude=LocationColumn(names[own[1]], found.longitude),
        gains_geometry=gains_geometry,
        crs=read.crs,
    )
    return TableSplit(
        layout=layout,
        latitude=own[0],
        longitude=own[1],
        carried=tuple(place for place in kept if place not in own),
        lenient=read.skip_bad is not None,
    )


def _split_at_text(
    names: list[str], kept: tuple[int, ...], read: ReadOptions, *, first: Columns, gains_geometry: bool
) -> TableSplit:
    """Find the column that holds the location as text: the one that is named, or else the only one that may."""
    from nearveil.io.location_text import (  # noqa: PLC0415 - slow to load
        TextStyle,
        holds_geometries,
        other_geometries,
        text_style,
    )

    if read.location is not None:
        place = kept[column_position([names[place] for place in kept], read.location)]
        style = text_style(first[place])
        if style is None:
            _refuse_others(read.location, other_geometries(first[place]))
            raise DataError(
                f"column {read.location!r} does not hold locations as text; give POINT (longitude latitude) or "
                "latitude, longitude, or name two columns with latitude= and longitude="
            )
    else:
        styles = {place: text_style(first[place]) for place in kept if not looks_like_data([names[place]])}
        # Two numbers may be anything, unless the column is called so.
        found = {
            place: style
            for place, style in styles.items()
            if style is not None and (style is not TextStyle.PAIR or may_be_location(names[place]))
        }
        if not found:
            for place in filter(lambda place: may_be_location(names[place]), kept):
                _refuse_others(names[place], other_geometries(first[place]))
                if holds_geometries(first[place]):
                    raise DataError(
                        f"column {names[place]!r} holds geometries as bytes, or others than points in two dimensions; "
                        "save points as text (in PostGIS: ST_AsText(ST_Force2D(geom))) or as GeoParquet"
                    )
            raise no_coordinates([names[place] for place in kept], projected=read.is_projected)
        if len(found) > 1:
            listed = " and ".join(repr(names[place]) for place in list(found)[:2])
            raise DataError(
                f"several columns hold locations: {listed}; name one with location=, and leave the other out with drop="
            )
        place, style = next(iter(found.items()))
    return TableSplit(
        layout=Layout(
            text=LocationColumn(names[place], kept.index(place)),
            style=style.value,
            gains_geometry=gains_geometry,
            crs=read.crs,
        ),
        text=place,
        carried=tuple(each for each in kept if each != place),
        lenient=read.skip_bad is not None,
    )


def _refuse_others(name: str, geometries: str | None) -> None:
    if geometries is not None:
        raise DataError(f"column {name!r} holds {geometries}; give one point per person, as POINT (longitude latitude)")


def split_at_geometry(
    names: list[str],
    kept: tuple[int, ...],
    geometry: int,
    read: ReadOptions,
    *,
    first: Columns,
    native: bool,
    crs: str | None,
) -> TableSplit:
    """Take the geometry, and coordinate columns beside it: the same place written twice, to be replaced in both."""
    shown = LocationColumn(names[geometry], kept.index(geometry))
    rest = tuple(place for place in kept if place != geometry)
    beside = None
    if find_coordinates([names[place] for place in rest], read.latitude, read.longitude) is not None:
        beside = split_at_coordinates(names, rest, read, first=first, gains_geometry=True)
    if beside is None:
        beside = TableSplit(layout=Layout(), carried=rest, lenient=read.skip_bad is not None)
    layout = replace(beside.layout, geometry=shown, geometry_crs=crs)
    return replace(beside, layout=layout, geometry=geometry, native=native)


def _as_type(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type.equals(field.type, check_metadata=True):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        raise DataError(
            f"column {field.name!r} holds values of a type that cannot be carried; leave it out with drop="
        ) from None


def _points_from_struct(column: pa.ChunkedArray, rows_before: int, *, lenient: bool) -> FloatArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and others do without

    try:
        parts = [pc.struct_field(column, axis) for axis in ("y", "x")]
    except (KeyError, ValueError, NotImplementedError, pa.ArrowException):
        raise DataError("the geometry column holds no points; give one point per person") from None
    return np.column_stack([degrees_column(part, "geometry", rows_before, lenient=lenient) for part in parts])
