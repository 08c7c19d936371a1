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
) -> People:
    """Take the coordinate columns out of a table and carry the rest."""
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
    return People(points, table, layout, warnings=check_carried(table.column_names))


def without_columns(table: pa.Table, drop: tuple[str, ...]) -> pa.Table:
    """Return the table without the columns named."""
    for name in drop:
        if name not in table.column_names:
            raise DataError(f"there is no column {name!r} to drop")
        table = table.drop_columns([name])
    return table


def check_carried(names: list[str]) -> tuple[str, ...]:
    """Refuse to carry a second exact location over; warn of columns that look revealing."""
    exact = exact_location_columns(names)
    if exact:
        raise DataError(
            f"column {exact[0]!r} holds an exact location besides the one to protect and would be published as it is; "
            f"leave it out with --drop {exact[0]}"
        )
    return tuple(
        f"column {name!r} looks as if it gives the location away; it is carried over unchanged "
        f"(leave it out with --drop {name!r})"
        for name in revealing_columns(names)
    )
