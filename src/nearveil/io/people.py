"""People as read from a file: locations apart from all other columns, in memory or in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError
from nearveil.geodesy import degrees_to, reference_system
from nearveil.io import location
from nearveil.io.columns import arrow_floats, floats_from_arrow, taken_rows
from nearveil.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(location.ReadOptions):
    """How people are read from a file or a frame by the release."""

    skip_bad: Path | None = None
    drop: tuple[str, ...] = ()
    person: str | None = None
    per_row: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        for name in ("drop", "columns"):
            given = getattr(self, name)
            if not isinstance(given, tuple | list):
                raise UsageError(f"{name} takes a tuple of names, such as {name}=('name',)")
            object.__setattr__(self, name, tuple(map(str, given)))
        for name in ("latitude", "longitude", "location", "person"):
            # Columns of a pandas frame may be called by numbers.
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, str(given))
        if self.skip_bad is not None:
            if str(self.skip_bad) == "-":
                raise UsageError("skip_bad= takes the name of a file, which will hold true locations, and not -")
            object.__setattr__(self, "skip_bad", Path(self.skip_bad))
        location.ReadOptions.__post_init__(self)

    @property
    def is_projected(self) -> bool:
        """Whether the coordinates are those of a map, in metres or another length."""
        return self.crs is not None and reference_system(self.crs).is_projected

    def arguments(self) -> list[str]:
        """Return the options of the command line that say how a file is read: none where nothing was said."""
        words: list[str] = []
        for name in ("latitude", "longitude", "location", "crs", "delimiter", "encoding", "skip_bad"):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name.replace('_', '-')}", _DELIMITER_NAMES.get(str(value), str(value))]
        if self.columns:
            words += ["--columns", ",".join(self.columns)]
        return [*words, "--clip"] if self.clip else words


_DELIMITER_NAMES = {"\t": "tab", " ": "space"}


@dataclass(frozen=True, slots=True)
class LocationColumn:
    """A column that holds part of the location: its name, and where it stood in the file."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file writes locations down: a latitude and a longitude column, or one of text; a geometry; or both.

    Attributes
    ----------
    latitude, longitude, geometry, text : LocationColumn, optional
        The columns that there are.
    style : str
        How the text is written, a `TextStyle`.
    gains_geometry : bool
        Whether columns alone get a geometry beside them in a format that has one: what was a plain Parquet file stays
        one.
    crs, geometry_crs : str, optional
        Reference systems of the columns and of the geometry; WGS84 degrees if not given.
    """

    latitude: LocationColumn | None = None
    longitude: LocationColumn | None = None
    geometry: LocationColumn | None = None
    text: LocationColumn | None = None
    style: str = ""
    gains_geometry: bool = True
    crs: str | None = None
    geometry_crs: str | None = None

    @property
    def has_columns(self) -> bool:
        """Whether there are columns for the location other than a geometry."""
        return self.latitude is not None or self.text is not None

    @property
    def srid(self) -> int | None:
        """The EPSG number of the columns' reference system; None for WGS84 degrees."""
        return None if self.crs is None else reference_system(self.crs).to_epsg()


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
    """Return all columns with the location's at their old positions (latitude and longitude, where they had none)."""
    layout = people.layout
    points = people.points if layout.crs is None else degrees_to(layout.crs, people.points)
    if layout.text is not None:
        from nearveil.io.location_text import TextStyle, text_from_points  # noqa: PLC0415 - slow to load

        values = text_from_points(points, TextStyle(layout.style), srid=layout.srid)
        return with_column(people.carried, layout.text, values)
    latitude, longitude = layout.latitude, layout.longitude
    if latitude is None or longitude is None:
        position = layout.geometry.position if layout.geometry else people.carried.num_columns
        latitude, longitude = LocationColumn("latitude", position), LocationColumn("longitude", position + 1)
    table = people.carried
    columns = [(latitude, points[:, 0]), (longitude, points[:, 1])]
    for column, numbers in sorted(columns, key=lambda pair: pair[0].position):
        table = with_column(table, column, arrow_floats(numbers))
    return table


def with_column(table: pa.Table, column: LocationColumn, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the table with one more column, at its position; a table without columns gets its rows with it."""
    if table.num_columns == 0:
        return pa.table({column.name: values})
    return table.add_column(min(column.position, table.num_columns), column.name, values)


# People of a file, a batch at a time: files may be larger than memory, and are read as often as needed.


class UnreadableRow(NamedTuple):
    """A row without values for the columns: why, and its text."""

    because: str
    text: str


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
    extension : str
        Of files in the format of this one.
    skipped : int
        How many rows have been left out because they cannot be used.
    """

    layout: Layout
    carried: pa.Schema
    warnings: tuple[str, ...]
    rows: int | None
    extension: str = ".csv"
    skipped: int = 0

    @abstractmethod
    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Read the file from its first row, with all carried columns or with those at some positions only."""

    @property
    @abstractmethod
    def names_as_read(self) -> list[str]:
        """Names of all columns of the file, also of those that are not carried."""

    @abstractmethod
    def rows_as_read(self, rows: IntArray) -> Iterator[Sequence[Any]]:
        """Give some rows, counted from 0, with all their values as they stand in the file."""

    @property
    def unreadable(self) -> Mapping[int, UnreadableRow]:
        """Rows, counted from 1, that have no values for the columns; after `batches` has ended."""
        return {}

    def read_all(self) -> People:
        """Read all rows into memory."""
        parts = list(self.batches())
        if len(parts) == 1:
            return replace(parts[0], warnings=self.warnings)
        points = np.concatenate([part.points for part in parts])
        return People(points, pa.concat_tables([part.carried for part in parts]), self.layout, warnings=self.warnings)


class PeopleInMemory(PeopleStream):
    """People that are at hand, in one batch."""

    def __init__(self, people: People, as_read: Callable[[int], str] = str) -> None:
        self.layout = people.layout
        self.carried = people.carried.schema
        self.warnings = people.warnings
        self.rows = len(people)
        self._people = people
        self._as_read = as_read

    @property
    def names_as_read(self) -> list[str]:
        """One name for a whole row."""
        return ["feature"]

    def rows_as_read(self, rows: IntArray) -> Iterator[Sequence[Any]]:
        """Give some rows as they were."""
        return ([self._as_read(row)] for row in rows.tolist())

    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Return everybody."""
        if carried is None:
            yield self._people
            return
        columns = [self._people.carried.column(place) for place in carried]
        schema = pa.schema([self.carried.field(place) for place in carried])
        yield People(self._people.points, pa.Table.from_arrays(columns, schema=schema), self.layout)


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
