"""Parquet with latitude and longitude columns, and GeoParquet with points."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearveil.errors import DataError
from nearveil.geodesy import degrees_to, reference_system
from nearveil.io.columns import kept_columns, plain_field, wkb_from_points
from nearveil.io.input_file import InputFile
from nearveil.io.people import (
    Layout,
    LocationColumn,
    People,
    PeopleStream,
    PeopleWriter,
    ReadOptions,
    no_rows,
    table_with_coordinates,
    with_column,
)
from nearveil.io.table_file import (
    Columns,
    PeopleInTable,
    TableSource,
    TableSplit,
    by_position,
    names_to_read,
    split_at_coordinates,
    split_at_geometry,
)

_BATCH_ROWS = 1 << 18
_LEAST_BATCH_ROWS = 1 << 12
_BATCH_BYTES = 1 << 25
_FIRST_ROWS = 1000
# A row group may be larger than memory, so it is read through a buffer.
_BUFFER_BYTES = 1 << 20


def open_parquet(file: InputFile, read: ReadOptions, *, carry: bool = True) -> PeopleStream:
    """Open a Parquet file of people: with the primary geometry of GeoParquet, else with coordinate columns."""
    source = ParquetSource(file)
    names = source.schema.names
    geo = geo_metadata(source.metadata, names, file.name, read.crs)
    first = source.first_rows()
    if geo is None or geo.primary in read.drop:
        kept = kept_columns(names, read.drop)
        split = split_at_coordinates(names, kept, read, first=first, gains_geometry=False)
    else:
        if (read.crs is not None and geo.names_crs) or read.location is not None:
            raise DataError(f"{file.name} names its geometry and reference system; leave out crs= and location=")
        kept = kept_columns(names, (*read.drop, *geo.covering))
        # What is said of the geometry is not said of columns beside it.
        split = _split_at_primary(geo, names, kept, replace(read, crs=None), first=first, carry=carry)
    return PeopleInTable(source, split, first, carry=carry)


def _split_at_primary(
    geo: GeoMetadata,
    names: list[str],
    kept: tuple[int, ...],
    read: ReadOptions,
    *,
    first: Columns,
    carry: bool,
) -> TableSplit:
    geometry = names.index(geo.primary)
    if carry:
        geo.refuse_others([names[place] for place in kept if place != geometry])
    return split_at_geometry(names, kept, geometry, read, first=first, native=geo.native, crs=geo.crs)


class ParquetSource(TableSource):
    """A Parquet file, without the metadata of the file and its columns, which may hold bounds of true places."""

    def __init__(self, source: InputFile) -> None:
        self._source = source
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
        name, source = self._source.name, self._source.seekable()
        try:
            with pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as file:
                yield file
        except OSError as error:
            if error.errno:
                raise DataError(f"{name} cannot be read: {error.strerror}") from None
            raise _damaged(name) from None
        except pa.ArrowException:
            raise _damaged(name) from None


def _batch_rows(size_bytes: int, rows: int) -> int:
    """How many rows to read at once: fewer where they are wide."""
    per_row = max(size_bytes // max(rows, 1), 1)
    return min(max(_BATCH_BYTES // per_row, _LEAST_BATCH_ROWS), _BATCH_ROWS)


def _runs(rows_of_groups: list[int], rows: int) -> list[list[int]]:
    """Put consecutive row groups together until they have enough rows."""
    runs: list[list[int]] = []
    room = 0
    for number, own in enumerate(rows_of_groups):
        if room <= 0:
            runs.append([])
            room = rows
        runs[-1].append(number)
        room -= own
    return runs


def _damaged(name: str) -> DataError:
    return DataError(f"{name} is damaged, cut short or no Parquet file; export it again")


# Parquet and GeoParquet out.


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
        table = table_with_coordinates(people) if layout.has_columns else people.carried
        metadata = {b"nearveil": self._metadata}
        geometry = self._geometry(layout, table.num_columns)
        if geometry is not None:
            crs = layout.geometry_crs
            points = people.points if crs is None else degrees_to(crs, people.points)
            table = with_column(table, geometry, wkb_from_points(points))
            metadata[b"geo"] = geo_metadata_of(geometry.name, crs=crs)
        for field in table.schema:
            if _has_empty_struct(field.type):
                raise DataError(
                    f"column {field.name!r} holds structures without fields, which Parquet cannot hold; leave it out "
                    "with drop=, or write GeoJSON"
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
        """Close the file, incomplete."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()

    def _geometry(self, layout: Layout, columns: int) -> LocationColumn | None:
        if layout.geometry is None and (layout.gains_geometry or self._named_geo):
            return LocationColumn("geometry", columns)
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


# The GeoParquet metadata of a file.


@dataclass(frozen=True, slots=True)
class GeoMetadata:
    """The part of the metadata that matters for points.

    Attributes
    ----------
    primary : str
        The column that holds the place.
    native : bool
        Whether it is a structure of x and y, instead of well-known binary.
    covering : tuple of str
        Columns with each row's bounding box, an exact location in disguise.
    geometries : tuple of str
        All columns with geometries.
    crs : str, optional
        Their reference system, as an EPSG number; WGS84 degrees if not given.
    names_crs : bool
        Whether the file says so, or leaves the system out, which means degrees; otherwise somebody had to say it.
    """

    primary: str
    native: bool
    covering: tuple[str, ...]
    geometries: tuple[str, ...]
    crs: str | None = None
    names_crs: bool = True

    def refuse_others(self, names: list[str]) -> None:
        """Raise if a further geometry is among these columns."""
        for name in self.geometries:
            if name in names:
                raise DataError(
                    f"column {name!r} holds a second geometry that would be published unprotected; leave it out with "
                    "drop="
                )


def geo_metadata(
    metadata: Mapping[bytes, bytes], names: list[str], file: str, stated_crs: str | None = None
) -> GeoMetadata | None:
    """Read the metadata of a file with these columns; None if it is not a GeoParquet file.

    ``stated_crs`` is the reference system of a file that calls its own unknown.
    """
    text = metadata.get(b"geo")
    if text is None:
        return None
    try:
        geo: dict[str, Any] = json.loads(text)
        primary = geo["primary_column"]
        column = geo["columns"][primary]
        encoding, crs = column["encoding"], column.get("crs", "OGC:CRS84")
        covering = column.get("covering", {}).get("bbox", {})
        boxes = sorted({parts[0] for parts in covering.values() if parts and parts[0] in names})
        if primary not in names:
            raise KeyError("primary_column")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{file} has damaged GeoParquet metadata; export it again") from None
    if encoding not in ("WKB", "point"):
        raise DataError(f"{file} holds geometries that are not points; give one point per person")
    # GeoParquet: no key means degrees, and null means unknown.
    number = _epsg(crs, file) if crs is not None else _stated_epsg(stated_crs, file)
    return GeoMetadata(primary, encoding == "point", tuple(boxes), tuple(geo["columns"]), number, crs is not None)


def geo_metadata_of(geometry: str, kind: str = "Point", *, crs: str | None = None) -> str:
    """Return the metadata of a file with points, or polygons, in one column; without ``crs``, in WGS84 degrees."""
    system = {} if crs is None else {"crs": reference_system(crs).to_json_dict()}
    column = {"encoding": "WKB", "geometry_types": [kind], **system}
    return json.dumps({"version": "1.1.0", "primary_column": geometry, "columns": {geometry: column}})


def _stated_epsg(crs: str | None, file: str) -> str | None:
    if crs is None:
        raise DataError(
            f"{file} says that its reference system is unknown (crs is null); name it with crs=, such as EPSG:4326 "
            "for degrees, or in the file"
        )
    authority, code = reference_system(crs).to_authority() or ("", "")
    return _epsg({"id": {"authority": authority, "code": code}}, file)


def _epsg(crs: Any, file: str) -> str | None:
    """Return the reference system by its EPSG number, or None for WGS84 degrees.

    One without a number may be centred on a person, and would be published with the file.
    """
    identity = crs.get("id") if isinstance(crs, dict) else None
    authority, code = (identity.get("authority"), str(identity.get("code"))) if isinstance(identity, dict) else (0, "")
    if crs == "OGC:CRS84" or (authority, code) in {("OGC", "CRS84"), ("EPSG", "4326")}:
        return None
    if authority != "EPSG" or not code.isdecimal():
        raise DataError(f"{file} is in a reference system without an EPSG number; reproject it to EPSG:4326")
    reference_system(f"EPSG:{code}")
    return f"EPSG:{code}"
