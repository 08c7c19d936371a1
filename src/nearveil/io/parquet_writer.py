"""Parquet and GeoParquet out."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearveil.errors import DataError
from nearveil.io.geoparquet import geo_metadata_of
from nearveil.io.people import Layout, People, Place, table_with_coordinates, with_column
from nearveil.io.people_writer import PeopleWriter
from nearveil.io.wkb import wkb_from_points

_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 1 << 26
_ROWS_LOOKED_AT = 1000


class ParquetWriter(PeopleWriter):
    """A Parquet file; coordinate columns and geometry stay where the input had them.

    A geometry is added where the input had none, if its layout gains one or the file is called ``.geoparquet``.
    """

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        self._path = path
        self._metadata = json.dumps(metadata)
        self._named_geo = path.name.lower().endswith(".geoparquet")
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []

    def prepared(self, people: People) -> pa.Table:
        """Return all columns, and what the file will say of itself."""
        layout = people.layout
        has_columns = layout.latitude is not None and layout.longitude is not None
        table = table_with_coordinates(people) if has_columns else people.carried
        metadata = {b"nearveil": self._metadata}
        geometry = self._geometry(layout, table.num_columns)
        if geometry is not None:
            table = with_column(table, geometry, wkb_from_points(people.points))
            metadata[b"geo"] = geo_metadata_of(geometry.name)
        for field in table.schema:
            if _has_empty_struct(field.type):
                raise DataError(
                    f"column {field.name!r} holds structures without fields, which Parquet cannot hold; leave it out "
                    f"with --drop {field.name!r}, or write GeoJSON"
                )
        return table.replace_schema_metadata(metadata)

    def write(self, batch: pa.Table) -> None:
        """Write the batch, once enough of them make a row group."""
        self._waiting.append(batch)
        rows = sum(table.num_rows for table in self._waiting)
        if rows >= _ROW_GROUP_ROWS or sum(table.nbytes for table in self._waiting) >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self) -> None:
        """Write what is left and close the file."""
        if self._waiting:
            self._write_row_group()
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()

    def _geometry(self, layout: Layout, columns: int) -> Place | None:
        if layout.geometry is None and (layout.gains_geometry or self._named_geo):
            return Place("geometry", columns)
        return layout.geometry

    def _write_row_group(self) -> None:
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, **_encodings(table))
        # One row group, unless everybody comes at once.
        rows = table.num_rows
        self._writer.write_table(table, rows if rows < 2 * _ROW_GROUP_ROWS else _ROW_GROUP_ROWS)


def _has_empty_struct(kind: pa.DataType) -> bool:
    if not pa.types.is_nested(kind):
        return False
    return kind.num_fields == 0 or any(_has_empty_struct(kind.field(place).type) for place in range(kind.num_fields))


def _encodings(table: pa.Table) -> dict[str, Any]:
    """How to write the columns: a dictionary where values repeat, and no compression where it finds nothing."""
    if any(pa.types.is_nested(field.type) for field in table.schema):
        return {}
    repeating = [name for name, column in zip(table.column_names, table.columns, strict=True) if _repeats(column)]
    return {
        "use_dictionary": repeating,
        "compression": {
            field.name: "none" if pa.types.is_float64(field.type) and field.name not in repeating else "snappy"
            for field in table.schema
        },
    }


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether the first values repeat: ids and places do not."""
    first = column.slice(0, _ROWS_LOOKED_AT).to_pylist()
    return 2 * len(set(first)) <= len(first)
