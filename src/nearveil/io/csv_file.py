"""CSV, plain or gzipped. Every value except the coordinates is kept as text, unchanged."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from nearveil.errors import DataError
from nearveil.io.columns import kept_columns
from nearveil.io.people import (
    Columns,
    People,
    PeopleInTable,
    PeopleStream,
    PeopleWriter,
    ReadOptions,
    TableSource,
    by_position,
    names_to_read,
    no_rows,
    split_at_coordinates,
    table_with_coordinates,
)

# Arrow reads 32 blocks ahead, so larger ones take much memory; no row may be longer.
_BLOCK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_PARSING = pyarrow.csv.ParseOptions(newlines_in_values=True)

_T = TypeVar("_T")


def open_csv(path: Path, read: ReadOptions, *, carry: bool = True) -> PeopleStream:
    """Open a CSV file of people with a header line."""
    names = _header(path)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"{path} is not separated by commas; save it as comma-separated CSV")
    source = CsvSource(path, names)
    first = source.first_rows()
    split = split_at_coordinates(names, kept_columns(names, read.drop), read, gains_geometry=True)
    return PeopleInTable(source, split, first, carry=carry)


class CsvSource(TableSource):
    """A CSV file whose every column is text, whatever it looks like."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self.rows = None
        self._path = path

    def batches(self, positions: Sequence[int]) -> Iterator[Columns]:
        """Read the columns at these positions from the first row on."""
        with _open(self._path) as stream:
            reader = self._or_refuse(lambda: self._reader(stream, positions))
            while (batch := self._or_refuse(lambda: _next(reader))) is not None:
                if batch.num_rows:
                    yield by_position(batch, positions, self.schema)

    def first_rows(self) -> Columns:
        """Return the rows of the first block."""
        for columns in self.batches(range(len(self.schema))):
            return columns
        raise no_rows()

    def _reader(self, stream: BinaryIO, positions: Sequence[int]) -> Any:
        return pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=_PARSING,
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.schema.names, pa.string()),
                strings_can_be_null=False,
                include_columns=names_to_read(positions, self.schema),
            ),
        )

    def _or_refuse(self, read: Callable[[], _T]) -> _T:
        path = self._path
        try:
            return read()
        except pa.ArrowInvalid as error:
            # Arrow's own message quotes the row, location and all: it must not get out.
            if not _is_utf8(path):
                raise _not_utf8(path) from None
            too_long = "straddling object" in str(error)
            row = None if too_long else _first_bad_row(path)
        except OSError:
            raise _unreadable(path) from None
        if too_long:
            raise DataError(f"{path} has a row of more than 1 MB; is a quotation mark missing at the end of a value?")
        if row is None:
            raise _unreadable(path)
        raise DataError(f"row {row} of {path} has more or fewer values than the header has columns; correct the row")


def _next(reader: Any) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _header(path: Path) -> list[str]:
    with _open(path) as stream:
        try:
            reader = pyarrow.csv.open_csv(stream, parse_options=_PARSING)
            return list(reader.schema.names)
        except pa.ArrowInvalid:
            if not _is_utf8(path):
                raise _not_utf8(path) from None
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        except OSError:
            raise _unreadable(path) from None
    return _header_line(path)


def _header_line(path: Path) -> list[str]:
    """The header alone, for a file whose first rows cannot be parsed."""
    with _open(path) as stream:
        line = stream.read(1 << 16).split(b"\n")[0].strip()
    if not line:
        raise DataError(f"{path} is empty or no CSV file; give a header line and one row per person")
    return next(csv.reader([line.decode("utf-8-sig")]))


def _first_bad_row(path: Path) -> int | None:
    """Number of the first row, counted from 1 below the header, that has too many or too few values."""
    found: list[int] = []

    def note(row: Any) -> str:
        found.append(row.number - 1)
        return "skip"

    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note)
    # One thread, so that rows are numbered.
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with suppress(pa.ArrowInvalid, StopIteration), _open(path) as stream:
        reader = pyarrow.csv.open_csv(stream, read_options=reading, parse_options=parsing)
        while not found:
            reader.read_next_batch()
    return found[0] if found else None


def _open(path: Path) -> BinaryIO:
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == _GZIP_MAGIC
        stream: BinaryIO = pa.input_stream(str(path), compression="gzip" if gzipped else None)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or 'is it a file?'}") from None
    return stream


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as stream:
        try:
            while block := stream.read(1 << 20):
                if 0 in block:
                    return False
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        except OSError:
            raise _unreadable(path) from None
    return True


def _unreadable(path: Path) -> DataError:
    return DataError(f"{path} is damaged or no CSV file; export it again")


def _not_utf8(path: Path) -> DataError:
    return DataError(f"{path} is not UTF-8 text; save it as UTF-8")


# CSV out: a value is quoted only if it needs to be. CSV has no place for metadata.


_ROWS_AT_ONCE = 1 << 16


class CsvWriter(PeopleWriter):
    """A CSV file, gzipped if its name says so."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        del metadata
        compression = "gzip" if path.name.lower().endswith(".gz") else None
        self._stream = pa.output_stream(str(path), compression=compression)
        self._begun = False

    def prepared(self, people: People) -> tuple[list[str], list[memoryview]]:
        """Return the names of the columns, and the text of all rows."""
        table = table_with_coordinates(people)
        for field in table.schema:
            if not _is_text(field.type):
                raise DataError(
                    f"column {field.name!r} holds lists, structures or bytes, which CSV cannot hold; leave it out with "
                    f"--drop {field.name}, or write GeoJSON or Parquet"
                )
        return table.column_names, [_lines(batch) for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE)]

    def write(self, batch: tuple[list[str], list[memoryview]]) -> None:
        """Write the header once, and the rows."""
        names, texts = batch
        if not self._begun:
            self._stream.write(_line(names))
            self._begun = True
        for text in texts:
            self._stream.write(text)

    def finish(self) -> None:
        """Close the file."""
        self._stream.close()

    def abandon(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._stream.close()


def _is_text(kind: pa.DataType) -> bool:
    """Whether values have a text of their own; a UUID is bytes to Arrow."""
    types = pa.types
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return not (is_bytes or types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))


def _line(values: list[str]) -> bytes:
    names = [str(position) for position in range(len(values))]
    return bytes(_lines(pa.record_batch([pa.array([value]) for value in values], names=names)))


def _lines(batch: pa.RecordBatch) -> memoryview:
    """Return the rows of a batch as CSV text, made column by column."""
    texts = [_quoted(column) for column in batch.columns]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(",", pa.large_string()))
    lines = pc.binary_join_element_wise(joined, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    # The array's own buffer is the text of all lines, end to end.
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)
    return memoryview(lines.buffers()[2])[offsets[lines.offset] : offsets[lines.offset + len(lines)]]


def _quoted(column: pa.Array) -> pa.Array:
    text = pc.fill_null(column.cast(pa.large_string()), "")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return text
    special = pc.match_substring_regex(text, '[",\r\n]')
    if not pc.any(special).as_py():
        return text
    quote = pa.scalar('"', pa.large_string())
    escaped = pc.binary_join_element_wise(
        quote, pc.replace_substring(text, '"', '""'), quote, pa.scalar("", pa.large_string())
    )
    return pc.if_else(special, escaped, text)
