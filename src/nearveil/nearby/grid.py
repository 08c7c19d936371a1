"""A mutable grid of points: the arrays and the search behind the live index.

Every cell keeps its points as a linked list through ``after`` and ``before``, so that a point is inserted, moved or
removed in constant time. A search visits the cells in rings around the query until the ring is farther than the k-th
point found.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import inlined_kernel, kernel
from nearveil.types import FloatArray, IntArray

NOBODY = -1


@inlined_kernel
def cell_along(value: float, low: float, size: float, cells: int) -> int:
    """Number of the cell along one axis."""
    return min(max(math.floor((value - low) / size), 0), cells - 1)


@kernel
def cell_of(x: float, y: float, low: FloatArray, size: float, columns: int, rows: int) -> int:
    """The cell of a point; points beyond the grid belong to its border cells."""
    return cell_along(y, low[1], size, rows) * columns + cell_along(x, low[0], size, columns)


@kernel
def link(slot: int, cell: int, head: IntArray, after: IntArray, before: IntArray, home: IntArray) -> None:
    """Put a slot at the front of a cell's list."""
    first = head[cell]
    after[slot], before[slot], home[slot] = first, NOBODY, cell
    if first != NOBODY:
        before[first] = slot
    head[cell] = slot


@kernel
def unlink(slot: int, head: IntArray, after: IntArray, before: IntArray, home: IntArray) -> None:
    """Take a slot out of its cell's list."""
    previous, following = before[slot], after[slot]
    if previous == NOBODY:
        head[home[slot]] = following
    else:
        after[previous] = following
    if following != NOBODY:
        before[following] = previous
    home[slot] = NOBODY


@kernel
def link_all(
    places: FloatArray,
    low: FloatArray,
    size: float,
    shape: tuple[int, int],
    head: IntArray,
    after: IntArray,
    before: IntArray,
    home: IntArray,
) -> None:
    """Put the first slots, as many as there are places, into their cells."""
    for slot in range(len(places)):
        cell = cell_of(places[slot, 0], places[slot, 1], low, size, shape[0], shape[1])
        link(slot, cell, head, after, before, home)


@inlined_kernel
def _comes_first(d1: float, key1: float, d2: float, key2: float) -> bool:
    return d1 < d2 or (d1 == d2 and key1 < key2)


@kernel
def nearest_slots(
    qx: float,
    qy: float,
    k: int,
    places: FloatArray,
    tie_keys: FloatArray,
    low: FloatArray,
    size: float,
    shape: tuple[int, int],
    head: IntArray,
    after: IntArray,
) -> tuple[IntArray, FloatArray]:
    """Slots of the k nearest points and their squared distances, in order; ties by key."""
    columns, rows = shape
    slots = np.full(k, NOBODY, dtype=np.int64)
    squares = np.full(k, np.inf)
    column, row = cell_along(qx, low[0], size, columns), cell_along(qy, low[1], size, rows)
    for ring in range(max(columns, rows) + 1):
        if ring > 1 and slots[k - 1] != NOBODY:
            # Border cells also hold points beyond the grid, but those are farther away than the border.
            reach = _distance_to_ring(qx, qy, column, row, ring, low, size)
            if reach > 0.0 and reach * reach > squares[k - 1]:
                break
        for r in range(max(row - ring, 0), min(row + ring, rows - 1) + 1):
            edge_row = abs(r - row) == ring
            step = 1 if edge_row else max(2 * ring, 1)
            for c in range(column - ring, column + ring + 1, step):
                if 0 <= c < columns:
                    visit(head[r * columns + c], qx, qy, np.inf, NOBODY, places, tie_keys, after, slots, squares)
    return slots, squares


@kernel
def _distance_to_ring(qx: float, qy: float, column: int, row: int, ring: int, low: FloatArray, size: float) -> float:
    """Least distance from the query to any cell of the ring, and so to all rings beyond."""
    west = qx - (low[0] + (column - ring + 1) * size)
    east = low[0] + (column + ring) * size - qx
    south = qy - (low[1] + (row - ring + 1) * size)
    north = low[1] + (row + ring) * size - qy
    return min(west, east, south, north)


@kernel
def visit(
    slot: int,
    qx: float,
    qy: float,
    farthest_square: float,
    excluded: int,
    places: FloatArray,
    tie_keys: FloatArray,
    after: IntArray,
    slots: IntArray,
    squares: FloatArray,
) -> None:
    """Merge the points of one cell, but for one who is excluded and those too far away, into the k best so far."""
    last = len(slots) - 1
    while slot != NOBODY:
        dx, dy = places[slot, 0] - qx, places[slot, 1] - qy
        square = dx * dx + dy * dy
        following = after[slot]
        # Where nobody is yet the square is infinite. Keys are only read for equals, which are rare.
        if square <= min(squares[last], farthest_square) and slot != excluded:
            place = last
            if square < squares[last] or slots[last] == NOBODY or tie_keys[slot] < tie_keys[slots[last]]:
                while place > 0 and (
                    square < squares[place - 1]
                    or (square == squares[place - 1] and tie_keys[slot] < tie_keys[slots[place - 1]])
                ):
                    slots[place], squares[place] = slots[place - 1], squares[place - 1]
                    place -= 1
                slots[place], squares[place] = slot, square
        slot = following
