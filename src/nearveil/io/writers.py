"""Files of published locations, written a batch at a time, whole or not at all.

They hold the columns named and the published locations, and nothing else of the file that was read.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import replacing
from nearveil.io.location import Location, Style, Values
from nearveil.io.readers import STANDARD_STREAM, Batch, Source, extension_of

_ROWS_AT_ONCE = 1 << 16
_ROW_GROUP_ROWS = 1 << 20
_ROW_GROUP_BYTES = 1 << 26


@contextmanager
def open_writer(
    output: str | Path,
    source: Source,
    columns: Sequence[str],
    *,
    force: bool = False,
    metadata: dict[str, Any] | None = None,
) -> Iterator[Writer]:
    """Give a writer of published locations and these columns, in the order and style of the source.

    The extension decides the format; ``-`` is standard output, in the format of the source. With ``force``, a file that
    is there is replaced. ``metadata`` is what the file says of itself, in formats that have a place for it. The file
    gets its name when the ``with`` block ends without an error, else there is none.
    """
    is_standard = str(output) == STANDARD_STREAM
    extension = source.extension if is_standard else extension_of(output)
    if extension not in _FORMATS:
        raise UsageError(f"files such as {Path(output).name} are not written; write GeoJSON, GeoParquet or CSV")
    in_place = _standard_output(extension) if is_standard else replacing(Path(output), force=force)
    with in_place as path, closing(_FORMATS[extension](path, extension, source, columns, metadata or {})) as writer:
        yield writer
        writer.finish()


class Writer(ABC):
    """A file in the making."""

    geometry: Style | None = None
    """How the format writes a geometry, if it always has one."""

    def __init__(
        self, path: Path, extension: str, source: Source, columns: Sequence[str], metadata: dict[str, Any]
    ) -> None:
        self._path, self._source, self._metadata = path, source, json.dumps(metadata)
        self._location = location = _as_written(source.location, type(self), is_geo=extension == ".geoparquet")
        if repeated := [name for name in columns if name in location.columns]:
            raise UsageError(f"column {repeated[0]!r} has the name of the output's location; rename it")
        names = [name for name in source.names if name in columns or name in source.location.columns]
        if location.columns != source.location.columns:
            place = min(names.index(name) for name in source.location.columns)
            names = [name for name in names if name in columns]
            names[place:place] = location.columns
        self._names = names

    def write(self, batch: Batch) -> None:
        """Write rows, whose points are published locations."""
        location = dict(zip(self._location.columns, self._location.encode(batch.points), strict=True))
        columns = [_arrow(location[name]) if name in location else batch.table.column(name) for name in self._names]
        self._write(pa.table(columns, names=self._names))

    @abstractmethod
    def _write(self, table: pa.Table) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Write what is left and close the file; a second time, do nothing."""

    @abstractmethod
    def close(self) -> None:
        """Close a file that may not be finished."""


def _as_written(location: Location, file_format: type[Writer], *, is_geo: bool) -> Location:
    """Return how a file of some format writes the location of one of perhaps another."""
    geometry = location.columns if location.is_geometry else ("geometry",)
    if file_format.geometry is not None:
        return Location(columns=geometry, style=file_format.geometry, is_geometry=True)
    if file_format is _ParquetWriter and (location.is_geometry or is_geo):
        return Location(columns=geometry, style=Style.WKB, crs=location.crs, is_geometry=True)
    if location.is_geometry or (file_format in _NOT_HELD.get(location.style, ())):
        return Location(columns=("latitude", "longitude"))
    return location


@contextmanager
def _standard_output(extension: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nearveil-") as folder:
        whole = Path(folder) / f"published{extension.removesuffix('.gz')}"
        yield whole
        with whole.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _arrow(values: Values) -> pa.Array:
    """Return location values as an Arrow array, floats by their buffer, which spares loading pandas."""
    if values.dtype != np.float64:
        return pa.array(values.tolist())
    return pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])


class _TextWriter(Writer):
    def __init__(self, path: Path, *arguments: Any) -> None:
        super().__init__(path, *arguments)
        self._stream: Any = (gzip.open if path.suffix.lower() == ".gz" else open)(path, "wb")

    def finish(self) -> None:
        self._stream.close()

    def close(self) -> None:
        with suppress(OSError):
            self._stream.close()


# CSV. A value is quoted only if it needs to be.


class _CsvWriter(_TextWriter):
    _delimiter = ""

    def _write(self, table: pa.Table) -> None:
        if not self._delimiter:
            own = self._source.delimiter
            self._delimiter = (
                "\t" if self._path.name.lower().endswith((".tsv", ".tsv.gz")) else "," if own == "\t" else own
            )
            header = pa.record_batch([pa.array([name]) for name in table.column_names], names=table.column_names)
            self._stream.write(self._lines(header))
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            self._stream.write(self._lines(batch))

    def _lines(self, batch: pa.RecordBatch) -> memoryview:
        """Return rows as text, made column by column."""
        texts = [self._text(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        mark, empty, end = (pa.scalar(text, pa.large_string()) for text in (self._delimiter, "", "\n"))
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*texts, mark), empty, end)
        # The array's own buffer is the text of all lines, end to end.
        offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)
        return memoryview(lines.buffers()[2])[offsets[lines.offset] : offsets[lines.offset + len(lines)]]

    def _text(self, name: str, column: pa.Array) -> pa.Array:
        try:
            text = pc.fill_null(column.cast(pa.large_string()), "")
        except pa.ArrowException:
            raise DataError(f"column {name!r} holds what CSV cannot hold; leave it out, or write Parquet") from None
        if self._location.decimal_comma and name in self._location.columns and pa.types.is_floating(column.type):
            text = pc.replace_substring(text, ".", ",")
        special = pc.match_substring_regex(text, f'["{re.escape(self._delimiter)}\r\n]')
        if not pc.any(special).as_py():
            return text
        quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
        escaped = pc.binary_join_element_wise(quote, pc.replace_substring(text, '"', '""'), quote, nothing)
        return pc.if_else(special, escaped, text)


# JSON lines, GeoJSON features in lines, and GeoJSON.


class _JsonLinesWriter(_TextWriter):
    def _write(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self._stream.write(f"{self._json(row)}\n".encode())

    def _json(self, row: dict[str, Any]) -> str:
        if self.geometry is not None:
            point = row.pop(self._location.columns[0])
            row = {"type": "Feature", "properties": row, "geometry": point}
        try:
            return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_as_text)
        except ValueError:
            return json.dumps(_without_nan(row), ensure_ascii=False, default=_as_text)


class _FeatureLinesWriter(_JsonLinesWriter):
    geometry = Style.OBJECT


class _GeoJsonWriter(_FeatureLinesWriter):
    _before = b""

    def _write(self, table: pa.Table) -> None:
        if not self._before:
            self._stream.write(f'{{"type": "FeatureCollection", "nearveil": {self._metadata}, "features": ['.encode())
            self._before = b"\n"
        for row in table.to_pylist():
            self._stream.write(self._before + self._json(row).encode())
            self._before = b",\n"

    def finish(self) -> None:
        if not self._stream.closed:
            self._stream.write(b"\n]}\n")
            self._stream.close()


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        raise DataError("a column holds bytes, which JSON cannot hold; leave it out, or write Parquet")
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Parquet and GeoParquet.


class _ParquetWriter(Writer):
    _writer: pq.ParquetWriter | None = None

    _waiting: tuple[pa.Table, ...] = ()

    def _write(self, table: pa.Table) -> None:
        try:
            if self._writer is None:
                geo = {"geo": _geo_metadata(self._location)} if self._location.is_geometry else {}
                self._schema = table.schema.with_metadata({"nearveil": self._metadata, **geo})
                # Floats hardly repeat: without a dictionary they are written faster.
                repeating = [field.name for field in self._schema if not pa.types.is_floating(field.type)]
                is_nested = any(pa.types.is_nested(field.type) for field in self._schema)
                self._writer = pq.ParquetWriter(self._path, self._schema, use_dictionary=is_nested or repeating)
            self._waiting += (table.cast(self._schema),)
        except (pa.ArrowException, ValueError):
            raise DataError("a column's type changes within the file, or is none of Parquet's; write .jsonl") from None
        rows, size = sum(part.num_rows for part in self._waiting), sum(part.nbytes for part in self._waiting)
        if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self) -> None:
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()

    def close(self) -> None:
        if self._writer is not None:
            with suppress(pa.ArrowException, OSError):
                self._writer.close()

    def _write_row_group(self) -> None:
        waiting, self._waiting = self._waiting, ()
        if self._writer is not None and waiting:
            table = pa.concat_tables(waiting)
            self._writer.write_table(table, max(table.num_rows, 1))


def _geo_metadata(location: Location) -> str:
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": ["Point"]}
    if location.crs is not None:
        from nearveil.geodesy import reference_system  # noqa: PLC0415 - loads pyproj

        column["crs"] = reference_system(location.crs).to_json_dict()
    name = location.columns[0]
    return json.dumps({"version": "1.1.0", "primary_column": name, "columns": {name: column}})


_FORMATS: dict[str, type[Writer]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz"), _CsvWriter),
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"), _JsonLinesWriter),
    **dict.fromkeys((".geojsonl", ".geojsons"), _FeatureLinesWriter),
    **dict.fromkeys((".geojson", ".geojson.gz", ".json", ".json.gz"), _GeoJsonWriter),
    **dict.fromkeys((".parquet", ".geoparquet"), _ParquetWriter),
}
# What CSV and JSON cannot hold becomes two columns.
_NOT_HELD = {
    Style.WKB: (_CsvWriter, _JsonLinesWriter),
    Style.OBJECT: (_CsvWriter,),
}
