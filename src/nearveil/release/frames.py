"""People in a frame of Arrow, pandas, Polars or GeoPandas, and published people as a frame of the same kind."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError
from nearveil.io.carried import check_carried
from nearveil.io.columns import kept_columns, plain_field, refuse_repeated
from nearveil.io.people import (
    Layout,
    LocationColumn,
    People,
    PeopleInMemory,
    PeopleStream,
    PeopleWriter,
    ReadOptions,
    joined_people,
    table_with_coordinates,
)
from nearveil.io.release_frames import geometry_at, is_geo_frame, pandas_column, points_in_geometry, shared_frame
from nearveil.io.table_file import Columns, PeopleInTable, TableSource, split_at_coordinates
from nearveil.release.publishing import predicting_columns, telling_column

Frame = TypeVar("Frame")

_INDEX_COLUMN = re.compile(r"__index_level_\d+__")


class PeopleInFrame:
    """A frame as people to read, and the published people as a frame of its kind.

    Parameters
    ----------
    frame : frame
        Of Arrow, pandas, Polars or GeoPandas.
    read : ReadOptions
        Which columns are what.
    keep_order : bool
        Whether a pandas index is kept, also as a column of Arrow (``__index_level_0__``).

    Attributes
    ----------
    stream : PeopleStream
        Everybody in the frame.
    writer : PeopleWriter
        Takes the published people.
    warnings : tuple of str
        What is suspicious about the frame beside its columns.
    """

    def __init__(self, frame: Any, read: ReadOptions, *, keep_order: bool) -> None:
        self.writer = _Collector()
        self.stream: PeopleStream
        self._frame = frame
        self._keep_order = keep_order
        self._index_columns: list[str] = []
        self._publish: Callable[[People], Any]
        _refuse_options_of_files(read)
        if is_geo_frame(frame):
            refuse_repeated([str(name) for name in frame.columns])
            self.stream, self._publish = (
                _people_in_geometries(self._with_index_as_columns(frame), read),
                self._geo_frame,
            )
            return
        shared = shared_frame(frame)
        if shared.implementation.is_pandas_like():
            refuse_repeated([str(name) for name in frame.columns])
            table, self._publish = _arrow_from_pandas(self._with_index_as_columns(frame)), self._pandas_frame
        elif shared.implementation.is_pyarrow():
            table, self._publish = self._without_index(frame, read.drop), table_with_coordinates
        else:
            table, self._publish = shared.to_arrow(), self._like_the_frame
        self.stream = _people_in_table(table, read)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each ordered category whose order follows the places: it comes back with its order."""
        if not hasattr(self._frame, "dtypes") or not hasattr(self._frame, "index"):
            return ()
        codes = {
            str(name): self._frame[name].cat.codes.to_numpy()
            for name, kind in self._frame.dtypes.items()
            if getattr(kind, "ordered", False) and str(name) in self.stream.carried.names
        }
        if not codes:
            return ()
        points = np.concatenate([people.points for people in self.stream.batches(())])
        return tuple(telling_column(name) for name in predicting_columns(pa.table(codes), points))

    def published(self) -> Any:
        """Return what was written, as a frame of the kind that came in."""
        people = joined_people(self.writer.people)
        if self._keep_order and people.carried.num_columns:
            # A slice of somebody's table would bring the rest of it along.
            people = replace(people, carried=people.carried.take(pa.array(np.arange(len(people)))))
        return self._publish(people)

    def _with_index_as_columns(self, frame: Any) -> Any:
        """An index that is kept is published as columns are, and so it is checked as they are."""
        if not self._keep_order or type(frame.index).__name__ == "RangeIndex":
            return frame
        levels = frame.index.to_frame(index=False)
        self._index_columns = [f"index level {number}" for number in range(levels.shape[1])]
        copied = frame.reset_index(drop=True)
        for number, name in enumerate(self._index_columns):
            copied[name] = levels.iloc[:, number]
        return copied

    def _without_index(self, table: pa.Table, drop: tuple[str, ...]) -> pa.Table:
        """Leave out what Arrow makes of a pandas index without a name, unless the order is kept."""
        if self._keep_order:
            return table
        return table.select([n for n in table.column_names if n in drop or not _INDEX_COLUMN.fullmatch(n)])

    def _with_index(self, frame: Any) -> Any:
        if not self._keep_order:
            return frame
        if not self._index_columns:
            return frame.set_axis(self._frame.index)
        return frame.set_index(self._index_columns).rename_axis(self._frame.index.names)

    def _like_the_frame(self, people: People) -> Any:
        import narwhals as nw  # noqa: PLC0415 - for frames only

        return nw.from_arrow(
            table_with_coordinates(people), backend=shared_frame(self._frame).implementation
        ).to_native()

    def _pandas_frame(self, people: People) -> Any:
        return self._with_index(self._with_types(table_with_coordinates(people)))

    def _geo_frame(self, people: People) -> Any:
        true, carried = self._frame, self._with_types(people.carried)
        name = true.geometry.name
        carried[name] = geometry_at(people.points, true.crs)
        frame = sys.modules["geopandas"].GeoDataFrame(carried, geometry=name, crs=true.crs)
        order = [each for each in (*true.columns, *self._index_columns) if each in set(frame.columns)]
        return self._with_index(frame[order])

    def _with_types(self, table: pa.Table) -> Any:
        """Return a pandas frame with the names and types of the columns that came in."""
        kinds = {str(name): (name, kind) for name, kind in self._frame.dtypes.items()}
        kinds |= {
            name: (name, self._frame.index.get_level_values(number).dtype)
            for number, name in enumerate(self._index_columns)
        }
        pandas = sys.modules["pandas"]
        columns = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            own, kind = kinds[name]
            columns.append(pandas.Series(pandas_column(column, kind), name=own))
        if not columns:
            return pandas.DataFrame(index=range(table.num_rows))
        return pandas.concat(columns, axis=1)


class _Collector(PeopleWriter):
    """Keeps published people in memory."""

    def __init__(self) -> None:
        self.people: list[People] = []

    def prepared(self, people: People) -> People:
        """Return the batch itself."""
        return people

    def write(self, batch: People) -> None:
        """Keep the next batch."""
        self.people.append(batch)

    def finish(self) -> None:
        """Do nothing: there is no file."""

    def abandon(self) -> None:
        """Do nothing: there is no file."""


class _TableInMemory(TableSource):
    """An Arrow table without its metadata, which may hold bounds of true places."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = pa.schema([plain_field(field) for field in table.schema])
        self.rows = table.num_rows
        self._table = table

    def batches(self, positions: Sequence[int]) -> Iterator[Columns]:
        """Give all rows at once."""
        yield {place: self._table.column(place) for place in positions}

    def first_rows(self) -> Columns:
        """Return the first rows of all columns."""
        return {place: column.slice(0, 1000) for place, column in enumerate(self._table.columns)}


def _people_in_table(table: pa.Table, read: ReadOptions) -> PeopleStream:
    if not table.num_rows:
        raise DataError("the frame has no rows; give at least one person")
    names = table.column_names
    source = _TableInMemory(table)
    first = source.first_rows()
    kept = kept_columns(names, read.drop)
    try:
        split = split_at_coordinates(names, kept, read, first=first, gains_geometry=False)
    except DataError as error:
        if "columns=" not in str(error):
            raise
        raise DataError(
            "the frame has no coordinate columns such as 'latitude' and 'longitude', and its columns are called by "
            "numbers or by data; rename them, or name two with ReadOptions(latitude=…, longitude=…)"
        ) from None
    return PeopleInTable(source, split, first, carry=True)


def _people_in_geometries(frame: Any, read: ReadOptions) -> PeopleStream:
    for option in ("latitude", "longitude", "location", "crs"):
        if getattr(read, option) is not None:
            raise UsageError(
                f"a GeoDataFrame has its locations in its geometries, in the system of frame.crs; leave out {option}"
            )
    if not len(frame):
        raise DataError("the frame has no rows; give at least one person")
    name = frame.geometry.name
    points = points_in_geometry(frame)
    kept_columns([str(column) for column in frame.columns], read.drop)
    left = frame[[column for column in frame.columns if column != name and str(column) not in read.drop]]
    others = [column for column in left.columns if str(left[column].dtype) == "geometry"]
    if others:
        raise DataError(
            f"column {others[0]!r} holds a second exact location, which would be published unprotected; "
            "leave it out (drop)"
        )
    if frame.crs is not None and frame.crs.to_authority() is None:
        warnings.warn(
            "the frame's CRS has no name of an authority (EPSG); one that is centred on a person gives the place away",
            stacklevel=4,
        )
    kept = _arrow_from_pandas(left)
    plain = kept.cast(pa.schema([plain_field(field) for field in kept.schema]))
    layout = Layout(geometry=LocationColumn(name, 0))
    # Coordinates in the frame's own CRS are as exact as degrees.
    in_frame = np.column_stack([frame.geometry.y.to_numpy(), frame.geometry.x.to_numpy()])
    return PeopleInMemory(People(points, plain, layout, None, check_carried(plain, points, in_frame)))


def _arrow_from_pandas(frame: Any) -> pa.Table:
    """Return the columns without the index. What Arrow says of a value that it cannot take may show a place."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError):
        pass
    for name in frame.columns:
        try:
            pa.Table.from_pandas(frame[[name]], preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError):
            raise DataError(
                f"column {name!r} mixes types or holds objects that cannot be carried; convert it or drop it"
            ) from None
    raise DataError("the frame cannot be read as an Arrow table; give every column one plain type") from None


def _refuse_options_of_files(read: ReadOptions) -> None:
    for option in ("columns", "delimiter", "encoding", "skip_bad"):
        if getattr(read, option):
            raise UsageError(f"{option} is for files, and a frame is none; leave it out")
