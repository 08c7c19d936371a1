"""The nearest point of a union of discs, for millions of points.

Of several discs the nearest is the one with the least |z - c| - R, which is not always that of the nearest centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearveil.kernels import kernel
from nearveil.mechanisms.nearest_centre import candidate_table
from nearveil.types import FloatArray

SmallIntArray = npt.NDArray[np.int32]

_ROWS_AT_ONCE = 128


@dataclass(frozen=True, slots=True, eq=False)
class NearestDisc:
    """Candidates for every cell of a grid over the region; use `nearest_disc_table` to make one.

    Attributes
    ----------
    discs : array of shape (m, 3)
        Centres and radii.
    half_extent : tuple of float
        Half width and half height of the box.
    cells_per_side : int
        Of the grid.
    only : array of int
        For each cell, the disc that is nearest to all of its points; where there is none, less than 0.
    first, candidates : array of int
        For each cell, where its candidates begin in the list of all, and that list.
    """

    discs: FloatArray
    half_extent: tuple[float, float]
    cells_per_side: int
    only: SmallIntArray
    first: SmallIntArray
    candidates: SmallIntArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Move each row of ``z``, in the box of the table, to the nearest point of the discs."""
        return _move(np.ascontiguousarray(z), 0.0, 1.0, *self._table)

    def snapped(self, t: FloatArray, lines_per_unit: float, unit: float) -> FloatArray:
        """Round each row of ``t`` to a grid, then move it to the nearest point; 1 in the table is ``unit`` here."""
        return _move(np.ascontiguousarray(t), lines_per_unit, unit, *self._table)

    @property
    def _table(self) -> tuple[FloatArray, float, float, int, SmallIntArray, SmallIntArray, SmallIntArray]:
        return (self.discs, *self.half_extent, self.cells_per_side, self.only, self.first, self.candidates)


def nearest_disc_table(centres: FloatArray, radii: FloatArray, half_extent: tuple[float, float]) -> NearestDisc:
    """Build the table for discs with centres in the box given by its half width and half height."""
    discs = np.column_stack([centres, radii])
    side, first, candidates = candidate_table(np.ascontiguousarray(centres), np.ascontiguousarray(radii), half_extent)
    only = np.where(np.diff(first) == 1, candidates[first[:-1]], -1)
    small = (array.astype(np.int32) for array in (only, first, candidates))
    return NearestDisc(discs, half_extent, side, *small)


@kernel
def _move(
    z: FloatArray,
    lines_per_unit: float,
    unit: float,
    discs: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    only: SmallIntArray,
    first: SmallIntArray,
    candidates: SmallIntArray,
) -> FloatArray:
    """Move rows; with ``lines_per_unit`` they are rounded to a grid first, and clamped to the box."""
    # Loops over a few rows without calls and branches, so that one instruction serves several of them.
    out = np.empty((len(z), 2))
    z1, z2, cells = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE, dtype=np.int64)
    own_1, own_2, radii = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    nearest = np.empty(_ROWS_AT_ONCE, dtype=np.int32)
    east_scale, north_scale = np.divide(0.5 * side, half_width), np.divide(0.5 * side, half_height)
    for start in range(0, len(z), _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, len(z) - start)
        for lane in range(count):
            z1[lane], z2[lane] = z[start + lane, 0], z[start + lane, 1]
        if lines_per_unit > 0.0:
            _snap(z1, count, lines_per_unit, unit, half_width)
            _snap(z2, count, lines_per_unit, unit, half_height)
        for lane in range(count):
            column = min(max(int((z1[lane] + half_width) * east_scale), 0), side - 1)
            row = min(max(int((z2[lane] + half_height) * north_scale), 0), side - 1)
            cells[lane] = row * side + column
        # All are fetched from memory at once, before anything depends on what they are.
        for lane in range(count):
            nearest[lane] = only[cells[lane]]
        for lane in range(count):
            if nearest[lane] < 0:
                nearest[lane] = _nearest(z1[lane], z2[lane], discs, cells[lane], first, candidates)
        for lane in range(count):
            j = nearest[lane]
            own_1[lane], own_2[lane], radii[lane] = discs[j, 0], discs[j, 1], discs[j, 2]
        for lane in range(count):
            east, north = z1[lane] - own_1[lane], z2[lane] - own_2[lane]
            outside = np.sqrt(east * east + north * north) - radii[lane]
            # Within the disc nobody is moved.
            shrink = np.divide(radii[lane], radii[lane] + max(outside, 0.0))
            z1[lane] = unit * (own_1[lane] + east * shrink if outside > 0.0 else z1[lane])
            z2[lane] = unit * (own_2[lane] + north * shrink if outside > 0.0 else z2[lane])
        for lane in range(count):
            out[start + lane, 0], out[start + lane, 1] = z1[lane], z2[lane]
    return out


@kernel
def _snap(values: FloatArray, count: int, lines_per_unit: float, unit: float, most: float) -> None:
    for lane in range(count):
        snapped = np.divide(np.divide(np.rint(values[lane] * lines_per_unit), lines_per_unit), unit)
        values[lane] = min(max(snapped, -most), most)


@kernel
def _nearest(
    z1: float, z2: float, discs: FloatArray, cell: int, first: SmallIntArray, candidates: SmallIntArray
) -> np.int32:
    best, least = candidates[first[cell]], np.inf
    for place in range(first[cell], first[cell + 1]):
        j = candidates[place]
        east, north = z1 - discs[j, 0], z2 - discs[j, 1]
        outside = math.sqrt(east * east + north * north) - discs[j, 2]
        if outside < least:
            least, best = outside, j
    return best
