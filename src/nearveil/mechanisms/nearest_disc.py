"""The nearest point of a union of discs, for millions of points.

Of several discs the nearest is the one with the least |z - c| - R, which is not always that of the nearest centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms.nearest_centre import candidate_table
from nearveil.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class NearestDisc:
    """Candidates for every cell of a grid over the region; use `nearest_disc_table` to make one."""

    centres: FloatArray
    radii: FloatArray
    half_extent: tuple[float, float]
    cells_per_side: int
    first: IntArray
    candidates: IntArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Move each row of ``z``, in the box of the table, to the nearest point of the discs."""
        return _move(
            np.ascontiguousarray(z),
            self.centres,
            self.radii,
            *self.half_extent,
            self.cells_per_side,
            self.first,
            self.candidates,
        )


def nearest_disc_table(centres: FloatArray, radii: FloatArray, half_extent: tuple[float, float]) -> NearestDisc:
    """Build the table for discs with centres in the box given by its half width and half height."""
    centres, radii = np.ascontiguousarray(centres), np.ascontiguousarray(radii)
    side, first, candidates = candidate_table(centres, radii, half_extent)
    return NearestDisc(centres, radii, half_extent, side, first, candidates)


@kernel
def _move(
    z: FloatArray,
    centres: FloatArray,
    radii: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    first: IntArray,
    candidates: IntArray,
) -> FloatArray:
    out = np.empty_like(z)
    for i in range(len(z)):
        column = min(max(int((z[i, 0] / half_width + 1.0) * 0.5 * side), 0), side - 1)
        row = min(max(int((z[i, 1] / half_height + 1.0) * 0.5 * side), 0), side - 1)
        cell = row * side + column
        best, least = candidates[first[cell]], np.inf
        for place in range(first[cell], first[cell + 1]):
            j = candidates[place]
            outside = math.hypot(z[i, 0] - centres[j, 0], z[i, 1] - centres[j, 1]) - radii[j]
            if outside < least:
                least, best = outside, j
        if least <= 0.0:
            out[i] = z[i]
            continue
        shrink = radii[best] / (radii[best] + least)
        out[i, 0] = centres[best, 0] + (z[i, 0] - centres[best, 0]) * shrink
        out[i, 1] = centres[best, 1] + (z[i, 1] - centres[best, 1]) * shrink
    return out
