"""How many people the cells of a grid hold, counted on several cores without an array for every batch."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from nearveil.kernels import COMPILED, kernel
from nearveil.mechanisms.centres import FIXED_POINT
from nearveil.mechanisms.exact_answers import cell_counts
from nearveil.region import Region
from nearveil.types import IntArray

SmallIntArray = npt.NDArray[np.int32]


class CellTally:
    """Counts as `cell_counts` does, a batch at a time: whole multiples of 2⁻²⁰ of the square, on any thread."""

    def __init__(self, region: Region, columns: int, rows: int) -> None:
        self._region = region
        self._columns = columns
        self._rows = rows
        # As many as there are threads: each takes one while it counts.
        self._spare: deque[IntArray] = deque()

    def add(self, whole: SmallIntArray) -> None:
        """Count a batch."""
        try:
            counts = self._spare.pop()
        except IndexError:
            counts = np.zeros(self._columns * self._rows, dtype=np.int64)
        if COMPILED:
            _count(whole, *self._region.half_extent_square, self._columns, self._rows, counts)
        else:
            counts += cell_counts(whole.astype(np.int64), self._region, self._columns, self._rows)
        self._spare.append(counts)

    def total(self) -> IntArray:
        """Return what all batches counted together."""
        return sum(self._spare, np.zeros(self._columns * self._rows, dtype=np.int64))


@kernel
def _count(
    whole: SmallIntArray, half_width: float, half_height: float, columns: int, rows: int, counts: IntArray
) -> None:
    for i in range(len(whole)):
        east = np.divide(np.divide(whole[i, 0], FIXED_POINT), half_width)
        north = np.divide(np.divide(whole[i, 1], FIXED_POINT), half_height)
        column = min(max(int((east + 1.0) * 0.5 * columns), 0), columns - 1)
        row = min(max(int((north + 1.0) * 0.5 * rows), 0), rows - 1)
        counts[row * columns + column] += 1
