"""Making cells: from public data, from places published before, or from true places by a private quadtree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.density import Density, Rings, rings_in
from nearveil.kernels import kernel
from nearveil.mechanisms.base import FitRefusedError
from nearveil.mechanisms.cells import (
    CELLS_TO_HIDE_AMONG,
    COUNTING_SHARE,
    MOST_CELLS,
    PRIVTREE_RATIO,
    Cells,
    CellSource,
    Layout,
    layout_for,
    private_cells_guarantee,
)
from nearveil.mechanisms.fit_pic import FIXED_POINT, Question, Watch, as_answers, fixed_point_laplace
from nearveil.mechanisms.morton import interleave
from nearveil.mechanisms.planar_laplace import check_noise_m
from nearveil.privacy.guarantee import check_count, check_epsilon
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray

LEAST_CELL_M = 50.0
LARGEST_CELL_M = 4000.0

MOST_HIDE_AMONG = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlan:
    """How cells are to be made.

    Parameters
    ----------
    hide_among : int
        Among how many people everybody is to be hidden; a cell holds about a tenth of them.
    least_cell_m, largest_cell_m : float
        Sides of the smallest and the largest cells, in metres: no cell is smaller or larger, however dense or sparse
        people are.
    """

    hide_among: int = 100
    least_cell_m: float = LEAST_CELL_M
    largest_cell_m: float = LARGEST_CELL_M

    def __post_init__(self) -> None:
        check_hide_among(self.hide_among)

    @property
    def people_per_cell(self) -> float:
        """How many people a cell is to hold at most."""
        return self.hide_among / CELLS_TO_HIDE_AMONG

    def layout(self, region: Region) -> Layout:
        """Return how the region is cut into boxes."""
        return layout_for(region, least_cell_m=self.least_cell_m, largest_cell_m=self.largest_cell_m)


def check_hide_among(hide_among: int) -> int:
    """Return the number of people to hide among, or say what can be asked for."""
    check_count(hide_among, "the number of people to hide among", least=2, most=MOST_HIDE_AMONG)
    return int(hide_among)


# Cells from what is public: counts are looked at as they are.


def cells_from_density(
    density: Density, region: Region, plan: CellPlan | None = None, *, population: int | None = None
) -> Cells:
    """Make cells from public data: points, or a grid or polygons with counts. That costs nobody anything.

    Parameters
    ----------
    density : Density
        Where people in general are, such as a census.
    region : Region
        The public region. What lies outside it does not count.
    plan : CellPlan, optional
        How cells are to be made.
    population : int, optional
        A public number of people, which the counts are scaled to; without it, people of the density are counted.
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


def cells_from_points(
    points: object, region: Region, plan: CellPlan | None = None, *, population: int | None = None
) -> Cells:
    """Make cells from public places, one row each: latitude, longitude.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> from nearveil.region import named_region
    >>> region = named_region("san-francisco")
    >>> cells = cells_from_points(synthetic_city(5_000, region, rng=1), region, CellPlan(hide_among=100))
    >>> cells.source, cells.fit_epsilon
    ('public', 0.0)
    """
    return cells_from_density(Density.of_points(region.check(points)), region, plan, population=population)


def cells_from_published(points: object, region: Region, noise_m: float, plan: CellPlan | None = None) -> Cells:
    """Make cells from places that were published before with planar Laplace noise. That costs nobody anything more.

    The density of true places is estimated from the noisy ones by the known noise (Richardson and Lucy's iteration).

    Parameters
    ----------
    points : array-like of shape (n, 2)
        Published places: latitude, longitude.
    region : Region
        The public region.
    noise_m : float
        The mean length of the noise that they were published with, in metres.
    plan : CellPlan, optional
        How cells are to be made.
    """
    check_noise_m(noise_m)
    places = region.check(points)
    _refuse_one_place(bool((places == places[0]).all()))
    plan = plan or CellPlan()
    layout = plan.layout(region)
    return _by_counts(layout, _without_noise(places, layout, noise_m), plan, "published")


def _by_counts(layout: Layout, counts: FloatArray, plan: CellPlan, source: CellSource) -> Cells:
    """Halve boxes both ways as long as they hold more people than a cell is to hold."""
    pyramid = _pyramid(counts, layout)
    most = plan.people_per_cell
    depths, columns, rows = _grown(layout, lambda depth, column, row: pyramid[depth][row, column] > most)
    people = np.array([pyramid[depth][row, column] for depth, column, row in zip(depths, columns, rows, strict=True)])
    return Cells(layout=layout, depths=depths.astype(np.int8), people=people, people_per_cell=most, source=source)


def _pyramid(counts: FloatArray | IntArray, layout: Layout) -> list[FloatArray]:
    """Return the counts in the boxes of each depth, the largest first."""
    found: list[FloatArray] = [counts.reshape(layout.shape).astype(np.float64)]
    for _ in range(layout.levels):
        pairs = found[-1][::2] + found[-1][1::2]
        found.append(pairs[:, ::2] + pairs[:, 1::2])
    return found[::-1]


_QUARTERS = ((0, 0), (1, 0), (0, 1), (1, 1))


def _grown(
    layout: Layout, is_split: Callable[[int, IntArray, IntArray], BoolArray]
) -> tuple[IntArray, IntArray, IntArray]:
    """Grow a quadtree from the largest boxes; return depth, column and row of its leaves, in the order of cells."""
    rows, columns = (grid.ravel() for grid in np.divmod(np.arange(layout.columns * layout.rows), layout.columns))
    leaves = []
    for depth in range(layout.levels + 1):
        splits = is_split(depth, columns, rows) if depth < layout.levels else np.zeros(len(columns), dtype=bool)
        leaves.append((np.full((~splits).sum(), depth), columns[~splits], rows[~splits]))
        if sum(len(leaf[0]) for leaf in leaves) + 4 * splits.sum() > MOST_CELLS:
            raise UsageError(
                f"there would be more than {MOST_CELLS:,} cells; hide among more people, or ask for larger cells"
            )
        columns = np.concatenate([2 * columns[splits] + across for across, _ in _QUARTERS])
        rows = np.concatenate([2 * rows[splits] + up for _, up in _QUARTERS])
    depths, columns, rows = (np.concatenate(part) for part in zip(*leaves, strict=True))
    # The order of cells: largest boxes row by row, and quarters within quarters.
    left = layout.levels - depths
    column, row, inside = columns << left, rows << left, (1 << layout.levels) - 1
    largest = (row >> layout.levels) * layout.columns + (column >> layout.levels)
    order = np.lexsort((interleave(column & inside, row & inside), largest))
    return depths[order], columns[order], rows[order]


def _spread_counts(density: Density, layout: Layout) -> FloatArray:
    """Return how many people each smallest box holds; those of a box or polygon of the density are spread over it."""
    if density.polygons is not None:
        return _spread_polygons(rings_in(density.polygons, density.counts, layout.region), layout)
    half_height, half_width = density.height_deg / 2, density.width_deg / 2
    corners = [
        density.points + np.column_stack([up * half_height, across * half_width]) for up, across in ((-1, -1), (1, 1))
    ]
    region, boxes = layout.region, np.zeros(layout.shape)
    # A box that reaches beyond the region counts with the share that lies inside.
    inside = region.contains(region.to_edge(corners[0])) & _overlaps(density, region)
    low, high = (_in_boxes(region.to_edge(corner[inside]), layout) for corner in corners)
    full_low, full_high = corners[0][inside], corners[1][inside]
    share = _share_inside(full_low, full_high, region)
    _add_boxes(low, high, density.counts[inside] * share, boxes)
    return boxes


def _spread_polygons(rings: Rings, layout: Layout) -> FloatArray:
    boxes = np.zeros(layout.shape)
    if len(rings.rows):
        places = np.clip(_in_boxes(rings.points, layout), 0.0, layout.shape[::-1])
        _add_polygons(places, rings.starts, rings.rows, rings.is_hole, rings.counts, boxes)
    return boxes


def _overlaps(density: Density, region: Region) -> BoolArray:
    latitude, offset = (
        density.points[:, 0] - region.centre[0],
        (density.points[:, 1] - region.centre[1] + 180) % 360 - 180,
    )
    overlaps: BoolArray = (np.abs(latitude) <= (region.height_deg + density.height_deg) / 2) & (
        np.abs(offset) <= (region.width_deg + density.width_deg) / 2
    )
    return overlaps


def _share_inside(low: FloatArray, high: FloatArray, region: Region) -> FloatArray:
    """The share of each box of degrees that lies in the region; 1 for points."""
    kept = (region.to_edge(high) - region.to_edge(low) + 180) % 360 - 180
    size = high - low
    shares: FloatArray = np.divide(kept, size, out=np.ones_like(size), where=size > 0).clip(0.0, 1.0).prod(axis=1)
    return shares


def _in_boxes(points: FloatArray, layout: Layout) -> FloatArray:
    """Places in units of smallest boxes, from the south-western corner of the region."""
    half_extent = np.array(layout.region.half_extent_square)
    placed: FloatArray = (layout.region.to_square(points) + half_extent) / layout.box
    return placed


@kernel
def _add_boxes(low: FloatArray, high: FloatArray, counts: FloatArray, boxes: FloatArray) -> None:
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


@kernel
def _add_polygons(
    places: FloatArray, starts: IntArray, rows: IntArray, is_hole: BoolArray, counts: FloatArray, boxes: FloatArray
) -> None:
    """Spread the people of each polygon over boxes, by the share of its area that lies in each."""
    first = 0
    while first < len(rows):
        last = first
        while last < len(rows) and rows[last] == rows[first]:
            last += 1
        own = places[starts[first] : starts[last]]
        west, south = int(own[:, 0].min()), int(own[:, 1].min())
        # A column more than needed, which takes what lies beyond the last one.
        covered = np.zeros((int(own[:, 1].max()) - south + 1, int(own[:, 0].max()) - west + 2))
        for ring in range(first, last):
            corners = places[starts[ring] : starts[ring + 1]] - np.array([float(west), float(south)])
            area = 0.0
            for i in range(len(corners) - 1):
                area += corners[i, 0] * corners[i + 1, 1] - corners[i + 1, 0] * corners[i, 1]
            # Either way around counts as area, but for a hole.
            sign = (1.0 if area < 0 else -1.0) * (-1.0 if is_hole[ring] else 1.0)
            for i in range(len(corners) - 1):
                _add_side(corners[i], corners[i + 1], sign, covered)
        total = 0.0
        for row in range(len(covered)):
            for column in range(1, covered.shape[1]):
                covered[row, column] += covered[row, column - 1]
            total += covered[row].sum()
        if total > 0:
            for row in range(min(len(covered), len(boxes) - south)):
                for column in range(min(covered.shape[1], boxes.shape[1] - west)):
                    boxes[south + row, west + column] += counts[rows[first]] * max(0.0, covered[row, column]) / total
        first = last


@kernel
def _add_side(start: FloatArray, end: FloatArray, sign: float, covered: FloatArray) -> None:
    """Add what a side of a ring covers to its east; sums along a row of boxes then give areas.

    Sides that go north count with the sign, sides that go south against it. A box takes what it has of the side's
    east itself, and the next one in the row the rest up to the whole height.
    """
    if start[1] == end[1]:
        return
    if start[1] > end[1]:
        start, end, sign = end, start, -sign
    slope = (end[0] - start[0]) / (end[1] - start[1])
    for row in range(int(start[1]), min(int(end[1]) + 1, len(covered))):
        low, high = max(start[1], float(row)), min(end[1], row + 1.0)
        if high <= low:
            continue
        x_low, x_high = start[0] + slope * (low - start[1]), start[0] + slope * (high - start[1])
        left, right = min(x_low, x_high), max(x_low, x_high)
        for column in range(max(0, int(left)), min(int(right) + 1, covered.shape[1] - 1)):
            # The part of the side above this box.
            near, far = max(left, float(column)), min(right, column + 1.0)
            height = (high - low) if right == left else (high - low) * (far - near) / (right - left)
            share = height * (column + 1.0 - (near + far) / 2)
            covered[row, column] += sign * share
            covered[row, column + 1] += sign * (height - share)


# Cells from noisy places: the noise is taken out of the density.


_ITERATIONS = 20
_BOXES_PER_NOISE = 8
_NOISE_REACH = 4
_LEAST_DENSITY = 1e-12


def _without_noise(published: FloatArray, layout: Layout, noise_m: float) -> FloatArray:
    """Estimate how many people each smallest box holds from places with planar Laplace noise."""
    coarser = 0
    while coarser < layout.levels and layout.box_m.min() * 2 ** (coarser + 1) <= noise_m / _BOXES_PER_NOISE:
        coarser += 1
    rows, columns = (side >> coarser for side in layout.shape)
    place = np.clip((_in_boxes(published, layout) / 2**coarser).astype(np.int64), 0, (columns - 1, rows - 1))
    seen = (
        np.bincount(place[:, 1] * columns + place[:, 0], minlength=rows * columns).reshape(rows, columns).astype(float)
    )
    smooth = _smoother((rows, columns), layout.box_m * 2**coarser, noise_m)
    inside = smooth(np.ones_like(seen))
    density = smooth(seen) + _LEAST_DENSITY
    for _ in range(_ITERATIONS):
        density = np.maximum(
            density * smooth(seen / np.maximum(smooth(density), _LEAST_DENSITY)) / inside, _LEAST_DENSITY
        )
    density *= len(published) / density.sum()
    return np.repeat(np.repeat(density, 2**coarser, axis=0), 2**coarser, axis=1) / 4**coarser


def _smoother(shape: tuple[int, int], box_m: FloatArray, noise_m: float) -> Callable[[FloatArray], FloatArray]:
    """Return the convolution with planar Laplace noise on a grid, by Fourier transform."""
    from scipy.fft import irfft2, next_fast_len, rfft2  # noqa: PLC0415 - slow to load

    reach = math.ceil(_NOISE_REACH * noise_m / box_m.min())
    reach = min(reach, max(shape))
    across_m, up_m = np.meshgrid(*(np.arange(-reach, reach + 1) * side for side in box_m))
    noise = np.exp(-2 / noise_m * np.hypot(across_m, up_m))
    padded = tuple(next_fast_len(side + 2 * reach) for side in shape)
    centred = np.zeros(padded)
    centred[: 2 * reach + 1, : 2 * reach + 1] = noise / noise.sum()
    transformed = rfft2(np.roll(centred, (-reach, -reach), (0, 1)))

    def smooth(values: FloatArray) -> FloatArray:
        smoothed: FloatArray = irfft2(rfft2(values, padded) * transformed, padded)[: shape[0], : shape[1]]
        return np.maximum(smoothed, 0.0)

    return smooth


# PrivTree (Zhang, Xiao and Xie, 2016): a quadtree that is grown by noisy counts, at a cost that does not depend on how
# deep it grows. A box is halved if its count, less a bias for every level above it, comes out above a threshold with
# Laplace noise. The bias makes empty boxes stop soon.


@dataclass(frozen=True, slots=True)
class TreeNoise:
    """The numbers of a private quadtree: the noise is a real number, the others whole multiples of 1 / FIXED_POINT.

    Attributes
    ----------
    scale : float
        Laplace scale of the noise of each count in the tree.
    bias, threshold : int
        What is taken off a count for every level above it, and what it is compared with.
    counting_scale : float
        Laplace scale of the noise of the numbers of people in the largest boxes.
    """

    scale: float
    bias: int
    threshold: int
    counting_scale: float


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
        One row per person: latitude, longitude. Or an object that answers for all of them.
    region : Region
        Public; everybody must be inside.
    epsilon : float
        What the cells cost each person, added or removed.
    plan : CellPlan, optional
        How cells are to be made.
    rng : optional
        Secure randomness unless a seed or generator is given.
    watch : callable, optional
        Called with the noisy counts of each depth, biased, and with the numbers of people in the largest boxes. What is
        published of the first is only whether they are above the threshold: the cost does not cover them as they are.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> from nearveil.region import named_region
    >>> region = named_region("san-francisco")
    >>> cells = build_private_cells(synthetic_city(5_000, region, rng=1), region, epsilon=1.0)
    >>> cells.source, cells.fit_epsilon
    ('privtree', 1.0)
    """
    check_epsilon(epsilon)
    plan = plan or CellPlan()
    asked = as_answers(points, region)
    if len(asked) < 2:
        raise DataError(
            "cells are learned from two people or more; make them from public data, or use planar-laplace, "
            "which needs none"
        )
    _refuse_one_place(asked.all_in_one_place)
    randomness = as_randomness(rng)
    layout = plan.layout(region)
    rows, columns = layout.shape
    pyramid = _pyramid(asked.counts_in_cells(columns, rows), layout)
    noise = tree_noise(epsilon, plan)

    def is_split(depth: int, column: IntArray, row: IntArray) -> BoolArray:
        biased = _biased(pyramid[depth][row, column], depth, noise)
        noisy = fixed_point_laplace(biased, noise.scale, randomness.generator)
        if watch:
            watch(_biased_counts(layout, depth, column, row, noise), noisy)
        return noisy > noise.threshold / FIXED_POINT

    try:
        depths, _, _ = _grown(layout, is_split)
        exact = pyramid[0].ravel().astype(np.int64) * int(FIXED_POINT)
        counted = fixed_point_laplace(exact, noise.counting_scale, randomness.generator)
        if watch:
            watch(lambda about: about.counts_in_cells(layout.columns, layout.rows) * int(FIXED_POINT), counted)
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
    biased: IntArray = np.maximum(exact - depth * noise.bias, noise.threshold - noise.bias)
    return biased


def _biased_counts(layout: Layout, depth: int, column: IntArray, row: IntArray, noise: TreeNoise) -> Question:
    """The question that a depth of the tree asks of people."""
    rows, columns = layout.shape
    return lambda asked: _biased(
        _pyramid(asked.counts_in_cells(columns, rows), layout)[depth][row, column], depth, noise
    )


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


def _refuse_one_place(all_in_one_place: bool) -> None:
    if all_in_one_place:
        raise DataError(
            "all rows hold the same location, so there is nothing to learn cells from; check the coordinate columns, "
            "or make the cells from public data"
        )
