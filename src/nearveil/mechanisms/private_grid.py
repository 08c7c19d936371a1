"""Intervals from a private grid: one noisy histogram, then ordinary k-means on what it shows.

The paper's k-means asks for 36 noisy answers per person and drowns in their noise. A histogram is one answer; all
that follows is post-processing of it, and free.
"""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.centres import (
    FIXED_POINT,
    centres_for,
    redraw_unusable,
)
from nearveil.mechanisms.exact_answers import Watch, as_answers, check_enough, cluster_sums
from nearveil.mechanisms.intervals import Intervals, check_gamma, radii_around
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.mechanisms.noisy_grid import NoisyGrid, noisy_grid
from nearveil.mechanisms.pic import MOST_CENTRES
from nearveil.privacy.guarantee import check_count, check_positive
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

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
        One row per person: latitude, longitude. Or whoever can answer for them all.
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
        sums = cluster_sums(whole, nearest_centre_table(found, region.half_extent_square, lookups=len(whole)))
        occupied = sums[:, 2] > 0
        found[occupied] = sums[occupied, :2] / FIXED_POINT / sums[occupied, 2:]
        found = redraw_unusable(found, region, rng)
        if progress:
            progress(1)
    return found
