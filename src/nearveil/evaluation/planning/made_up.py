"""Made-up users from one noisy histogram, for plans that must not look at true ones."""

from __future__ import annotations

import math

import numpy as np

from nearveil.mechanisms.fit_grid import COUNTING_SHARE, noisy_grid
from nearveil.mechanisms.fit_pic import PlacesInMemory
from nearveil.privacy.guarantee import check_count, check_epsilon
from nearveil.randomness import EXPONENTIAL_REACH, Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray

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
    """Draw made-up users who live about where the true ones do: latitude and longitude, shape (n, 2).

    They are uniform within each cell of the grid whose count stands out of the noise. Whatever is done with them
    afterwards costs the true users nothing more than ``epsilon``, for one of them more or less; another location of one
    of them counts twice. The parameters are those of `build_grid_intervals`; there are as many as ``population``, or as
    the noisy head count.
    """
    users = region.check(points)
    check_epsilon(epsilon)
    if population is not None:
        check_count(population, "population", least=1, most=MOST_SYNTHETIC)
    generator = as_randomness(rng).generator
    grid = noisy_grid(PlacesInMemory(users, region), epsilon, population, generator)
    # From here on only the noisy answers are looked at.
    counts = grid.counts_that_stand_out
    u = generator.random(min(round(grid.population), MOST_SYNTHETIC))
    drawn = np.bincount(np.searchsorted(np.cumsum(counts)[:-1] / counts.sum(), u, side="right"), minlength=len(counts))
    return region.clip(region.from_square(grid.uniform_in_cells(drawn, generator)))


def synthetic_delta(epsilon: float) -> float:
    """Return the delta of `synthetic_people` without a public number: what the finite range of the noise adds.

    The same sum as for intervals (`Intervals.fit_cost`), over the head count and the histogram.
    """
    parts = (COUNTING_SHARE * epsilon, (1 - COUNTING_SHARE) * epsilon)
    return min(1.0, sum(4 * math.exp(part - EXPONENTIAL_REACH) for part in parts))
