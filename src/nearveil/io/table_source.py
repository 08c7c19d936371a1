"""A file with columns, whatever its format: what it holds, and its rows a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

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
