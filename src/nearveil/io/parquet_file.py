"""Parquet with latitude and longitude columns, and GeoParquet with points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearveil.errors import DataError
from nearveil.io.coordinates import kept_columns
from nearveil.io.geoparquet import GeoMetadata, geo_metadata
from nearveil.io.people_stream import PeopleInTable, PeopleStream, no_rows
from nearveil.io.plain_types import plain_field
from nearveil.io.table_source import Columns, TableSource, by_position, names_to_read
from nearveil.io.table_split import TableSplit, split_at_coordinates, split_at_geometry

_BATCH_ROWS = 1 << 18
_LEAST_BATCH_ROWS = 1 << 12
_BATCH_BYTES = 1 << 25
_FIRST_ROWS = 1000
# A row group may be larger than memory, so it is read through a buffer.
_BUFFER_BYTES = 1 << 20


def open_parquet(
    path: Path,
    *,
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    carry: bool = True,
) -> PeopleStream:
    """Open a Parquet file of people: with the primary geometry of GeoParquet, else with coordinate columns."""
    source = ParquetSource(path)
    names = source.schema.names
    geo = geo_metadata(source.metadata, names, path)
    if geo is None or geo.primary in drop:
        kept = kept_columns(names, drop)
        first = source.first_rows()
        split = split_at_coordinates(names, kept, latitude, longitude, gains_geometry=False)
    else:
        kept = kept_columns(names, (*drop, *geo.covering))
        first = source.first_rows()
        split = _split_at_primary(geo, names, kept, latitude, longitude, carry=carry)
    return PeopleInTable(source, split, first, carry=carry)


def _split_at_primary(
    geo: GeoMetadata,
    names: list[str],
    kept: tuple[int, ...],
    latitude: str | None,
    longitude: str | None,
    *,
    carry: bool,
) -> TableSplit:
    geometry = names.index(geo.primary)
    if carry:
        geo.refuse_others([names[place] for place in kept if place != geometry])
    return split_at_geometry(names, kept, geometry, latitude, longitude, native=geo.native)


class ParquetSource(TableSource):
    """A Parquet file. What it and its columns say of themselves is left out: bounds of true places may hide there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._file() as file:
            described = file.schema_arrow
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            self.rows: int = file.metadata.num_rows
        self.metadata: dict[bytes, bytes] = described.metadata or {}
        self.schema = pa.schema([plain_field(field) for field in described])
        self._batch_rows = _batch_rows(sum(group.total_byte_size for group in groups), self.rows)
        self._runs = _runs([group.num_rows for group in groups], self._batch_rows)

    def batches(self, positions: Sequence[int]) -> Iterator[Columns]:
        """Read the columns at these positions from the first row on."""
        return self._batches(positions, self._batch_rows)

    def first_rows(self) -> Columns:
        """Return the first rows of all columns."""
        for columns in self._batches(range(len(self.schema)), _FIRST_ROWS):
            return columns
        raise no_rows()

    def _batches(self, positions: Sequence[int], rows: int) -> Iterator[Columns]:
        names = names_to_read(positions, self.schema)
        with self._file() as file:
            # Some of a row group stays in memory until the last of those asked for is done, so few are asked for.
            for groups in self._runs:
                for batch in file.iter_batches(rows, row_groups=groups, columns=names):
                    if batch.num_rows:
                        yield by_position(batch, positions, self.schema)

    @contextmanager
    def _file(self) -> Iterator[pq.ParquetFile]:
        path = self._path
        try:
            with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as file:
                yield file
        except OSError as error:
            if error.errno:
                raise DataError(f"{path} cannot be read: {error.strerror}") from None
            raise _damaged(path) from None
        except pa.ArrowException:
            raise _damaged(path) from None


def _batch_rows(size_bytes: int, rows: int) -> int:
    """How many rows to read at once: fewer where they are wide."""
    per_row = max(size_bytes // max(rows, 1), 1)
    return min(max(_BATCH_BYTES // per_row, _LEAST_BATCH_ROWS), _BATCH_ROWS)


def _runs(rows_of_groups: list[int], rows: int) -> list[list[int]]:
    """Put row groups together that follow each other, until they have so many rows."""
    runs: list[list[int]] = []
    room = 0
    for number, own in enumerate(rows_of_groups):
        if room <= 0:
            runs.append([])
            room = rows
        runs[-1].append(number)
        room -= own
    return runs


def _damaged(path: Path) -> DataError:
    return DataError(f"{path} is damaged, cut short or no Parquet file; export it again")
