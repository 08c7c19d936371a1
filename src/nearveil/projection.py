"""Degrees to metres and back around a centre: PROJ's azimuthal equidistant projection, and a fast copy of it.

PROJ solves a geodesic for every point, which takes most of the time of protecting millions of people. Over a region
the projection is so smooth that a polynomial follows it: fitted to PROJ once, checked against PROJ on other points, and
used only if it is nowhere off by more than a tenth of a millimetre.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyproj
from numpy.polynomial import chebyshev

from nearveil.kernels import COMPILED, kernel
from nearveil.types import FloatArray

_TOLERANCE_M = 1e-4
_TOLERANCE_DEG = 1e-9
_DEGREES = (6, 8, 10, 13, 16)
# Points that go through the polynomial side by side, so that one instruction serves several of them.
_LANES = 128


@lru_cache(maxsize=64)
def exact_projection(latitude: float, longitude: float) -> pyproj.Transformer:
    """Return PROJ's projection: longitude, latitude to metres east and north of the centre."""
    local = pyproj.CRS.from_dict(
        {"proj": "aeqd", "lat_0": latitude, "lon_0": longitude, "ellps": "WGS84", "units": "m"}
    )
    geographic = pyproj.CRS.from_dict({"proj": "longlat", "ellps": "WGS84"})
    return pyproj.Transformer.from_crs(geographic, local, always_xy=True)


@dataclass(frozen=True, slots=True, eq=False)
class FastMap:
    """A polynomial in two variables for each of two outputs, on a box."""

    middle: FloatArray
    half: FloatArray
    coefficients: FloatArray

    def covers(self, points: FloatArray) -> bool:
        """Whether all points lie in the box the polynomial was fitted on."""
        covers = _covers if COMPILED else covers_numpy
        return bool(covers(points, self.middle, self.half * (1 + 1e-9)))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Evaluate both outputs at every row."""
        evaluate = _evaluate if COMPILED else evaluate_numpy
        values: FloatArray = evaluate(np.ascontiguousarray(points), self.middle, self.half, self.coefficients)
        return values


@lru_cache(maxsize=64)
def fast_forward(centre_latitude: float, half_height_deg: float, half_width_deg: float) -> FastMap | None:
    """Fit (degrees east of the centre, latitude) to metres; None where no polynomial is good enough."""
    transformer = exact_projection(centre_latitude, 0.0)

    def project(points: FloatArray) -> FloatArray:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1]))

    return _fit(project, (0.0, centre_latitude), (half_width_deg, half_height_deg), _TOLERANCE_M)


@lru_cache(maxsize=64)
def fast_inverse(centre_latitude: float, half_width_m: float, half_height_m: float) -> FastMap | None:
    """Fit metres to (degrees east of the centre, latitude); None where no polynomial is good enough."""
    transformer = exact_projection(centre_latitude, 0.0)

    def unproject(points: FloatArray) -> FloatArray:
        return np.column_stack(transformer.transform(points[:, 0], points[:, 1], direction="INVERSE"))

    return _fit(unproject, (0.0, 0.0), (half_width_m, half_height_m), _TOLERANCE_DEG)


def _fit(function: object, middle: tuple[float, float], half: tuple[float, float], tolerance: float) -> FastMap | None:
    """Interpolate at Chebyshev points with growing degree until points in between agree."""
    centre, extent = np.array(middle), np.array(half)
    steps = np.linspace(-1, 1, 41)
    check = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    wanted = function(centre + extent * check)  # type: ignore[operator]
    for degree in _DEGREES:
        nodes = chebyshev.chebpts1(degree + 1)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        values = function(centre + extent * grid)  # type: ignore[operator]
        basis = chebyshev.chebvander2d(grid[:, 0], grid[:, 1], [degree, degree])
        coefficients = np.linalg.solve(basis, values).T.reshape(2, degree + 1, degree + 1)
        fitted = FastMap(centre, extent, np.ascontiguousarray(coefficients))
        if np.abs(fitted(centre + extent * check) - wanted).max() < tolerance / 2:
            return fitted
    return None


@kernel
def _evaluate(points: FloatArray, middle: FloatArray, half: FloatArray, coefficients: FloatArray) -> FloatArray:
    size, count = coefficients.shape[1], len(points)
    out = np.empty((count, 2))
    first, second = np.ones((size, _LANES)), np.ones((size, _LANES))
    x, y = np.empty(_LANES), np.empty(_LANES)
    inner_x, inner_y = np.empty(_LANES), np.empty(_LANES)
    for start in range(0, count, _LANES):
        lanes = min(_LANES, count - start)
        for lane in range(lanes):
            first[1, lane] = np.divide(points[start + lane, 0] - middle[0], half[0])
            second[1, lane] = np.divide(points[start + lane, 1] - middle[1], half[1])
        for n in range(2, size):
            for lane in range(lanes):
                first[n, lane] = 2.0 * first[1, lane] * first[n - 1, lane] - first[n - 2, lane]
                second[n, lane] = 2.0 * second[1, lane] * second[n - 1, lane] - second[n - 2, lane]
        x[:], y[:] = 0.0, 0.0
        for i in range(size):
            inner_x[:], inner_y[:] = 0.0, 0.0
            for j in range(size):
                of_x, of_y = coefficients[0, i, j], coefficients[1, i, j]
                for lane in range(lanes):
                    inner_x[lane] += of_x * second[j, lane]
                    inner_y[lane] += of_y * second[j, lane]
            for lane in range(lanes):
                x[lane] += inner_x[lane] * first[i, lane]
                y[lane] += inner_y[lane] * first[i, lane]
        for lane in range(lanes):
            out[start + lane, 0], out[start + lane, 1] = x[lane], y[lane]
    return out


@kernel
def _covers(points: FloatArray, middle: FloatArray, reach: FloatArray) -> bool:
    outside = 0
    for i in range(len(points)):
        # Comparisons with what is no number are false.
        east = abs(points[i, 0] - middle[0]) <= reach[0]
        north = abs(points[i, 1] - middle[1]) <= reach[1]
        outside += 1 - (east & north)
    return outside == 0


def covers_numpy(points: FloatArray, middle: FloatArray, reach: FloatArray) -> bool:
    """Do what the compiled kernel does."""
    return bool((np.abs(points - middle) <= reach).all())


def evaluate_numpy(points: FloatArray, middle: FloatArray, half: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Do what the compiled kernel does, but for the last bits."""
    u, v = ((points - middle) / half).T
    return np.column_stack([chebyshev.chebval2d(u, v, of_one) for of_one in coefficients])


@kernel
def evaluate_at(first: float, second: float, coefficients: FloatArray) -> tuple[float, float]:
    """Evaluate both outputs at one point of the square [-1, 1]², by Clenshaw's recurrence and without arrays."""
    x = x_before = y = y_before = 0.0
    for i in range(coefficients.shape[1] - 1, -1, -1):
        inner_x = inner_x_before = inner_y = inner_y_before = 0.0
        for j in range(coefficients.shape[2] - 1, 0, -1):
            inner_x, inner_x_before = coefficients[0, i, j] + 2.0 * second * inner_x - inner_x_before, inner_x
            inner_y, inner_y_before = coefficients[1, i, j] + 2.0 * second * inner_y - inner_y_before, inner_y
        row_x = coefficients[0, i, 0] + second * inner_x - inner_x_before
        row_y = coefficients[1, i, 0] + second * inner_y - inner_y_before
        # The last step, that of the constant term, counts the argument once instead of twice.
        twice = 2.0 if i > 0 else 1.0
        x, x_before = row_x + twice * first * x - x_before, x
        y, y_before = row_y + twice * first * y - y_before, y
    return x, y
