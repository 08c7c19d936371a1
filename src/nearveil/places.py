"""Points of latitude and longitude: are they places at all, and which row is not."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np

from nearveil.errors import DataError
from nearveil.kernels import COMPILED, kernel
from nearveil.types import BoolArray, FloatArray


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
    """How many points are wrong in which way, and the first of each (-1 where there is none)."""

    not_finite: int = 0
    first_not_finite: int = -1
    off_range: int = 0
    first_off_range: int = -1
    outside: int = 0
    first_outside: int = -1
    exchangeable: int = 0
    """Of those off range or outside, how many lie inside with their two numbers exchanged."""
    off_latitude: bool = False
    """Whether it is the latitude of the first point off range that is wrong."""

    @property
    def no_places(self) -> int:
        """How many points are no places on earth."""
        return self.not_finite + self.off_range

    def followed_by(self, later: Faults, rows_before: int) -> Faults:
        """Return the faults of these rows and of later ones, of which ``rows_before`` come before the first."""

        def first(own: int, other: int) -> int:
            return own if own >= 0 or other < 0 else rows_before + other

        return Faults(
            self.not_finite + later.not_finite,
            first(self.first_not_finite, later.first_not_finite),
            self.off_range + later.off_range,
            first(self.first_off_range, later.first_off_range),
            self.outside + later.outside,
            first(self.first_outside, later.first_outside),
            self.exchangeable + later.exchangeable,
            self.off_latitude if self.off_range else later.off_latitude,
        )


def faults_of(points: FloatArray, centre: tuple[float, float], half_extent: tuple[float, float]) -> Faults:
    """Count the faults of points against a box: its centre and half its height and width, in degrees."""
    count = count_faults if COMPILED else count_faults_numpy
    return Faults(*count(points, *centre, *half_extent))


@kernel
def count_faults(
    points: FloatArray, latitude: float, longitude: float, half_height: float, half_width: float
) -> tuple[int, int, int, int, int, int, int, bool]:
    """Count the faults of `Faults`, in its order, against a box around (latitude, longitude)."""
    not_finite = off_range = outside = exchangeable = 0
    first_not_finite = first_off_range = first_outside = -1
    off_latitude = False
    for i in range(len(points)):
        phi, lam = points[i, 0], points[i, 1]
        # Almost everybody is inside, and asked nothing further.
        near = abs(phi - latitude) <= half_height and abs(lam - longitude) <= half_width
        if near and abs(phi) <= 90.0 and abs(lam) <= 180.0:
            continue
        if not (math.isfinite(phi) and math.isfinite(lam)):
            not_finite += 1
            if not_finite == 1:
                first_not_finite = i
            continue
        if abs(phi) > 90.0 or abs(lam) > 180.0:
            off_range += 1
            if off_range == 1:
                first_off_range = i
                off_latitude = abs(phi) > 90.0
        elif _is_inside(phi, lam, latitude, longitude, half_height, half_width):
            continue
        else:
            outside += 1
            if outside == 1:
                first_outside = i
        if abs(lam) <= 90.0 and abs(phi) <= 180.0:
            exchangeable += _is_inside(lam, phi, latitude, longitude, half_height, half_width)
    return (
        not_finite,
        first_not_finite,
        off_range,
        first_off_range,
        outside,
        first_outside,
        exchangeable,
        off_latitude,
    )


@kernel
def _is_inside(
    phi: float, lam: float, latitude: float, longitude: float, half_height: float, half_width: float
) -> bool:
    return abs(phi - latitude) <= half_height and abs((lam - longitude + 180.0) % 360.0 - 180.0) <= half_width


def count_faults_numpy(
    points: FloatArray, latitude: float, longitude: float, half_height: float, half_width: float
) -> tuple[int, int, int, int, int, int, int, bool]:
    """Do what the compiled kernel does."""

    def inside(degrees: FloatArray) -> BoolArray:
        north = np.abs(degrees[:, 0] - latitude) <= half_height
        east = np.abs(wrap_longitude(degrees[:, 1] - longitude)) <= half_width
        within: BoolArray = north & east & (np.abs(degrees) <= (90.0, 180.0)).all(axis=1)
        return within

    finite = np.isfinite(points[:, 0]) & np.isfinite(points[:, 1])
    known = np.where(finite[:, None], points, 0.0)
    off_range = finite & ((np.abs(known[:, 0]) > 90.0) | (np.abs(known[:, 1]) > 180.0))
    outside = finite & ~off_range & ~inside(known)
    exchangeable = (off_range | outside) & inside(known[:, ::-1])
    first = [int(np.argmax(wrong)) if wrong.any() else -1 for wrong in (~finite, off_range, outside)]
    return (
        int((~finite).sum()),
        first[0],
        int(off_range.sum()),
        first[1],
        int(outside.sum()),
        first[2],
        int(exchangeable.sum()),
        bool(off_range.any() and abs(points[first[1], 0]) > 90.0),
    )


def refuse_no_places(faults: Faults) -> None:
    """Raise if some point is no place on earth, or the columns were exchanged."""
    if faults.not_finite:
        raise DataError(
            f"row {faults.first_not_finite + 1} has a missing or infinite coordinate{and_others(faults.not_finite)}; "
            "remove or complete such rows"
        )
    suspicious = faults.off_range + faults.outside
    if suspicious and faults.exchangeable == suspicious:
        row = min(first for first in (faults.first_off_range, faults.first_outside) if first >= 0)
        raise DataError(
            f"row {row + 1} has latitude and longitude exchanged{and_others(suspicious)}; "
            "name the right columns, latitude first"
        )
    if faults.off_range:
        column, limit = ("latitude", 90) if faults.off_latitude else ("longitude", 180)
        raise DataError(
            f"row {faults.first_off_range + 1}: the {column} is not between -{limit} and {limit} degrees"
            f"{and_others(faults.off_range)}; correct the row"
        )


def and_others(count: int) -> str:
    """Say how many more rows share a fault, if any."""
    return f" (and {count - 1:,} more rows)" if count > 1 else ""


_Degrees = TypeVar("_Degrees", float, FloatArray)


def wrap_longitude(longitude: _Degrees) -> _Degrees:
    """Bring longitudes, or differences of them, into [-180, 180)."""
    return (longitude + 180.0) % 360.0 - 180.0
