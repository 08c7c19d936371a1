"""CSV and TSV, plain or gzipped. Every value except the coordinates is kept as text, unchanged."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from nearveil.errors import BadRowError, DataError
from nearveil.io.columns import kept_columns
from nearveil.io.input_file import InputFile, TextFile
from nearveil.io.people import (
    People,
    PeopleStream,
    PeopleWriter,
    ReadOptions,
    UnreadableRow,
    no_rows,
    table_with_coordinates,
)
from nearveil.io.table_file import Columns, PeopleInTable, TableSource, by_position, names_to_read, split_at_coordinates

# Arrow reads 32 blocks ahead, so larger ones take much memory; no row may be longer.
_BLOCK_BYTES = 1 << 20
_DELIMITERS = ",;\t|"

_T = TypeVar("_T")


def open_csv(file: InputFile, read: ReadOptions, *, carry: bool = True) -> PeopleStream:
    """Open a text file of people: values separated by commas, semicolons, tabs or bars, names in the first line."""
    text = TextFile(file, read.encoding)
    delimiter = read.delimiter or text.delimiter or _likely_delimiter(text, read.columns)
    source = CsvSource(text, delimiter, read.columns, lenient=read.skip_bad is not None)
    names = source.schema.names
    first = source.first_rows()
    split = split_at_coordinates(names, kept_columns(names, read.drop), read, first=first, gains_geometry=True)
    return PeopleInTable(source, split, first, carry=carry)


class CsvSource(TableSource):
    """A text file with columns; every one is text, whatever it looks like.

    Parameters
    ----------
    text : TextFile
        The file.
    delimiter : str
        What separates values.
    names : tuple of str
        Names of the columns, if there is no header line.
    lenient : bool
        Whether rows with too many or too few values are left out.
    """

    def __init__(self, text: TextFile, delimiter: str, names: tuple[str, ...] = (), *, lenient: bool = False) -> None:
        self._text = text
        self._delimiter = delimiter
        self._given_names = names
        self._lenient = lenient
        self._unreadable: dict[int, UnreadableRow] = {}
        self.rows = None
        self.schema = pa.schema([(name, pa.string()) for name in self._names()])

    @property
    def unreadable(self) -> dict[int, UnreadableRow]:
        """Rows with too many or too few values."""
        return self._unreadable

    def batches(self, positions: Sequence[int]) -> Iterator[Columns]:
        """Read the columns at these positions from the first row on."""
        with self._text.open() as stream:
            reader = self._or_refuse(lambda: self._reader(stream, positions))
            while (batch := self._or_refuse(lambda: _next(reader))) is not None:
                if batch.num_rows:
                    yield by_position(batch, positions, self.schema)

    def first_rows(self) -> Columns:
        """Return the rows of the first block."""
        for columns in self.batches(range(len(self.schema))):
            return columns
        if self._unreadable:
            return dict.fromkeys(range(len(self.schema)), pa.chunked_array([], pa.string()))
        raise no_rows()

    def _reader(self, stream: BinaryIO, positions: Sequence[int]) -> Any:
        return pyarrow.csv.open_csv(
            stream,
            # One thread where rows may be left out, so that they are numbered.
            read_options=self._reading(use_threads=not self._lenient),
            parse_options=self._parsing(self._note_unreadable if self._lenient else None),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.schema.names, pa.string()),
                strings_can_be_null=False,
                include_columns=names_to_read(positions, self.schema),
            ),
        )

    def _reading(self, *, use_threads: bool = True) -> pyarrow.csv.ReadOptions:
        names = list(self._given_names) or None
        return pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=use_threads, column_names=names)

    def _parsing(self, handler: Callable[[Any], str] | None = None) -> pyarrow.csv.ParseOptions:
        return pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=handler)

    def _number(self, row: Any) -> int:
        """Number of a row, counted from 1 below the header."""
        return int(row.number) - (0 if self._given_names else 1)

    def _note_unreadable(self, row: Any) -> str:
        because = f"has {row.actual_columns} values, and the header {row.expected_columns} columns"
        self._unreadable[self._number(row)] = UnreadableRow(because, row.text)
        return "skip"

    def _names(self) -> list[str]:
        """Names of the columns: as given, or of the first line."""
        text = self._text
        first = _first_line(text, self._delimiter)
        if self._given_names:
            if len(first) != len(self._given_names):
                raise DataError(
                    f"columns= names {len(self._given_names)} columns, and the first line of {text.name} has "
                    f"{len(first)} values; name every column"
                )
            return list(self._given_names)
        try:
            with text.open() as stream:
                reader = pyarrow.csv.open_csv(stream, parse_options=self._parsing())
                return list(reader.schema.names)
        except (pa.ArrowInvalid, UnicodeError):
            text.refuse_encoding()
        except OSError:
            raise _unreadable(text.name) from None
        # A file whose first rows cannot be parsed still has a header.
        return first

    def _or_refuse(self, read: Callable[[], _T]) -> _T:
        name = self._text.name
        try:
            return read()
        except (pa.ArrowInvalid, UnicodeError) as error:
            # Arrow's own message quotes the row, location and all: it must not get out.
            self._text.refuse_encoding()
            too_long = "straddling object" in str(error)
            row, missing_mark = (None, False) if too_long else self._first_bad_row()
        except OSError:
            raise _unreadable(name) from None
        if too_long:
            raise DataError(f"{name} has a row of more than 1 MB; is a quotation mark missing at the end of a value?")
        if row is None:
            raise _unreadable(name)
        if len(self.schema) == 1:
            raise DataError(
                f"row {row} of {name} has several values, and the header names one column; put quotation marks around "
                "values with commas, or say what separates values with delimiter="
            )
        hint = ", where a quotation mark may be missing at the end of a value" if missing_mark else ""
        raise BadRowError(
            f"row {row} of {name} has more or fewer values than the header has columns; correct the row{hint}"
        )

    def _first_bad_row(self) -> tuple[int | None, bool]:
        """Number of the first row that has too many or too few values, and whether a value in it has no end."""
        found: list[tuple[int, bool]] = []

        def note(row: Any) -> str:
            found.append((self._number(row), row.text.count('"') % 2 == 1))
            return "skip"

        with suppress(pa.ArrowInvalid, StopIteration), self._text.open() as stream:
            reader = pyarrow.csv.open_csv(
                stream, read_options=self._reading(use_threads=False), parse_options=self._parsing(note)
            )
            while not found:
                reader.read_next_batch()
        return found[0] if found else (None, False)


def _next(reader: Any) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _likely_delimiter(text: TextFile, names: tuple[str, ...]) -> str:
    """Return what separates the values of the first line; in a line of data, what gives as many as there are names."""
    lengths = {mark: len(_first_line(text, mark)) for mark in _DELIMITERS}
    if names:
        # Data may have commas within numbers.
        return next((mark for mark in reversed(_DELIMITERS) if lengths[mark] == len(names)), ",")
    return max(lengths, key=lambda mark: lengths[mark])


def _first_line(text: TextFile, delimiter: str) -> list[str]:
    """Return the values of the first line."""
    try:
        with text.open() as stream:
            lines = bytes(stream.read(1 << 16)).decode("utf-8-sig", "replace").splitlines()
    except UnicodeError:
        text.refuse_encoding()
        raise
    except OSError:
        raise _unreadable(text.name) from None
    line = next((line for line in lines if line.strip()), "")
    if not line:
        raise DataError(f"{text.name} is empty or no CSV file; give a header line and one row per person")
    return next(csv.reader([line], delimiter=delimiter))


def _unreadable(name: str) -> DataError:
    return DataError(f"{name} is damaged or no CSV file; export it again")


# CSV out: a value is quoted only if it needs to be. CSV has no place for metadata.


_ROWS_AT_ONCE = 1 << 16


class CsvWriter(PeopleWriter):
    """A CSV file, or one with tabs if its name says TSV; gzipped if its name says so."""

    def __init__(self, path: Path, metadata: dict[str, Any]) -> None:
        del metadata
        compression = "gzip" if path.name.lower().endswith(".gz") else None
        self._stream = pa.output_stream(str(path), compression=compression)
        self._begun = False
        self._delimiter = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","

    def prepared(self, people: People) -> tuple[list[str], list[memoryview]]:
        """Return the names of the columns, and the text of all rows."""
        table = table_with_coordinates(people)
        for field in table.schema:
            if not _is_text(field.type):
                raise DataError(
                    f"column {field.name!r} holds lists, structures or bytes, which CSV cannot hold; leave it out with "
                    "drop=, or write GeoJSON or Parquet"
                )
        return table.column_names, [
            _lines(batch, self._delimiter) for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE)
        ]

    def write(self, batch: tuple[list[str], list[memoryview]]) -> None:
        """Write the header once, and the rows."""
        names, texts = batch
        if not self._begun:
            self._stream.write(_line(names, self._delimiter))
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


def _line(values: list[str], delimiter: str) -> bytes:
    names = [str(position) for position in range(len(values))]
    return bytes(_lines(pa.record_batch([pa.array([value]) for value in values], names=names), delimiter))


def _lines(batch: pa.RecordBatch, delimiter: str) -> memoryview:
    """Return the rows of a batch as CSV text, made column by column."""
    texts = [_quoted(column, delimiter) for column in batch.columns]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(delimiter, pa.large_string()))
    lines = pc.binary_join_element_wise(joined, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    # The array's own buffer is the text of all lines, end to end.
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)
    return memoryview(lines.buffers()[2])[offsets[lines.offset] : offsets[lines.offset + len(lines)]]


def _quoted(column: pa.Array, delimiter: str) -> pa.Array:
    text = pc.fill_null(column.cast(pa.large_string()), "")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return text
    special = pc.match_substring_regex(text, f'["{delimiter}\r\n]')
    if not pc.any(special).as_py():
        return text
    quote = pa.scalar('"', pa.large_string())
    escaped = pc.binary_join_element_wise(
        quote, pc.replace_substring(text, '"', '""'), quote, pa.scalar("", pa.large_string())
    )
    return pc.if_else(special, escaped, text)
