"""Nearest centres and discs without a compiler: scipy's tree with the ties of the compiled table, and NumPy."""

from __future__ import annotations

import numpy as np

from nearveil.types import FloatArray, IntArray

# Centres at very nearly one distance are compared again, in the order and by the arithmetic of the compiled table.
_COMPARED = 4
_ROWS_AT_ONCE = 1 << 12


def nearest_by_tree(x: FloatArray, centres: FloatArray) -> IntArray:
    """Index of the centre nearest to each row of ``x``; of equals, the first."""
    # Slow to load, and needed only where numba is not.
    from scipy.spatial import cKDTree  # noqa: PLC0415

    _, found = cKDTree(centres).query(x, k=min(_COMPARED, len(centres)))
    found = np.sort(found.reshape(len(x), -1), axis=1)
    d1 = x[:, :1] - centres[found, 0]
    d2 = x[:, 1:] - centres[found, 1]
    nearest: IntArray = found[np.arange(len(x)), np.argmin(d1 * d1 + d2 * d2, axis=1)].astype(np.int64)
    return nearest


def sums_by_tree(x: IntArray, unit: float, centres: FloatArray) -> IntArray:
    """Per centre, the sum of the coordinates and the number of the points nearest to it."""
    own = nearest_by_tree(np.multiply(x, unit, dtype=np.float64), centres)
    sums = np.zeros((len(centres), 3), dtype=np.int64)
    np.add.at(sums, own, np.column_stack([x, np.ones(len(x), dtype=np.int64)]))
    return sums


def move_to_discs(z: FloatArray, centres: FloatArray, radii: FloatArray) -> FloatArray:
    """Move each row of ``z`` to the nearest point of the discs."""
    parts = [_move(z[start : start + _ROWS_AT_ONCE], centres, radii) for start in range(0, len(z), _ROWS_AT_ONCE)]
    return np.concatenate(parts) if parts else np.empty((0, 2))


def _move(z: FloatArray, centres: FloatArray, radii: FloatArray) -> FloatArray:
    # Of discs that overlap the nearest is not that of the nearest centre, which is all that a tree could tell.
    outside = np.hypot(z[:, :1] - centres[:, 0], z[:, 1:] - centres[:, 1]) - radii
    best = np.argmin(outside, axis=1)
    least = outside[np.arange(len(z)), best]
    shrink = (radii[best] / (radii[best] + np.maximum(least, 0.0)))[:, None]
    moved: FloatArray = np.where(least[:, None] > 0.0, centres[best] + (z - centres[best]) * shrink, z)
    return moved
