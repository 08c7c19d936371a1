"""A cheap test that no column to be published repeats the location of its row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.errors import DataError
from nearveil.io.frames import location_in_frame, true_points, values_in_frame
from nearveil.io.location import Location, ReadOptions, Values, location_in_column, numbers, objects
from nearveil.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

_NEAR_M = 100.0
_METERS_PER_DEGREE = 111_195.0
_MOST_VALUES = 4096
_MISSING = ("", "None", "nan", "<NA>", "NaT")
_MOST_NUMBERS = 16
_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][-+]?\d{1,2})?")


class SecondLocations:
    """Counts, over batches of rows, how often a column has the latitude or longitude of its row within 100 m.

    Numbers count, of either sign, also in texts (with a decimal comma, too), lists, structures and geometries, and in
    the file's own reference system; of each value the first few, and of a batch at most 4,096 values. It finds no
    encodings, such as geohashes, other units or distances to somewhere, and no columns of which fewer than half of the
    values repeat the location: columns are published only when named.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._agreeing: dict[str, int] = {}
        self._filled: dict[str, int] = {}

    def add_table(self, points: FloatArray, table: pa.Table) -> None:
        """Count true locations against columns of the same rows, converting only those it looks at."""
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.compute as pc  # noqa: PLC0415

        from nearveil.io.readers import floats  # noqa: PLC0415
        from nearveil.release.shuffle import as_arrow  # noqa: PLC0415

        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_temporal(column.type):
                continue
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if is_text:
                rows = _some(pc.fill_null(pc.not_equal(column, ""), False).to_numpy())
            else:
                rows = _some(
                    column.is_valid().to_numpy() if column.null_count else np.ones(len(column), dtype=np.bool_)
                )
            some = column.take(as_arrow(rows))
            is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
            self._add(name, points[rows], floats(some.cast(pa.float64())) if is_number else objects(some.to_pylist()))

    def add_columns(self, points: FloatArray, columns: Mapping[str, Values]) -> None:
        """Count true locations against columns of the same rows, as NumPy has them."""
        for name, values in columns.items():
            if values.dtype == object:
                rows = _some(np.array([str(value) not in _MISSING for value in values], dtype=np.bool_))
            else:
                rows = _some(~np.isnan(values))
            self._add(name, points[rows], values[rows])

    def _add(self, name: str, points: FloatArray, values: Values) -> None:
        near = np.full((len(points), 2), _NEAR_M / _METERS_PER_DEGREE)
        near[:, 1] /= np.cos(np.radians(points[:, 0])).clip(1e-6)
        # Degrees, and whole numbers of a millionth or a ten-millionth of one, as phones export them.
        references = [(points * scale, near * scale) for scale in (1.0, 1e6, 1e7)]
        if self._location.crs is not None:
            own = self._location.numbers_of(points)
            references.append((own, near if (np.abs(own) <= 360).all() else np.full_like(near, _NEAR_M)))
        found = np.abs(_numbers_in(values))
        is_filled = np.isfinite(points).all(axis=1)
        is_filled &= np.isfinite(found).any(axis=1) | (values.dtype == object)
        agree = np.zeros(len(points), dtype=np.bool_)
        for reference, within in references:
            apart = np.abs(found[:, :, None] - np.abs(reference)[:, None, :])
            agree |= (apart <= within[:, None, :]).any(axis=(1, 2))
        self._agreeing[name] = self._agreeing.get(name, 0) + int((agree & is_filled).sum())
        self._filled[name] = self._filled.get(name, 0) + int(is_filled.sum())

    def finish(self) -> None:
        """Refuse the columns of which at least half of the rows with a value repeat the location."""
        found = [name for name, count in self._agreeing.items() if count and 2 * count >= self._filled[name]]
        if found:
            listed, plural = " and ".join(map(repr, found)), len(found) > 1
            raise DataError(
                f"column{'s' * plural} {listed} repeat{'s' * (not plural)} the true location of the rows within "
                f"100 m; leave {'them' if plural else 'it'} out"
            )


def refuse_second_locations(frame: Any, columns: Sequence[str], read: ReadOptions | None = None) -> None:
    """Raise if one of these columns of a frame repeats the true location of its row."""
    test = SecondLocations(location_in_frame(frame, read))
    test.add_columns(true_points(frame, read), {name: values_in_frame(frame, name) for name in columns})
    test.finish()


def _some(is_filled: BoolArray) -> IntArray:
    """Return some of the rows with a value; an odd number apart, so that not all of them are even."""
    rows = np.flatnonzero(is_filled)
    return rows[:: -(-len(rows) // _MOST_VALUES) | 1]


def _numbers_in(values: Values) -> FloatArray:
    """Return the numbers in each value: the first in a text, a list or a structure, and those of a point."""
    if values.dtype != object:
        return numbers(values)[:, None]
    # Geometries of a frame are looked at as what they would be in a file.
    values = objects([getattr(value, "wkb", value) for value in values])
    found = np.array([(_flat(value) + [np.nan] * _MOST_NUMBERS)[:_MOST_NUMBERS] for value in values], dtype=np.float64)
    found = found.reshape(-1, _MOST_NUMBERS)
    first = objects([value for value in values[:100] if isinstance(value, str | bytes | dict)])
    point = location_in_column("", None, lambda _name: first)
    return found if point is None else np.column_stack([found, point.decode([values])])


def _flat(value: Any) -> list[float]:
    if isinstance(value, str):
        # Text such as 52,5 may be one number or two.
        texts = [value, value.replace(",", ".")] if "," in value else [value]
        return [float(number) for text in texts for number in _NUMBER.findall(text)[: _MOST_NUMBERS // 2]]
    if isinstance(value, dict | list | tuple | np.ndarray):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in list(parts)[:_MOST_NUMBERS] for number in _flat(part)]
    return [float(numbers(objects([value]))[0])]
