"""The kernels on degrees once more, in plain NumPy: what the compiled ones are compared with."""

import numpy as np
from numpy.polynomial import chebyshev

from nearveil.geodesy import wrap_longitude
from nearveil.types import BoolArray, FloatArray


def count_faults(
    points: FloatArray, latitude: float, longitude: float, half_height: float, half_width: float
) -> tuple[int, int, int, int, int, int, int, bool, int]:
    """Count what `Faults` holds, in its order."""

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
        int((off_range & (np.abs(known) > 1000.0).any(axis=1)).sum()),
    )


def evaluate(points: FloatArray, middle: FloatArray, half: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Evaluate both outputs of a fast map."""
    u, v = ((points - middle) / half).T
    return np.column_stack([chebyshev.chebval2d(u, v, of_one) for of_one in coefficients])


def offsets(longitude: float, points: FloatArray) -> FloatArray:
    return np.column_stack([wrap_longitude(points[:, 1] - longitude), points[:, 0]])


def points(longitude: float, offsets: FloatArray) -> FloatArray:
    return np.column_stack([offsets[:, 1], wrap_longitude(offsets[:, 0] + longitude)])


def clamped(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    return np.clip(xy, (-half_width, -half_height), (half_width, half_height))


def on_grid(
    points: FloatArray, longitude: float, scale: float, south: float, north: float, west: float, east: float
) -> FloatArray:
    latitude = np.clip(np.rint(points[:, 0] * scale), south, north) / scale
    lines = np.rint((longitude + wrap_longitude(points[:, 1] - longitude)) * scale)
    return np.column_stack([latitude, np.rint(wrap_longitude(np.clip(lines, west, east) / scale) * scale) / scale])
