"""People as read from a file: locations apart from all other columns, in memory or in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError
from nearveil.io.columns import (
    arrow_floats,
    check_carried,
    degrees_column,
    find_coordinates,
    floats_from_arrow,
    points_from_wkb,
    taken_rows,
)
from nearveil.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How people are read from a file or a frame.

    Attributes
    ----------
    latitude, longitude : str, optional
        Names of the coordinate columns, where they are not called as usual.
    drop : tuple of str
        Columns to leave out.
    person : str, optional
        The column that tells people apart; each may then have one row.
    per_row : bool
        Whether a person may have several rows: their losses add up, and the card counts rows.
    clip : bool
        Whether people outside the region are moved to its edge; otherwise they are refused.
    """

    latitude: str | None = None
    longitude: str | None = None
    drop: tuple[str, ...] = ()
    person: str | None = None
    per_row: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.drop, tuple | list):
            raise UsageError("drop takes a tuple of names, such as drop=('name',)")
        object.__setattr__(self, "drop", tuple(self.drop))


@dataclass(frozen=True, slots=True)
class LocationColumn:
    """A column that holds part of the location: its name, and where it stood in the file."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file writes locations down: a latitude and a longitude column, a geometry column, or all three.

    ``gains_geometry`` says whether columns alone get a geometry beside them in a format that has one: what was a plain
    Parquet file stays one.
    """

    latitude: LocationColumn | None = None
    longitude: LocationColumn | None = None
    geometry: LocationColumn | None = None
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
        table = with_column(table, LocationColumn(name, table.num_columns), arrow_floats(people.points[:, axis]))
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
        latitude, longitude = LocationColumn("latitude", position), LocationColumn("longitude", position + 1)
    table = people.carried
    values = [(latitude, people.points[:, 0]), (longitude, people.points[:, 1])]
    for column, numbers in sorted(values, key=lambda pair: pair[0].position):
        table = with_column(table, column, arrow_floats(numbers))
    return table


def with_column(table: pa.Table, column: LocationColumn, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the table with one more column, at its position; a table without columns gets its rows with it."""
    if table.num_columns == 0:
        return pa.table({column.name: values})
    return table.add_column(min(column.position, table.num_columns), column.name, values)


# People of a file, a batch at a time: files may be larger than memory, and are read as often as needed.


class PeopleStream(ABC):
    """People of a file.

    Attributes
    ----------
    layout : Layout
        How the locations stand in the file.
    carried : pyarrow.Schema
        All other columns.
    warnings : tuple of str
        What was noticed when the file was opened.
    rows : int, optional
        How many there are, where the file says so beforehand.
    """

    layout: Layout
    carried: pa.Schema
    warnings: tuple[str, ...]
    rows: int | None

    @abstractmethod
    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Read the file from its first row, with all carried columns or with those at some positions only."""

    def read_all(self) -> People:
        """Read all rows into memory."""
        parts = list(self.batches())
        if len(parts) == 1:
            return replace(parts[0], warnings=self.warnings)
        points = np.concatenate([part.points for part in parts])
        return People(points, pa.concat_tables([part.carried for part in parts]), self.layout, warnings=self.warnings)


class PeopleInMemory(PeopleStream):
    """People that are at hand, in one batch."""

    def __init__(self, people: People) -> None:
        self.layout = people.layout
        self.carried = people.carried.schema
        self.warnings = people.warnings
        self.rows = len(people)
        self._people = people

    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Return everybody."""
        if carried is None:
            yield self._people
            return
        columns = [self._people.carried.column(place) for place in carried]
        schema = pa.schema([self.carried.field(place) for place in carried])
        yield People(self._people.points, pa.Table.from_arrays(columns, schema=schema), self.layout)


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
        self.warnings = check_carried(first.carried, first.points) if carry else ()

    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Read the file from its first row."""
        split = self._split
        wanted = split.carried if carried is None else [split.carried[place] for place in carried]
        rows_before = 0
        for columns in self._source.batches([*split.location, *wanted]):
            people = split.people(columns, wanted, self._source.schema, rows_before)
            rows_before += len(people)
            yield people
        if not rows_before:
            raise no_rows()


def no_rows() -> DataError:
    """Say that a file has no rows."""
    return DataError("the file has no rows; give at least one person")


# Writing people to a file, a batch at a time.


class PeopleWriter(ABC):
    """A file in the making; in a ``with`` statement it is complete at the end, or closed incomplete after an error."""

    @abstractmethod
    def prepared(self, people: People) -> Any:
        """Return a batch as `write` takes it: work that any thread may do, while another writes."""

    @abstractmethod
    def write(self, batch: Any) -> None:
        """Write the next batch."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left and close the file; a second time, do nothing."""

    @abstractmethod
    def abandon(self) -> None:
        """Close the file, incomplete."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()


# A file with columns, whatever its format: what it holds, and its rows a batch at a time.


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


# Which columns of a file hold the location, and which are carried; and rows of it as people.


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
    names: list[str], kept: tuple[int, ...], read: ReadOptions, *, gains_geometry: bool
) -> TableSplit:
    """Find the coordinate columns among those kept, and carry the rest."""
    found = find_coordinates([names[place] for place in kept], read.latitude, read.longitude)
    if found is None:
        raise DataError(
            "there are no coordinate columns such as 'latitude' and 'longitude'; "
            "name them with --latitude and --longitude"
        )
    own = kept[found.latitude], kept[found.longitude]
    layout = Layout(
        latitude=LocationColumn(names[own[0]], found.latitude),
        longitude=LocationColumn(names[own[1]], found.longitude),
        gains_geometry=gains_geometry,
    )
    return TableSplit(layout, *own, None, False, tuple(place for place in kept if place not in own))


def split_at_geometry(
    names: list[str],
    kept: tuple[int, ...],
    geometry: int,
    read: ReadOptions,
    *,
    native: bool,
) -> TableSplit:
    """Take the geometry, and coordinate columns beside it: the same place written twice, to be replaced in both."""
    shown = LocationColumn(names[geometry], kept.index(geometry))
    rest = tuple(place for place in kept if place != geometry)
    if find_coordinates([names[place] for place in rest], read.latitude, read.longitude) is None:
        return TableSplit(Layout(geometry=shown), None, None, geometry, native, rest)
    beside = split_at_coordinates(names, rest, read, gains_geometry=True)
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
