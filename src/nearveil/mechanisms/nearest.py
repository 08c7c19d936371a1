"""The nearest center, and the nearest point of a union of discs."""

from __future__ import annotations

import numpy as np

from nearveil.types import FloatArray, IntArray

# Of so many nearest centers one nearly always has the nearest disc.
_LIKELY = 8
# So many points are looked up on one core: whoever has more in pieces has a core for each piece.
_FEW = 1 << 17
# Pairs of a point and a disc that are compared at once.
_PAIRS_AT_ONCE = 1 << 20


class NearestCentre:
    """Finds, for each of many points, the center nearest to it; ``centres`` has shape (m, 2).

    Examples
    --------
    >>> NearestCentre(np.array([[0.0, 0.0], [1.0, 0.0]]))(np.array([[0.9, 0.3], [0.2, -0.1]])).tolist()
    [1, 0]
    """

    def __init__(self, centres: FloatArray) -> None:
        # Slow to load, and many commands never need it.
        from scipy.spatial import cKDTree  # noqa: PLC0415

        self._count = len(centres)
        self._tree = cKDTree(centres)

    def __call__(self, x: FloatArray) -> IntArray:
        """Index of the center nearest to each point; ``x`` has two columns in its last axis."""
        cores = -1 if len(x) > _FEW else 1
        return np.asarray(self._tree.query(x, workers=cores)[1], dtype=np.int64)

    def sums(self, x: IntArray, unit: float) -> IntArray:
        """Per center, the sum of the coordinates and the number of the points nearest to it.

        ``x`` holds whole multiples of ``unit``; the sums are exact. Shape (centers, 3).
        """
        own = self((x * unit).astype(np.float64))
        # Whole numbers below 2^53 are exact as floating-point numbers, and so are their sums.
        columns = [np.bincount(own, weights, minlength=self._count) for weights in (*x.T, np.ones(len(x)))]
        return np.column_stack(columns).astype(np.int64)


def nearest_point_of_discs(z: FloatArray, centres: FloatArray, radii: FloatArray) -> FloatArray:
    """Move each row of ``z`` to the nearest point of the union of discs; what lies in a disc stays.

    The nearest disc has the least |z - c| - R, and not always the nearest center.
    """
    from scipy.spatial import cKDTree  # noqa: PLC0415

    distance, near = cKDTree(centres).query(z, k=np.arange(1, min(_LIKELY, len(centres)) + 1))
    gaps = distance - radii[near]
    place = gaps.argmin(axis=1)
    rows = np.arange(len(z))
    best, gap = near[rows, place], gaps[rows, place]
    # A disc whose center is farther than all these can be nearer only if its radius makes up for it.
    unsettled = np.flatnonzero(distance[:, -1] - radii.max() < gap) if len(centres) > _LIKELY else rows[:0]
    for some in np.array_split(unsettled, -(-len(unsettled) * len(centres) // _PAIRS_AT_ONCE) or 1):
        all_gaps = np.hypot(z[some, 0, None] - centres[:, 0], z[some, 1, None] - centres[:, 1]) - radii
        best[some] = all_gaps.argmin(axis=1)
        gap[some] = all_gaps[np.arange(len(some)), best[some]]
    shrink = np.where(gap > 0, radii[best] / (radii[best] + np.maximum(gap, 0.0)), 1.0)[:, None]
    # Not by the formula for points that stay: it would change their last bit.
    moved: FloatArray = np.where(gap[:, None] > 0, centres[best] + (z - centres[best]) * shrink, z)
    return moved
