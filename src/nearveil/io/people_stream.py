"""People of a file, a batch at a time: files may be larger than memory, and are read as often as needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.coordinates import check_carried
from nearveil.io.people import Layout, People
from nearveil.io.table_source import Columns, TableSource
from nearveil.io.table_split import TableSplit


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

    def gathered(self) -> People:
        """Read everybody into memory."""
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
