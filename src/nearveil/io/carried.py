"""Columns that are carried beside the location: one that holds the exact location once more is refused.

A copy may be written in many ways: as a number under another name, with another sign or unit, in metres of a map, as
text such as ``POINT (…)`` or ``37.77° N``, as well-known binary, or inside a list or structure. Two tests find it
whatever it is called and however it is written. *Agreement*: numbers in the column are a coordinate of the same row, up
to about 10 m. *Formula*: a polynomial of the place gives the numbers of the column to a thousandth of their spread.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.columns import exact_location_columns, revealing_columns
from nearveil.types import FloatArray, IntArray

# Rows that are looked at, in slices of consecutive ones that are spread over all.
_ROWS_COMPARED = 400
_SLICES = 8
_MOST_NUMBERS = 8
_MOST_ELEMENTS = 4

# Agreement: about 10 m, for a twentieth of the rows that have a number, and two of them.
_AGREE_DEG, _AGREE_M = 1e-4, 10.0
_AGREEING_SHARE = 0.05
_LEAST_METRES = 1000.0
_MOST_DEGREES = 360.0
_MOST = 1e12

# Formula: a polynomial of the third degree has 10 coefficients, and few places could be met by chance.
_FORMULA_ROWS = 40
_FORMULA_RESIDUAL = 1e-3
_NUMBERED_SHARE = 0.9

_IS_LIST = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def check_carried(table: pa.Table, points: FloatArray, in_file: FloatArray | None = None) -> tuple[str, ...]:
    """Refuse to carry a second exact location over; warn of columns that look revealing by their names.

    Parameters
    ----------
    table : pyarrow.Table
        The carried columns of some rows.
    points : ndarray of shape (n, 2)
        True latitude and longitude of the same rows; NaN where there is none.
    in_file : ndarray of shape (n, 2), optional
        The same places as the file has them, where that is not in degrees.
    """
    exact = {*exact_location_columns(table.column_names), *second_locations(table, points, in_file)}
    if exact:
        raise second_location(*(name for name in table.column_names if name in exact))
    suspicious = {field.name for field in table.schema if revealing_columns(_names_within(field))}
    return tuple(
        f"column {name!r} looks as if it gives the location away; it is carried over unchanged "
        "(leave it out with drop=)"
        for name in table.column_names
        if name in suspicious
    )


def second_location(*names: str) -> DataError:
    """Return the refusal of columns."""
    if len(names) == 1:
        return DataError(
            f"column {names[0]!r} holds a second exact location, which would be published unprotected; "
            "leave it out with drop="
        )
    listed = f"{', '.join(map(repr, names[:-1]))} and {names[-1]!r}"
    return DataError(
        f"columns {listed} hold the exact location once more, which would be published unprotected; "
        "leave them out with drop="
    )


def second_locations(table: pa.Table, points: FloatArray, in_file: FloatArray | None = None) -> list[str]:
    """Return the names of columns that hold the location of their row once more, or geometries.

    Examples
    --------
    >>> places = np.random.default_rng(1).uniform([37.5, -122.6], [37.9, -122.2], (100, 2))
    >>> micro, text = (places[:, 0] * 1e6).astype(int), [f"{-lon:.5f} W" for lon in places[:, 1]]
    >>> second_locations(pa.table({"age": np.arange(100) % 71, "q": micro, "note": text}), places)
    ['q', 'note']
    """
    rows = _rows_to_compare(table.num_rows)
    references = [(points[rows], _AGREE_DEG, 0.0)]
    if in_file is not None:
        in_metres = np.nanmax(np.abs(in_file), initial=0.0) > _MOST_DEGREES
        references.append((in_file[rows], *((_AGREE_M, _LEAST_METRES) if in_metres else (_AGREE_DEG, 0.0))))
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for part in flat_parts(_slices(column)):
            values = _Values.of(part)
            if values is not None and (
                values.are_geometries
                or any(_agree(values.numbers, *reference) for reference in references)
                or any(_follow_a_formula(series, points[rows], rows) for series in values.numbers.T)
            ):
                found.append(name)
                break
    return found


def _starts(count: int) -> list[int]:
    length = _ROWS_COMPARED // _SLICES
    if count <= _ROWS_COMPARED:
        return [0]
    return [round(start) for start in np.linspace(0, count - length, _SLICES)]


def _rows_to_compare(count: int) -> IntArray:
    length = min(count, _ROWS_COMPARED if count <= _ROWS_COMPARED else _ROWS_COMPARED // _SLICES)
    return np.concatenate([start + np.arange(length) for start in _starts(count)])


def _slices(column: pa.ChunkedArray) -> pa.Array:
    """Return the rows to compare. Slices, because taking rows loads a part of Arrow that takes long."""
    length = len(column) if len(column) <= _ROWS_COMPARED else _ROWS_COMPARED // _SLICES
    chunks = [chunk for start in _starts(len(column)) for chunk in column.slice(start, length).chunks]
    return pa.chunked_array(chunks, column.type).combine_chunks()


def flat_parts(column: pa.Array) -> Iterator[pa.Array]:
    """Return the column, or what it holds by itself: the fields of a struct, the first elements of a list."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from flat_parts(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from flat_parts(column.dictionary_decode())
    elif pa.types.is_map(kind):
        yield from flat_parts(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from flat_parts(part)
    elif any(is_list(kind) for is_list in _IS_LIST):
        import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and flat columns do without

        longest = pc.max(pc.list_value_length(column)).as_py() or 0
        for place in range(min(longest, _MOST_ELEMENTS)):
            # A shorter list has no such element: null.
            element = pc.list_slice(column, place, place + 1, return_fixed_size_list=True)
            yield from flat_parts(pc.list_element(element, 0))
    else:
        yield column


def _names_within(field: pa.Field) -> list[str]:
    """The name of a column and of everything nested in it."""
    names = [field.name]
    if pa.types.is_nested(field.type):
        for number in range(field.type.num_fields):
            names += _names_within(field.type.field(number))
    return [name for name in names if name not in ("item", "element", "entries", "key", "value")]


# What stands in a column: the numbers of each row, and whether it holds geometries.


_GEOMETRY_TEXT = re.compile(
    r"\b(?:point|linestring|polygon)\s*z?m?\s*\([(\s]*[-+.\d]|\"coordinates\"\s*:", re.IGNORECASE
)
_HEX_DIGITS = re.compile(r"\s*(?:\\x)?((?:[0-9a-f]{2}){21,})\s*", re.IGNORECASE)
_NUMBERS = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_NUMBERS_WITH_COMMA = re.compile(r"[-+]?\d+,\d+")
_DEGREES_AND_MINUTES = re.compile(
    r"(\d{1,3})\s*°\s*(\d{1,2}(?:[.,]\d+)?)\s*['′’]?\s*(?:(\d{1,2}(?:[.,]\d+)?)\s*[\"″”])?"
)


class _Values:
    """The values of a column: ``numbers`` has a row for each, and NaN where there is none."""

    def __init__(self, numbers: FloatArray, geometries: int = 0, filled: int = 0) -> None:
        self.numbers = numbers
        # One in twenty: a remark may quote a geometry.
        self.are_geometries = geometries > _AGREEING_SHARE * filled

    @classmethod
    def of(cls, column: pa.Array) -> _Values | None:
        """Return what stands in a flat column; None where it is neither numbers nor text nor bytes."""
        kind, types = column.type, pa.types
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            values = [np.nan if value is None else float(value) for value in column.to_pylist()]
            return cls(_filled([[value] for value in values]))
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return cls._of_text(column.to_pylist())
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return cls._of_bytes(column.to_pylist())
        return None

    @classmethod
    def _of_text(cls, texts: list[str | None]) -> _Values:
        rows, geometries = [], 0
        for text in texts:
            digits = None if text is None else _HEX_DIGITS.fullmatch(text)
            as_binary = None if digits is None else _first_of_wkb(bytes.fromhex(digits[1]))
            geometries += as_binary is not None or bool(text and _GEOMETRY_TEXT.search(text))
            rows.append(list(as_binary or ()) if text is None or as_binary else _numbers_in(text))
        return cls(_filled(rows), geometries, sum(bool(text and text.strip()) for text in texts))

    @classmethod
    def _of_bytes(cls, values: list[bytes | None]) -> _Values:
        firsts = [None if value is None else _first_of_wkb(value) for value in values]
        geometries = sum(first is not None for first in firsts)
        return cls(_filled([list(first or ()) for first in firsts]), geometries, sum(map(bool, values)))


def _numbers_in(text: str) -> list[float]:
    """The numbers of a text, read with a decimal point, with a comma, and as degrees with minutes and seconds."""
    found = [float(number) for number in _NUMBERS.findall(text)[: _MOST_NUMBERS // 2]]
    # Each way of reading has places of its own, so that those of all rows stand in one column.
    found += [np.nan] * (_MOST_NUMBERS // 2 - len(found))
    commas = [float(number.replace(",", ".")) for number in _NUMBERS_WITH_COMMA.findall(text)[:2]]
    found += commas + [np.nan] * (2 - len(commas))
    for degrees, minutes, seconds in _DEGREES_AND_MINUTES.findall(text)[:2]:
        smaller = float(minutes.replace(",", ".")) / 60 + float((seconds or "0").replace(",", ".")) / 3600
        found.append(float(degrees) + smaller)
    return found


def _filled(rows: list[list[float]]) -> FloatArray:
    width = max(map(len, rows), default=0)
    numbers = np.array([row + [np.nan] * (width - len(row)) for row in rows], dtype=np.float64)
    # Long runs of digits are no coordinates in any unit.
    return np.where(np.abs(numbers) < _MOST, numbers, np.nan).reshape(len(rows), width)


_HAS_SRID, _HAS_Z_OR_M = 0x20000000, 0xC0000000
_GEOMETRIES = range(1, 8)
# Of lines and polygons the counts before the first corner, in bytes; of collections the whole geometry inside.
_COUNTS_BEFORE = {1: 0, 2: 4, 3: 8}


def _first_of_wkb(value: bytes) -> tuple[float, float] | None:
    """The first corner (x, y) of a geometry in well-known binary, with or without EPSG number, Z and M; else None."""
    if len(value) < 9 or value[0] > 1:
        return None
    order = "<" if value[0] == 1 else ">"
    (flags,) = struct.unpack_from(order + "I", value, 1)
    kind, at = (flags & ~(_HAS_SRID | _HAS_Z_OR_M)) % 1000, 5 + (4 if flags & _HAS_SRID else 0)
    if kind not in _GEOMETRIES or (flags & ~(_HAS_SRID | _HAS_Z_OR_M)) // 1000 > 3:
        return None
    if kind not in _COUNTS_BEFORE:
        return _first_of_wkb(value[at + 4 :])
    at += _COUNTS_BEFORE[kind]
    return struct.unpack_from(order + "dd", value, at) if len(value) >= at + 16 else None


# The two tests.


def _agree(numbers: FloatArray, places: FloatArray, tolerance: float, least: float) -> bool:
    """Whether enough rows have a number that is a coordinate of their place, of either sign."""
    # A whole number below 1,000 is an age or a count, and agrees by chance.
    numbers = np.where((numbers == np.rint(numbers)) & (np.abs(numbers) < _LEAST_METRES), np.nan, np.abs(numbers))
    numbers = np.where(numbers >= least, numbers, np.nan)
    known = np.isfinite(places).all(axis=1) & np.isfinite(numbers).any(axis=1)
    for axis in (0, 1):
        agreeing = np.abs(numbers[known] - np.abs(places[known, axis])[:, None]) <= tolerance
        count = int(agreeing.any(axis=1).sum())
        if count >= min(2, max(1, len(places))) and count > _AGREEING_SHARE * known.sum():
            return True
    return False


def _follow_a_formula(values: FloatArray, places: FloatArray, rows: IntArray) -> bool:
    """Whether a polynomial of the third degree in latitude and longitude gives the values."""
    known = np.isfinite(values) & np.isfinite(places).all(axis=1)
    values, places = values[known], places[known]
    if len(np.unique(places, axis=0)) < _FORMULA_ROWS or len(np.unique(values)) < _FORMULA_ROWS:
        return False
    # Numbers of rows follow places along a line, but say no more than the order does.
    steps = np.diff(values) / np.diff(rows[known])
    if np.mean(steps == np.median(steps)) > _NUMBERED_SHARE:
        return False
    scaled = (values - values.mean()) / values.std()
    latitude, longitude = ((places - places.mean(axis=0)) / np.maximum(places.std(axis=0), 1e-12)).T
    terms = np.column_stack([latitude**i * longitude**j for i in range(4) for j in range(4 - i)])
    fitted = terms @ np.linalg.lstsq(terms, scaled, rcond=None)[0]
    return bool(np.sqrt(np.mean((scaled - fitted) ** 2)) < _FORMULA_RESIDUAL)
