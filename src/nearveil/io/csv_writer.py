"""CSV out: a value is quoted only if it needs to be. CSV has no place for metadata."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import DataError
from nearveil.io.people import People, table_with_coordinates
from nearveil.io.people_writer import PeopleWriter

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
