"""Grid: points in cells whose crowded cells are grids themselves, and the search for the nearest.

Every cell keeps its points as a linked list through ``after`` and ``before``, so that a point is put, moved or dropped
in constant time. One array of heads holds the lists of all cells: those of the whole grid first, then those of every
crowded cell, whose own head names its grid instead of a point. A search visits cells in rings around the query, and in
the same way the grid of a crowded cell; it ends where everything left is farther away than the k-th point found.

Slots may have tags, as bits. Every cell knows all tags that somebody in it has, or had since the grid was built, so
that a search for people with a tag passes cells without one by.

Questions and single changes keep Python's lock, so that no thread sees a change half done. Building lets go of it.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import numpy.typing as npt

from nearveil.hashing import hash_words
from nearveil.kernels import brief_kernel, inlined_kernel, kernel
from nearveil.types import FloatArray, IntArray, WordArray

NOBODY = -1
PEOPLE_PER_CELL = 3.0
CROWD = 24
"""From how many people on a cell gets a grid of its own."""

SlotArray = npt.NDArray[np.int32]
Few = tuple[SlotArray, FloatArray, FloatArray, WordArray]
"""Slots with their x, y and ties, side by side in memory: to look at thousands of them takes microseconds."""
Rank = tuple[float, np.uint64]
"""What people are ordered by: the square of the distance, and the tie."""
FIRST: Rank = (-1.0, np.uint64(0))
"""Before everybody."""

_FIRST_INNER = -2
# Far more than coordinates of the earth lose to rounding, and far less than anybody cares about.
_ROUNDING_M = 1e-6


class _Room(threading.local):
    """Where an answer is put together, each thread's own: making it anew takes as long as a tenth of a question."""

    slots: SlotArray = np.empty(0, dtype=np.int32)
    squares: FloatArray = np.empty(0)


_ROOM = _Room()


def _room(k: int) -> tuple[SlotArray, FloatArray]:
    slots, squares = _ROOM.slots, _ROOM.squares
    if len(slots) != k:
        slots, squares = _ROOM.slots, _ROOM.squares = np.empty(k, dtype=np.int32), np.empty(k)
    return slots, squares


class Grid:
    """Points by slot, in cells.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the area; points beyond it are allowed.
    points : array, shape (n, 2)
        In metres; not a number where a slot is empty. The grid keeps the array and changes it.
    tie_seeds : array, shape (n,)
        What the order of points at one distance comes from.
    key : bytes, 16 of them, or None
        They are ordered by the keyed hash of their seeds, or by the seeds themselves.
    tags : array, shape (n,), optional
        The tags of each slot, as bits. It is only read.
    """

    def __init__(
        self,
        half_extent_m: tuple[float, float],
        points: FloatArray,
        tie_seeds: WordArray,
        key: bytes | None,
        tags: WordArray | None = None,
    ) -> None:
        self.points, self.key = points, key
        self._ties = tie_seeds.copy() if key is None else hash_words(tie_seeds, key)
        half_width, half_height = half_extent_m
        cells = max(1.0, len(points) / PEOPLE_PER_CELL)
        size = math.sqrt(4 * half_width * half_height / cells)
        self._frame = np.array([-half_width, -half_height, size])
        self._shape = (int(2 * half_width / size) + 1, int(2 * half_height / size) + 1)
        self._head, self._inner = _lay_out(points, self._frame, *self._shape)
        self._after, self._before, self._home = (np.full(len(points), NOBODY, dtype=np.int32) for _ in range(3))
        self.count: int = _link_all(
            points, self._frame, *self._shape, self._head, self._inner, self._after, self._before, self._home
        )
        self._cell_tags = np.zeros(len(self._head), dtype=np.uint64)
        if tags is not None:
            _tag_all(tags, points, self._frame, *self._shape, self._home, self._cell_tags)
        # Kept together: a question takes microseconds, and looking them up one by one is seen in it.
        self._searched = (self._frame, *self._shape, self._head, self._inner, self._after, self.points, self._ties)

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return len(self.points)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        arrays = (
            self.points, self._ties, self._head, self._inner, self._after, self._before, self._home, self._cell_tags
        )  # fmt: skip
        return sum(array.nbytes for array in arrays)

    def has(self, slot: int) -> bool:
        """Whether there is a point in a slot."""
        return 0 <= slot < len(self._home) and bool(self._home[slot] != NOBODY)

    def put(self, slot: int, x_m: float, y_m: float, tie_seed: np.uint64) -> None:
        """Put or move the point of a slot."""
        tie = tie_seed if self.key is None else hash_words(np.array([tie_seed]), self.key)[0]
        self.count += _put(
            slot, x_m, y_m, tie, self._frame, *self._shape, self._head, self._inner, self._after, self._before,
            self._home, self.points, self._ties,
        )  # fmt: skip

    def tag(self, slot: int, tags: np.uint64) -> None:
        """Let the cell of a slot know its tags; needed after they were changed, and after `put` of one that has any."""
        if self.has(slot):
            _tag(slot, tags, self.points, self._frame, *self._shape, self._home, self._cell_tags)

    def drop(self, slot: int) -> None:
        """Empty a slot."""
        if self.has(slot):
            _drop(slot, self._head, self._after, self._before, self._home, self.points)
            self.count -= 1

    def nearest(self, x_m: float, y_m: float, k: int, excluded: int, within_m: float) -> list[int]:
        """Return the slots of the k nearest, in order, but for one that is excluded; fewer where there are no more."""
        slots, squares = _room(k)
        found = _nearest(x_m, y_m, excluded, within_m, *self._searched, slots, squares)
        return slots.tolist() if found == k else slots[:found].tolist()

    def nearest_chosen(
        self,
        x_m: float,
        y_m: float,
        k: int,
        excluded: int,
        within_m: float,
        tags: WordArray,
        groups: WordArray,
        after: Rank,
    ) -> list[int]:
        """Answer `nearest` of those who have a tag of each group and are ranked after others."""
        slots, squares = _room(k)
        found = _nearest_chosen(
            x_m, y_m, excluded, within_m, groups, tags, self._cell_tags, *after, *self._searched, slots, squares
        )
        return slots[:found].tolist()

    def few(self, slots: SlotArray) -> Few:
        """Return some slots, those that have a point, with what they are ranked by."""
        there = slots[self._home[slots] != NOBODY]
        x, y = self.points[there].T
        return there, x.copy(), y.copy(), self._ties[there]

    def rank_of(self, slot: int, x_m: float, y_m: float) -> Rank | None:
        """Return where a slot is ranked by its distance from a place; None if it has no point."""
        x, y = self.points[slot].tolist() if self.has(slot) else (math.nan, math.nan)
        square = (x - x_m) * (x - x_m) + (y - y_m) * (y - y_m)
        return None if math.isnan(square) else (square, np.uint64(self._ties[slot]))

    def rank_of_last(self, slots: list[int]) -> Rank:
        """Return where the last of those is ranked whom this thread has just found, wherever they are by now."""
        return float(_ROOM.squares[len(slots) - 1]), np.uint64(self._ties[slots[-1]])

    def nearest_to_each(self, queries_m: FloatArray, k: int, excluded: IntArray) -> SlotArray:
        """Return the slots of the k nearest to each query, `NOBODY` where there are no more; one excluded for each."""
        slots: SlotArray = np.empty((len(queries_m), k), dtype=np.int32)
        _nearest_to_each(queries_m, excluded, *self._searched, slots)
        return slots


def nearest_of(few: Few, x_m: float, y_m: float, k: int, excluded: int, within_m: float, after: Rank) -> list[int]:
    """Answer `Grid.nearest_chosen` by looking at all who may be found."""
    rows, squares = _room(k)
    found = _nearest_of(x_m, y_m, excluded, within_m, *after, *few, rows, squares)
    return few[0][rows[:found]].tolist()


@brief_kernel
def _put(
    slot: int,
    x_m: float,
    y_m: float,
    tie: np.uint64,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    before: SlotArray,
    home: SlotArray,
    points: FloatArray,
    ties: WordArray,
) -> int:
    is_new = home[slot] == NOBODY
    if not is_new:
        _unlink(slot, head, after, before, home)
    points[slot, 0], points[slot, 1], ties[slot] = x_m, y_m, tie
    _link(slot, _home_of(x_m, y_m, frame, columns, rows, head, inner), head, after, before, home)
    return 1 if is_new else 0


@brief_kernel
def _drop(slot: int, head: SlotArray, after: SlotArray, before: SlotArray, home: SlotArray, points: FloatArray) -> None:
    _unlink(slot, head, after, before, home)
    points[slot, 0] = points[slot, 1] = np.nan


@brief_kernel
def _nearest(
    x_m: float,
    y_m: float,
    excluded: int,
    within_m: float,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    points: FloatArray,
    ties: WordArray,
    slots: SlotArray,
    squares: FloatArray,
) -> int:
    return _rank(
        x_m, y_m, excluded, within_m * within_m, None, None, None, -1.0, np.uint64(0), frame, columns, rows, head,
        inner, after, points, ties, slots, squares,
    )  # fmt: skip


@brief_kernel
def _nearest_chosen(
    x_m: float,
    y_m: float,
    excluded: int,
    within_m: float,
    groups: WordArray,
    tags: WordArray,
    cell_tags: WordArray,
    after_square: float,
    after_tie: np.uint64,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    points: FloatArray,
    ties: WordArray,
    slots: SlotArray,
    squares: FloatArray,
) -> int:
    return _rank(
        x_m, y_m, excluded, within_m * within_m, groups, tags, cell_tags, after_square, after_tie, frame, columns,
        rows, head, inner, after, points, ties, slots, squares,
    )  # fmt: skip


@brief_kernel
def _nearest_of(
    x_m: float,
    y_m: float,
    excluded: int,
    within_m: float,
    after_square: float,
    after_tie: np.uint64,
    members: SlotArray,
    x: FloatArray,
    y: FloatArray,
    ties: WordArray,
    rows: SlotArray,
    squares: FloatArray,
) -> int:
    """Fill in which rows of the members are the nearest."""
    rows[:] = NOBODY
    squares[:] = np.inf
    last, farthest_square = len(rows) - 1, within_m * within_m
    # First what the processor does several at a time.
    all_squares = (x - x_m) * (x - x_m) + (y - y_m) * (y - y_m)
    for row in range(len(members)):
        square = all_squares[row]
        if (
            square <= min(squares[last], farthest_square)
            and members[row] != excluded
            and (square > after_square or (square == after_square and ties[row] > after_tie))
        ):
            _insert(row, square, ties, rows, squares)
    return _count(rows)


@kernel
def _nearest_to_each(
    queries_m: FloatArray,
    excluded: IntArray,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    points: FloatArray,
    ties: WordArray,
    slots: SlotArray,
) -> None:
    squares = np.empty(slots.shape[1])
    for i in range(len(queries_m)):
        _rank(
            queries_m[i, 0], queries_m[i, 1], excluded[i], np.inf, None, None, None, -1.0, np.uint64(0), frame,
            columns, rows, head, inner, after, points, ties, slots[i], squares,
        )  # fmt: skip


@kernel
def _rank(
    qx: float,
    qy: float,
    excluded: int,
    farthest_square: float,
    groups: WordArray | None,
    tags: WordArray | None,
    cell_tags: WordArray | None,
    after_square: float,
    after_tie: np.uint64,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    points: FloatArray,
    ties: WordArray,
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
    column, row = _cell_along(cx, frame[0], size, columns), _cell_along(cy, frame[1], size, rows)
    for ring in range(max(columns, rows)):
        reach = _to_ring(cx, cy, column, row, ring, frame[0], frame[1], size, columns, rows)
        if reach * reach > min(squares[k - 1], farthest_square):
            break
        for r in range(max(row - ring, 0), min(row + ring, rows - 1) + 1):
            step = 1 if abs(r - row) == ring else 2 * ring
            for c in range(column - ring, column + ring + 1, step):
                if c < 0 or c >= columns:
                    continue
                if not _matches(r * columns + c, groups, cell_tags):
                    continue
                first = head[r * columns + c]
                if first == NOBODY:
                    continue
                low_x, low_y = frame[0] + c * size, frame[1] + r * size
                if _square_to_cell(cx, cy, low_x, low_y, size) > min(squares[k - 1], farthest_square):
                    continue
                if first > _FIRST_INNER:
                    _visit(
                        first,
                        qx,
                        qy,
                        farthest_square,
                        excluded,
                        groups,
                        tags,
                        after_square,
                        after_tie,
                        points,
                        ties,
                        after,
                        slots,
                        squares,
                    )
                else:
                    start, side = inner[_inner_number(first), 0], inner[_inner_number(first), 1]
                    _visit_crowd(
                        qx, qy, cx, cy, farthest_square, excluded, groups, tags, cell_tags, after_square, after_tie,
                        low_x, low_y, size / side, start, side, head[start : start + side * side], points, ties, after,
                        slots, squares,
                    )  # fmt: skip
    return _count(slots)


@inlined_kernel
def _count(slots: SlotArray) -> int:
    found = 0
    while found < len(slots) and slots[found] != NOBODY:
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
    groups: WordArray | None,
    tags: WordArray | None,
    cell_tags: WordArray | None,
    after_square: float,
    after_tie: np.uint64,
    low_x: float,
    low_y: float,
    size: float,
    start: int,
    side: int,
    head: SlotArray,
    points: FloatArray,
    ties: WordArray,
    after: SlotArray,
    slots: SlotArray,
    squares: FloatArray,
) -> None:
    """Go through the grid of a crowded cell, which the query need not be in."""
    last = len(slots) - 1
    column, row = _cell_along(cx, low_x, size, side), _cell_along(cy, low_y, size, side)
    for ring in range(side):
        reach = _to_ring(cx, cy, column, row, ring, low_x, low_y, size, side, side)
        if reach * reach > min(squares[last], farthest_square):
            return
        for r in range(max(row - ring, 0), min(row + ring, side - 1) + 1):
            step = 1 if abs(r - row) == ring else 2 * ring
            for c in range(column - ring, column + ring + 1, step):
                if (
                    c < 0
                    or c >= side
                    or not _matches(start + r * side + c, groups, cell_tags)
                    or head[r * side + c] == NOBODY
                ):
                    continue
                square = _square_to_cell(cx, cy, low_x + c * size, low_y + r * size, size)
                if square <= min(squares[last], farthest_square):
                    _visit(
                        head[r * side + c], qx, qy, farthest_square, excluded, groups, tags, after_square, after_tie,
 points, ties, after, slots,
                        squares,
                    )  # fmt: skip


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


@kernel
def _visit(
    slot: int,
    qx: float,
    qy: float,
    farthest_square: float,
    excluded: int,
    groups: WordArray | None,
    tags: WordArray | None,
    after_square: float,
    after_tie: np.uint64,
    points: FloatArray,
    ties: WordArray,
    after: SlotArray,
    slots: SlotArray,
    squares: FloatArray,
) -> None:
    """Merge the points of one cell who may be found into the k best so far."""
    last = len(slots) - 1
    while slot != NOBODY:
        following = after[slot]
        if not _matches(slot, groups, tags):
            slot = following
            continue
        dx, dy = points[slot, 0] - qx, points[slot, 1] - qy
        square = dx * dx + dy * dy
        # Where nobody is yet the square is infinite. Ties are only read for equals, which are rare.
        if (
            square <= min(squares[last], farthest_square)
            and slot != excluded
            and (groups is None or square > after_square or (square == after_square and ties[slot] > after_tie))
        ):
            at = last
            if square < squares[last] or slots[last] == NOBODY or ties[slot] < ties[slots[last]]:
                while at > 0 and (
                    square < squares[at - 1] or (square == squares[at - 1] and ties[slot] < ties[slots[at - 1]])
                ):
                    slots[at], squares[at] = slots[at - 1], squares[at - 1]
                    at -= 1
                slots[at], squares[at] = slot, square
        slot = following


@kernel
def _insert(slot: int, square: float, ties: WordArray, slots: SlotArray, squares: FloatArray) -> None:
    """Put a point where it belongs among the k best so far: what `_visit` does, where a call would be felt."""
    at = len(slots) - 1
    if square < squares[at] or slots[at] == NOBODY or ties[slot] < ties[slots[at]]:
        while at > 0 and (square < squares[at - 1] or (square == squares[at - 1] and ties[slot] < ties[slots[at - 1]])):
            slots[at], squares[at] = slots[at - 1], squares[at - 1]
            at -= 1
        slots[at], squares[at] = slot, square


@kernel
def _matches(at: int, groups: WordArray | None, tags: WordArray | None) -> bool:
    """Whether a point, or somebody in a cell, has a tag of each group: ``tags`` are those of points or of cells."""
    # Left out of what is compiled for the search among everybody. (In one tuple, these arrays would be counted as used
    # and as not used again for every point, which takes longer than all the rest.)
    if groups is None or tags is None:
        return True
    for number in range(len(groups)):  # noqa: SIM110 - compiled
        if tags[at] & groups[number] == 0:
            return False
    return True


@kernel
def _outer_cell(x: float, y: float, frame: FloatArray, columns: int, rows: int) -> int:
    """The cell of the whole grid that a point belongs to; points beyond it belong to the cells at its edge."""
    return _cell_along(y, frame[1], frame[2], rows) * columns + _cell_along(x, frame[0], frame[2], columns)


@kernel
def _home_of(x: float, y: float, frame: FloatArray, columns: int, rows: int, head: SlotArray, inner: SlotArray) -> int:
    """The cell in whose list a point belongs, be it of the whole grid or of a crowded cell's."""
    column, row = _cell_along(x, frame[0], frame[2], columns), _cell_along(y, frame[1], frame[2], rows)
    cell = row * columns + column
    first = head[cell]
    if first > _FIRST_INNER:
        return cell
    start, side = inner[_inner_number(first), 0], inner[_inner_number(first), 1]
    low_x, low_y, size = frame[0] + column * frame[2], frame[1] + row * frame[2], frame[2] / side
    return start + _cell_along(y, low_y, size, side) * side + _cell_along(x, low_x, size, side)


@kernel
def _lay_out(points: FloatArray, frame: FloatArray, columns: int, rows: int) -> tuple[SlotArray, SlotArray]:
    """Empty cells for these points: heads, and for every crowded cell where its heads begin and its cells a side."""
    counts = np.zeros(columns * rows, dtype=np.int32)
    for slot in range(len(points)):
        if not math.isnan(points[slot, 0]):
            counts[_outer_cell(points[slot, 0], points[slot, 1], frame, columns, rows)] += 1
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
def _link_all(
    points: FloatArray,
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
    for slot in range(len(points)):
        if not math.isnan(points[slot, 0]):
            cell = _home_of(points[slot, 0], points[slot, 1], frame, columns, rows, head, inner)
            _link(slot, cell, head, after, before, home)
            count += 1
    return count


@inlined_kernel
def _cell_along(value: float, low: float, size: float, cells: int) -> int:
    """Number of the cell along one axis."""
    return min(max(math.floor((value - low) / size), 0), cells - 1)


@inlined_kernel
def _inner_number(head: int) -> int:
    return _FIRST_INNER - head


@kernel
def _link(slot: int, cell: int, head: SlotArray, after: SlotArray, before: SlotArray, home: SlotArray) -> None:
    """Put a slot at the front of a cell's list."""
    first = head[cell]
    after[slot], before[slot], home[slot] = first, NOBODY, cell
    if first != NOBODY:
        before[first] = slot
    head[cell] = slot


@kernel
def _unlink(slot: int, head: SlotArray, after: SlotArray, before: SlotArray, home: SlotArray) -> None:
    """Take a slot out of its cell's list."""
    previous, following = before[slot], after[slot]
    if previous == NOBODY:
        head[home[slot]] = following
    else:
        after[previous] = following
    if following != NOBODY:
        before[following] = previous
    home[slot] = NOBODY


@brief_kernel
def _tag(
    slot: int,
    tags: np.uint64,
    points: FloatArray,
    frame: FloatArray,
    columns: int,
    rows: int,
    home: SlotArray,
    cell_tags: WordArray,
) -> None:
    """Let the cell of a slot know its tags, and the crowded cell around that, if there is one."""
    cell_tags[home[slot]] |= tags
    cell_tags[_outer_cell(points[slot, 0], points[slot, 1], frame, columns, rows)] |= tags


@kernel
def _tag_all(
    tags: WordArray,
    points: FloatArray,
    frame: FloatArray,
    columns: int,
    rows: int,
    home: SlotArray,
    cell_tags: WordArray,
) -> None:
    for slot in range(len(home)):
        if home[slot] != NOBODY and tags[slot] != 0:
            cell_tags[home[slot]] |= tags[slot]
            cell_tags[_outer_cell(points[slot, 0], points[slot, 1], frame, columns, rows)] |= tags[slot]
