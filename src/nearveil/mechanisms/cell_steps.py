"""Steps between cells: the graph of cells that touch, and who is how many steps away from whom.

Two cells that touch are neighbors. The length of the way from one to the other is the distance of their centres in
units of the mean of their sides: 1 between equal neighbors, 1.41 across a corner. The number of *steps* between two
places is the length of the shortest way between their cells. So a step is short where people are dense and long where
they are sparse.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearveil.kernels import kernel
from nearveil.mechanisms.cells import Cells, kept_by_cells
from nearveil.types import FloatArray, IntArray, ShortIntArray

STEP = 32
"""Lengths of ways are counted in this many parts of a step, so that they are whole numbers."""


class Graph(NamedTuple):
    """Neighbors of each cell, and how long the way to them is; compiled code reads it as well."""

    starts: IntArray
    """Neighbors of cell c are at ``starts[c]`` to ``starts[c + 1]`` of the others."""
    neighbors: ShortIntArray
    lengths: ShortIntArray
    """Of the ways to them, in parts of a step (`STEP`)."""

    @property
    def edges(self) -> tuple[IntArray, IntArray, IntArray]:
        """Every pair of neighbors once, and the length of the way between them."""
        sources = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        once = sources < self.neighbors
        return sources[once], self.neighbors[once].astype(np.int64), self.lengths[once].astype(np.int64)


@kept_by_cells
def graph_of(cells: Cells) -> Graph:
    """Return the graph of cells that touch, by a side or a corner."""
    corners, sides = cells.corners, cells.sides
    rows, columns = cells.layout.shape
    box, half_extent = cells.layout.box, np.array(cells.region.half_extent_square)
    # A neighbor that is at least as large is met from any box just outside a side or a corner; a smaller one meets
    # this cell from its own.
    found = []
    for across, up in [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]:
        column = corners[:, 0] + np.where(across > 0, sides, across)
        row = corners[:, 1] + np.where(up > 0, sides, up)
        inside = np.flatnonzero((column >= 0) & (column < columns) & (row >= 0) & (row < rows))
        beside = np.column_stack([column[inside], row[inside]]) + 0.5
        others = cells.find(beside * box - half_extent)
        found.append(np.minimum(inside, others) * len(cells) + np.maximum(inside, others))
    pairs = np.sort(np.concatenate(found))
    # A pair of equal cells is met from both sides.
    first, second = np.divmod(pairs[np.append(True, np.diff(pairs) > 0)], len(cells))
    centres = corners + sides[:, None] / 2
    away = centres[first] - centres[second]
    length = np.rint(STEP * 2 * np.hypot(away[:, 0], away[:, 1]) / (sides[first] + sides[second])).astype(np.int32)
    source, target, both = np.append(first, second), np.append(second, first), np.append(length, length)
    order = np.lexsort((target, source))
    starts = np.searchsorted(source[order], np.arange(len(cells) + 1))
    return Graph(starts, target[order].astype(np.int32), both[order])


STEP_BITS = 10
"""An entry of a `Reach` is a cell's number in the upper bits, and how far away it is in these lower ones."""
STEP_MASK = (1 << STEP_BITS) - 1


class Reach(NamedTuple):
    """For each cell, the cells that are fewer than ``most`` parts of a step away, the nearest first."""

    most: int
    starts: IntArray
    """The cells in reach of cell c are at ``starts[c]`` to ``starts[c + 1]`` of the entries."""
    entries: npt.NDArray[np.uint32]
    """Which they are, and how far away in parts of a step, in one number: there may be a hundred million."""

    def of(self, cell: int) -> tuple[IntArray, IntArray]:
        """Return the cells in reach of one, and how far away they are in parts of a step."""
        entries = self.entries[self.starts[cell] : self.starts[cell + 1]].astype(np.int64)
        return entries >> STEP_BITS, entries & STEP_MASK


_SOURCES_AT_ONCE = 2048


@kept_by_cells
def reach_of(cells: Cells, most: int) -> Reach:
    """Return who is in reach of whom, by a bounded search from every cell."""
    graph = graph_of(cells)
    parts = in_threads(
        lambda start: _search(graph, most, start, min(start + _SOURCES_AT_ONCE, len(cells))),
        range(0, len(cells), _SOURCES_AT_ONCE),
    )
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part[0] for part in parts]))])
    entries = np.empty(starts[-1], dtype=np.uint32)
    # Hundreds of megabytes where there are many cells: a part goes as soon as it is copied.
    for end in np.cumsum([len(part[1]) for part in parts]):
        found = parts.pop(0)[1]
        entries[end - len(found) : end] = found
    return Reach(most, starts, entries)


def in_threads(work: Callable[[int], Any], items: range) -> list[Any]:
    """Call compiled work for each item, on all cores."""
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))


@kernel
def _search(graph: Graph, most: int, first: int, last: int) -> tuple[IntArray, npt.NDArray[np.uint32]]:
    """Dijkstra's algorithm from each of some cells, with one list of cells for every distance, as these are whole."""
    distance = np.full(len(graph.starts) - 1, most, dtype=np.int32)
    head = np.full(most, -1, dtype=np.int64)
    queued, following = np.empty(4096, dtype=np.int32), np.empty(4096, dtype=np.int64)
    counts = np.empty(last - first, dtype=np.int64)
    found = np.empty(65536, dtype=np.uint32)
    total = 0
    for source in range(first, last):
        before, size = total, 1
        distance[source], queued[0], following[0], head[0] = 0, source, -1, 0
        for now in range(most):
            while head[now] >= 0:
                entry = head[now]
                head[now] = following[entry]
                cell = queued[entry]
                if distance[cell] != now:
                    continue
                if total == len(found):
                    found = np.append(found, np.empty_like(found))
                found[total] = (cell << STEP_BITS) | now
                total += 1
                for edge in range(graph.starts[cell], graph.starts[cell + 1]):
                    beyond, other = now + graph.lengths[edge], graph.neighbors[edge]
                    if beyond < distance[other]:
                        distance[other] = beyond
                        if size == len(queued):
                            queued = np.append(queued, np.empty_like(queued))
                            following = np.append(following, np.empty_like(following))
                        queued[size], following[size], head[beyond] = other, head[beyond], size
                        size += 1
        for place in range(before, total):
            distance[found[place] >> STEP_BITS] = most
        counts[source - first] = total - before
    return counts, found[:total]


def steps_from(cells: Cells, source: int | IntArray | ShortIntArray) -> FloatArray:
    """Return how many steps every cell is away from one, however far; for several, a row each."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to load
    from scipy.sparse.csgraph import dijkstra  # noqa: PLC0415

    graph = graph_of(cells)
    matrix = csr_array((graph.lengths.astype(np.float64), graph.neighbors, graph.starts), shape=(len(cells),) * 2)
    parts: FloatArray = dijkstra(matrix, indices=source)
    return parts / STEP
