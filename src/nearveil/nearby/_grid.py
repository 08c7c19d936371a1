"""A mutable grid of points: the arrays and the search behind the live index.

Every cell keeps its points as a linked list through ``after`` and ``before``, so that a point is inserted, moved or
removed in constant time. A search visits the cells in rings around the query until the ring is farther than the k-th
point found.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

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


# A mutable grid whose crowded cells are grids themselves, for populations with cities in them.
#
# One array of heads holds the lists of all cells: those of the whole grid first, then those of every crowded cell.
# The head of a crowded cell names its own grid instead of a person. A search goes around the query in rings of cells,
# and in the same way through the grid of a crowded cell; what is farther than the k-th person found is passed over.


SlotArray = npt.NDArray[np.int32]

PEOPLE_PER_CELL = 3.0
CROWD = 24
"""From how many people on a cell gets a grid of its own."""

_FIRST_INNER = -2
# Far more than coordinates of the earth lose to rounding, and far less than anybody cares about.
_ROUNDING_M = 1e-6


@inlined_kernel
def _inner_number(head: int) -> int:
    return _FIRST_INNER - head


@kernel
def outer_cell(x: float, y: float, frame: FloatArray, columns: int, rows: int) -> int:
    """The cell of the whole grid that a point belongs to; points beyond it belong to its border cells."""
    return cell_along(y, frame[1], frame[2], rows) * columns + cell_along(x, frame[0], frame[2], columns)


@kernel
def home_of(x: float, y: float, frame: FloatArray, columns: int, rows: int, head: SlotArray, inner: SlotArray) -> int:
    """The cell in whose list a point belongs, be it of the whole grid or of a crowded cell's."""
    column, row = cell_along(x, frame[0], frame[2], columns), cell_along(y, frame[1], frame[2], rows)
    cell = row * columns + column
    first = head[cell]
    if first > _FIRST_INNER:
        return cell
    start, side = inner[_inner_number(first), 0], inner[_inner_number(first), 1]
    low_x, low_y, size = frame[0] + column * frame[2], frame[1] + row * frame[2], frame[2] / side
    return start + cell_along(y, low_y, size, side) * side + cell_along(x, low_x, size, side)


@kernel
def laid_out(places: FloatArray, frame: FloatArray, columns: int, rows: int) -> tuple[SlotArray, SlotArray]:
    """Empty cells for these places: heads, and for every crowded cell where its heads begin and its cells a side."""
    counts = np.zeros(columns * rows, dtype=np.int32)
    for slot in range(len(places)):
        if not math.isnan(places[slot, 0]):
            counts[outer_cell(places[slot, 0], places[slot, 1], frame, columns, rows)] += 1
    crowded = np.flatnonzero(counts > CROWD)
    inner = np.empty((len(crowded), 2), dtype=np.int32)
    start = len(counts)
    for number, cell in enumerate(crowded):
        side = math.ceil(math.sqrt(counts[cell] / PEOPLE_PER_CELL))
        inner[number, 0], inner[number, 1] = start, side
        start += side * side
    head = np.full(start, NOBODY, dtype=np.int32)
    for number, cell in enumerate(crowded):
        head[cell] = _FIRST_INNER - number
    return head, inner


@kernel
def link_everybody(
    places: FloatArray,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    before: SlotArray,
    home: SlotArray,
) -> int:
    """Put everybody who has a place into their cell; how many they are."""
    count = 0
    for slot in range(len(places)):
        if not math.isnan(places[slot, 0]):
            cell = home_of(places[slot, 0], places[slot, 1], frame, columns, rows, head, inner)
            link(slot, cell, head, after, before, home)
            count += 1
    return count


@kernel
def rank_slots(
    qx: float,
    qy: float,
    excluded: int,
    farthest_square: float,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    places: FloatArray,
    ties: npt.NDArray[np.uint64],
    slots: SlotArray,
    squares: FloatArray,
) -> int:
    """Fill in the slots of the nearest people within reach, in order, and the squares of their distances.

    As many as there is room for, or as there are; return how many.
    """
    k = len(slots)
    slots[:] = NOBODY
    squares[:] = np.inf
    size = frame[2]
    # Cells hold what is beyond the grid where it is clamped to, and clamping brings no two points farther apart: a
    # distance from the clamped query to a cell is never greater than that from the query to somebody in its list.
    cx = min(max(qx, frame[0]), frame[0] + columns * size)
    cy = min(max(qy, frame[1]), frame[1] + rows * size)
    column, row = cell_along(cx, frame[0], size, columns), cell_along(cy, frame[1], size, rows)
    for ring in range(max(columns, rows)):
        reach = _to_ring(cx, cy, column, row, ring, frame[0], frame[1], size, columns, rows)
        if reach * reach > min(squares[k - 1], farthest_square):
            break
        for r in range(max(row - ring, 0), min(row + ring, rows - 1) + 1):
            step = 1 if abs(r - row) == ring else 2 * ring
            for c in range(column - ring, column + ring + 1, step):
                if c < 0 or c >= columns:
                    continue
                first = head[r * columns + c]
                if first == NOBODY:
                    continue
                low_x, low_y = frame[0] + c * size, frame[1] + r * size
                if _square_to_cell(cx, cy, low_x, low_y, size) > min(squares[k - 1], farthest_square):
                    continue
                if first > _FIRST_INNER:
                    visit(first, qx, qy, farthest_square, excluded, places, ties, after, slots, squares)
                else:
                    start, side = inner[_inner_number(first), 0], inner[_inner_number(first), 1]
                    _visit_crowd(
                        qx, qy, cx, cy, farthest_square, excluded, low_x, low_y, size / side, side,
                        head[start : start + side * side], places, ties, after, slots, squares,
                    )  # fmt: skip
    found = 0
    while found < k and slots[found] != NOBODY:
        found += 1
    return found


@kernel
def _visit_crowd(
    qx: float,
    qy: float,
    cx: float,
    cy: float,
    farthest_square: float,
    excluded: int,
    low_x: float,
    low_y: float,
    size: float,
    side: int,
    head: SlotArray,
    places: FloatArray,
    ties: npt.NDArray[np.uint64],
    after: SlotArray,
    slots: SlotArray,
    squares: FloatArray,
) -> None:
    """Go through the grid of a crowded cell, which the query need not be in."""
    last = len(slots) - 1
    column, row = cell_along(cx, low_x, size, side), cell_along(cy, low_y, size, side)
    for ring in range(side):
        reach = _to_ring(cx, cy, column, row, ring, low_x, low_y, size, side, side)
        if reach * reach > min(squares[last], farthest_square):
            return
        for r in range(max(row - ring, 0), min(row + ring, side - 1) + 1):
            step = 1 if abs(r - row) == ring else 2 * ring
            for c in range(column - ring, column + ring + 1, step):
                if c < 0 or c >= side or head[r * side + c] == NOBODY:
                    continue
                square = _square_to_cell(cx, cy, low_x + c * size, low_y + r * size, size)
                if square <= min(squares[last], farthest_square):
                    visit(head[r * side + c], qx, qy, farthest_square, excluded, places, ties, after, slots, squares)


@inlined_kernel
def _to_ring(
    cx: float,
    cy: float,
    column: int,
    row: int,
    ring: int,
    low_x: float,
    low_y: float,
    size: float,
    columns: int,
    rows: int,
) -> float:
    """Least distance to any cell of the ring and of those beyond, where there are any on that side."""
    reach = np.inf
    if column >= ring:
        reach = min(reach, cx - (low_x + (column - ring + 1) * size))
    if column + ring < columns:
        reach = min(reach, low_x + (column + ring) * size - cx)
    if row >= ring:
        reach = min(reach, cy - (low_y + (row - ring + 1) * size))
    if row + ring < rows:
        reach = min(reach, low_y + (row + ring) * size - cy)
    return max(reach - _ROUNDING_M, 0.0)


@inlined_kernel
def _square_to_cell(cx: float, cy: float, low_x: float, low_y: float, size: float) -> float:
    """Square of the least distance to a cell."""
    dx = max(low_x - cx, cx - low_x - size, 0.0) - _ROUNDING_M
    dy = max(low_y - cy, cy - low_y - size, 0.0) - _ROUNDING_M
    return max(dx, 0.0) ** 2 + max(dy, 0.0) ** 2
