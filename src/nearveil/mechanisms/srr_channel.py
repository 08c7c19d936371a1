"""The staircase channel behind SRR: finite, so that its loss is computed and not assumed (Wang et al., 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.types import FloatArray, IntArray

_MOST_GROUPS = 6
_BISECTIONS = 40


@dataclass(frozen=True, slots=True, eq=False)
class StaircaseChannel:
    """Answer y for input x with probability w_j α(x), where j is the group of y as seen from x.

    Groups are by longest common prefix of Morton codes: G_1 is x's own cell, G_m the farthest.

    Attributes
    ----------
    codes : ndarray
        The domain: sorted Morton codes of d cells.
    starts, stops : ndarray of shape (groups, d)
        G_1 ∪ … ∪ G_j of each cell, as a run ``codes[start:stop]``.
    weights : ndarray
        w_1 > … > w_m = 1.
    alpha : ndarray of shape (d,)
        α_min(x) = 1 / Σ_j |G_j(x)| w_j.
    """

    codes: IntArray
    starts: IntArray
    stops: IntArray
    weights: FloatArray
    alpha: FloatArray

    @property
    def group_sizes(self) -> IntArray:
        """|G_j(x)|, shape (groups, d)."""
        return np.diff(self.stops - self.starts, axis=0, prepend=0)

    def row(self, cell: int) -> FloatArray:
        """q(y | x) for x the given cell and every y of the domain."""
        probabilities = np.empty(len(self.codes))
        for start, stop, weight in zip(
            self.starts[::-1, cell], self.stops[::-1, cell], self.weights[::-1], strict=True
        ):
            probabilities[start:stop] = weight * self.alpha[cell]
        return probabilities

    def realised_loss(self) -> float:
        """Max over y of ln(max_x q(y|x) / min_x q(y|x)), exactly: every pair, every output."""
        return self.worst_case()[0]

    def worst_case(self) -> tuple[float, int, int, int]:
        """The largest loss over every pair and every output, and where: the likelier cell, the other, the output."""
        highest = np.zeros(len(self.codes))
        lowest = np.full(len(self.codes), np.inf)
        likeliest, unlikeliest = np.zeros((2, len(self.codes)), dtype=np.int64)
        for cell in range(len(self.codes)):
            probabilities = self.row(cell)
            likeliest[probabilities > highest] = cell
            unlikeliest[probabilities < lowest] = cell
            np.maximum(highest, probabilities, out=highest)
            np.minimum(lowest, probabilities, out=lowest)
        losses = np.log(highest / lowest)
        output = int(np.argmax(losses))
        return float(losses[output]), int(likeliest[output]), int(unlikeliest[output]), output


def staircase_channel(codes: IntArray, levels: int, c: float) -> StaircaseChannel:
    """Return the channel with ratio ``c`` between the nearest and the farthest group."""
    groups = _group_count(c)
    starts, stops = _prefix_runs(codes, levels, groups)
    weights = 1 + (groups - np.arange(1, groups + 1)) * (c - 1) / (groups - 1)
    sizes = np.diff(stops - starts, axis=0, prepend=0)
    return StaircaseChannel(codes, starts, stops, weights, 1 / (weights @ sizes))


def calibrated_channel(codes: IntArray, levels: int, epsilon: float) -> StaircaseChannel:
    """Return the channel with the largest c, found by bisection, whose realised loss is at most ``epsilon``.

    On a full grid every cell has the same α and c = e^ε is exact. On any other domain it would overspend.
    """
    largest = staircase_channel(codes, levels, math.exp(epsilon))
    if len(codes) == 4**levels or largest.realised_loss() <= epsilon:
        return largest
    low, high = 0.0, epsilon
    best = None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        channel = staircase_channel(codes, levels, math.exp(middle))
        if channel.realised_loss() <= epsilon:
            low, best = middle, channel
        else:
            high = middle
    return best if best is not None else staircase_channel(codes, levels, 1 + 1e-12)


def _group_count(c: float) -> int:
    return int(min(max(round(2 * c / (c - 1)), 2), _MOST_GROUPS))


def _prefix_runs(codes: IntArray, levels: int, groups: int) -> tuple[IntArray, IntArray]:
    """For each group and cell, the run of cells that share at least so many levels of prefix with it."""
    shared = np.rint(np.linspace(levels, 0, groups)).astype(np.int64)
    block = 2 * (levels - shared)[:, None]
    lower = (codes[None, :] >> block) << block
    return np.searchsorted(codes, lower), np.searchsorted(codes, lower + (1 << block))
