"""Points of latitude and longitude: are they places at all, and which row is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from nearveil.errors import DataError
from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray

Contains = Callable[[FloatArray], BoolArray]


def as_points(points: object) -> FloatArray:
    """Return points as an (n, 2) array of latitude and longitude, or say why that is not possible."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("points must be numbers: one row per person, latitude and longitude in degrees") from None
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"points must have two columns, latitude and longitude; got an array of shape {array.shape}")
    return array


class Faults(NamedTuple):
    """How many points are wrong in which way, and the first of each."""

    not_finite: int
    first_not_finite: int
    off_range: int
    first_off_range: int
    outside: int
    first_outside: int


@kernel
def count_faults(
    points: FloatArray, latitude: float, longitude: float, half_height: float, half_width: float
) -> tuple[int, int, int, int, int, int]:
    """Count the faults of `Faults`, in its order, against a box around (latitude, longitude)."""
    not_finite = off_range = outside = 0
    first_not_finite = first_off_range = first_outside = -1
    for i in range(len(points)):
        phi, lam = points[i, 0], points[i, 1]
        if not (math.isfinite(phi) and math.isfinite(lam)):
            not_finite += 1
            if not_finite == 1:
                first_not_finite = i
        elif abs(phi) > 90.0 or abs(lam) > 180.0:
            off_range += 1
            if off_range == 1:
                first_off_range = i
        elif abs(phi - latitude) > half_height or abs((lam - longitude + 180.0) % 360.0 - 180.0) > half_width:
            outside += 1
            if outside == 1:
                first_outside = i
    return not_finite, first_not_finite, off_range, first_off_range, outside, first_outside


def refuse_no_places(points: FloatArray, faults: Faults, contains: Contains) -> None:
    """Raise if some point is no place on earth, or the columns were exchanged."""
    if len(points) == 0:
        raise DataError("there are no points; give at least one row")
    if faults.not_finite:
        raise DataError(
            f"row {faults.first_not_finite + 1} has a missing or infinite coordinate{and_others(faults.not_finite)}; "
            "remove or complete such rows"
        )
    if faults.off_range or faults.outside:
        _refuse_swapped(points, contains)
    if faults.off_range:
        row = faults.first_off_range
        column, limit = ("latitude", 90) if abs(points[row, 0]) > 90 else ("longitude", 180)
        raise DataError(
            f"row {row + 1}: the {column} is not between -{limit} and {limit} degrees"
            f"{and_others(faults.off_range)}; correct the row"
        )


def _refuse_swapped(points: FloatArray, contains: Contains) -> None:
    """Raise if the points outside the region would all lie in it with their two numbers exchanged."""
    suspicious = (np.abs(points) > (90.0, 180.0)).any(axis=1) | ~contains(points)
    exchanged = points[suspicious][:, ::-1]
    if (np.abs(exchanged) <= (90.0, 180.0)).all() and contains(exchanged).all():
        row = int(np.argmax(suspicious)) + 1
        raise DataError(
            f"row {row} has latitude and longitude exchanged{and_others(len(exchanged))}; "
            "name the right columns, latitude first"
        )


def and_others(count: int) -> str:
    """Say how many more rows share a fault, if any."""
    return f" (and {count - 1:,} more rows)" if count > 1 else ""


_Degrees = TypeVar("_Degrees", float, FloatArray)


def wrap_longitude(longitude: _Degrees) -> _Degrees:
    """Bring longitudes, or differences of them, into [-180, 180)."""
    return (longitude + 180.0) % 360.0 - 180.0
