"""Longitudes around the Earth, and coordinate reference systems: WGS84 degrees from their numbers, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np
import pyproj
import pyproj.exceptions

from nearveil.errors import UsageError
from nearveil.types import FloatArray

_Degrees = TypeVar("_Degrees", float, FloatArray)


def wrap_longitude(longitude: _Degrees) -> _Degrees:
    """Bring longitudes, or differences of them, into [-180, 180)."""
    # A third of the time of a remainder. It may come out just below -180.
    wrapped: _Degrees = np.maximum(longitude - 360.0 * np.floor((longitude + 180.0) / 360.0), -180.0)
    return wrapped


@lru_cache(maxsize=16)
def reference_system(name: str) -> pyproj.CRS:
    """Return a coordinate reference system for points on the ground, such as ``EPSG:25833``."""
    try:
        crs = pyproj.CRS.from_user_input(name)
    except (pyproj.exceptions.CRSError, TypeError, ValueError):
        raise UsageError(
            f"the reference system {name!r} is not known; give an EPSG number, such as EPSG:25833"
        ) from None
    if not (crs.is_projected or crs.is_geographic):
        raise UsageError(f"the reference system {name!r} is not one of locations on a map; give one that is")
    return crs


@lru_cache(maxsize=16)
def _to_wgs84(name: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(reference_system(name), "OGC:CRS84", always_xy=True)


def degrees_from(crs: str, points: FloatArray) -> FloatArray:
    """Return latitude and longitude of rows of (y, x) in another system; infinite where there are none."""
    longitude, latitude = _to_wgs84(crs).transform(points[:, 1], points[:, 0])
    return np.column_stack([latitude, longitude])


def degrees_to(crs: str, points: FloatArray) -> FloatArray:
    """Return rows of (y, x) in another system for published latitudes and longitudes, rounded."""
    x, y = _to_wgs84(crs).transform(points[:, 1], points[:, 0], direction="INVERSE")
    # To a hundredth of a projected system's unit.
    return np.column_stack([y, x]).round(6 if reference_system(crs).is_geographic else 2)
