"""Files of locations, read a batch at a time: text, JSON lines, GeoJSON, Parquet, and what GDAL reads."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from nearveil.errors import DataError, UsageError, require_package, without_context
from nearveil.io.location import Location, ReadOptions, Style, Values, epsg_name, find_location, objects, only_column
from nearveil.types import FloatArray

__all__ = ["STANDARD_STREAM", "Batch", "ReadOptions", "Source", "extension_of", "open_source", "plain", "read_points"]

STANDARD_STREAM = "-"
"""Standard input where a file is read, standard output where one is written."""

_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 1 << 25
_BLOCK_BYTES = 1 << 20
_FIRST_ROWS = 1000


class Batch(NamedTuple):
    """Consecutive rows of a file."""

    points: FloatArray
    """Latitude and longitude in WGS84 degrees; NaN where a row has no readable location."""
    table: pa.Table
    """The columns asked for, without metadata."""


class Source(ABC):
    """A file of locations. It is read from the start whenever `batches` is called."""

    path: Path
    extension: str
    """Of its format, such as ``.csv``."""
    location: Location
    """How it writes locations down."""
    names: tuple[str, ...] = ()
    """All columns that may be published, and the location's, in their order."""
    rows: int | None = None
    """How many there are, where the file says so beforehand."""
    delimiter: str = ","

    def __init__(self, file: _Input, extension: str, read: ReadOptions) -> None:
        self.path = file.path
        self.extension = extension
        self._file = file
        self._read = read
        geometry = self._open()
        first = next((table for table in self._tables(self.names, _FIRST_ROWS) if table.num_rows), None)
        if first is None:
            raise DataError(f"{file.name} has no rows; give at least one")

        def values(name: str) -> Values:
            rows = first.column(name).slice(0, _FIRST_ROWS).to_pylist() if self.names.count(name) == 1 else []
            return objects(rows)

        self.location = find_location(self.names, read, values, geometry)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns except the location's."""
        return tuple(name for name in self.names if name not in self.location.columns)

    def batches(self, columns: Sequence[str] = ()) -> Iterator[Batch]:
        """Read locations and the columns asked for, from the first row on."""
        for name in columns:
            only_column(self.columns, name)
        for table in self._tables([*self.location.columns, *columns], _BATCH_ROWS):
            places = [_values(table.column(name), self.location) for name in self.location.columns]
            yield Batch(self.location.decode(places), table.select(list(columns)))

    @abstractmethod
    def _open(self) -> Location | None:
        """Find the names, and the geometry if the format has one."""

    @abstractmethod
    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Read columns from the first row on, about so many rows at a time."""


def open_source(path: str | Path, read: ReadOptions | None = None) -> Source:
    """Open a file of locations; the extension decides the format. ``-`` is standard input, held in memory."""
    with without_context():
        file = _Input(path)
        extension = _extension(file)
        read = read or ReadOptions()
        if (read.columns or read.delimiter or read.encoding) and _SOURCES[extension] is not _CsvSource:
            raise UsageError(f"columns=, delimiter= and encoding= are for text files, and {file.name} is none")
        return _SOURCES[extension](file, extension, read)


def read_points(source: str | Path | Source, read: ReadOptions | None = None) -> FloatArray:
    """Return all locations of a file; a row without one is an error with its number."""
    source = source if isinstance(source, Source) else open_source(source, read)
    parts, rows = [], 0
    with without_context():
        for batch in source.batches():
            source.location.check(batch.points, rows_before=rows)
            parts.append(batch.points)
            rows += len(batch.points)
    return np.concatenate(parts)


def extension_of(path: str | Path) -> str:
    """Return the extension that decides a file's format, the longest that fits; empty if there is none."""
    name = Path(path).name.lower()
    return next((each for each in sorted(_SOURCES, key=len, reverse=True) if name.endswith(each)), "")


def _extension(file: _Input) -> str:
    """Return the extension of a file's format: by its name, of standard input by its first bytes."""
    head = file.head()
    extension = extension_of(file.path)
    if file.is_held and not extension:
        is_json = head.lstrip().startswith((b"{", b"["))
        is_lines = is_json and b'"FeatureCollection"' not in head and not head.lstrip().startswith(b"[")
        return ".parquet" if head.startswith(b"PAR1") else ".jsonl" if is_lines else ".json" if is_json else ".csv"
    if not extension:
        raise UsageError(f"{file.path.name} has none of the formats {', '.join(_SOURCES)}; export it, such as to CSV")
    is_text = _SOURCES[extension] in (_CsvSource, _JsonSource, _JsonLinesSource)
    if is_text and head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1", b"SQLite format 3")):
        raise DataError(f"{file.name} holds no text, whatever its name says; rename it, or export it as CSV")
    return extension


class _Input:
    """A file on disk, or what came through standard input: true locations go into no temporary file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.is_held = str(path) == STANDARD_STREAM
        self.name = "standard input" if self.is_held else str(path)
        self._held = b""
        if not self.is_held and not self.path.is_file():
            raise DataError(f"there is no file {path}; check the name, or give - for what is piped in")
        if self.is_held:
            if sys.stdin.isatty():
                raise UsageError("standard input is a terminal; pipe a file into it, or name one in place of -")
            self._held = sys.stdin.buffer.read()
        try:
            with self._as_it_is() as stream:
                self._is_gzip = stream.read(2) == b"\x1f\x8b"
                if not stream.tell():
                    raise DataError(f"{self.name} is empty; give at least one row")
        except OSError as error:
            raise DataError(f"{self.name} cannot be read: {error.strerror}") from None

    def _as_it_is(self) -> BinaryIO:
        return io.BytesIO(self._held) if self.is_held else self.path.open("rb")

    def seekable(self) -> Any:
        """Return what a reader can move about in: the path, or what is held."""
        return pa.BufferReader(self._held) if self.is_held else str(self.path)

    def open(self) -> BinaryIO:
        """Open the file at its first byte, unpacked if it is gzipped."""
        if not self._is_gzip:
            return self._as_it_is()
        return cast(BinaryIO, gzip.open(self._as_it_is() if self.is_held else self.path))

    def head(self) -> bytes:
        """Return the first bytes, unpacked."""
        with _reading(self), self.open() as stream:
            return stream.read(1 << 16)


@contextmanager
def _reading(file: _Input) -> Iterator[None]:
    """Say in one sentence that a file cannot be read; a library's own message may quote a row."""
    try:
        yield
    except (DataError, UsageError):
        raise
    except UnicodeError:
        raise _not_text(file) from None
    except (pa.ArrowException, OSError, EOFError, ValueError, RuntimeError) as error:
        if "UTF8" in str(error):
            raise _not_text(file) from None
        if "straddling" in str(error):
            raise _no_end(file) from None
        raise DataError(f"{file.name} is damaged, or of another format than its name says; export it again") from None


def _no_end(file: _Input) -> DataError:
    return DataError(f"{file.name} has a quotation mark without an end, or a row over 1 MB; quote values as in CSV")


def _not_text(file: _Input) -> DataError:
    return DataError(f"{file.name} is not text in this encoding; name it with encoding=, such as cp1252 or utf-16")


# Columns.


def _values(column: pa.ChunkedArray, location: Location) -> Values:
    """Return numbers as floats, NaN where one is missing, and anything else as objects."""
    if location.style is Style.NUMBERS:
        if location.decimal_comma and pa.types.is_string(column.type):
            column = pc.replace_substring(column, ",", ".")
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return floats(column.cast(pa.float64()))
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # Where all that is no number is missing, as is common, a batch is still read at once.
            return floats(pc.if_else(pc.not_equal(column, ""), column, None).cast(pa.float64()))
    return objects(column.to_pylist())


def floats(column: pa.ChunkedArray) -> FloatArray:
    """Return numbers by their buffers, which spares loading pandas; NaN where one is missing."""
    filled = pc.fill_null(column, math.nan) if column.null_count else column
    return np.concatenate([np.empty(0), *map(np.from_dlpack, filled.chunks)])


def plain(table: pa.Table) -> pa.Table:
    """Return a table without what columns say of other rows: metadata, categories, parameters, hidden values."""
    columns = [_plain(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    schema = pa.schema([(name, column.type) for name, column in zip(table.column_names, columns, strict=True)])
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    if not (is_view or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)):
        return column
    try:
        return pa.chunked_array([pa.array(column.to_pylist())])
    except pa.ArrowException:
        raise DataError(f"column {name!r} has a type that cannot be published; leave it out, or make it text") from None


# CSV, TSV and other text. Every value is text, and stays as it is.


_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class _CsvSource(Source):
    _encoding = "utf-8"

    def _open(self) -> None:
        head = self._file.head()
        marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), "utf-8")
        try:
            self._encoding = codecs.lookup(self._read.encoding or marked).name
            # The last character may be cut.
            text = codecs.getincrementaldecoder(self._encoding)().decode(head).removeprefix("\ufeff")
        except (LookupError, AttributeError):
            raise UsageError("encoding= is not known; use a name such as utf-8, latin-1, cp1252 or utf-16") from None
        except UnicodeError:
            raise _not_text(self._file) from None
        if "\0" in text:
            raise _not_text(self._file)
        lines = [line for line in io.StringIO(text, newline="") if line.strip()]
        if not lines:
            raise DataError(f"{self._file.name} is empty; give a header line and at least one row")

        def first(mark: str) -> list[str]:
            return next(csv.reader(lines, delimiter=mark))

        given = self._read.columns
        fitting = [mark for mark in ",;\t|" if not given or len(first(mark)) == len(given)]
        self.delimiter = self._read.delimiter or max(fitting or ",", key=lambda mark: len(first(mark)))
        found = first(self.delimiter)
        if given and len(given) != len(found):
            raise DataError(f"columns= has {len(given)} names, the first line {len(found)} values; name every column")
        self.names = given or tuple(found)

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        del rows
        last, malformed = 0, list[int]()
        with _reading(self._file), self._file.open() as stream:
            quotes = _Quotes(stream, self._encoding, self.delimiter)
            for batch in self._reader(quotes, names, malformed):
                if quotes.are_broken:
                    raise _no_end(self._file)
                table = pa.Table.from_batches([batch])
                table = table.select([table.column_names.index(name) for name in names])
                gaps = [row - last - 1 for row in malformed if row > last]
                if gaps and len(table):
                    # A row with too many or too few values stands as one without values.
                    place = np.setdiff1d(np.arange(len(table) + len(gaps)), gaps)[: len(table)]
                    row_at = np.full(place[-1] + 1, -1)
                    row_at[place] = np.arange(len(table))
                    table = table.take(pa.array(row_at, mask=row_at < 0))
                last += len(table)
                if len(table):
                    yield table
            if quotes.are_broken or quotes.is_open:
                # The rows after it were read as one value.
                raise _no_end(self._file)
        if (missing := max(malformed, default=0) - last) > 0:
            yield pa.table([pa.nulls(missing, pa.string()) for _ in names], names=list(names))

    def _reader(self, stream: _Quotes, names: Sequence[str], malformed: list[int]) -> Any:
        def note(row: Any) -> str:
            malformed.append(row.number - (not self._read.columns))
            return "skip"

        read = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=list(self._read.columns) or None)
        # One thread, so that rows are numbered.
        read.use_threads = False
        parse = pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=note)
        convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(self.names, pa.string()))
        if len(set(self.names)) == len(self.names):
            convert.include_columns = list(names)
        return pyarrow.csv.open_csv(pa.PythonFile(stream, "r"), read, parse, convert)


class _Quotes:
    """A stream in UTF-8 that looks at quotation marks on its way.

    They are broken where one that was opened on an earlier line is followed by more of a value: an end is missing, and
    the rows between would be published as one value. (At the very end of a block that is not seen.)
    """

    def __init__(self, stream: BinaryIO, encoding: str, delimiter: str) -> None:
        self._stream: Any = stream
        if encoding not in ("utf-8", "utf-8-sig"):
            self._stream = pa.transcoding_input_stream(pa.PythonFile(stream), encoding, "utf-8")
        self._after = np.frombuffer(f'{delimiter}\r\n"'.encode(), np.uint8)
        self.is_open = self.are_broken = self._has_lines = False

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._stream.read(size)
        if block and (self.is_open or b'"' in block):
            data = np.frombuffer(block, np.uint8)
            marks, ends = np.flatnonzero(data == ord('"')), np.flatnonzero(data == ord("\n"))
            lines = np.concatenate([[-int(self._has_lines)], np.searchsorted(ends, marks), [len(ends)]])
            is_closing = (np.arange(len(marks)) + self.is_open) % 2 == 1
            after = data[np.minimum(marks + 1, len(data) - 1)]
            suspect = is_closing & (np.diff(lines)[:-1] > 0) & ~np.isin(after, self._after)
            self.are_broken |= bool(suspect.any())
            self._has_lines = bool(lines[-1] > lines[-2])
            self.is_open ^= bool(len(marks) % 2)
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# JSON: lines, arrays of objects, and GeoJSON.


class _JsonLinesSource(Source):
    def _open(self) -> Location | None:
        first = list(islice(self._rows(), 10 * _FIRST_ROWS))
        names = dict.fromkeys(name for row in first for name in row)
        is_feature = _GEOMETRY in names
        self.names = tuple(name for name in names if name != _GEOMETRY)
        return Location(columns=("geometry",), style=Style.OBJECT, is_geometry=True) if is_feature else None

    def _rows(self) -> Iterator[dict[str, Any]]:
        with _reading(self._file), io.TextIOWrapper(self._file.open(), encoding="utf-8-sig") as lines:
            for line in lines:
                text = line.strip(" \t\r\n\x1e")
                if text:
                    try:
                        yield _flat(json.loads(text))
                    except ValueError:
                        yield {}

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        found = self._rows()
        while part := list(islice(found, min(rows, _BATCH_ROWS // 2))):
            yield pa.table({name: _column([row.get(name) for row in part]) for name in names})


class _JsonSource(_JsonLinesSource):
    """A file with one array, or one FeatureCollection: it is held in memory."""

    def _open(self) -> Location | None:
        with _reading(self._file), self._file.open() as stream:
            document = json.loads(stream.read().decode("utf-8-sig"))
        match document:
            case {"features": list(items)} | list(items):
                self._held = [_flat(item) for item in items]
            case _:
                raise DataError(f"{self._file.name} has no GeoJSON features or array of objects; export it again")
        self.rows = len(items)
        geometry = super()._open()
        match document:
            case {"crs": {"properties": {"name": str(name)}}} if geometry is not None:
                return replace(geometry, crs=epsg_name(name))
        return geometry

    def _rows(self) -> Iterator[dict[str, Any]]:
        return iter(self._held)


_GEOMETRY = "\0geometry"


def _flat(item: Any) -> dict[str, Any]:
    """Return the columns of an object; of a feature, its id, properties and geometry."""
    if not isinstance(item, dict):
        return {}
    if item.get("type") != "Feature":
        return item
    properties = item.get("properties")
    identity = {"id": item["id"]} if "id" in item else {}
    own = properties if isinstance(properties, dict) else {}
    return {**identity, **own, "geometry": item.get("geometry"), _GEOMETRY: None}


def _column(values: list[Any]) -> pa.Array:
    """Return values of whatever type fits; those of mixed types as text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, ValueError):
        texts = [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts])


# Parquet and GeoParquet.


class _ParquetSource(Source):
    def _open(self) -> Location | None:
        with self._parquet() as file:
            schema, self.rows = file.schema_arrow, file.metadata.num_rows
            groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
        # Fewer rows at once where they are wide.
        self._most_rows = max(_BATCH_BYTES * max(self.rows, 1) // max(sum(groups), 1), 1 << 12)
        self.names = tuple(schema.names)
        described = (schema.metadata or {}).get(b"geo")
        return None if described is None else self._geometry(described)

    def _geometry(self, described: bytes) -> Location:
        try:
            geo = json.loads(described)
            name = geo["primary_column"]
            column = geo["columns"][name]
            covering = column.get("covering", {}).get("bbox", {}).values()
            boxes = {parts[0] for parts in covering if parts}
            encoding, crs = column["encoding"], column.get("crs", "OGC:CRS84")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{self._file.name} has damaged GeoParquet metadata; export it again") from None
        if encoding != "WKB" or name not in self.names:
            raise DataError(f"{self._file.name} has geometries that are no points in WKB; give one point per row")
        # The box around a point is the point once more.
        self.names = tuple(other for other in self.names if other not in boxes)
        if crs is None and self._read.crs is None:
            raise DataError(f"{self._file.name}: its reference system is unknown; name it with crs=, such as EPSG:4326")
        system = str(self._read.crs) if crs is None else crs if isinstance(crs, str) else json.dumps(crs)
        return Location(columns=(name,), style=Style.WKB, crs=epsg_name(system), is_geometry=True)

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        wanted = list(dict.fromkeys(names))
        with self._parquet() as file:
            # Parts of a row group stay in memory until the last of those asked for is done, so one is asked for.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(min(rows, self._most_rows), row_groups=[group], columns=wanted):
                    table = pa.Table.from_batches([batch])
                    yield plain(table if table.column_names == wanted else table.select(wanted))

    @contextmanager
    def _parquet(self) -> Iterator[pq.ParquetFile]:
        with _reading(self._file), pq.ParquetFile(self._file.seekable(), buffer_size=1 << 20) as file:
            yield file


# What GDAL reads.


class _GdalSource(Source):
    def _open(self) -> Location:
        require_package("pyogrio", f"reading {self.extension} files")
        import pyogrio  # noqa: PLC0415 - an extra

        if self._file.is_held:
            raise UsageError(f"a {self.extension} file cannot be read from a pipe; name a file on disk")
        with _reading(self._file):
            names = [name for name, _kind in pyogrio.list_layers(self.path)]
            layers = {name: pyogrio.read_info(self.path, layer=name, force_feature_count=True) for name in names}
        kinds = {name: info["geometry_type"] or "" for name, info in layers.items() if info["features"]}
        with_points = [name for name, kind in kinds.items() if "Point" in kind or kind == "Unknown"]
        if len(with_points) != 1:
            number = "several layers" if with_points else "no layer"
            raise DataError(f"{self._file.name} has {number} with points; save one as a file of its own")
        self._layer, info = with_points[0], layers[with_points[0]]
        self.rows = int(info["features"])
        self._geometry = "geometry" if "geometry" not in info["fields"] else "geometry of the file"
        self.names = (*map(str, info["fields"]), self._geometry)
        crs = epsg_name(self._read.crs or info["crs"] or "EPSG:4326")
        return Location(columns=(self._geometry,), style=Style.WKB, crs=crs, is_geometry=True)

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        import pyogrio  # noqa: PLC0415 - an extra

        fields = [name for name in names if name != self._geometry]
        options = {"layer": self._layer, "batch_size": rows, "read_geometry": len(fields) < len(names)}
        opened = pyogrio.open_arrow(self.path, columns=fields, use_pyarrow=True, **options)
        with _reading(self._file), opened as (meta, reader):
            own = meta["geometry_name"] or "wkb_geometry"
            for batch in reader:
                table = pa.Table.from_batches([batch])
                table = table.rename_columns([self._geometry if name == own else name for name in table.column_names])
                yield plain(table.select(list(names)))


_SOURCES: dict[str, type[Source]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz"), _CsvSource),
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".geojsonl", ".geojsons"), _JsonLinesSource),
    **dict.fromkeys((".geojson", ".json", ".geojson.gz", ".json.gz"), _JsonSource),
    **dict.fromkeys((".parquet", ".geoparquet"), _ParquetSource),
    **dict.fromkeys((".gpkg", ".shp", ".zip", ".kml", ".kmz", ".gpx", ".fgb", ".gml"), _GdalSource),
}
