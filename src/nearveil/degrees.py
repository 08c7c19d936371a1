"""Degrees around a centre, for millions of points: offsets from it, clamping, and the public grid.

Each function is compiled where that is possible and plain NumPy elsewhere, with the same result to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearveil.kernels import COMPILED, kernel
from nearveil.places import wrap_longitude
from nearveil.types import FloatArray


class GridBox(NamedTuple):
    """A box of a public grid: the centre's longitude, grid lines per degree, and the outermost lines of the box."""

    centre_longitude: float
    lines_per_degree: float
    south: float
    north: float
    west: float
    east: float


def offsets_from(longitude: float, points: FloatArray) -> FloatArray:
    """Return degrees east of a longitude, and latitude, of points of latitude and longitude."""
    offsets: FloatArray = (_offsets if COMPILED else _offsets_numpy)(longitude, points)
    return offsets


def points_at(longitude: float, offsets: FloatArray) -> FloatArray:
    """Invert `offsets_from`."""
    points: FloatArray = (_points if COMPILED else _points_numpy)(longitude, offsets)
    return points


def clamped(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    """Move points beyond a box around the origin to its edge."""
    inside: FloatArray = (_clamped if COMPILED else _clamped_numpy)(xy, half_width, half_height)
    return inside


def on_grid(points: FloatArray, box: GridBox) -> FloatArray:
    """Round points to the grid, within the box."""
    rounded: FloatArray = (_on_grid if COMPILED else _on_grid_numpy)(points, *box)
    return rounded


@kernel
def _wrapped(longitude: float) -> float:
    turned = longitude + 180.0
    # The remainder is slow and changes nothing for almost everybody.
    if turned < 0.0 or turned >= 360.0:
        turned = turned % 360.0
    return turned - 180.0


@kernel
def _offsets(longitude: float, points: FloatArray) -> FloatArray:
    out = np.empty((len(points), 2))
    for i in range(len(points)):
        out[i, 0] = _wrapped(points[i, 1] - longitude)
        out[i, 1] = points[i, 0]
    return out


def _offsets_numpy(longitude: float, points: FloatArray) -> FloatArray:
    return np.column_stack([wrap_longitude(points[:, 1] - longitude), points[:, 0]])


@kernel
def _points(longitude: float, offsets: FloatArray) -> FloatArray:
    out = np.empty((len(offsets), 2))
    for i in range(len(offsets)):
        out[i, 0] = offsets[i, 1]
        out[i, 1] = _wrapped(offsets[i, 0] + longitude)
    return out


def _points_numpy(longitude: float, offsets: FloatArray) -> FloatArray:
    return np.column_stack([offsets[:, 1], wrap_longitude(offsets[:, 0] + longitude)])


@kernel
def _clamped(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    out = np.empty((len(xy), 2))
    for i in range(len(xy)):
        out[i, 0] = min(max(xy[i, 0], -half_width), half_width)
        out[i, 1] = min(max(xy[i, 1], -half_height), half_height)
    return out


def _clamped_numpy(xy: FloatArray, half_width: float, half_height: float) -> FloatArray:
    return np.clip(xy, (-half_width, -half_height), (half_width, half_height))


@kernel
def _on_grid(
    points: FloatArray, longitude: float, scale: float, south: float, north: float, west: float, east: float
) -> FloatArray:
    out = np.empty((len(points), 2))
    for i in range(len(points)):
        out[i, 0] = np.divide(min(max(np.rint(points[i, 0] * scale), south), north), scale)
        line = np.rint((longitude + _wrapped(points[i, 1] - longitude)) * scale)
        out[i, 1] = np.divide(np.rint(_wrapped(np.divide(min(max(line, west), east), scale)) * scale), scale)
    return out


def _on_grid_numpy(
    points: FloatArray, longitude: float, scale: float, south: float, north: float, west: float, east: float
) -> FloatArray:
    latitude = np.clip(np.rint(points[:, 0] * scale), south, north) / scale
    lines = np.rint((longitude + wrap_longitude(points[:, 1] - longitude)) * scale)
    return np.column_stack([latitude, np.rint(wrap_longitude(np.clip(lines, west, east) / scale) * scale) / scale])
