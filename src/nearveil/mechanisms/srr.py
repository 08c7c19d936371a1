"""SRR: staircase randomised response over a public grid (L-SRR, Wang et al., 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism, local_guarantee, rounding_delta
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, check_count, check_epsilon
from nearveil.randomness import RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

_MOST_LISTED_CELLS = 4096
_MOST_GROUPS = 6
_BISECTIONS = 40


class SRR(Mechanism):
    """Publish a cell with probabilities that fall in steps with the distance in a quadtree, then a point of it.

    Parameters
    ----------
    epsilon : float
        Largest loss between any two locations; the steps are set so that the loss realised is at most this.
    levels : int
        h: the region is cut into 2^h x 2^h cells.
    cells : sequence of (column, row), optional
        Public list of the cells that may be published, if not all (land without sea). A user elsewhere counts as
        being in the nearest of them.
    region : Region or str
        Public region: a Region, a name, "south,west,north,east", or a GeoJSON file.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> SRR(epsilon=1.0, region="san-francisco", seed=1).perturb([[37.77, -122.42]]).shape
    (1, 2)
    """

    frame = "square"

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        levels: int = 6,
        cells: Sequence[tuple[int, int]] | None = None,
        region: Region | str | None = None,
        seed: int | None = None,
    ) -> None:
        check_epsilon(epsilon)
        check_count(levels, "levels", least=1, most=10)
        if cells is not None:
            if not 2 <= len({(column, row) for column, row in cells}) <= _MOST_LISTED_CELLS:
                raise UsageError(f"cells must list between 2 and {_MOST_LISTED_CELLS:,} different cells")
            if not all(min(cell) >= 0 and max(cell) < 2**levels for cell in cells):
                raise UsageError(f"cells are (column, row) pairs from 0 to {2**levels - 1}")
        self.epsilon = epsilon
        self.levels = levels
        self.cells = cells
        self.region = region
        self.seed = seed
        _ = self.resolved_region

    @cached_property
    def channel(self) -> StaircaseChannel:
        """The finite channel between cells, calibrated by its realised loss."""
        if self.cells is None:
            codes = np.arange(4**self.levels, dtype=np.int64)
        else:
            columns, rows = np.array(self.cells, dtype=np.int64).T
            codes = np.unique(interleave(columns, rows))
        return calibrated_channel(codes, self.levels, self.epsilon)

    def _prepare(self) -> None:
        _ = self.channel

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Pick a group, a uniform member of it, and a uniform point of that cell."""
        u = rows.uniforms(4)
        lower, size = self._cell_corners(self.channel.codes[self.channel.answers(self._cell_index(x), u)])
        return lower + size * u[:, 2:]

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square: the answer's probability over the area of its cell."""
        channel = self.channel
        x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
        sources = self._cell_index(x.reshape(-1, 2)).reshape(x.shape[:-1])
        answers = self._cell_code(t.reshape(-1, 2)).reshape(t.shape[:-1])
        index = np.minimum(np.searchsorted(channel.codes, answers), len(channel.codes) - 1)
        half_extent = np.array(self.resolved_region.half_extent_square)
        possible = (channel.codes[index] == answers) & (np.abs(t) <= half_extent).all(axis=-1)
        # The weight of an answer counts the groups whose run it is in: G_1 in all of them, G_m in the last only.
        runs = zip(channel.starts, channel.stops, strict=True)
        group = len(channel.weights) - sum((start[sources] <= index) & (index < stop[sources]) for start, stop in runs)
        area = 4 * half_extent.prod() / 4**self.levels
        return np.where(possible, np.log(channel.weights[group] * channel.alpha[sources] / area), -np.inf)

    def _cell_code(self, x: FloatArray) -> IntArray:
        half_extent = np.array(self.resolved_region.half_extent_square)
        side = 2**self.levels
        place = np.clip(((x / half_extent + 1) / 2 * side).astype(np.int64), 0, side - 1)
        return interleave(place[:, 0], place[:, 1])

    def _cell_index(self, x: FloatArray) -> IntArray:
        """Index in the domain of the cell of each place: its own, or the nearest that may be published."""
        codes = self.channel.codes
        wanted = self._cell_code(x)
        index = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        missing = codes[index] != wanted
        if missing.any():
            # Slow to load, and seldom needed.
            from scipy.spatial import cKDTree  # noqa: PLC0415

            lower, size = self._cell_corners(codes)
            index[missing] = cKDTree(lower + size / 2).query(x[missing])[1]
        return index

    def _cell_corners(self, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Lower left corner of each cell and the size of a cell, in the square."""
        half_extent = np.array(self.resolved_region.half_extent_square)
        size = 2 * half_extent / 2**self.levels
        return np.column_stack(deinterleave(codes)) * size - half_extent, size

    def rescaled(self, factor: float) -> Self:
        """Return a copy with epsilon divided by ``factor``."""
        return self.with_params(epsilon=self.epsilon / factor)

    @property
    def guarantee(self) -> Guarantee:
        """Local differential privacy over the region."""
        full, channel = self.cells is None, self.channel
        # On a full grid, the first and the last cell are as far apart as any two.
        corners = float(np.log(channel.weights[0] / channel.weights[-1])), 0, len(channel.codes) - 1, 0
        loss, first, second, output = corners if full else channel.worst_case
        lower, size = self._cell_corners(channel.codes[[first, second, output]])
        places = [(float(east), float(north)) for east, north in lower + size / 2]
        how = (
            "on a full grid all rows of the channel have the same values, whose largest ratio is e^epsilon"
            if full
            else f"the largest log-ratio over all pairs of {len(channel.codes):,} cells and all answers, computed"
        )
        return local_guarantee(
            epsilon=self.epsilon,
            delta=rounding_delta(self.epsilon, choices=len(channel.weights)),
            basis=Basis.THEOREM if full else Basis.CERTIFICATE,
            because=f"{how}; delta is what the rounding of numbers can add",
            notes=self._notes(),
            certificate=Certificate(
                # The ratio of two rounded numbers may come out a last digit above.
                bound=min(loss, self.epsilon) if loss <= self.epsilon * (1 + 1e-12) else loss,
                attained=loss,
                first=places[0],
                second=places[1],
                output=places[2],
                frame=self.frame,
                method=Method.CLOSED_FORM if full else Method.EXHAUSTIVE,
                how=how,
            ),
        )


# The staircase channel: finite, so that its loss is computed and not assumed.


@dataclass(frozen=True, eq=False)
class StaircaseChannel:
    """Answer y for input x with probability w_j α(x), where j is the group of y as seen from x.

    Groups are by longest common prefix of Morton codes: G_1 is x's own cell, G_m the farthest.
    """

    codes: IntArray
    """The domain: sorted Morton codes of d cells."""
    starts: IntArray
    """G_1 ∪ … ∪ G_j of each cell, as a run ``codes[start:stop]``: shape (groups, d)."""
    stops: IntArray
    weights: FloatArray
    """w_1 > … > w_m = 1."""
    alpha: FloatArray
    """α_min(x) = 1 / Σ_j |G_j(x)| w_j of each cell."""

    def row(self, cell: int) -> FloatArray:
        """q(y | x) for x the given cell and every y of the domain."""
        probabilities = np.empty(len(self.codes))
        for group in reversed(range(len(self.weights))):
            run = slice(self.starts[group, cell], self.stops[group, cell])
            probabilities[run] = self.weights[group] * self.alpha[cell]
        return probabilities

    def answers(self, cells: IntArray, u: FloatArray) -> IntArray:
        """For each source cell, the index of the answer: a group by its probability, then a uniform member."""
        everyone, starts, runs = np.arange(len(cells)), self.starts[:, cells], (self.stops - self.starts)[:, cells]
        sizes = np.diff(runs, axis=0, prepend=0)
        passed = np.cumsum(self.weights[:, None] * sizes * self.alpha[cells], axis=0)
        # Rounding may leave the last sum below 1; beyond it stands the last group that has any member.
        last = len(sizes) - 1 - np.argmax(sizes[::-1] > 0, axis=0)
        group = np.minimum((u[:, 0] >= passed).sum(axis=0), last)
        size = sizes[group, everyone]
        place = starts[group, everyone] + np.minimum((u[:, 1] * size).astype(np.int64), size - 1)
        # The run before, of nearer groups, is left out.
        inner = np.where(group > 0, runs[group - 1, everyone], 0)
        return np.where(place < starts[group - 1, everyone], place, place + inner)

    @cached_property
    def worst_case(self) -> tuple[float, int, int, int]:
        """The largest loss over every pair and every output, and where: the likelier cell, the other, the output."""
        table = np.array([self.row(cell) for cell in range(len(self.codes))])
        losses = np.log(table.max(axis=0) / table.min(axis=0))
        output = int(np.argmax(losses))
        return float(losses[output]), int(table[:, output].argmax()), int(table[:, output].argmin()), output


def staircase_channel(codes: IntArray, levels: int, c: float) -> StaircaseChannel:
    """Return the channel with ratio ``c`` between the nearest and the farthest group."""
    # With more groups than levels of prefix the farthest would be empty, and the loss less than was asked for.
    groups = int(min(max(round(2 * c / (c - 1)), 2), _MOST_GROUPS, levels + 1))
    # For each group and cell, the run of cells that share at least the group's levels of prefix with it.
    shared = np.rint(np.linspace(levels, 0, groups)).astype(np.int64)
    block = 2 * (levels - shared)[:, None]
    lower = (codes[None, :] >> block) << block
    starts, stops = np.searchsorted(codes, lower), np.searchsorted(codes, lower + (1 << block))
    weights = 1 + (groups - np.arange(1, groups + 1)) * (c - 1) / (groups - 1)
    sizes = np.diff(stops - starts, axis=0, prepend=0)
    return StaircaseChannel(codes, starts, stops, weights, 1 / (weights @ sizes))


def calibrated_channel(codes: IntArray, levels: int, epsilon: float) -> StaircaseChannel:
    """Return the channel with the largest c, found by bisection, whose realised loss is at most ``epsilon``.

    On a full grid every cell has the same α and c = e^ε is exact. On any other domain it would overspend.
    """
    largest = staircase_channel(codes, levels, math.exp(epsilon))
    if len(codes) == 4**levels or largest.worst_case[0] <= epsilon:
        return largest
    low, high, best = 0.0, epsilon, staircase_channel(codes, levels, 1 + 1e-12)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        channel = staircase_channel(codes, levels, math.exp(middle))
        if channel.worst_case[0] <= epsilon:
            low, best = middle, channel
        else:
            high = middle
    return best


# Morton codes: cells of a 2^h x 2^h grid numbered so that every quadtree block is a run of numbers.


# A perfect shuffle of 2 x 16 bits: by how much bits are moved, and the mask of those that are.
_SHUFFLE = ((8, 0x0000FF00), (4, 0x00F000F0), (2, 0x0C0C0C0C), (1, 0x22222222))


def interleave(column: IntArray, row: IntArray) -> IntArray:
    """Return the Morton code of each (column, row), the row's bits in front."""
    code = (row << 16) | column
    for shift, mask in _SHUFFLE:
        moved = (code ^ (code >> shift)) & mask
        code = code ^ moved ^ (moved << shift)
    return code


def deinterleave(code: IntArray) -> tuple[IntArray, IntArray]:
    """Return column and row of each Morton code."""
    for shift, mask in reversed(_SHUFFLE):
        moved = (code ^ (code >> shift)) & mask
        code = code ^ moved ^ (moved << shift)
    return code & 0xFFFF, code >> 16
