"""From a column as a file has it to numbers, naming the row where that fails."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import DataError
from nearveil.io.columns import exact_location_columns, find_coordinates, revealing_columns
from nearveil.io.people import Layout, People, Place
from nearveil.types import FloatArray

_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(?i:nan|inf|infinity)$"

_ROWS_COMPARED = 200


def degrees_column(column: pa.ChunkedArray, what: str) -> FloatArray:
    """Return a coordinate column as floats; a missing value becomes NaN, text is refused with its row."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, what)
    try:
        numbers = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"the {what} column does not hold numbers; give degrees as decimal numbers") from None
    values: FloatArray = numbers.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return values


def _parsed(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    text = pc.utf8_trim_whitespace(column)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        good = pc.fill_null(pc.match_substring_regex(text, _NUMBER), True).to_numpy(zero_copy_only=False)
        row = int(np.argmin(good)) + 1
        raise DataError(
            f"row {row}: the {what} is empty or not a number; give degrees as a decimal number with a point"
        ) from None


def split_table(
    table: pa.Table,
    *,
    latitude: str | None,
    longitude: str | None,
    drop: tuple[str, ...],
    carry: bool = True,
) -> People:
    """Take the coordinate columns out of a table and carry the rest, if it is to be carried."""
    table = without_columns(table, drop)
    if table.num_rows == 0:
        raise DataError("the file has no rows; give at least one person")
    found = find_coordinates(table.column_names, latitude, longitude)
    if found is None:
        raise DataError(
            "there are no coordinate columns such as 'latitude' and 'longitude'; "
            "name them with --latitude and --longitude"
        )
    points = np.column_stack(
        [
            degrees_column(table.column(found.latitude), "latitude"),
            degrees_column(table.column(found.longitude), "longitude"),
        ]
    )
    layout = Layout(
        latitude=Place(table.column_names[found.latitude], found.latitude),
        longitude=Place(table.column_names[found.longitude], found.longitude),
    )
    for position in sorted((found.latitude, found.longitude), reverse=True):
        table = table.remove_column(position)
    return People(points, table, layout, warnings=check_carried(table, points) if carry else ())


def without_columns(table: pa.Table, drop: tuple[str, ...]) -> pa.Table:
    """Return the table without the columns named."""
    for name in drop:
        if name not in table.column_names:
            raise DataError(f"there is no column {name!r} to drop")
        # By position: there may be several of that name.
        for position in reversed([place for place, other in enumerate(table.column_names) if other == name]):
            table = table.remove_column(position)
    return table


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
            values = column.slice(0, _ROWS_COMPARED).cast(pa.float64()).to_numpy(zero_copy_only=False)
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
