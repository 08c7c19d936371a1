"""Degrees to meters around a center, and back: PROJ's azimuthal equidistant projection, and a fast copy of it.

PROJ solves a geodesic for every point, which takes most of the time of protecting millions of users. Over a region the
projection is so smooth that a polynomial follows it: fitted to PROJ once, checked against PROJ on other points, and
used only if it is nowhere off by more than a tenth of a millimeter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyproj
from numpy.polynomial import chebyshev

from nearveil.types import FloatArray

_DEGREES = (6, 8, 10, 13, 16)
# So many points at a time stay in the processor's cache.
_CHUNK = 2048
_Pair = tuple[float, float]


@lru_cache(maxsize=64)
def exact_projection(latitude: float, longitude: float) -> pyproj.Transformer:
    """Return PROJ's projection: longitude, latitude to meters east and north of the center."""
    local = pyproj.CRS.from_dict({"proj": "aeqd", "lat_0": latitude, "lon_0": longitude, "ellps": "WGS84"})
    geographic = pyproj.CRS.from_dict({"proj": "longlat", "ellps": "WGS84"})
    return pyproj.Transformer.from_crs(geographic, local, always_xy=True)


@dataclass(frozen=True, slots=True, eq=False)
class FastMap:
    """PROJ in one direction, and a polynomial in two variables that follows it on a box, if one is good enough."""

    exact: Callable[[FloatArray], FloatArray]
    middle: FloatArray
    half: FloatArray
    coefficients: FloatArray | None = None
    """Of Chebyshev polynomials, shape (2, degree + 1, degree + 1)."""

    def __call__(self, points: FloatArray) -> FloatArray:
        """Evaluate both outputs at every row."""
        if self.coefficients is None or not (np.abs(points - self.middle) <= self.half * (1 + 1e-9)).all():
            return self.exact(points)
        size, out = self.coefficients.shape[1], np.empty((len(points), 2))
        stacked = self.coefficients.reshape(2 * size, size)
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            square = ((points[part] - self.middle) / self.half).T
            basis = np.ones((size, *square.shape))
            basis[1] = square
            for n in range(2, size):
                basis[n] = 2 * square * basis[n - 1] - basis[n - 2]
            inner = (stacked @ basis[:, 1]).reshape(2, size, -1)
            out[part] = np.einsum("oip,ip->po", inner, basis[:, 0])
        return out


@lru_cache(maxsize=64)
def fast_forward(center_latitude: float, half_height_deg: float, half_width_deg: float) -> FastMap:
    """Return the map of (degrees east of the center, latitude) to meters, fast in this box."""
    return _fitted(center_latitude, "FORWARD", (0.0, center_latitude), (half_width_deg, half_height_deg), 1e-4)


@lru_cache(maxsize=64)
def fast_inverse(center_latitude: float, half_width_m: float, half_height_m: float) -> FastMap:
    """Return the map of meters to (degrees east of the center, latitude), fast in this box."""
    return _fitted(center_latitude, "INVERSE", (0.0, 0.0), (half_width_m, half_height_m), 1e-9)


def _fitted(latitude: float, direction: str, middle: _Pair, half: _Pair, tolerance: float) -> FastMap:
    """Interpolate at Chebyshev points with growing degree until points in between agree."""
    transform = partial(exact_projection(latitude, 0.0).transform, direction=direction)

    def exact(points: FloatArray) -> FloatArray:
        return np.column_stack(transform(*points.T))

    plain = FastMap(exact, np.array(middle), np.array(half))
    steps = np.linspace(-1, 1, 41)
    check = plain.middle + plain.half * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    expected = exact(check)
    for degree in _DEGREES:
        nodes = chebyshev.chebpts1(degree + 1)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        basis = chebyshev.chebvander2d(grid[:, 0], grid[:, 1], [degree, degree])
        coefficients = np.linalg.solve(basis, exact(plain.middle + plain.half * grid)).T.reshape(2, degree + 1, -1)
        fitted = replace(plain, coefficients=np.ascontiguousarray(coefficients))
        if np.abs(fitted(check) - expected).max() < tolerance / 2:
            return fitted
    return plain
