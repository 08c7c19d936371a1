"""Making cells: from public data, from places published before, or from true places by a private quadtree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.kernels import kernel
from nearveil.mechanisms.base import FitRefusedError
from nearveil.mechanisms.cells import (
    CELLS_TO_HIDE_AMONG,
    COUNTING_SHARE,
    MOST_BOXES,
    MOST_CELLS,
    PRIVTREE_RATIO,
    Cells,
    CellSource,
    Layout,
    private_cells_guarantee,
)
from nearveil.mechanisms.fit_pic import FIXED_POINT, ExactAnswers, Watch, as_answers, fixed_point_laplace
from nearveil.mechanisms.planar_laplace import check_noise_m
from nearveil.mechanisms.srr import deinterleave
from nearveil.privacy.guarantee import check_count, check_epsilon, check_positive
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from nearveil.io.density import Density

LEAST_CELL_M = 50.0
LARGEST_CELL_M = 4000.0

MOST_HIDE_AMONG = 10**9

_ONE_PLACE = (
    "all rows hold the same location, so there is nothing to learn cells from; check the coordinate columns, or make "
    "the cells from public data"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlan:
    """How cells are to be made.

    Parameters
    ----------
    hide_among : int
        N: among how many people to hide, as of `HideAmong`; a cell holds about a tenth of them.
    least_cell_m, largest_cell_m : float
        Sides of the smallest and the largest cells, in metres: no cell is smaller or larger, however dense or sparse
        people are.
    """

    hide_among: int = 100
    least_cell_m: float = LEAST_CELL_M
    largest_cell_m: float = LARGEST_CELL_M

    def __post_init__(self) -> None:
        check_hide_among(self.hide_among)
        check_positive(self.least_cell_m, "the least side of a cell")
        check_positive(self.largest_cell_m, "the largest side of a cell")
        if self.least_cell_m > self.largest_cell_m:
            raise UsageError("the least side of a cell must not be greater than the largest")

    @property
    def people_per_cell(self) -> float:
        """How many people a cell is to hold at most."""
        return self.hide_among / CELLS_TO_HIDE_AMONG

    def layout(self, region: Region) -> Layout:
        """Return how the region is cut into boxes, none of them larger or smaller than asked for."""
        width_m, height_m = (2 * half for half in region.half_extent_m)
        columns, rows = math.ceil(width_m / self.largest_cell_m), math.ceil(height_m / self.largest_cell_m)
        if columns * rows > MOST_CELLS:
            raise UsageError(f"the region has more than {MOST_CELLS:,} cells of the largest size; allow larger cells")
        levels = int(math.log2(max(1.0, min(width_m / columns, height_m / rows) / self.least_cell_m)))
        if columns * rows << 2 * levels < 2:
            raise UsageError(
                "the region would be one cell, in which nothing is left of where people are; allow smaller cells"
            )
        while columns * rows << 2 * levels > MOST_BOXES:
            levels -= 1
        return Layout(region, columns, rows, levels)


def check_hide_among(hide_among: int) -> int:
    """Return the number of people to hide among, or say what can be asked for."""
    check_count(hide_among, "the number of people to hide among", least=2, most=MOST_HIDE_AMONG)
    return int(hide_among)


# Cells from what is public: counts are looked at as they are.


def cells_from_density(
    density: Density, region: Region, plan: CellPlan | None = None, *, population: int | None = None
) -> Cells:
    """Make cells from public data: points, or a grid with counts. That costs nobody anything.

    What lies outside the region does not count. Counts are scaled to a public ``population``, where one is given.
    """
    plan = plan or CellPlan()
    layout = plan.layout(region)
    counts = _spread_counts(density, layout)
    if not counts.sum() > 0:
        raise DataError("the density has nobody inside the region; check its columns and the region")
    if population is not None:
        check_count(population, "population", least=1, most=10**11)
        counts *= population / counts.sum()
    return _by_counts(layout, counts, plan, "public")


def cells_from_points(points: object, region: Region, plan: CellPlan | None = None) -> Cells:
    """Make cells from public places, one row each: latitude, longitude."""
    from nearveil.io.density import Density  # noqa: PLC0415 - needs pyarrow

    return cells_from_density(Density.of_points(region.check(points)), region, plan)


def cells_from_published(points: object, region: Region, noise_m: float, plan: CellPlan | None = None) -> Cells:
    """Make cells from places that were published before with planar Laplace noise. That costs nobody anything more.

    Its mean length is ``noise_m``. The density of true places is estimated from the noisy ones (Richardson and Lucy's
    iteration).
    """
    check_noise_m(noise_m)
    places = region.check(points)
    if (places == places[0]).all():
        raise DataError(_ONE_PLACE)
    plan = plan or CellPlan()
    layout = plan.layout(region)
    return _by_counts(layout, _without_noise(places, layout, noise_m), plan, "published")


def _by_counts(layout: Layout, counts: FloatArray, plan: CellPlan, source: CellSource) -> Cells:
    """Halve boxes both ways as long as they hold more people than a cell is to hold."""
    pyramid, most = _pyramid(counts, layout), plan.people_per_cell
    depths, boxes = _grown(layout, lambda depth, boxes: pyramid[depth][boxes] > most)
    people = np.array([pyramid[depth][box] for depth, box in zip(depths, boxes, strict=True)])
    return Cells(layout=layout, depths=depths.astype(np.int8), people=people, people_per_cell=most, source=source)


def _pyramid(counts: FloatArray | IntArray, layout: Layout) -> list[FloatArray]:
    """Return the counts in the boxes of each depth, the largest first, boxes in the order of cells."""
    side = 1 << layout.levels
    column, row = deinterleave(np.arange(side**2))
    largest = counts.reshape(layout.rows, side, layout.columns, side).swapaxes(1, 2)
    found: list[FloatArray] = [largest[:, :, row, column].ravel().astype(np.float64)]
    for _ in range(layout.levels):
        found.append(found[-1].reshape(-1, 4).sum(axis=1))
    return found[::-1]


def _grown(layout: Layout, is_split: Callable[[int, IntArray], BoolArray]) -> tuple[IntArray, IntArray]:
    """Grow a quadtree from the largest boxes; return depth and number of its leaves, in the order of cells."""
    boxes = np.arange(layout.columns * layout.rows)
    leaves: list[tuple[IntArray, IntArray]] = []
    for depth in range(layout.levels + 1):
        splits = is_split(depth, boxes) if depth < layout.levels else np.zeros(len(boxes), dtype=bool)
        leaves.append((np.full((~splits).sum(), depth), boxes[~splits]))
        if sum(len(leaf) for leaf, _ in leaves) + 4 * splits.sum() > MOST_CELLS:
            raise UsageError(
                f"there would be more than {MOST_CELLS:,} cells; hide among more people, or ask for larger cells"
            )
        boxes = (4 * boxes[splits, None] + np.arange(4)).ravel()
    depths, boxes = (np.concatenate(part) for part in zip(*leaves, strict=True))
    order = np.argsort(boxes << 2 * (layout.levels - depths))
    return depths[order], boxes[order]


def _spread_counts(density: Density, layout: Layout) -> FloatArray:
    """Return how many people each smallest box holds; those of a box of the density are spread over it."""
    region, boxes = layout.region, np.zeros(layout.shape)
    size = np.column_stack([density.height_deg, density.width_deg])
    low, high = (region.clip(density.points + side * size / 2) for side in (-1, 1))
    # A box that reaches beyond the region counts with the share that lies inside.
    kept = (high - low + 180) % 360 - 180
    share = np.divide(kept, size, out=np.ones_like(size), where=size > 0).clip(0.0, 1.0).prod(axis=1)
    inside = np.where(size.any(axis=1), share > 0, region.contains(density.points))
    low, high = (_in_boxes(corner[inside], layout) for corner in (low, high))
    _add_boxes(low, high, (density.counts * share)[inside], boxes)
    return boxes


def _in_boxes(points: FloatArray, layout: Layout) -> FloatArray:
    """Places in units of smallest boxes, from the south-western corner of the region."""
    return (layout.region.to_square(points) + np.array(layout.region.half_extent_square)) / layout.box


@kernel
def _add_boxes(low: FloatArray, high: FloatArray, counts: FloatArray, boxes: FloatArray) -> None:
    """Spread counts evenly over the boxes between two corners."""
    rows, columns = boxes.shape
    for i in range(len(counts)):
        west, east = min(max(low[i, 0], 0.0), float(columns)), min(max(high[i, 0], 0.0), float(columns))
        south, north = min(max(low[i, 1], 0.0), float(rows)), min(max(high[i, 1], 0.0), float(rows))
        first_column, first_row = min(int(west), columns - 1), min(int(south), rows - 1)
        if east - west < 1e-9 or north - south < 1e-9:
            boxes[first_row, first_column] += counts[i]
            continue
        density = counts[i] / ((east - west) * (north - south))
        for row in range(first_row, min(math.ceil(north), rows)):
            height = min(north, row + 1.0) - max(south, float(row))
            for column in range(first_column, min(math.ceil(east), columns)):
                width = min(east, column + 1.0) - max(west, float(column))
                boxes[row, column] += density * height * width


# Cells from noisy places: the noise is taken out of the density.


_ITERATIONS = 20
_BOXES_PER_NOISE = 8
_NOISE_REACH = 4
_LEAST_DENSITY = 1e-12


def _without_noise(published: FloatArray, layout: Layout, noise_m: float) -> FloatArray:
    """Estimate how many people each smallest box holds from places with planar Laplace noise."""
    from scipy.signal import fftconvolve  # noqa: PLC0415 - slow to load

    coarser = 0
    while coarser < layout.levels and layout.box_m.min() * 2 ** (coarser + 1) <= noise_m / _BOXES_PER_NOISE:
        coarser += 1
    rows, columns = (side >> coarser for side in layout.shape)
    place = np.clip((_in_boxes(published, layout) / 2**coarser).astype(np.int64), 0, (columns - 1, rows - 1))
    seen = np.zeros((rows, columns))
    np.add.at(seen, (place[:, 1], place[:, 0]), 1.0)
    # Probabilities of the noise on the grid around its middle.
    box_m = layout.box_m * 2**coarser
    reach = min(math.ceil(_NOISE_REACH * noise_m / box_m.min()), max(rows, columns))
    noise = np.exp(-2 / noise_m * np.hypot(*np.meshgrid(*(np.arange(-reach, reach + 1) * side for side in box_m))))

    def smooth(values: FloatArray) -> FloatArray:
        return np.maximum(fftconvolve(values, noise / noise.sum(), mode="same"), 0.0)

    inside = smooth(np.ones_like(seen))
    density = smooth(seen) + _LEAST_DENSITY
    for _ in range(_ITERATIONS):
        density *= smooth(seen / np.maximum(smooth(density), _LEAST_DENSITY)) / inside
        density = np.maximum(density, _LEAST_DENSITY)
    density *= len(published) / density.sum()
    return np.repeat(np.repeat(density, 2**coarser, axis=0), 2**coarser, axis=1) / 4**coarser


# PrivTree (Zhang, Xiao and Xie, 2016): a quadtree that is grown by noisy counts, at a cost that does not depend on how
# deep it grows. A box is halved if its count, less a bias for every level above it, comes out above a threshold with
# Laplace noise. The bias makes empty boxes stop soon.


@dataclass(frozen=True, slots=True)
class TreeNoise:
    """The numbers of a private quadtree; bias and threshold are multiples of 1 / FIXED_POINT."""

    scale: float
    """Laplace scale of the noise of each count in the tree."""
    bias: int
    """What is taken off a count for every level above it."""
    threshold: int
    """What it is then compared with."""
    counting_scale: float
    """Laplace scale of the noise of the numbers of people in the largest boxes."""


def tree_noise(epsilon: float, plan: CellPlan) -> TreeNoise:
    """Return the numbers of a private quadtree that costs each person ``epsilon``, its numbers of people included."""
    tree_epsilon = (1 - COUNTING_SHARE) * epsilon
    scale = PRIVTREE_RATIO / tree_epsilon
    # Rounded up: a larger bias costs less, not more.
    bias = math.ceil(scale * math.log(4) * FIXED_POINT)
    threshold = max(0, round(plan.people_per_cell * FIXED_POINT) - bias)
    return TreeNoise(scale, bias, threshold, 1 / (epsilon - tree_epsilon))


def build_private_cells(
    points: object,
    region: Region,
    *,
    epsilon: float = 1.0,
    plan: CellPlan | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
    watch: Watch | None = None,
) -> Cells:
    """Make cells from true places by a private quadtree, which costs each person ``epsilon``.

    Parameters
    ----------
    points : array-like or ExactAnswers
        One row per user, all of them in the region: latitude, longitude. Or an object that answers for all of them.
    region, epsilon, plan, rng
        The public region; what the cells cost each person, added or removed; how they are to be made; and a seed or
        generator in place of secure randomness.
    watch : callable, optional
        Called with the noisy counts of each depth, biased, and with the numbers of people in the largest boxes. What is
        published of the first is only whether they are above the threshold: the cost does not cover them as they are.
    """
    check_epsilon(epsilon)
    plan = plan or CellPlan()
    asked = as_answers(points, region)
    if len(asked) < 2:
        raise DataError(
            "cells are learned from two people or more; make them from public data, or use planar-laplace, "
            "which needs none"
        )
    if asked.all_in_one_place:
        raise DataError(_ONE_PLACE)
    randomness = as_randomness(rng)
    layout = plan.layout(region)
    noise = tree_noise(epsilon, plan)

    def pyramid_of(people: ExactAnswers) -> list[FloatArray]:
        rows, columns = layout.shape
        return _pyramid(people.counts_in_cells(columns, rows), layout)

    pyramid = pyramid_of(asked)

    def is_split(depth: int, boxes: IntArray) -> BoolArray:
        noisy = fixed_point_laplace(_biased(pyramid[depth][boxes], depth, noise), noise.scale, randomness.generator)
        if watch:
            watch(lambda people: _biased(pyramid_of(people)[depth][boxes], depth, noise), noisy)
        return noisy > noise.threshold / FIXED_POINT

    try:
        depths, _ = _grown(layout, is_split)
        exact = pyramid[0].ravel().astype(np.int64) * int(FIXED_POINT)
        counted = fixed_point_laplace(exact, noise.counting_scale, randomness.generator)
        if watch:
            watch(lambda people: people.counts_in_cells(layout.columns, layout.rows) * int(FIXED_POINT), counted)
        return Cells(
            layout=layout,
            depths=depths.astype(np.int8),
            people=_people_by_cell(counted, noise.counting_scale, depths, layout),
            people_per_cell=plan.people_per_cell,
            source="privtree",
            fit_epsilon=epsilon,
            seeded=randomness.seeded,
        )
    except UsageError as refusal:
        # Too many cells, or too few: the noisy counts say so.
        raise FitRefusedError(str(refusal), private_cells_guarantee(epsilon, layout.levels)) from None


def _biased(counts: FloatArray, depth: int, noise: TreeNoise) -> IntArray:
    """Counts less the bias of their depth, never below the least that can matter."""
    exact = counts.astype(np.int64) * int(FIXED_POINT)
    return np.maximum(exact - depth * noise.bias, noise.threshold - noise.bias)


def _people_by_cell(counted: FloatArray, scale: float, depths: IntArray, layout: Layout) -> FloatArray:
    """Share noisy counts of the largest boxes among cells, which the tree has made to hold about equally many.

    The noise of many empty boxes must not make up people to hide among. So only boxes keep their count that hardly any
    empty one would have. Those who are left of the sum of all counts, in which the noise cancels out, are spread over
    the cells of the other boxes.
    """
    sizes = 1 << 2 * (layout.levels - depths)
    box = (np.cumsum(sizes) - sizes) >> 2 * layout.levels
    kept = np.where(counted > scale * (math.log(len(counted)) + 2), counted, 0.0)
    people: FloatArray = kept[box] / np.bincount(box)[box]
    others = np.flatnonzero((kept[box] == 0) & (depths > 0))
    if len(others):
        people[others] = max(0.0, float(counted.sum() - kept.sum())) / len(others)
    return people
