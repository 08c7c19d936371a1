"""An adaptive histogram of outputs: rectangles that hold equally many samples, cut in halves again and again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Subject
from nearveil.types import BoolArray, FloatArray, IntArray

_LEAST_IN_BOX = 60
_MOST_LEVELS = 9
_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class HistogramScore:
    """The smoothed log-ratio of counts in the rectangle that an output falls into.

    The rectangles are the leaves of a complete k-d tree, its nodes in the order of a heap: node i sends an output to
    node 2i + 1 if its coordinate ``axes[i]`` is at most ``cuts[i]``, else to 2i + 2. An infinite cut does not cut.
    """

    kind = "histogram"

    axes: IntArray
    cuts: FloatArray
    scores: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair, subject
        return self.scores[_leaves(outputs, self.axes, self.cuts)]

    def describe(self) -> str:
        """Say what the score is."""
        return f"how often samples from either place fell into each of {len(self.scores):,} rectangles"

    def boxes(self, reaching: BoolArray) -> list[tuple[float, float, float, float]]:
        """Return the chosen leaves as (x from, y from, x to, y to), for pictures; sides may be infinite."""
        bounds = np.tile([-math.inf, -math.inf, math.inf, math.inf], (2 * len(self.scores) - 1, 1))
        for node, (axis, cut) in enumerate(zip(self.axes, self.cuts, strict=True)):
            bounds[2 * node + 1] = bounds[2 * node + 2] = bounds[node]
            bounds[2 * node + 1, axis + 2] = min(cut, bounds[node, axis + 2])
            bounds[2 * node + 2, axis] = max(cut, bounds[node, axis])
        leaves = bounds[len(self.cuts) :][reaching]
        # Behind an infinite cut there is nothing.
        return [(x0, y0, x1, y1) for x0, y0, x1, y1 in leaves.tolist() if x0 < math.inf and y0 < math.inf]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite cut is null."""
        cuts = [cut if math.isfinite(cut) else None for cut in self.cuts.tolist()]
        return {"kind": self.kind, "axes": self.axes.tolist(), "cuts": cuts, "scores": self.scores.tolist()}


def histogram_from_dict(document: dict[str, Any]) -> HistogramScore:
    """Read what `HistogramScore.to_dict` gave."""
    axes = np.array(document["axes"], dtype=np.int64)
    cuts = np.array([math.inf if cut is None else cut for cut in document["cuts"]], dtype=np.float64)
    scores = np.array(document["scores"], dtype=np.float64)
    leaves = len(scores)
    complete = leaves & (leaves - 1) == 0 and len(axes) == len(cuts) == leaves - 1
    if not (complete and np.isin(axes, (0, 1)).all() and np.isfinite(scores).all() and not np.isnan(cuts).any()):
        raise ValueError("histogram")
    return HistogramScore(axes, cuts, scores)


def learn_histogram(first: FloatArray, second: FloatArray) -> HistogramScore:
    """Learn rectangles and their scores from outputs of both places."""
    pooled = np.vstack([first, second])
    levels = int(np.clip(math.log2(max(len(pooled) / _LEAST_IN_BOX, 1)), 0, _MOST_LEVELS))
    axes = np.zeros(2**levels - 1, dtype=np.int64)
    cuts = np.full(2**levels - 1, math.inf)
    members: list[FloatArray] = [pooled]
    for node in range(len(cuts)):
        points = members[node]
        axes[node], cuts[node] = _cut(points)
        below = points[:, axes[node]] <= cuts[node]
        members += [points[below], points[~below]]
    counts = [np.bincount(_leaves(side, axes, cuts), minlength=2**levels) for side in (first, second)]
    shares = [(count + _SMOOTHING) / (len(side) + 1) for count, side in zip(counts, (first, second), strict=True)]
    return HistogramScore(axes, cuts, np.log(shares[0] / shares[1]))


def _cut(points: FloatArray) -> tuple[int, float]:
    """Cut across the longer side at the median: between two values, below the largest, so that atoms come apart."""
    if len(points) < 2:
        return 0, math.inf
    spread = np.ptp(points, axis=0)
    axis = int(np.argmax(spread))
    if spread[axis] <= 0:
        return axis, math.inf
    values = points[:, axis]
    median = float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
    # Where more than half share the largest value, cut just below it.
    return axis, median if median < values.max() else float(values[values < median].max())


def _leaves(outputs: FloatArray, axes: IntArray, cuts: FloatArray) -> IntArray:
    node = np.zeros(len(outputs), dtype=np.int64)
    for _ in range((len(cuts) + 1).bit_length() - 1):
        coordinate = np.where(axes[node] == 0, outputs[:, 0], outputs[:, 1])
        node = 2 * node + 1 + (coordinate > cuts[node])
    return node - len(cuts)
