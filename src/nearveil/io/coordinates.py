"""From a column as a file has it to numbers, naming the row where that fails; and what may be carried beside them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.arrow_numbers import floats_from_arrow
from nearveil.io.columns import exact_location_columns, revealing_columns
from nearveil.types import FloatArray

_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(?i:nan|inf|infinity)$"

_ROWS_COMPARED = 200


def degrees_column(column: pa.ChunkedArray, what: str, rows_before: int = 0) -> FloatArray:
    """Return a coordinate column as floats; a missing value becomes NaN, text is refused with its row."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, what, rows_before)
    try:
        return floats_from_arrow(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"the {what} column does not hold numbers; give degrees as decimal numbers") from None


def _parsed(column: pa.ChunkedArray, what: str, rows_before: int) -> pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and Parquet does without

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        good = pc.fill_null(pc.match_substring_regex(text, _NUMBER), True).to_numpy(zero_copy_only=False)
        row = rows_before + int(np.argmin(good)) + 1
        raise DataError(
            f"row {row}: the {what} is empty or not a number; give degrees as a decimal number with a point"
        ) from None


def kept_columns(names: list[str], drop: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions of the columns that are left without those to drop, of which there may be several each."""
    for name in drop:
        if name not in names:
            raise DataError(f"there is no column {name!r} to drop")
    return tuple(place for place, name in enumerate(names) if name not in drop)


def check_carried(table: pa.Table, points: FloatArray) -> tuple[str, ...]:
    """Refuse to carry a second exact location over; warn of columns that look revealing."""
    exact = exact_location_columns(table.column_names) or _copies_of(points, table)
    if exact:
        raise DataError(
            f"column {exact[0]!r} holds an exact location besides the one to protect and would be published as it is; "
            f"leave it out with --drop {exact[0]}"
        )
    suspicious = {field.name for field in table.schema if revealing_columns(_names_within(field))}
    return tuple(
        f"column {name!r} looks as if it gives the location away; it is carried over unchanged "
        f"(leave it out with --drop {name!r})"
        for name in table.column_names
        if name in suspicious
    )


def _copies_of(points: FloatArray, table: pa.Table) -> list[str]:
    """Columns that repeat a coordinate under another name."""
    few = points[:_ROWS_COMPARED]
    if (few == few[0]).all() and len(few) > 1:
        return []
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            values = floats_from_arrow(column.slice(0, _ROWS_COMPARED))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        if any((values == few[:, axis]).all() for axis in (0, 1)):
            found.append(name)
    return found


def _names_within(field: pa.Field) -> list[str]:
    """The name of a column and of everything nested in it."""
    names = [field.name]
    if pa.types.is_nested(field.type):
        for number in range(field.type.num_fields):
            names += _names_within(field.type.field(number))
    return [name for name in names if name not in ("item", "element", "entries", "key", "value")]
