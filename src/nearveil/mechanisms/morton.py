"""Morton codes: cells of a 2^h x 2^h grid numbered so that every quadtree block is a run of numbers."""

from __future__ import annotations

from nearveil.types import IntArray

MOST_LEVELS = 12

# For each doubling: the bits to move by, and the mask of the bits that stay. Good for 16 levels.
_SPREADS = ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))
_GATHERS = ((1, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF))


def interleave(column: IntArray, row: IntArray) -> IntArray:
    """Return the Morton code of each (column, row), the row's bits in front."""
    return _spread(column) | (_spread(row) << 1)


def deinterleave(code: IntArray) -> tuple[IntArray, IntArray]:
    """Return column and row of each Morton code."""
    return _gathered(code), _gathered(code >> 1)


def _spread(number: IntArray) -> IntArray:
    """Put a 0 before every bit."""
    for shift, mask in _SPREADS:
        number = (number | (number << shift)) & mask
    return number


def _gathered(code: IntArray) -> IntArray:
    """Take every other bit, from the last on."""
    code = code & 0x55555555
    for shift, mask in _GATHERS:
        code = (code | (code >> shift)) & mask
    return code
