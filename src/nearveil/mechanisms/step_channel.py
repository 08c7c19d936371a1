"""The channel between cells that hides people among people, its bound, and its calibration.

From cell c, cell z is published with probability w(z) e^{-a D(c, z)} / Z(c), where D is the number of steps, cut off at
a largest number M: beyond it all cells are alike, and so the work does not grow with the square of the cells. Over an
edge of length l between neighbors c and c' the loss is at most a l + |log Z(c) - log Z(c')|. With epsilon the largest
of a + |Δ log Z| / l over all edges, the loss between any two places is at most epsilon times the steps between them: it
adds up along the shortest way. The weights w(z) are chosen so that neighbors have nearly the same Z.

Probabilities are whole numbers over a whole number, and the bound is computed from these. So it is about the numbers
that are drawn from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.mechanisms.cell_steps import STEP, STEP_BITS, STEP_MASK, Reach, graph_of, in_threads, reach_of
from nearveil.mechanisms.cells import REACHES, WEIGHTS, Calibration, Cells, kept_by_cells
from nearveil.privacy.guarantee import Certificate, Method
from nearveil.types import FloatArray, IntArray, ShortIntArray, WordArray

_UNIT_WEIGHT = 1024
_MOST_BITS = 44
_SUM_BITS = 62
_FAR_SHARE = 0.05
_USUAL_RATE = 1.25
_RATE_SHARE = 0.75
_TABLE_ENTRIES = 1 << 26
_ORDER_BITS = 12
_BISECTIONS = 60
_ROUNDS = 2
_LEAST_RATE, _LARGEST_RATE = 0.02, 60.0
_CROWD = 3
_SAMPLED_CELLS = 1000


@dataclass(frozen=True, eq=False)
class StepChannel:
    """From cell c to cell z with probability w(z) T(D(c, z)) / Z(c), in whole numbers; numbers as of `Calibration`."""

    cells: Cells
    rate: float
    farthest: int
    weights: IntArray

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.cells),):
            raise UsageError("there must be one weight for each cell")

    @property
    def calibration(self) -> Calibration:
        """The numbers that make the channel of the cells."""
        return Calibration(rate=self.rate, farthest=self.farthest, weights=tuple(self.weights.tolist()))

    @cached_property
    def reach(self) -> Reach:
        """Who is fewer than M steps away from whom."""
        return reach_of(self.cells, STEP * self.farthest)

    @cached_property
    def falls(self) -> IntArray:
        """T: a whole number for each distance in parts of a step, up to M, beyond which it stays."""
        falls = np.exp(-self.rate / STEP * np.arange(self.reach.most + 1))
        bits = min(_MOST_BITS, int(_SUM_BITS - math.log2(_sums(self.reach, falls, self.weights.astype(float)).max())))
        return np.maximum(np.rint(falls * 2.0**bits), 1.0).astype(np.int64)

    @cached_property
    def sums(self) -> IntArray:
        """Z of each cell, exactly."""
        return _sums(self.reach, self.falls, self.weights)

    @cached_property
    def bound(self) -> float:
        """Epsilon: a number that the loss per step never exceeds."""
        return float(self.edge_bounds.max())

    @cached_property
    def edge_bounds(self) -> FloatArray:
        """The bound on the loss per step for each edge, the draw of a 64-bit number included."""
        first, second, length = graph_of(self.cells).edges
        logs, sums = np.log(self.falls.astype(np.float64)), np.log(self.sums.astype(np.float64))
        steepest = np.zeros(length.max() + 1)
        for parts in np.unique(length):
            beyond = np.minimum(np.arange(len(logs)) + parts, len(logs) - 1)
            steepest[parts] = (logs - logs[beyond]).max()
        return (steepest[length] + np.abs(sums[first] - sums[second]) + self._draw_error) / (length / STEP)

    @property
    def _draw_error(self) -> float:
        """What choosing by one 64-bit number adds to a loss.

        A cell has one or two ranges of the number, as near or as any cell: its probability is off by less than 2⁻⁶³.
        """
        rarest = float(self.falls[-1]) * float(self.weights.min()) / float(self.sums.max())
        share = 2.0**-63 / rarest
        return math.log1p(share) - math.log1p(-share) + 1e-12

    @cached_property
    def certificate(self) -> Certificate:
        """The bound, and the loss between the neighbors whose bound is largest."""
        edge = int(np.argmax(self.edge_bounds))
        first, second, length = (int(part[edge]) for part in graph_of(self.cells).edges)
        everywhere = np.arange(len(self.cells))
        losses = self.log_probability(first, everywhere) - self.log_probability(second, everywhere)
        if -losses.min() > losses.max():
            first, second, losses = second, first, -losses
        output, centres = int(np.argmax(losses)), self.cells.centres
        places = [(float(centres[cell, 0]), float(centres[cell, 1])) for cell in (first, second, output)]
        return Certificate(
            bound=self.bound,
            attained=min(float(losses[output]) * STEP / length, self.bound),
            first=places[0],
            second=places[1],
            output=places[2],
            frame="square",
            method=Method.EDGES,
            how=(
                "between neighbors the loss is at most what the probability falls by over their distance, plus the "
                "difference of their log-sums, computed from whole numbers for every pair; along the shortest way "
                "between two cells losses and distances add up"
            ),
        )

    def log_probability(self, sources: ShortIntArray | IntArray | int, answers: ShortIntArray | IntArray) -> FloatArray:
        """Log probability of answering with a cell, given the cell somebody is in; both are broadcast."""
        source, answer = np.asarray(sources, dtype=np.int64), np.asarray(answers, dtype=np.int64)
        logs = np.log(self.falls.astype(np.float64))[self._steps(source, answer)]
        weights, sums = np.log(self.weights.astype(np.float64)), np.log(self.sums.astype(np.float64))
        return logs + weights[answer] - sums[source]

    def _steps(self, first: IntArray, second: IntArray) -> npt.NDArray[np.int16]:
        """Steps between cells, at most M; both are broadcast. Ways are as long in both directions."""
        (cells, row), other = min(
            (np.unique(first, return_inverse=True), second),
            (np.unique(second, return_inverse=True), first),
            key=lambda ends: len(ends[0][0]),
        )
        row, other = np.broadcast_arrays(row, other)
        # A row of a table for each of the fewer, and as many at a time as memory allows.
        at_once = max(1, _TABLE_ENTRIES // len(self.cells))
        steps = np.empty(row.shape, dtype=np.int16)
        for start in range(0, len(cells), at_once):
            part = cells[start : start + at_once]
            table = np.full((len(part), len(self.cells)), self.reach.most, dtype=np.int16)
            for number, cell in enumerate(part):
                near, away = self.reach.of(cell)
                table[number, near] = away
            here = (row >= start) & (row < start + at_once)
            steps[here] = table[row[here] - start, other[here]]
        return steps

    def people_within(self, steps: float) -> float:
        """About how many people the cells within so many steps of somebody held, for half of the people or more."""
        people, near = self.cells.people, (np.arange(self.reach.most + 1) <= steps * STEP).astype(np.float64)
        # The last stands for everything beyond.
        near[-1] = 0.0
        # Not the average: a crowd in one cell would count for those who are far from it.
        held = _sums(self.reach, near, people)
        order = np.argsort(held)
        return float(held[order][np.searchsorted(np.cumsum(people[order]), people.sum() / 2)])

    @cached_property
    def mean_steps(self) -> float:
        """How many steps away a cell is published, on average over people; what lies beyond M counts as M."""
        people, falls, weights = self.cells.people, self.falls.astype(np.float64), self.weights.astype(np.float64)
        steps = np.arange(len(falls)) / STEP
        means = _sums(self.reach, falls * steps, weights) / _sums(self.reach, falls, weights)
        return float(np.average(means, weights=people if people.any() else None))

    def draw(self, x: FloatArray, words: WordArray) -> FloatArray:
        """Draw a cell for each place of the square, and a uniform point of it, by two 64-bit numbers for each place."""
        found = self.cells.find(x)
        # Tables of many cells do not fit into a processor's cache; what neighbors need of them does.
        shift = max(0, len(self.cells).bit_length() - _ORDER_BITS)
        order = np.argsort((found >> shift).astype(np.uint16), kind="stable")
        drawn: FloatArray = _draw(found, order, words, self.tables)
        return drawn

    @cached_property
    def tables(self) -> _Tables:
        """What compiled code draws from."""
        cells, reach, least = self.cells, self.reach, self.falls[-1]
        corners = cells.boxes()[:, :2]
        return _Tables(
            np.column_stack([reach.starts[:-1], self.sums - least * self.weights.sum(), self.sums]).astype(np.uint64),
            reach.entries,
            (self.falls - least).astype(np.uint64),
            np.uint64(least),
            self.weights.astype(np.uint32),
            np.cumsum(self.weights).astype(np.uint64),
            np.hstack([corners, cells.sides[:, None] * cells.layout.box]),
        )


def farthest_for(cells: Cells, rate: float) -> int:
    """Return M for about this rate: so far that all cells beyond it together get a small share."""
    return int(np.clip(math.ceil(math.log(len(cells) / _FAR_SHARE) / rate), *REACHES))


_CELLS_AT_ONCE = 4096
_Numbers = TypeVar("_Numbers", FloatArray, IntArray)


def _sums(reach: Reach, falls: _Numbers, weights: _Numbers) -> _Numbers:
    """Z of each cell; exactly, of whole numbers. The last of the falls stands for everything beyond."""
    out, total = np.empty(len(reach.starts) - 1, dtype=falls.dtype), weights.sum()
    in_threads(lambda start: _add_up(reach, falls, weights, total, start, out), range(0, len(out), _CELLS_AT_ONCE))
    return out


@kernel
def _add_up(reach: Reach, falls: FloatArray, weights: FloatArray, total: float, first: int, out: FloatArray) -> None:
    """What is in reach beyond the least fall, and the least fall of everything."""
    least = falls[-1]
    for cell in range(first, min(first + _CELLS_AT_ONCE, len(out))):
        here = least * total
        for entry in reach.entries[reach.starts[cell] : reach.starts[cell + 1]]:
            here += (falls[entry & STEP_MASK] - least) * weights[entry >> STEP_BITS]
        out[cell] = here


# Drawing: one 64-bit number chooses the cell, another a point of it.


@inlined_kernel
def _high_product(first: np.uint64, second: np.uint64) -> np.uint64:
    """The upper 64 bits of a product."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, c, d = first >> half, first & mask, second >> half, second & mask
    middle = ((b * d) >> half) + ((a * d) & mask) + ((b * c) & mask)
    return a * c + ((a * d) >> half) + ((b * c) >> half) + (middle >> half)


class _Tables(NamedTuple):
    """What compiled code draws from."""

    sources: WordArray
    """Of each cell: where its entries of the reach begin, the part of Z beyond the least fall, and Z."""
    entries: npt.NDArray[np.uint32]
    falls: WordArray
    """T for each distance, beyond the least."""
    least: np.uint64
    weights: npt.NDArray[np.uint32]
    running: WordArray
    """Sums of the weights up to each cell."""
    answers: FloatArray
    """South-western corner, width and height of each cell in the square."""


@kernel
def _draw(found: ShortIntArray, order: IntArray, words: WordArray, tables: _Tables) -> FloatArray:
    """Draw for places whose cells are found, in an order."""
    out = np.empty((len(found), 2))
    for i in order:
        source = found[i]
        local = tables.sources[source, 1]
        chosen = _high_product(words[i, 0], tables.sources[source, 2])
        if chosen < local:
            # The nearest come first and are the likeliest: few are passed before the one that was chosen.
            place, passed = np.int64(tables.sources[source, 0]), np.uint64(0)
            while True:
                entry = tables.entries[place]
                cell = np.int64(entry >> STEP_BITS)
                passed += tables.falls[entry & STEP_MASK] * np.uint64(tables.weights[cell])
                if chosen < passed:
                    break
                place += 1
        else:
            cell = np.searchsorted(tables.running, (chosen - local) // tables.least, side="right")
        point = words[i, 1]
        across = (np.float64(point >> np.uint64(32)) + 0.5) * 2.0**-32
        up = (np.float64(point & np.uint64(0xFFFFFFFF)) + 0.5) * 2.0**-32
        out[i, 0] = tables.answers[cell, 0] + across * tables.answers[cell, 2]
        out[i, 1] = tables.answers[cell, 1] + up * tables.answers[cell, 3]
    return out


# Calibration: the rate from an epsilon or from a number of people, and weights that make epsilon small.


@kept_by_cells
def given_channel(cells: Cells, calibration: Calibration) -> StepChannel:
    """Return the channel that was calibrated before."""
    return StepChannel(cells, calibration.rate, calibration.farthest, np.array(calibration.weights, dtype=np.int64))


@kept_by_cells
def rescaled_channel(cells: Cells, channel: StepChannel, factor: float) -> StepChannel:
    """Return a channel between cells that falls ``factor`` times as slowly: to test tests with."""
    return replace(channel, cells=cells, rate=channel.rate / factor)


@kept_by_cells
def channel_for_epsilon(cells: Cells, epsilon: float) -> StepChannel:
    """The fastest fall whose bound is at most epsilon, with weights that allow it to be fast."""
    weights = np.full(len(cells), _UNIT_WEIGHT, dtype=np.int64)
    best = _fastest(StepChannel(cells, epsilon, farthest_for(cells, _RATE_SHARE * epsilon), weights), epsilon)
    for _ in range(_ROUNDS):
        tried = _fastest(replace(best, weights=balanced_weights(best)), epsilon)
        if tried.rate <= best.rate:
            break
        best = tried
    return best


def _fastest(start: StepChannel, epsilon: float) -> StepChannel:
    low, high, best = 0.0, min(epsilon, _LARGEST_RATE), None
    for _ in range(_BISECTIONS):
        channel = replace(start, rate=(low + high) / 2)
        if channel.bound > epsilon:
            high = channel.rate
            continue
        low, best = channel.rate, channel
        if epsilon - best.bound < 1e-9:
            break
    if best is None:
        raise UsageError("no cells can be drawn at so small an epsilon per step; ask for a larger one")
    return best


@kept_by_cells
def channel_for_people(cells: Cells, hide_among: int) -> StepChannel:
    """The fastest fall with so many people nearer than the published place, on average over people."""
    cells.check_holds(hide_among)
    if cells.calibration is not None and hide_among == cells.hide_among:
        return given_channel(cells, cells.calibration)
    # With a tenth of the people in each cell the usual rate does; an area grows with the square of its width.
    guess = min(_USUAL_RATE, _USUAL_RATE * math.sqrt(10 * cells.people_per_cell / hide_among))
    best = _rate_for_people(
        StepChannel(cells, guess, farthest_for(cells, guess), np.full(len(cells), _UNIT_WEIGHT)), hide_among
    )
    # At a faster fall what lies so far away no longer matters.
    best = _rate_for_people(replace(best, farthest=farthest_for(cells, best.rate)), hide_among)
    for _ in range(_ROUNDS):
        balanced = replace(best, weights=balanced_weights(best))
        if balanced.bound >= best.bound:
            break
        best = _rate_for_people(balanced, hide_among)
    return best


def calibrated(cells: Cells) -> Cells:
    """Return cells that know the channel that hides among their number of people: to be kept in their file."""
    if cells.calibration is not None:
        return cells
    return replace(cells, calibration=channel_for_people(cells, cells.hide_among).calibration)


def _rate_for_people(start: StepChannel, hide_among: int) -> StepChannel:
    """The fastest fall with so many people nearer to the true place than the published one, on average over people."""
    cells, reach = start.cells, start.reach
    # Cells at even shares of the people, so that each counts alike.
    shares = (np.arange(min(_SAMPLED_CELLS, len(cells))) + 0.5) / min(_SAMPLED_CELLS, len(cells))
    sampled = np.minimum(np.searchsorted(np.cumsum(cells.people) / cells.people.sum(), shares), len(cells) - 1)
    centres, rows = cells.centres * cells.region.metres_per_unit, []
    # A crowd that no cell is small enough for would take the noise from everybody else: it counts as a few cells.
    people = np.minimum(cells.people, _CROWD * cells.people_per_cell)
    for cell in sampled:
        near, steps = reach.of(cell)
        order = np.argsort(np.hypot(*(centres[near] - centres[cell]).T), kind="stable")
        held = people[near][order]
        # Half of the people of a cell are nearer than a place in it.
        rows.append((steps[order], start.weights[near][order], np.cumsum(held) - held / 2))
    away, weights, nearer = (np.concatenate(part) for part in zip(*rows, strict=True))
    starts = np.cumsum([0, *(len(row[0]) for row in rows[:-1])])
    low, high = _LEAST_RATE, _LARGEST_RATE
    for _ in range(_BISECTIONS):
        rate = math.sqrt(low * high)
        falls = np.exp(-rate / STEP * np.arange(reach.most + 1))
        # The few places that are published just anywhere are left out: they would count half of everybody.
        local = (falls - falls[-1])[away] * weights
        sums, counted = (np.add.reduceat(part, starts) for part in (local, local * nearer))
        low, high = (rate, high) if np.mean(counted / sums) > hide_among else (low, rate)
    return replace(start, rate=high)


_BALANCING_STEPS = 60
_BALANCING_PACE = 0.1
_SHARPNESS = (5.0, 40.0)


def balanced_weights(channel: StepChannel) -> IntArray:
    """Return weights that make the largest |Δ log Z| / l over all edges small, at the channel's rate.

    The largest is replaced by a smooth maximum, which is sharpened as it gets smaller (Adam's steps).
    """
    cells, reach = channel.cells, channel.reach
    first, second, length = graph_of(cells).edges
    per_step = STEP / length
    falls = np.exp(-channel.rate / STEP * np.arange(reach.most + 1))
    logs, momentum, spread = np.zeros((3, len(cells)))
    best, best_logs = math.inf, logs
    for turn in range(1, _BALANCING_STEPS + 1):
        weights = np.exp(logs)
        sums = _sums(reach, falls, weights)
        slopes = (np.log(sums[first]) - np.log(sums[second])) * per_step
        steepest = float(np.abs(slopes).max())
        if steepest < best:
            best, best_logs = steepest, logs
        sharpness = _SHARPNESS[0] * (_SHARPNESS[1] / _SHARPNESS[0]) ** (turn / _BALANCING_STEPS)
        shares = np.exp(sharpness * (np.abs(slopes) - steepest))
        pull = shares / shares.sum() * np.sign(slopes) * per_step
        by_sum = (np.bincount(first, pull, len(cells)) - np.bincount(second, pull, len(cells))) / sums
        # Steps are as many in both directions, so that the same sums give the slopes in the weights.
        slope = weights * _sums(reach, falls, by_sum)
        momentum = 0.9 * momentum + 0.1 * slope
        spread = 0.99 * spread + 0.01 * slope**2
        logs = logs - _BALANCING_PACE * (momentum / (1 - 0.9**turn)) / (np.sqrt(spread / (1 - 0.99**turn)) + 1e-12)
    return np.clip(np.rint(_UNIT_WEIGHT * np.exp(best_logs)), *WEIGHTS).astype(np.int64)
