"""Intervals from a private grid: one noisy histogram, then ordinary k-means on what it shows.

The paper's k-means asks for 36 noisy answers per person and drowns in their noise. A histogram is one answer; all
that follows is post-processing of it, and free.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.mechanisms.centres import (
    FIXED_POINT,
    check_enough_people,
    fixed_point_laplace,
    redraw_unusable,
    square_in_fixed_point,
)
from nearveil.mechanisms.exponential import REACH
from nearveil.mechanisms.intervals import Intervals, check_gamma, radii_around
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.mechanisms.pic import MOST_CENTRES, cluster_sums
from nearveil.privacy.limits import check_count, check_epsilon, check_positive
from nearveil.privacy.paper_accounting import LaplaceAnswers
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress

COUNTING_SHARE = 0.05
"""Share of the budget for a noisy head count, where no public one is given."""

_PEOPLE_PER_CELL = 10.0
ROUNDS = 20
_MOST_CELLS = 4_000_000
_MOST_SYNTHETIC = 10_000_000


def build_grid_intervals(
    points: object,
    *,
    region: Region,
    epsilon: float,
    centres: int = 800,
    gamma: float = 0.5,
    population: int | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> Intervals:
    """Build private intervals from one noisy histogram over a public grid.

    Parameters
    ----------
    points : array-like
        One row per person: latitude, longitude.
    region : Region
        Public; everybody must be inside.
    epsilon : float
        What the fit costs each person, added or removed.
    centres, gamma
        Number of intervals, and radius as a share of the distance to the nearest other centre.
    population : int, optional
        A public number of people, to size the grid by. Without it a twentieth of the budget buys a noisy count.
    rng : optional
        Secure randomness unless a seed or generator is given.
    progress : callable, optional
        Called with 1 after each round of k-means.
    """
    people = region.check(points)
    check_positive(epsilon, "epsilon")
    check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_gamma(gamma)
    check_enough_people(people, centres)
    randomness = as_randomness(rng)
    generator = randomness.generator
    answers, size = _size_of_population(len(people), population, epsilon, generator)
    histogram_scale = answers[-1].scale
    columns, rows = _grid_shape(region, size / histogram_scale / _PEOPLE_PER_CELL)
    noisy = _noisy_histogram(square_in_fixed_point(region, people), region, columns, rows, histogram_scale, generator)
    stand_ins = _stand_ins(noisy, region, histogram_scale, centres, generator)
    found = _k_means(stand_ins, region, centres, generator, progress)
    return Intervals(
        region=region,
        centres=found,
        radii=radii_around(found, gamma),
        method="private-grid",
        answers=answers,
        gamma=gamma,
        seeded=randomness.seeded,
    )


def synthetic_people(
    points: object,
    *,
    region: Region,
    epsilon: float,
    population: int | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """Draw made-up people who live about where the true ones do, from one noisy histogram over a public grid.

    Whatever is done with them afterwards costs the true people nothing more than ``epsilon``, for one of them more or
    less; another place of one of them counts twice. How many there are is public or noisy as well.

    Parameters
    ----------
    points : array-like
        One row per person: latitude, longitude.
    region : Region
        Public; everybody must be inside.
    epsilon : float
        Spent once, on the histogram and, without ``population``, on a head count.
    population : int, optional
        A public number of people: so many are drawn. Without it, as many as the noisy head count says.
    rng : optional
        Secure randomness unless a seed or generator is given.
    progress : callable, optional
        Called with 1 once the histogram is there, and with 1 once the people are drawn.

    Returns
    -------
    ndarray of shape (n, 2)
        Latitude and longitude, uniform within each cell of the grid whose count stands out of the noise.
    """
    people = region.check(points)
    check_epsilon(epsilon)
    if population is not None:
        check_count(population, "population", least=1, most=_MOST_SYNTHETIC)
    generator = as_randomness(rng).generator
    answers, size = _size_of_population(len(people), population, epsilon, generator)
    scale = answers[-1].scale
    columns, rows = _grid_shape(region, size / scale / _PEOPLE_PER_CELL)
    noisy = _noisy_histogram(square_in_fixed_point(region, people), region, columns, rows, scale, generator)
    if progress:
        progress(1)
    # From here on only the noisy answers are looked at.
    counts = _counts_that_stand_out(noisy, scale)
    drawn = generator.multinomial(min(round(size), _MOST_SYNTHETIC), counts / counts.sum())
    found = region.clip(region.from_square(_uniform_in_cells(drawn, columns, rows, region, generator)))
    if progress:
        progress(1)
    return found


def synthetic_delta(epsilon: float) -> float:
    """Return the delta of `synthetic_people` without a public number: what the exponentials of the noise cannot reach.

    The same sum as for intervals (`Intervals.pure_fit_cost`), over the head count and the histogram.
    """
    parts = (COUNTING_SHARE * epsilon, (1 - COUNTING_SHARE) * epsilon)
    return min(1.0, sum(4 * math.exp(part - REACH) for part in parts))


def _size_of_population(
    count: int, population: int | None, epsilon: float, rng: np.random.Generator
) -> tuple[tuple[LaplaceAnswers, ...], float]:
    """The answers that will be given, the histogram's last, and a number of people that may be used openly."""
    if population is not None:
        return (LaplaceAnswers(1, 1 / epsilon),), float(population)
    count_scale = 1 / (COUNTING_SHARE * epsilon)
    noisy = fixed_point_laplace(np.array([count * int(FIXED_POINT)]), count_scale, rng)[0]
    histogram = LaplaceAnswers(1, 1 / ((1 - COUNTING_SHARE) * epsilon))
    return (LaplaceAnswers(1, count_scale), histogram), max(float(noisy), 1.0)


def _grid_shape(region: Region, cells: float) -> tuple[int, int]:
    """Columns and rows of about so many square cells."""
    half_width, half_height = region.half_extent_square
    cells = min(max(cells, 4.0), _MOST_CELLS)
    columns = max(1, round(math.sqrt(cells * half_width / half_height)))
    return columns, max(1, round(cells / columns))


def _noisy_histogram(
    whole: IntArray, region: Region, columns: int, rows: int, scale: float, rng: np.random.Generator
) -> FloatArray:
    half_extent = np.array(region.half_extent_square)
    shape = np.array([columns, rows])
    place = np.clip(((whole / FIXED_POINT / half_extent + 1) / 2 * shape).astype(np.int64), 0, shape - 1)
    exact = np.bincount(place[:, 1] * columns + place[:, 0], minlength=columns * rows)
    return fixed_point_laplace(exact * int(FIXED_POINT), scale, rng).reshape(rows, columns)


def _stand_ins(noisy: FloatArray, region: Region, scale: float, centres: int, rng: np.random.Generator) -> FloatArray:
    """Draw made-up people, as many as the histogram shows: uniform within each cell whose count stands out."""
    rows, columns = noisy.shape
    counts = _counts_that_stand_out(noisy, scale)
    # Enough of them that every centre finds some, however few people there are.
    share = max(1.0, 20.0 * centres / counts.sum())
    return _uniform_in_cells(np.rint(counts * share).astype(np.int64), columns, rows, region, rng)


def _counts_that_stand_out(noisy: FloatArray, scale: float) -> FloatArray:
    """The counts of all cells in a row, 0 where noise alone may have made them; all alike if none stands out."""
    # A count that noise alone would reach in some cell of an empty grid is no sign of people.
    threshold = scale * math.log(noisy.size) / 2
    counts: FloatArray = np.where(noisy > threshold, noisy, 0.0).ravel()
    return counts if counts.sum() > 0 else np.ones(noisy.size)


def _uniform_in_cells(
    counts: IntArray, columns: int, rows: int, region: Region, rng: np.random.Generator
) -> FloatArray:
    """Draw so many points of the square in each cell."""
    cells = np.repeat(np.arange(len(counts)), counts)
    corner = np.column_stack([cells % columns, cells // columns])
    return ((corner + rng.random(corner.shape)) / [columns, rows] * 2 - 1) * np.array(region.half_extent_square)


def _k_means(
    stand_ins: FloatArray, region: Region, centres: int, rng: np.random.Generator, progress: Progress | None
) -> FloatArray:
    whole = np.rint(stand_ins * FIXED_POINT).astype(np.int64)
    found = redraw_unusable(stand_ins[rng.permutation(len(stand_ins))[:centres]], region, rng)
    for _ in range(ROUNDS):
        sums = cluster_sums(whole, nearest_centre_table(found, region.half_extent_square, lookups=len(whole)))
        occupied = sums[:, 2] > 0
        found[occupied] = sums[occupied, :2] / FIXED_POINT / sums[occupied, 2:]
        found = redraw_unusable(found, region, rng)
        if progress:
            progress(1)
    return found
