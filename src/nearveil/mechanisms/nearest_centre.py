"""Which centre is nearest, for millions of points: a table of candidates over a fine grid.

Every grid cell lists the centres that are nearest to some point of it, which is one centre for most cells and a
few along borders. Looking a point up means comparing the candidates of its cell: exact, and a few nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.kernels import inlined_kernel, kernel
from nearveil.types import FloatArray, IntArray, ShortIntArray

# How often cells are split along each side, step by step: each step looks only at what the one before has left.
_STEPS = (8, 4, 4, 4)
# A few centres have few borders, and a fine table of them would take longer to build than to look up without.
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
                # Who alone can be nearest in a cell is so in every part of it.
                kept[total] = options[0]
                total += 1
            else:
                least = np.inf
                for place in range(len(options)):
                    j = options[place]
                    gaps[place] = _gap(centres[j, 0] - qx, centres[j, 1] - qy, radii[j])
                    least = min(least, gaps[place])
                # Nobody in the cell is farther than ``reach`` from its middle; the tiny rest is for rounding.
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
