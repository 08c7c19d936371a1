"""Morton codes: cells of a 2^h x 2^h grid numbered so that every quadtree block is a run of numbers."""

from __future__ import annotations

import numpy as np

from nearveil.types import IntArray

MOST_LEVELS = 12


def interleave(column: IntArray, row: IntArray) -> IntArray:
    """Return the Morton code of each (column, row), the row's bits in front."""
    code = np.zeros(np.broadcast(column, row).shape, dtype=np.int64)
    for bit in range(MOST_LEVELS):
        code |= ((column >> bit) & 1) << (2 * bit)
        code |= ((row >> bit) & 1) << (2 * bit + 1)
    return code


def deinterleave(code: IntArray) -> tuple[IntArray, IntArray]:
    """Return column and row of each Morton code."""
    column = np.zeros(np.shape(code), dtype=np.int64)
    row = np.zeros(np.shape(code), dtype=np.int64)
    for bit in range(MOST_LEVELS):
        column |= ((code >> (2 * bit)) & 1) << bit
        row |= ((code >> (2 * bit + 1)) & 1) << bit
    return column, row
