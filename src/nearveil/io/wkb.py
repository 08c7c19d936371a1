"""Points in well-known binary, a whole column at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.types import FloatArray

_POINT = np.dtype([("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
_LITTLE_ENDIAN = 1
_POINT_KIND = 1
_ROWS_PER_CHUNK = 1 << 24


def wkb_from_points(points: FloatArray) -> pa.ChunkedArray:
    """Return latitude, longitude as a column of WKB points (x longitude, y latitude)."""
    chunks = [_chunk_from_points(points[at : at + _ROWS_PER_CHUNK]) for at in range(0, len(points), _ROWS_PER_CHUNK)]
    return pa.chunked_array(chunks, pa.binary())


def points_from_wkb(column: pa.ChunkedArray, rows_before: int = 0) -> FloatArray:
    """Return latitude, longitude of a column of WKB points; name the row that is none."""
    parts = []
    for chunk in column.chunks:
        parts.append(_chunk_to_points(chunk, rows_before))
        rows_before += len(chunk)
    return np.vstack(parts)


def _chunk_from_points(points: FloatArray) -> pa.Array:
    records = np.empty(len(points), dtype=_POINT)
    records["order"], records["kind"] = _LITTLE_ENDIAN, _POINT_KIND
    records["x"], records["y"] = points[:, 1], points[:, 0]
    offsets = np.arange(len(points) + 1, dtype=np.int32) * _POINT.itemsize
    return pa.Array.from_buffers(pa.binary(), len(points), [None, pa.py_buffer(offsets), pa.py_buffer(records)])


def _chunk_to_points(chunk: pa.Array, rows_before: int) -> FloatArray:
    if not pa.types.is_large_binary(chunk.type):
        try:
            chunk = chunk.cast(pa.large_binary())
        except pa.ArrowException:
            raise DataError("the geometry column holds no well-known binary; give one point per person") from None
    offsets = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    good = np.diff(offsets) == _POINT.itemsize
    if good.all() and len(chunk):
        data = memoryview(chunk.buffers()[2])[offsets[0] : offsets[-1]]
        records = np.frombuffer(data, dtype=_POINT)
        good = (records["order"] == _LITTLE_ENDIAN) & (records["kind"] == _POINT_KIND)
        if good.all():
            return np.column_stack([records["y"], records["x"]])
    if not len(chunk):
        return np.empty((0, 2))
    row = rows_before + int(np.argmin(good)) + 1
    raise DataError(f"row {row}: the geometry is missing or no plain two-dimensional point; give one point per person")
