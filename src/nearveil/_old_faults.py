"""Faults of points as the old release code counts them. To be deleted with it; `nearveil.points` replaces it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearveil.errors import BadRowError, DataError
from nearveil.geodesy import utm_number, wrap_longitude
from nearveil.region import WHOLE_EARTH, Region
from nearveil.types import BoolArray, FloatArray


class Faults(NamedTuple):
    """How many points are wrong in which way, and the first of each (-1 where there is none)."""

    not_finite: int = 0
    first_not_finite: int = -1
    off_range: int = 0
    first_off_range: int = -1
    outside: int = 0
    first_outside: int = -1
    exchangeable: int = 0
    off_latitude: bool = False
    like_metres: int = 0
    rows: int = 0

    @property
    def no_places(self) -> int:
        """Number of points that are not locations on Earth."""
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
            self.like_metres + later.like_metres,
            self.rows + later.rows,
        )


def faults_in(points: FloatArray, region: Region = WHOLE_EARTH) -> Faults:
    """Count what keeps points from being locations inside the region."""
    (latitude, longitude), height, width = region.centre, region.height_deg, region.width_deg

    def inside(degrees: FloatArray) -> BoolArray:
        north = np.abs(degrees[:, 0] - latitude) <= height / 2 + 1e-9
        east = np.abs(wrap_longitude(degrees[:, 1] - longitude)) <= width / 2 + 1e-9
        within: BoolArray = north & east & (np.abs(degrees) <= (90.0, 180.0)).all(axis=1)
        return within

    finite = np.isfinite(points).all(axis=1)
    known = np.where(finite[:, None], points, 0.0)
    off_range = finite & ((np.abs(known[:, 0]) > 90.0) | (np.abs(known[:, 1]) > 180.0))
    outside = finite & ~off_range & ~inside(known)
    exchangeable = (off_range | outside) & inside(known[:, ::-1]) & (not region.is_whole_earth)
    first = [int(np.argmax(wrong)) if wrong.any() else -1 for wrong in (~finite, off_range, outside)]
    return Faults(
        int((~finite).sum()),
        first[0],
        int(off_range.sum()),
        first[1],
        int(outside.sum()),
        first[2],
        int(exchangeable.sum()),
        bool(off_range.any() and abs(points[first[1], 0]) > 90.0),
        int((off_range & (np.abs(known) > 1000.0).any(axis=1)).sum()),
        len(points),
    )


def refuse(faults: Faults, region: Region = WHOLE_EARTH, *, clip: bool = False) -> None:
    """Raise if points have faults; being outside is none if they are to be clipped."""
    if faults.not_finite:
        raise BadRowError(
            f"row {faults.first_not_finite + 1} has a missing or infinite coordinate{and_others(faults.not_finite)}; "
            "remove or complete such rows"
        )
    suspicious = faults.off_range + faults.outside
    if suspicious and faults.exchangeable == suspicious:
        row = min(first for first in (faults.first_off_range, faults.first_outside) if first >= 0)
        raise DataError(
            f"row {row + 1} has latitude and longitude exchanged{and_others(suspicious)}; name the right columns with "
            "latitude= and longitude=, in one column write POINT (longitude latitude), and in GeoJSON "
            "[longitude, latitude]"
        )
    if faults.off_range and faults.like_metres == faults.off_range:
        raise DataError(
            f"row {faults.first_off_range + 1} has coordinates that look like metres{and_others(faults.off_range)}; "
            f"say in which reference system with crs=, such as EPSG:{utm_number(*region.centre)} (UTM) or EPSG:3857 "
            "(web maps)"
        )
    if faults.off_range:
        column, limit = ("latitude", 90) if faults.off_latitude else ("longitude", 180)
        raise BadRowError(
            f"row {faults.first_off_range + 1}: the {column} is not between -{limit} and {limit} degrees"
            f"{and_others(faults.off_range)}; correct the row"
            + (", or name the columns with latitude= and longitude= if they are exchanged" * faults.off_latitude)
        )
    if faults.outside and not clip:
        raise BadRowError(
            f"row {faults.first_outside + 1} lies outside the region {region}{and_others(faults.outside)}; leave "
            "region= out, as most mechanisms work everywhere, or choose one that contains all users"
        )


def and_others(count: int) -> str:
    """Say how many more rows share a fault, if any."""
    return "" if count <= 1 else " (and 1 more row)" if count == 2 else f" (and {count - 1:,} more rows)"
