"""Files of locations, read a batch at a time: text, JSON lines, GeoJSON, Parquet, and what GDAL reads."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from nearveil.errors import BadRowError, DataError, UsageError, require_package, without_context
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
    """A file of locations. It is read from the start whenever `batches` is called.

    Attributes
    ----------
    path : Path
        As given.
    extension : str
        Of its format, such as ``.csv``.
    names : tuple of str
        All columns that may be published, and the location's, in their order.
    location : Location
        How it writes locations down.
    rows : int, optional
        How many there are, where the file says so beforehand.
    delimiter, has_byte_order_mark
        Of a text file.
    """

    names: tuple[str, ...] = ()
    rows: int | None = None
    delimiter: str = ","
    has_byte_order_mark: bool = False

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
            places = [table.column(name) for name in self.location.columns]
            yield Batch(_decoded(self.location, places), table.select(list(columns)))

    def bad_row(self, row: int) -> BadRowError:
        """Return the error for a row, counted from 1, whose location cannot be read."""
        return self.location.bad_row(row)

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
        said = {"columns=": read.columns, "delimiter=": read.delimiter, "encoding=": read.encoding}
        useless = next((name for name, value in said.items() if value), None)
        if useless and _SOURCES[extension] is not _CsvSource:
            raise UsageError(f"{useless} is for text files; leave it out, {file.name} says it itself")
        return _SOURCES[extension](file, extension, read)


def read_points(source: str | Path | Source, read: ReadOptions | None = None) -> FloatArray:
    """Return all locations of a file; a row without one is an error with its number."""
    source = source if isinstance(source, Source) else open_source(source, read)
    parts, rows = [], 0
    with without_context():
        for batch in source.batches():
            if len(bad := np.flatnonzero(np.isnan(batch.points[:, 0]))):
                raise source.bad_row(rows + int(bad[0]) + 1)
            source.location.check(batch.points, rows_before=rows)
            parts.append(batch.points)
            rows += len(batch.points)
    return np.concatenate(parts)


def extension_of(path: str | Path) -> str:
    """Return the extension that decides a file's format, the longest that fits; empty if there is none."""
    name = Path(path).name.lower()
    return next((each for each in sorted(_SOURCES, key=len, reverse=True) if name.endswith(each)), "")


_ADVICE = {
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".sql": r"export the table as CSV, in psql with \copy users to users.csv csv header",
    ".dump": r"export the table as CSV, in psql with \copy users to users.csv csv header",
}


def _extension(file: _Input) -> str:
    """Return the extension of a file's format: by its name, of standard input by its first bytes."""
    head = file.head()
    extension = extension_of(file.path)
    if file.is_held and not extension:
        is_json = head.lstrip().startswith((b"{", b"["))
        is_lines = is_json and b'"FeatureCollection"' not in head and not head.lstrip().startswith(b"[")
        return ".parquet" if head.startswith(b"PAR1") else ".jsonl" if is_lines else ".json" if is_json else ".csv"
    if not extension:
        advice = _ADVICE.get(file.path.suffix.lower(), f"use one of {', '.join(_SOURCES)}")
        raise UsageError(f"the format of {file.path.name} is not known; {advice}")
    is_text = _SOURCES[extension] in (_CsvSource, _JsonSource, _JsonLinesSource)
    if is_text and head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1", b"SQLite format 3")):
        raise DataError(
            f"{file.name} holds no text, whatever its name says: an Excel, zip, Parquet or SQLite file; rename it"
        )
    return extension


class _Input:
    """A file on disk, or what came through standard input or a pipe: true locations go into no temporary file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = "standard input" if str(path) == STANDARD_STREAM else str(path)
        self._held: bytes | None = None
        if str(path) == STANDARD_STREAM:
            if sys.stdin.isatty():
                raise UsageError("standard input is a terminal; pipe a file into it, or name one in place of -")
            self._held = sys.stdin.buffer.read()
        elif not self.path.exists():
            raise DataError(f"there is no file {path}; check the name")
        elif self.path.is_dir():
            raise DataError(f"{path} is a folder; name a file")
        elif not self.path.is_file():
            self._held = self.path.read_bytes()
        if not (self.path.stat().st_size if self._held is None else self._held):
            raise DataError(f"{self.name} is empty; give at least one row")

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def seekable(self) -> Any:
        """Return what a reader can move about in: the path, or what is held."""
        return str(self.path) if self._held is None else pa.BufferReader(self._held)

    def open(self) -> BinaryIO:
        """Open the file at its first byte, unpacked if it is gzipped."""
        try:
            stream: Any = self.path.open("rb") if self._held is None else io.BytesIO(self._held)
        except OSError as error:
            raise DataError(f"{self.name} cannot be read: {error.strerror}") from None
        is_gzip = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        if is_gzip and self._held is None:
            stream.close()
        packed = self.path if self._held is None else stream
        return cast(BinaryIO, gzip.open(packed) if is_gzip else stream)

    def head(self) -> bytes:
        with _reading(self), self.open() as stream:
            return stream.read(1 << 16)


@contextmanager
def _reading(file: _Input) -> Iterator[None]:
    """Say in one sentence that a file cannot be read; a library's own message may quote a row."""
    try:
        yield
    except UnicodeError:
        raise _not_text(file) from None
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        if isinstance(error, DataError | UsageError):
            raise
        if "UTF8" in str(error):
            raise _not_text(file) from None
        raise DataError(
            f"{file.name} is damaged, cut short or of another format than its name says; export it again"
        ) from None


def _not_text(file: _Input) -> DataError:
    return DataError(f"{file.name} is not text in this encoding; name it with encoding=, such as cp1252 or utf-16")


# Columns.


def _decoded(location: Location, columns: list[pa.ChunkedArray]) -> FloatArray:
    if location.style is Style.NUMBERS:
        return location.decode([_numbers(column, decimal_comma=location.decimal_comma) for column in columns])
    return location.decode([objects(column.to_pylist()) for column in columns])


def _numbers(column: pa.ChunkedArray, *, decimal_comma: bool) -> Values:
    """Return a column as floats, NaN where one is missing, or as it is where some value is none."""
    if decimal_comma and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = pc.replace_substring(column, ",", ".")
    try:
        numbers: FloatArray = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return objects(column.to_pylist())
    return numbers


def plain(table: pa.Table) -> pa.Table:
    """Return a table without what its columns say of other rows: metadata, categories, parameters of extensions."""
    schema = pa.schema([_plain_field(field) for field in table.schema])
    if table.schema.equals(schema, check_metadata=True):
        return table
    columns = [column.cast(field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        # Arrow cannot take rows of views.
        return pa.large_string() if types.is_string_view(kind) else pa.large_binary()
    if types.is_union(kind) or types.is_run_end_encoded(kind):
        raise DataError("a column of unions, or encoded by runs, cannot be published; cast it to a plain type first")
    if types.is_struct(kind):
        return pa.struct([_plain_field(part) for part in kind])
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pa.list_ if types.is_list(kind) else pa.large_list)(_plain_field(kind.value_field))
    return kind


# CSV, TSV and other text. Every value is text, and stays as it is.


_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class _CsvSource(Source):
    _encoding = "utf-8"
    _bytes_before = 0

    def _open(self) -> None:
        head = self._file.head()
        self.has_byte_order_mark = head.startswith(codecs.BOM_UTF8)
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
        marks = ",;\t|"
        if text[:4].lower() == "sep=":
            # The line before the header by which Excel knows the delimiter.
            line, _, text = text.partition("\n")
            marks, self._bytes_before = line[4], len(f"{line}\n".encode()) + 3 * self.has_byte_order_mark
        lines = [line for line in io.StringIO(text, newline="") if line.strip()]
        if not lines:
            raise DataError(f"{self._file.name} is empty; give a header line and at least one row")

        def first(mark: str) -> list[str]:
            return next(csv.reader(lines, delimiter=mark))

        given = self._read.columns
        fitting = [mark for mark in marks if not given or len(first(mark)) == len(given)]
        self.delimiter = self._read.delimiter or max(fitting or marks, key=lambda mark: len(first(mark)))
        found = first(self.delimiter)
        if given and len(given) != len(found):
            raise DataError(
                f"columns= names {len(given)} columns, and the first line of {self._file.name} has {len(found)} "
                "values; name every column"
            )
        self.names = given or tuple(found)
        self._malformed: dict[int, int] = {}

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        del rows
        last, gaps = 0, self._malformed
        gaps.clear()
        with _reading(self._file), self._file.open() as stream:
            reader = self._reader(stream, names)
            for batch in _batches(reader, self._refuse):
                table = pa.Table.from_batches([batch]).select(self._positions(batch.schema.names, names))
                later = [row for row in gaps if row > last]
                numbers = np.setdiff1d(np.arange(last + 1, last + 1 + table.num_rows + len(later)), later)
                if later and table.num_rows:
                    # A row with too many or too few values stands as one without values.
                    end = int(numbers[: table.num_rows][-1])
                    rows_of = np.full(end - last, -1)
                    rows_of[numbers[: table.num_rows] - last - 1] = np.arange(table.num_rows)
                    table = table.take(pa.array(rows_of, mask=rows_of < 0))
                last += table.num_rows
                if table.num_rows:
                    yield table
            if self._marks.count % 2:
                # The rows after it were read as one value.
                raise self._no_end("")
        if (missing := max(gaps, default=0) - last) > 0:
            yield pa.table([pa.nulls(missing, pa.string()) for _ in names], names=list(names))

    def _reader(self, stream: BinaryIO, names: Sequence[str]) -> Any:
        stream.read(self._bytes_before)
        if self._encoding not in ("utf-8", "utf-8-sig"):
            stream = pa.transcoding_input_stream(pa.PythonFile(stream), self._encoding, "utf-8")
        self._marks = _CountedMarks(stream)
        # One thread, so that rows are numbered.
        given = list(self._read.columns) or None
        return pyarrow.csv.open_csv(
            pa.PythonFile(self._marks, "r"),
            pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False, column_names=given),
            pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=self._note_malformed
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                strings_can_be_null=False,
                include_columns=list(names) if len(set(self.names)) == len(self.names) else None,
            ),
        )

    def _positions(self, found: list[str], names: Sequence[str]) -> list[int]:
        return list(range(len(found))) if list(names) == found else [found.index(name) for name in names]

    def _note_malformed(self, row: Any) -> str:
        self._malformed[row.number - (0 if self._read.columns else 1)] = row.text.count('"')
        return "skip" if row.text.count('"') % 2 == 0 else "error"

    def _refuse(self, error: pa.ArrowException) -> None:
        """Say what is wrong, where Arrow would quote the row."""
        row = max(self._malformed, default=0)
        if "straddling" in str(error) or self._malformed.get(row, 0) % 2:
            raise self._no_end(f", near row {row}" * bool(row)) from None

    def _no_end(self, where: str) -> DataError:
        return DataError(
            f"{self._file.name} has a quotation mark without an end{where}, or a row of more than 1 MB; correct it"
        )

    def bad_row(self, row: int) -> BadRowError:
        if row not in self._malformed:
            return super().bad_row(row)
        return BadRowError(
            f"row {row} of {self._file.name} has more or fewer values than the header has columns; correct it"
        )


class _CountedMarks:
    """A stream that counts quotation marks."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._stream.read(size)
        self.count += block.count(b'"')
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _batches(reader: Any, refuse: Callable[[pa.ArrowException], None]) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            yield reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            refuse(error)
            raise


# JSON: lines, arrays of objects, and GeoJSON.


class _JsonLinesSource(Source):
    def _open(self) -> Location | None:
        first = list(islice(self._rows(), 10 * _FIRST_ROWS))
        self.names = tuple(dict.fromkeys(name for row in first for name in row))
        is_feature = any("geometry" in row and _GEOMETRY in row for row in first)
        self.names = tuple(name for name in self.names if name != _GEOMETRY)
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
            try:
                document = json.loads(stream.read().decode("utf-8-sig"))
            except RecursionError:
                document = None
        is_features = isinstance(document, dict) and isinstance(document.get("features"), list)
        items = document["features"] if is_features else document
        if not isinstance(items, list):
            raise DataError(f"{self._file.name} has neither GeoJSON features nor an array of objects; export it again")
        self._held = [_flat(item) for item in items]
        self.rows = len(items)
        geometry = super()._open()
        crs = document.get("crs") if is_features else None
        if crs is None or geometry is None:
            return geometry
        try:
            name = epsg_name(crs["properties"]["name"])
        except (KeyError, TypeError):
            raise DataError(
                f"{self._file.name} has a reference system that cannot be read; reproject it to EPSG:4326"
            ) from None
        return Location(columns=("geometry",), style=Style.OBJECT, is_geometry=True, crs=name)

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
        if encoding not in ("WKB", "point") or name not in self.names:
            raise DataError(f"{self._file.name} has geometries that are no points; give one point per row")
        # The box around a point is the point once more.
        self.names = tuple(other for other in self.names if other not in boxes)
        if crs is None and self._read.crs is None:
            raise DataError(
                f"{self._file.name} says that its reference system is unknown; name it with crs=, such as EPSG:4326"
            )
        system = str(self._read.crs) if crs is None else crs if isinstance(crs, str) else json.dumps(crs)
        style = Style.WKB if encoding == "WKB" else Style.STRUCT
        return Location(columns=(name,), style=style, crs=epsg_name(system), is_geometry=True)

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
        with _reading_with_gdal(self._file):
            names = [name for name, _kind in pyogrio.list_layers(self.path)]
            layers = {name: pyogrio.read_info(self.path, layer=name, force_feature_count=True) for name in names}
        with_points = [
            name
            for name, info in layers.items()
            if info["features"] and any(kind in (info["geometry_type"] or "") for kind in ("Point", "Unknown"))
        ]
        if len(with_points) != 1:
            number = "no layer" if not with_points else "several layers"
            raise DataError(
                f"{self._file.name} has {number} with points; save one layer of points as a file of its own"
            )
        self._layer = with_points[0]
        info = layers[self._layer]
        self.rows = int(info["features"])
        self._geometry = "geometry" if "geometry" not in info["fields"] else "geometry of the file"
        self.names = (*map(str, info["fields"]), self._geometry)
        crs = self._read.crs or info["crs"]
        return Location(
            columns=(self._geometry,), style=Style.WKB, crs=None if crs is None else epsg_name(crs), is_geometry=True
        )

    def _tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        import pyogrio  # noqa: PLC0415 - an extra

        fields = [name for name in names if name != self._geometry]
        with (
            _reading_with_gdal(self._file),
            pyogrio.open_arrow(
                self.path, layer=self._layer, columns=fields, batch_size=rows, read_geometry=len(fields) < len(names)
            , use_pyarrow=True) as (meta, reader),
        ):  # fmt: skip
            for batch in reader:
                table = pa.Table.from_batches([batch])
                own = meta["geometry_name"] or "wkb_geometry"
                table = table.rename_columns([self._geometry if name == own else name for name in table.column_names])
                yield plain(table.select(list(names)))


@contextmanager
def _reading_with_gdal(file: _Input) -> Iterator[None]:
    import pyogrio.errors  # noqa: PLC0415 - an extra

    try:
        with _reading(file):
            yield
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, RuntimeError):
        raise DataError(f"{file.name} cannot be read by GDAL; export it again, as GeoPackage or CSV") from None


_SOURCES: dict[str, type[Source]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz"), _CsvSource),
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".geojsonl", ".geojsons"), _JsonLinesSource),
    **dict.fromkeys((".geojson", ".json", ".geojson.gz", ".json.gz"), _JsonSource),
    **dict.fromkeys((".parquet", ".geoparquet"), _ParquetSource),
    **dict.fromkeys((".gpkg", ".shp", ".zip", ".kml", ".kmz", ".gpx", ".fgb", ".gml"), _GdalSource),
}
