"""CSV, plain or gzipped. Every value is text and stays the text it was, but for the coordinates."""

from __future__ import annotations

import codecs
import csv
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from nearveil.errors import DataError
from nearveil.io.coordinates import split_table
from nearveil.io.people import People, table_with_coordinates

_WRITE_ROWS = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_PARSING = pyarrow.csv.ParseOptions(newlines_in_values=True)


def read_csv(
    path: Path,
    *,
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    carry: bool = True,
) -> People:
    """Read people from a CSV file with a header line."""
    names = _header(path)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"{path} is not separated by commas; save it as comma-separated CSV")
    table = _read_text(path, names)
    return split_table(table, latitude=latitude, longitude=longitude, drop=drop, carry=carry)


def write_csv(people: People, path: Path, metadata: dict[str, Any]) -> None:
    """Write people as CSV; a value is quoted only if it needs to be. CSV has no place for metadata."""
    del metadata
    table = table_with_coordinates(people)
    for field in table.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise DataError(
                f"column {field.name!r} holds lists, structures or bytes, which CSV cannot hold; leave it out with "
                f"--drop {field.name}, or write GeoJSON or Parquet"
            )
    with pa.output_stream(str(path), compression=_compression(path)) as stream:
        stream.write(_line(table.column_names))
        for batch in table.to_batches(max_chunksize=_WRITE_ROWS):
            stream.write(_lines(batch))


def _compression(path: Path) -> str | None:
    return "gzip" if path.name.lower().endswith(".gz") else None


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


def _read_text(path: Path, names: list[str]) -> pa.Table:
    """Read every column as text, whatever it looks like."""
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    try:
        with _open(path) as stream:
            return pyarrow.csv.read_csv(stream, parse_options=_PARSING, convert_options=options)
    except pa.ArrowInvalid:
        # Arrow's own message quotes the row, location and all: it must not get out.
        if not _is_utf8(path):
            raise _not_utf8(path) from None
        row = _first_bad_row(path)
    except OSError:
        raise _unreadable(path) from None
    if row is None:
        raise _unreadable(path)
    raise DataError(f"row {row} of {path} has more or fewer values than the header has columns; correct the row")


def _first_bad_row(path: Path) -> int | None:
    """Number of the first row, counted from 1 below the header, that has too many or too few values."""
    found: list[int] = []

    def note(row: Any) -> str:
        found.append(row.number - 1)
        return "skip"

    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note)
    with suppress(pa.ArrowInvalid), _open(path) as stream:
        # One thread, so that rows are numbered.
        pyarrow.csv.read_csv(stream, read_options=pyarrow.csv.ReadOptions(use_threads=False), parse_options=parsing)
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
