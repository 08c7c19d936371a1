"""Made-up people who live about where the true ones do, at a stated cost."""

from __future__ import annotations

import math

import numpy as np

from nearveil.mechanisms.exponential import REACH
from nearveil.mechanisms.noisy_grid import COUNTING_SHARE, noisy_grid
from nearveil.privacy.guarantee import check_count, check_epsilon
from nearveil.randomness import Randomness, as_randomness
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
    drawn = generator.multinomial(min(round(grid.population), MOST_SYNTHETIC), counts / counts.sum())
    return region.clip(region.from_square(grid.uniform_in_cells(drawn, generator)))


def synthetic_delta(epsilon: float) -> float:
    """Return the delta of `synthetic_people` without a public number: what the exponentials of the noise cannot reach.

    The same sum as for intervals (`Intervals.pure_fit_cost`), over the head count and the histogram.
    """
    parts = (COUNTING_SHARE * epsilon, (1 - COUNTING_SHARE) * epsilon)
    return min(1.0, sum(4 * math.exp(part - REACH) for part in parts))
