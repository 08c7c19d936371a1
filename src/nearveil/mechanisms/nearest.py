"""The nearest centre and the nearest disc, for millions of points: tables of candidates over a fine grid.

Every grid cell lists the centres, or discs, that are nearest to some point of it, which is one for most cells and a few
along boundaries. Looking a point up means comparing the candidates of its cell: exact, and a few nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.kernels import inlined_kernel, kernel
from nearveil.types import FloatArray, IntArray, ShortIntArray

# How often cells are split along each side, step by step: each step looks only at what the one before has left.
_STEPS = (8, 4, 4, 4)
# Few centres have few boundaries: a fine table would take longer to build than it saves.
_FEW, _STEPS_FOR_FEW = 64, (8, 4, 2)
_FEW_LOOKUPS, _STEPS_FOR_FEW_LOOKUPS = 2_000_000, (8, 4, 4)


@dataclass(frozen=True, slots=True)
class NearestCentre:
    """Candidates for every cell of a grid over [-half_width, half_width] x [-half_height, half_height].

    Use `nearest_centre_table` to make one.
    """

    centres: FloatArray
    half_extent: tuple[float, float]
    cells_per_side: int
    first: ShortIntArray
    candidates: ShortIntArray

    def __call__(self, x: FloatArray) -> IntArray:
        """Index of the centre nearest to each row of ``x``; of equals, the first."""
        return _look_up(x, self.centres, *self.half_extent, self.cells_per_side, self.first, self.candidates)

    def sums(self, x: IntArray, unit: float) -> IntArray:
        """Per centre, the sum of the coordinates and the number of the points nearest to it.

        ``x`` holds whole multiples of ``unit``; the sums are exact. Shape (centres, 3).
        """
        return _cluster_sums(x, unit, self.centres, *self.half_extent, self.cells_per_side, self.first, self.candidates)


def nearest_centre_table(
    centres: FloatArray, half_extent: tuple[float, float], *, lookups: int | None = None
) -> NearestCentre:
    """Build the table for centres within the box given by its half width and half height.

    ``lookups``, how many points will be looked up, decides how fine the table is, and nothing else.
    """
    table = candidate_table(centres, np.zeros(len(centres)), half_extent, lookups=lookups)
    return NearestCentre(centres, half_extent, *table)


def candidate_table(
    centres: FloatArray, radii: FloatArray, half_extent: tuple[float, float], *, lookups: int | None = None
) -> tuple[int, ShortIntArray, ShortIntArray]:
    """Return cells per side, and for each cell the discs that can be nearest to a point of it, as runs of a list.

    The distance to a disc is that to its centre less its radius; a radius of 0 makes it the centre itself.
    """
    steps = _STEPS if lookups is None or lookups > _FEW_LOOKUPS else _STEPS_FOR_FEW_LOOKUPS
    steps = steps if len(centres) > _FEW else _STEPS_FOR_FEW
    side, first = 1, np.array([0, len(centres)], dtype=np.int32)
    candidates = np.arange(len(centres), dtype=np.int32)
    for finer in steps:
        first, candidates = _refine(centres, radii, *half_extent, side, first, candidates, finer)
        side *= finer
    return side, first, candidates


@inlined_kernel
def _gap(east: float, north: float, radius: float) -> float:
    return math.sqrt(east * east + north * north) - radius


@kernel
def _refine(
    centres: FloatArray,
    radii: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    first: ShortIntArray,
    candidates: ShortIntArray,
    finer: int,
) -> tuple[ShortIntArray, ShortIntArray]:
    """Split each cell into finer x finer, keeping in each part the centres that can be nearest there."""
    fine = side * finer
    reach = math.hypot(half_width, half_height) / fine
    ends = np.zeros(fine * fine + 1, dtype=np.int32)
    gaps = np.empty(np.diff(first).max())
    kept = np.empty(2 * (fine * fine + len(candidates)), dtype=np.int32)
    total = 0
    for row in range(fine):
        qy = half_height * ((2 * row + 1) / fine - 1.0)
        for column in range(fine):
            qx = half_width * ((2 * column + 1) / fine - 1.0)
            parent = (row // finer) * side + column // finer
            options = candidates[first[parent] : first[parent + 1]]
            if total + len(options) > len(kept):
                kept = _with_more_room(kept, len(options))
            if len(options) == 1:
                # If only one centre can be nearest in a cell, it is nearest in every part of it.
                kept[total] = options[0]
                total += 1
            else:
                least = np.inf
                for place in range(len(options)):
                    j = options[place]
                    gaps[place] = _gap(centres[j, 0] - qx, centres[j, 1] - qy, radii[j])
                    least = min(least, gaps[place])
                # No point of the cell is farther than ``reach`` from its middle; the tiny rest is for rounding.
                limit = least + 2.0 * reach * (1.0 + 1e-9)
                for place in range(len(options)):
                    # Written in any case: what is not kept is overwritten, and no branch is guessed wrong.
                    kept[total] = options[place]
                    total += 1 if gaps[place] <= limit else 0
            ends[row * fine + column + 1] = total
    return ends, kept[:total].copy()


@kernel
def _with_more_room(kept: ShortIntArray, needed: int) -> ShortIntArray:
    grown = np.empty(2 * len(kept) + needed, dtype=np.int32)
    grown[: len(kept)] = kept
    return grown


@inlined_kernel
def _nearest(
    x1: float,
    x2: float,
    centres: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    first: ShortIntArray,
    candidates: ShortIntArray,
) -> int:
    # The quotients do not change from point to point, and are taken out of the loop.
    column = min(max(int((x1 + half_width) * (0.5 * side / half_width)), 0), side - 1)
    row = min(max(int((x2 + half_height) * (0.5 * side / half_height)), 0), side - 1)
    cell = row * side + column
    begin, end = first[cell], first[cell + 1]
    best = candidates[begin]
    if end - begin > 1:
        least = np.inf
        for place in range(begin, end):
            j = candidates[place]
            d1, d2 = x1 - centres[j, 0], x2 - centres[j, 1]
            distance = d1 * d1 + d2 * d2
            if distance < least:
                least, best = distance, j
    return best


@kernel
def _look_up(
    x: FloatArray,
    centres: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    first: ShortIntArray,
    candidates: ShortIntArray,
) -> IntArray:
    out = np.empty(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = _nearest(x[i, 0], x[i, 1], centres, half_width, half_height, side, first, candidates)
    return out


@kernel
def _cluster_sums(
    x: IntArray,
    unit: float,
    centres: FloatArray,
    half_width: float,
    half_height: float,
    side: int,
    first: ShortIntArray,
    candidates: ShortIntArray,
) -> IntArray:
    sums = np.zeros((len(centres), 3), dtype=np.int64)
    for i in range(len(x)):
        j = _nearest(x[i, 0] * unit, x[i, 1] * unit, centres, half_width, half_height, side, first, candidates)
        sums[j, 0] += x[i, 0]
        sums[j, 1] += x[i, 1]
        sums[j, 2] += 1
    return sums


# The nearest point of a union of discs.
#
# Of several discs the nearest is the one with the least |z - c| - R, which is not always that of the nearest centre.


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
    only: ShortIntArray
    first: ShortIntArray
    candidates: ShortIntArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Move each row of ``z``, in the box of the table, to the nearest point of the discs."""
        return _move(np.ascontiguousarray(z), 0.0, 1.0, *self._table)

    def snapped(self, t: FloatArray, lines_per_unit: float, unit: float) -> FloatArray:
        """Round each row of ``t`` to a grid, then move it to the nearest point; 1 in the table is ``unit`` here."""
        return _move(np.ascontiguousarray(t), lines_per_unit, unit, *self._table)

    @property
    def _table(self) -> tuple[FloatArray, float, float, int, ShortIntArray, ShortIntArray, ShortIntArray]:
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
    only: ShortIntArray,
    first: ShortIntArray,
    candidates: ShortIntArray,
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
                nearest[lane] = _nearest_edge(z1[lane], z2[lane], discs, cells[lane], first, candidates)
        for lane in range(count):
            j = nearest[lane]
            own_1[lane], own_2[lane], radii[lane] = discs[j, 0], discs[j, 1], discs[j, 2]
        for lane in range(count):
            east, north = z1[lane] - own_1[lane], z2[lane] - own_2[lane]
            outside = np.sqrt(east * east + north * north) - radii[lane]
            # Points within the disc are not moved.
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
def _nearest_edge(
    z1: float, z2: float, discs: FloatArray, cell: int, first: ShortIntArray, candidates: ShortIntArray
) -> np.int32:
    best, least = candidates[first[cell]], np.inf
    for place in range(first[cell], first[cell + 1]):
        j = candidates[place]
        east, north = z1 - discs[j, 0], z2 - discs[j, 1]
        outside = math.sqrt(east * east + north * north) - discs[j, 2]
        if outside < least:
            least, best = outside, j
    return best
