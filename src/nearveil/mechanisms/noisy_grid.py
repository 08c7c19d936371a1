"""One noisy histogram of where people are, over a public grid: the only look at them that is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.centres import FIXED_POINT, fixed_point_laplace
from nearveil.mechanisms.exact_answers import ExactAnswers, PlacesInMemory, Watch, cell_counts, head_count
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

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
        # A count that noise alone would reach in some cell of an empty grid is no sign of people.
        threshold = self.answers[-1].scale * math.log(self.noisy.size) / 2
        counts: FloatArray = np.where(self.noisy > threshold, self.noisy, 0.0).ravel()
        return counts if counts.sum() > 0 else np.ones(self.noisy.size)

    def uniform_in_cells(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw so many points of the square in each cell."""
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
    """Columns and rows of about so many square cells."""
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
