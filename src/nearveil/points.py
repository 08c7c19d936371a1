"""Points: rows of latitude and longitude in degrees, and what keeps some of them from being published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearveil.errors import DataError
from nearveil.types import FloatArray, IntArray

if TYPE_CHECKING:
    from nearveil.region import Region

NO_LOCATION = "no readable location"
NOT_ON_EARTH = "not on Earth"
OUTSIDE = "outside the region"


def as_points(points: object) -> FloatArray:
    """Return points as an (n, 2) array of latitude and longitude, or say why that is not possible.

    A frame of pandas, GeoPandas, Polars or Arrow has them in its columns or geometries.
    """
    if hasattr(points, "columns"):
        from nearveil.io.frames import points_in_frame  # noqa: PLC0415 - for frames only

        return points_in_frame(points)
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("points must be numbers: one row per user, latitude and longitude in degrees") from None
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"points must have two columns, latitude and longitude; got an array of shape {array.shape}")
    return array


def unusable(points: FloatArray, region: Region | None = None) -> dict[str, IntArray]:
    """Return the rows that cannot be published, by reason: `NO_LOCATION`, `NOT_ON_EARTH` or `OUTSIDE`.

    Longitudes may go from -180 to 180, or from 0 to 360.
    """
    latitude, longitude = points.T
    on_earth = (np.abs(latitude) <= 90.0) & (longitude >= -180.0) & (longitude <= 360.0)
    inside = on_earth if region is None or region.is_whole_earth else on_earth & region.contains(points)
    if inside.all():
        return {}
    finite = np.isfinite(points).all(axis=1)
    wrong = {NO_LOCATION: ~finite, NOT_ON_EARTH: finite & ~on_earth, OUTSIDE: on_earth & ~inside}
    return {reason: np.flatnonzero(rows) for reason, rows in wrong.items() if rows.any()}


def check_points(points: FloatArray, region: Region | None = None, *, rows_before: int = 0) -> FloatArray:
    """Return points with longitudes from -180 to 180; raise if one cannot be published.

    The error names the first such row, counted from 1 behind ``rows_before`` others, and no coordinate.
    """
    if found := unusable(points, region):
        raise _error(points, found, region, rows_before)
    if points[:, 1].max(initial=0.0) > 180.0:
        points = np.column_stack([points[:, 0], np.where(points[:, 1] > 180.0, points[:, 1] - 360.0, points[:, 1])])
    return points


def _error(points: FloatArray, found: dict[str, IntArray], region: Region | None, rows_before: int) -> DataError:
    reason, rows = next(iter(found.items()))
    others = "" if len(rows) == 1 else f" (and {len(rows) - 1:,} more row{'s' if len(rows) > 2 else ''})"
    row, columns = f"row {rows_before + rows[0] + 1}", "name the right columns with latitude= and longitude="
    if reason == NO_LOCATION:
        return DataError(f"{row} has no readable location{others}; correct or remove such rows")
    may_be_exchanged = not unusable(points[np.concatenate(list(found.values())), ::-1], region)
    if may_be_exchanged and region is not None and not region.is_whole_earth:
        return DataError(f"{row} has latitude and longitude exchanged{others}; {columns}")
    if reason == OUTSIDE:
        return DataError(
            f"{row} lies outside the region {region}{others}; leave region= out, as most mechanisms work everywhere, "
            "or choose one that contains all users"
        )
    # No angle is written with such numbers, and hardly any map in meters has smaller ones.
    if (np.abs(points[rows]).max(axis=1) > 1000.0).all():
        return DataError(
            f"{row} has coordinates that look like meters{others}; name their reference system with crs=, such as "
            "EPSG:25833 (UTM) or EPSG:3857 (web maps), or divide degrees times 10,000,000 by that"
        )
    return DataError(
        f"{row} is not on Earth{others}: a latitude is from -90 to 90 degrees, and a longitude from -180 to 180 "
        f"or from 0 to 360; {f'if they are exchanged, {columns}' if may_be_exchanged else 'correct such rows'}"
    )
