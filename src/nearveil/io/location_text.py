"""Locations that are written in one text column.

``POINT (lon lat)``, ``SRID=4326;POINT (lon lat)``, ``lat, lon``, or a point in hexadecimal digits, as PostGIS gives it.
"""

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
    HEX_WKB = "hex-wkb"


# Points in well-known binary by how they begin: byte order and kind, which says whether the EPSG number follows.
_HEX_POINTS = {
    "0101000000": np.dtype([("kind", "V5"), ("x", "<f8"), ("y", "<f8")]),
    "0101000020": np.dtype([("kind", "V5"), ("srid", "<u4"), ("x", "<f8"), ("y", "<f8")]),
    "0000000001": np.dtype([("kind", "V5"), ("x", ">f8"), ("y", ">f8")]),
    "0020000001": np.dtype([("kind", "V5"), ("srid", ">u4"), ("x", ">f8"), ("y", ">f8")]),
}
_HEX_POINT = "|".join(f"{start}[0-9A-F]{{{2 * kind.itemsize - 10}}}" for start, kind in _HEX_POINTS.items())
# Any other geometry: byte order, a kind with zeros in the middle, and more.
_HEX_GEOMETRY = r"^\s*(\\x)?(?i:01[0-9A-F]{4}00[0-9A-F]{2}|00[0-9A-F]{2}00[0-9A-F]{4})(?i:[0-9A-F]{8,})\s*$"
_KINDS = "multipoint|(?:multi)?(?:linestring|polygon)|geometrycollection"
_OTHER_GEOMETRY = rf"^\s*(?i:srid\s*=\s*\d+\s*;)?\s*(?P<kind>(?i:{_KINDS}))\s*(?i:[zm]*)\s*\("

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_POINT = rf"(?i:point)\s*\(\s*(?P<x>{_NUMBER})\s+(?P<y>{_NUMBER})\s*\)\s*$"
_PATTERNS = {
    TextStyle.WKT: rf"^\s*{_POINT}",
    TextStyle.EWKT: rf"^\s*(?i:srid)\s*=\s*(?P<srid>\d+)\s*;\s*{_POINT}",
    TextStyle.HEX_WKB: rf"^\s*(\\x)?(?i:{_HEX_POINT})\s*$",
    # Latitude first, as maps copy it.
    TextStyle.PAIR: rf"^\s*[(\[]?\s*(?P<y>{_NUMBER})(?:\s*[,;]\s*|\s+)(?P<x>{_NUMBER})\s*[)\]]?\s*$",
}
_WANTED = {
    TextStyle.WKT: "POINT (longitude latitude)",
    TextStyle.EWKT: "SRID=4326;POINT (longitude latitude)",
    TextStyle.PAIR: "latitude, longitude",
    TextStyle.HEX_WKB: "a two-dimensional point in hexadecimal digits, as PostGIS gives it",
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
    text = column.cast(pa.large_string())
    points, stated = _from_hex(text) if style is TextStyle.HEX_WKB else _from_pattern(text, style)
    bad = np.isnan(points).any(axis=1)
    if bad.any() and not lenient:
        row = rows_before + int(np.argmax(bad)) + 1
        raise BadRowError(f"row {row}: the location is empty or not written as {_WANTED[style]}; correct the row")
    other = ~np.isnan(stated) & (stated != (srid or _WGS84_SRID))
    if other.any() and not lenient:
        first = int(np.argmax(other))
        raise DataError(
            f"row {rows_before + first + 1} says that it is in EPSG:{stated[first]:.0f}; if all rows are, add "
            f"crs=EPSG:{stated[first]:.0f}"
        )
    points[bad | other] = np.nan
    return points


def _from_pattern(text: pa.ChunkedArray, style: TextStyle) -> tuple[FloatArray, FloatArray]:
    """Return (y, x) and the EPSG number that is stated; NaN where there is none."""
    parts = pc.extract_regex(text, _PATTERNS[style])

    def numbers(name: str) -> FloatArray:
        return floats_from_arrow(pc.struct_field(parts, name).cast(pa.float64()))

    stated = numbers("srid") if style is TextStyle.EWKT else np.full(len(text), np.nan)
    return np.column_stack([numbers("y"), numbers("x")]), stated


def _from_hex(text: pa.ChunkedArray) -> tuple[FloatArray, FloatArray]:
    """Return (y, x) and the EPSG number that is stated; NaN where there is none."""
    digits = pc.replace_substring_regex(pc.ascii_upper(pc.utf8_trim_whitespace(text)), r"^\\X", "")
    points, stated = np.full((len(text), 2), np.nan), np.full(len(text), np.nan)
    for start, kind in _HEX_POINTS.items():
        found = pc.fill_null(pc.match_substring_regex(digits, f"^{start}[0-9A-F]{{{2 * kind.itemsize - 10}}}$"), False)
        rows = np.flatnonzero(found.to_numpy())
        records = np.frombuffer(bytes.fromhex("".join(digits.filter(found).to_pylist())), kind)
        points[rows] = np.column_stack([records["y"], records["x"]])
        if "srid" in (kind.names or ()):
            stated[rows] = records["srid"]
    return points, stated


def holds_geometries(column: pa.ChunkedArray) -> bool:
    """Whether a column holds geometries in well-known binary, as bytes or as hexadecimal digits."""
    if not is_text(column.type):
        return bool(pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))
    return bool(pc.any(pc.match_substring_regex(column.cast(pa.large_string()), _HEX_GEOMETRY)).as_py())


def other_geometries(column: pa.ChunkedArray) -> str | None:
    """Return what a column of text holds in place of points, such as ``polygons``; None if that is not known.

    Examples
    --------
    >>> other_geometries(pa.chunked_array([["", "MULTIPOLYGON (((0 0, 0 1, 1 1, 0 0)))"]]))
    'multipolygons'
    """
    if not is_text(column.type):
        return None
    kinds = pc.struct_field(pc.extract_regex(column.cast(pa.large_string()), _OTHER_GEOMETRY), "kind").drop_null()
    return f"{kinds[0].as_py().lower()}s" if len(kinds) else None


def text_from_points(points: FloatArray, style: TextStyle, *, srid: int | None) -> pa.Array:
    """Write rows of (y, x) down.

    Examples
    --------
    >>> text_from_points(np.array([[52.5, 13.4]]), TextStyle.EWKT, srid=None).to_pylist()
    ['SRID=4326;POINT (13.4 52.5)']
    """
    if style is TextStyle.HEX_WKB:
        return _hex_from_points(points, srid or _WGS84_SRID)
    y, x = (arrow_floats(points[:, axis]).cast(pa.large_string()) for axis in (0, 1))

    def text(part: str) -> pa.Scalar:
        return pa.scalar(part, pa.large_string())

    if style is TextStyle.PAIR:
        return pc.binary_join_element_wise(y, x, text(","))
    before = f"SRID={srid or _WGS84_SRID};POINT (" if style is TextStyle.EWKT else "POINT ("
    inner = pc.binary_join_element_wise(x, y, text(" "))
    return pc.binary_join_element_wise(text(before), inner, text(")"), text(""))


def _hex_from_points(points: FloatArray, srid: int) -> pa.Array:
    start = "0101000020"
    records = np.empty(len(points), _HEX_POINTS[start])
    records["kind"], records["srid"] = bytes.fromhex(start), srid
    records["x"], records["y"] = points[:, 1], points[:, 0]
    digits = pa.py_buffer(records.tobytes().hex().upper().encode())
    ends = pa.py_buffer(np.arange(len(points) + 1, dtype=np.int64) * 2 * records.itemsize)
    return pa.Array.from_buffers(pa.large_string(), len(points), [None, ends, digits])
