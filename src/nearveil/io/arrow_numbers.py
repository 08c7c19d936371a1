"""Numbers between Arrow and NumPy by their buffers: without a copy, and without loading pandas, which takes long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.types import FloatArray, IntArray


def arrow_floats(values: FloatArray) -> pa.Array:
    """Return numbers as an Arrow array."""
    whole = np.ascontiguousarray(values, dtype=np.float64)
    return pa.Array.from_buffers(pa.float64(), len(whole), [None, pa.py_buffer(whole)])


def floats_from_arrow(column: pa.ChunkedArray) -> FloatArray:
    """Return a column as floats, if its type allows; what is missing becomes NaN."""
    parts = [_chunk(chunk) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])


def _chunk(chunk: pa.Array) -> FloatArray:
    if not (pa.types.is_float64(chunk.type) or pa.types.is_int64(chunk.type)) or chunk.null_count:
        chunk = chunk.cast(pa.float64()).fill_null(float("nan"))
    return numbers_from_arrow(chunk).astype(np.float64, copy=False)


def numbers_from_arrow(array: pa.Array) -> np.ndarray[Any, Any]:
    """Return whole numbers or floats of which none is missing."""
    buffer = array.buffers()[1]
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(buffer or b"", dtype=kind)[array.offset : array.offset + len(array)]


def taken_rows(table: pa.Table, rows: IntArray) -> pa.Table:
    """Return these rows of a table, in this order."""
    return pa.Table.from_arrays([_taken(column, rows) for column in table.columns], schema=table.schema)


def _taken(column: pa.ChunkedArray, rows: IntArray) -> pa.Array:
    kind = column.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        parts = [numbers_from_arrow(chunk) for chunk in column.chunks]
        whole = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind.to_pandas_dtype()), *parts])
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(whole[rows])])
    return column.combine_chunks().take(pa.array(rows))
