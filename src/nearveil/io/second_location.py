"""A cheap test that no column to be published repeats the location of its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearveil.errors import DataError
from nearveil.io.location import Location, Values, location_in_column, numbers, objects
from nearveil.types import FloatArray

_NEAR_M = 100.0
_METERS_PER_DEGREE = 111_195.0
_MOST_VALUES = 4096


class SecondLocations:
    """Counts, over batches of rows, how often a column has the latitude or longitude of its row within 100 m.

    Numbers count, of either sign, as text (also with a decimal comma), as points in WKT, WKB, GeoJSON or "lat, lon", in
    lists and structures, and in the file's own reference system. Of text, at most 4,096 values of a batch are looked
    at. It finds no encodings, such as geohashes, other units or distances to somewhere, and no columns of which fewer
    than half of the values repeat the location: columns are published only when named.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._agreeing: dict[str, int] = {}
        self._filled: dict[str, int] = {}

    def add(self, points: FloatArray, columns: Mapping[str, Values]) -> None:
        """Count true locations against columns of the same rows, as NumPy has them."""
        near = np.full((len(points), 2), _NEAR_M / _METERS_PER_DEGREE)
        near[:, 1] /= np.cos(np.radians(points[:, 0])).clip(1e-6)
        references = [(points, near)]
        if self._location.crs is not None:
            own = self._location.numbers_of(points)
            references.append((own, near if (np.abs(own) <= 360).all() else np.full_like(near, _NEAR_M)))
        for name, values in columns.items():
            rows = np.arange(len(values))
            if values.dtype == object:
                rows = np.array([row for row, value in enumerate(values) if value is not None and value != ""], int)
                rows = rows[:: -(-len(rows) // _MOST_VALUES) or 1]
            found = np.abs(_numbers_in(values[rows]))
            is_filled = np.isfinite(points[rows]).all(axis=1)
            is_filled &= np.isfinite(found).any(axis=1) | (values.dtype == object)
            agree = np.zeros(len(rows), dtype=np.bool_)
            for reference, within in references:
                apart = np.abs(found[:, :, None] - np.abs(reference[rows])[:, None, :])
                agree |= (apart <= within[rows][:, None, :]).any(axis=(1, 2))
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


def _numbers_in(values: Values) -> FloatArray:
    """Return the numbers of each value, NaN where there is none: of a point its two, of a structure its first eight."""
    if values.dtype != object:
        return numbers(values)[:, None]
    point = location_in_column("", None, lambda _name: values[:100])
    if point is None and any(isinstance(value, dict | list | tuple | np.ndarray) for value in values[:100]):
        return np.array([(_flat(value) + [np.nan] * 8)[:8] for value in values], dtype=np.float64).reshape(-1, 8)
    # Text such as 52,5 may be one number or two.
    found = [numbers(values), numbers(values, decimal_comma=True)]
    return np.column_stack(found if point is None else [*found, point.decode([values])])


def _flat(value: Any) -> list[float]:
    if isinstance(value, dict | list | tuple | np.ndarray):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in list(parts)[:8] for number in _flat(part)]
    return [float(numbers(objects([value]))[0])]
