"""PointProjection: one place at a time from degrees to metres, as fast as a question needs it."""

from __future__ import annotations

import math

import numpy as np

from nearveil.errors import DataError
from nearveil.geodesy import evaluate_at, exact_projection, fast_forward
from nearveil.kernels import brief_kernel
from nearveil.region import Region
from nearveil.types import FloatArray

_EDGE_TOLERANCE_DEG = 1e-9


class PointProjection:
    """`Region.to_metres` for one place, which must lie in the region.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> x_m, y_m = PointProjection(named_region("san-francisco"))(37.77, -122.42)
    >>> round(x_m), round(y_m)
    (-1762, 7770)
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        latitude, longitude = region.centre
        self._box = np.array([latitude, longitude, region.height_deg / 2, region.width_deg / 2])
        fast = fast_forward(latitude, region.height_deg / 2, region.width_deg / 2)
        # Without a polynomial the kernel checks the place, and PROJ projects it.
        self._exact = exact_projection(latitude, longitude) if fast is None else None
        self._coefficients = np.zeros((2, 1, 1)) if fast is None else fast.coefficients

    def __call__(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Return metres east and north of the centre; the error of a place outside the region names no coordinate."""
        x_m, y_m = _project(float(latitude), float(longitude), self._box, self._coefficients)
        if math.isnan(x_m):
            raise DataError(f"the place lies outside the service's region {self._region}")
        if self._exact is not None:
            return self._exact.transform(float(longitude), float(latitude))
        return x_m, y_m


@brief_kernel
def _project(latitude: float, longitude: float, box: FloatArray, coefficients: FloatArray) -> tuple[float, float]:
    """Metres, or not a number for what is not a place in the box."""
    north, east = latitude - box[0], (longitude - box[1] + 180.0) % 360.0 - 180.0
    # Written so that it is also false for what is not a number.
    inside = (
        abs(longitude) <= 180.0
        and abs(north) <= box[2] + _EDGE_TOLERANCE_DEG
        and abs(east) <= box[3] + _EDGE_TOLERANCE_DEG
    )
    if not inside:
        return math.nan, math.nan
    return evaluate_at(east / box[3], north / box[2], coefficients)
