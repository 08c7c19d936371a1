"""The private grid: one noisy histogram of where people are, over a public grid, and what is made of it.

It is the only look at people that is needed: intervals, by ordinary k-means on what it shows, and made-up people are
post-processing, and free. The paper's k-means asks for 36 noisy answers per person and drowns in their noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.fit_pic import (
    FIXED_POINT,
    MOST_CENTRES,
    ExactAnswers,
    PlacesInMemory,
    Watch,
    as_answers,
    cell_counts,
    check_enough,
    cluster_sums,
    fixed_point_laplace,
    head_count,
    redraw_unusable,
)
from nearveil.mechanisms.intervals import Intervals, centres_for, check_gamma, radii_around
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.privacy.guarantee import check_count, check_epsilon, check_positive
from nearveil.randomness import EXPONENTIAL_REACH, Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress

COUNTING_SHARE = 0.05
"""Share of the budget for a noisy head count, where no public one is given."""

_PEOPLE_PER_CELL = 10.0
_MOST_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class NoisyGrid:
    """What may be used openly: noisy counts and a number of people, with the answers that they cost.

    Attributes
    ----------
    region : Region
        Public.
    noisy : ndarray of shape (rows, columns)
        Noisy counts.
    population : float
        A number of people, public or noisy.
    answers : tuple of LaplaceAnswers
        What was asked, the histogram last.
    """

    region: Region
    noisy: FloatArray
    population: float
    answers: tuple[LaplaceAnswers, ...]

    @property
    def counts_that_stand_out(self) -> FloatArray:
        """The counts of all cells in a row, 0 where noise alone may have made them; all alike if none stands out."""
        # A count that noise alone would reach in some cell of an empty grid is not a sign of people.
        threshold = self.answers[-1].scale * math.log(self.noisy.size) / 2
        counts: FloatArray = np.where(self.noisy > threshold, self.noisy, 0.0).ravel()
        return counts if counts.sum() > 0 else np.ones(self.noisy.size)

    def uniform_in_cells(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw the given number of points of the square in each cell."""
        rows, columns = self.noisy.shape
        cells = np.repeat(np.arange(len(counts)), counts)
        corner = np.column_stack([cells % columns, cells // columns])
        return ((corner + rng.random(corner.shape)) / [columns, rows] * 2 - 1) * np.array(
            self.region.half_extent_square
        )


def noisy_grid(
    people: FloatArray | ExactAnswers,
    region: Region,
    epsilon: float,
    population: int | None,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> NoisyGrid:
    """Spend epsilon on a histogram and, where no public number of people is given, on a head count."""
    asked = people if isinstance(people, ExactAnswers) else PlacesInMemory(people, region)
    answers, size = _size_of_population(len(asked), population, epsilon, rng)
    scale = answers[-1].scale
    columns, rows = _grid_shape(region, size / scale / _PEOPLE_PER_CELL)
    noisy = _noisy_histogram(asked, region, columns, rows, scale, rng)
    if watch:
        if population is None:
            watch(head_count, np.array([size]))
        watch(lambda about: about.counts_in_cells(columns, rows) * int(FIXED_POINT), noisy.ravel())
    return NoisyGrid(region, noisy, size, answers)


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
    """Columns and rows of a grid of about ``cells`` square cells."""
    half_width, half_height = region.half_extent_square
    cells = min(max(cells, 4.0), _MOST_CELLS)
    columns = max(1, round(math.sqrt(cells * half_width / half_height)))
    return columns, max(1, round(cells / columns))


def _noisy_histogram(
    asked: ExactAnswers | IntArray, region: Region, columns: int, rows: int, scale: float, rng: np.random.Generator
) -> FloatArray:
    if isinstance(asked, ExactAnswers):
        exact = asked.counts_in_cells(columns, rows)
    else:
        exact = cell_counts(asked, region, columns, rows)
    return fixed_point_laplace(exact * int(FIXED_POINT), scale, rng).reshape(rows, columns)


# Intervals from the histogram.


ROUNDS = 20
_MOST_PER_CENTRE = 1000


def build_grid_intervals(
    points: object,
    *,
    region: Region,
    epsilon: float,
    centres: int | None = None,
    gamma: float = 0.5,
    population: int | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Intervals:
    """Build private intervals from one noisy histogram over a public grid.

    Parameters
    ----------
    points : array-like or ExactAnswers
        One row per person: latitude, longitude. Or an object that answers for all of them.
    region : Region
        Public; everybody must be inside.
    epsilon : float
        What the fit costs each person, added or removed.
    centres, gamma
        Number of intervals (if not given, `centres_for` the number of people), and radius as a share of the distance to
        the nearest other centre.
    population : int, optional
        A public number of people, to size the grid and the number of intervals by. Without it a twentieth of the budget
        buys a noisy count.
    rng : optional
        Secure randomness unless a seed or generator is given.
    progress : callable, optional
        Called with 1 after each round of k-means.
    watch : callable, optional
        Called with each question and its noisy answers.
    """
    asked = as_answers(points, region)
    check_positive(epsilon, "epsilon")
    if centres is not None:
        check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_gamma(gamma)
    check_enough(asked, centres)
    randomness = as_randomness(rng)
    generator = randomness.generator
    grid = noisy_grid(asked, region, epsilon, population, generator, watch)
    # From here on only the noisy answers are looked at.
    number = centres_for(grid.population) if centres is None else centres
    stand_ins = _stand_ins(grid, number, generator)
    found = _k_means(stand_ins, region, number, generator, progress)
    return Intervals(
        region=region,
        centres=found,
        radii=radii_around(found, gamma),
        method="private-grid",
        answers=grid.answers,
        gamma=gamma,
        seeded=randomness.seeded,
        sized_by_people=centres is None,
    )


def _stand_ins(grid: NoisyGrid, centres: int, rng: np.random.Generator) -> FloatArray:
    """Draw made-up people, as many as the histogram shows: uniform within each cell whose count stands out."""
    counts = grid.counts_that_stand_out
    most = _MOST_PER_CENTRE * centres
    if counts.sum() > most:
        # More of them would only take longer. Rounded by chance, or cells with few would have none.
        thinned = counts * (most / counts.sum())
        return grid.uniform_in_cells(np.floor(thinned + rng.random(thinned.shape)).astype(np.int64), rng)
    # Enough of them that every centre finds some, however few people there are.
    share = max(1.0, 20.0 * centres / counts.sum())
    return grid.uniform_in_cells(np.rint(counts * share).astype(np.int64), rng)


def _k_means(
    stand_ins: FloatArray, region: Region, centres: int, rng: np.random.Generator, progress: Progress | None
) -> FloatArray:
    whole = np.rint(stand_ins * FIXED_POINT).astype(np.int64)
    found = redraw_unusable(stand_ins[rng.permutation(len(stand_ins))[:centres]], region, rng)
    for _ in range(ROUNDS):
        sums = cluster_sums(whole, NearestCentre(found))
        occupied = sums[:, 2] > 0
        found[occupied] = sums[occupied, :2] / FIXED_POINT / sums[occupied, 2:]
        found = redraw_unusable(found, region, rng)
        if progress:
            progress(1)
    return found


# Made-up people from the histogram.


MOST_SYNTHETIC = 1_000_000
"""However many the noisy head count says."""


def synthetic_people(
    points: object,
    *,
    region: Region,
    epsilon: float,
    population: int | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
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
        A public number of people, and the number drawn. Without it, the noisy head count is used.
    rng : optional
        Secure randomness unless a seed or generator is given.

    Returns
    -------
    ndarray of shape (n, 2)
        Latitude and longitude, uniform within each cell of the grid whose count stands out of the noise.
    """
    people = region.check(points)
    check_epsilon(epsilon)
    if population is not None:
        check_count(population, "population", least=1, most=MOST_SYNTHETIC)
    generator = as_randomness(rng).generator
    grid = noisy_grid(people, region, epsilon, population, generator)
    # From here on only the noisy answers are looked at.
    counts = grid.counts_that_stand_out
    u = generator.random(min(round(grid.population), MOST_SYNTHETIC))
    drawn = np.bincount(np.searchsorted(np.cumsum(counts)[:-1] / counts.sum(), u, side="right"), minlength=len(counts))
    return region.clip(region.from_square(grid.uniform_in_cells(drawn, generator)))


def synthetic_delta(epsilon: float) -> float:
    """Return the delta of `synthetic_people` without a public number: what the finite range of the noise adds.

    The same sum as for intervals (`Intervals.pure_fit_cost`), over the head count and the histogram.
    """
    parts = (COUNTING_SHARE * epsilon, (1 - COUNTING_SHARE) * epsilon)
    return min(1.0, sum(4 * math.exp(part - EXPONENTIAL_REACH) for part in parts))
