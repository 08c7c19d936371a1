"""Locations that are written in one text column: ``POINT (lon lat)``, ``SRID=4326;POINT (lon lat)`` or ``lat, lon``."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import BadRowError, DataError
from nearveil.io.columns import arrow_floats, floats_from_arrow
from nearveil.types import FloatArray


class TextStyle(StrEnum):
    """How a column writes a location down."""

    WKT = "wkt"
    EWKT = "ewkt"
    PAIR = "pair"


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_POINT = rf"(?i:point)\s*\(\s*(?P<x>{_NUMBER})\s+(?P<y>{_NUMBER})\s*\)\s*$"
_PATTERNS = {
    TextStyle.WKT: rf"^\s*{_POINT}",
    TextStyle.EWKT: rf"^\s*(?i:srid)\s*=\s*(?P<srid>\d+)\s*;\s*{_POINT}",
    # Latitude first, as maps copy it.
    TextStyle.PAIR: rf"^\s*[(\[]?\s*(?P<y>{_NUMBER})(?:\s*[,;]\s*|\s+)(?P<x>{_NUMBER})\s*[)\]]?\s*$",
}
_WANTED = {
    TextStyle.WKT: "POINT (longitude latitude)",
    TextStyle.EWKT: "SRID=4326;POINT (longitude latitude)",
    TextStyle.PAIR: "latitude, longitude",
}
_WGS84_SRID = 4326


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def text_style(column: pa.ChunkedArray) -> TextStyle | None:
    """Return how most values of a column write a location down; None if they are something else.

    Examples
    --------
    >>> text_style(pa.chunked_array([["POINT (13.4 52.5)", ""]]))
    <TextStyle.WKT: 'wkt'>
    """
    if not is_text(column.type):
        return None
    text = column.cast(pa.large_string())
    filled = text.filter(pc.not_equal(pc.utf8_trim_whitespace(text), ""))
    for style, pattern in _PATTERNS.items():
        matching = pc.sum(pc.match_substring_regex(filled, pattern)).as_py() or 0
        if 2 * matching > len(filled):
            return style
    return None


def points_from_text(
    column: pa.ChunkedArray, style: TextStyle, *, srid: int | None, rows_before: int = 0, lenient: bool = False
) -> FloatArray:
    """Return the numbers of a column as rows of (y, x); name the row that is none, or make it NaN if ``lenient``.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Text.
    style : TextStyle
        How locations are written.
    srid : int, optional
        The EPSG number that the rows must state where they state one; WGS84 if not given.
    rows_before : int
        How many rows come before these.
    lenient : bool
        Whether what cannot be read is NaN instead of an error.
    """
    parts = pc.extract_regex(column.cast(pa.large_string()), _PATTERNS[style])
    bad = parts.is_null().to_numpy(zero_copy_only=False)
    if bad.any() and not lenient:
        row = rows_before + int(np.argmax(bad)) + 1
        raise BadRowError(f"row {row}: the location is empty or not written as {_WANTED[style]}; correct the row")
    if style is TextStyle.EWKT:
        stated = floats_from_arrow(pc.struct_field(parts, "srid").cast(pa.float64()))
        other = ~bad & (stated != (srid or _WGS84_SRID))
        if other.any() and not lenient:
            first = int(np.argmax(other))
            raise DataError(
                f"row {rows_before + first + 1} says that it is in EPSG:{stated[first]:.0f}; if all rows are, add "
                f"--crs EPSG:{stated[first]:.0f}"
            )
        bad |= other
    points = np.column_stack([floats_from_arrow(pc.struct_field(parts, axis).cast(pa.float64())) for axis in "yx"])
    points[bad] = np.nan
    return points


def text_from_points(points: FloatArray, style: TextStyle, *, srid: int | None) -> pa.Array:
    """Write rows of (y, x) down.

    Examples
    --------
    >>> text_from_points(np.array([[52.5, 13.4]]), TextStyle.EWKT, srid=None).to_pylist()
    ['SRID=4326;POINT (13.4 52.5)']
    """
    y, x = (arrow_floats(points[:, axis]).cast(pa.large_string()) for axis in (0, 1))

    def text(part: str) -> pa.Scalar:
        return pa.scalar(part, pa.large_string())

    if style is TextStyle.PAIR:
        return pc.binary_join_element_wise(y, x, text(","))
    before = f"SRID={srid or _WGS84_SRID};POINT (" if style is TextStyle.EWKT else "POINT ("
    inner = pc.binary_join_element_wise(x, y, text(" "))
    return pc.binary_join_element_wise(text(before), inner, text(")"), text(""))
