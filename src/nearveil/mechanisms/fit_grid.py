"""The private grid: one noisy histogram of where users are, over a public grid, and what is made of it.

It is the only look at users that is needed: intervals, by ordinary k-means on what it shows, are post-processing, and
free. The paper's k-means asks for 36 noisy answers per user and drowns in their noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.fit_pic import (
    FIXED_POINT,
    ExactAnswers,
    Watch,
    answers_for_fit,
    fixed_point_laplace,
    head_count,
    redraw_unusable,
)
from nearveil.mechanisms.intervals import Intervals, centres_for
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.privacy.guarantee import check_positive
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress

COUNTING_SHARE = 0.05
"""Share of the budget for a noisy head count."""

_PEOPLE_PER_CELL = 10.0
_MOST_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class NoisyGrid:
    """What may be used openly: noisy counts, shape (rows, columns), and a noisy number of users.

    ``answers`` is what they cost, the histogram last.
    """

    region: Region
    noisy: FloatArray
    users: float
    answers: tuple[LaplaceAnswers, ...]

    @property
    def counts_that_stand_out(self) -> FloatArray:
        """The counts of all cells in a row, 0 where noise alone may have made them; all alike if none stands out."""
        # A count that noise alone would reach in some cell of an empty grid is not a sign of users.
        threshold = self.answers[-1].scale * math.log(self.noisy.size) / 2
        counts: FloatArray = np.where(self.noisy > threshold, self.noisy, 0.0).ravel()
        return counts if counts.sum() > 0 else np.ones(self.noisy.size)

    def uniform_in_cells(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw the given number of points of the square in each cell."""
        rows, columns = self.noisy.shape
        cells = np.repeat(np.arange(len(counts)), counts)
        corner = np.column_stack([cells % columns, cells // columns])
        share = (corner + rng.random(corner.shape)) / [columns, rows]
        return (share * 2 - 1) * np.array(self.region.half_extent_square)


def noisy_grid(asked: ExactAnswers, epsilon: float, rng: np.random.Generator, watch: Watch | None = None) -> NoisyGrid:
    """Spend epsilon on a head count and on a histogram of a grid that is as fine as that many users allow."""
    left = (1 - COUNTING_SHARE) * epsilon
    answers = LaplaceAnswers(1, 1 / (COUNTING_SHARE * epsilon)), LaplaceAnswers(1, 1 / left)
    counted = fixed_point_laplace(head_count(asked), answers[0].scale, rng)
    if watch:
        watch(head_count, counted)
    users = max(float(counted[0]), 1.0)
    columns, rows = _grid_shape(asked.region, users * left / _PEOPLE_PER_CELL)

    def histogram(about: ExactAnswers) -> IntArray:
        return about.counts_in_cells(columns, rows) * int(FIXED_POINT)

    noisy = fixed_point_laplace(histogram(asked), answers[1].scale, rng)
    if watch:
        watch(histogram, noisy)
    return NoisyGrid(asked.region, noisy.reshape(rows, columns), users, answers)


def _grid_shape(region: Region, cells: float) -> tuple[int, int]:
    """Columns and rows of a grid of about ``cells`` square cells."""
    half_width, half_height = region.half_extent_square
    cells = min(max(cells, 4.0), _MOST_CELLS)
    columns = max(1, round(math.sqrt(cells * half_width / half_height)))
    return columns, max(1, round(cells / columns))


# Intervals from the histogram.


ROUNDS = 20
_MOST_PER_CENTRE = 200


def build_grid_intervals(
    points: object,
    *,
    region: Region,
    epsilon: float,
    centres: int | None = None,
    gamma: float = 0.5,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Intervals:
    """Build private intervals from one noisy histogram over a public grid.

    ``points`` has one row per user, latitude and longitude, all in the public ``region``; or it answers for all of them
    (`ExactAnswers`). ``epsilon`` is what the fit costs each user, added or removed. The others are those of
    `nearveil.DPRS`; a twentieth of the budget buys a noisy count of users. ``progress`` is called with 1
    after each round of k-means, and ``watch`` with each question and the noisy answers to it.
    """
    check_positive(epsilon, "epsilon")
    asked = answers_for_fit(points, region, centres, gamma)
    randomness = as_randomness(rng)
    grid = noisy_grid(asked, epsilon, randomness.generator, watch)
    # From here on only the noisy answers are looked at.
    number = centres_for(grid.users) if centres is None else centres
    found = _k_means(_stand_ins(grid, number, randomness.generator), region, number, randomness.generator, progress)
    return Intervals(
        region=region, centres=found, method="private-grid", answers=grid.answers, gamma=gamma, seeded=randomness.seeded
    )


def _stand_ins(grid: NoisyGrid, centres: int, rng: np.random.Generator) -> FloatArray:
    """Draw made-up users, as many as the histogram shows: uniform within each cell whose count stands out."""
    counts = grid.counts_that_stand_out
    # Enough of them that every center finds some, however few users there are; more would only take longer.
    shown = counts.sum()
    counts = counts * (min(max(shown, 20.0 * centres), _MOST_PER_CENTRE * centres) / shown)
    # Rounded by chance, or cells with few would have none.
    return grid.uniform_in_cells(np.floor(counts + rng.random(counts.shape)).astype(np.int64), rng)


def _k_means(
    stand_ins: FloatArray, region: Region, centres: int, rng: np.random.Generator, progress: Progress | None
) -> FloatArray:
    whole = np.rint(stand_ins * FIXED_POINT).astype(np.int64)
    found = redraw_unusable(stand_ins[rng.permutation(len(stand_ins))[:centres]], region, rng)
    for _ in range(ROUNDS):
        sums = NearestCentre(found).sums(whole, 1 / FIXED_POINT)
        occupied = sums[:, 2] > 0
        found[occupied] = sums[occupied, :2] / FIXED_POINT / sums[occupied, 2:]
        found = redraw_unusable(found, region, rng)
        if progress:
            progress(1)
    return found
