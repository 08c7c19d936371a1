"""Steps that private interval construction and the private grid share."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.chunks import for_each_slice
from nearveil.mechanisms.exponential import standard_exponential
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

FIXED_POINT = 2.0**20
"""Private sums are taken over whole numbers of 2⁻²⁰, about 2 cm in a city: exact, whatever the order of adding.

Rounded noise on whole numbers equals rounding the noisy sum, so it protects as much as exact Laplace noise, and no
low-order bit of a float can tell more."""


PAPER_CENTRES = 800
"""The paper's m, and the most that are made where no number is given."""

PEOPLE_PER_CENTRE = 20
FEWEST_CENTRES = 2


def centres_for(people: float) -> int:
    """Return how many centres to make where no number is given: one for every 20 people, from 2 to 800.

    The number is published with the centres, so the number of people must be public or noisy.

    Examples
    --------
    >>> centres_for(100), centres_for(1_000), centres_for(25_000)
    (5, 50, 800)
    """
    return int(min(max(people / PEOPLE_PER_CENTRE, FEWEST_CENTRES), PAPER_CENTRES))


def square_in_fixed_point(region: Region, points: FloatArray) -> IntArray:
    """Project points of the region to the square, rounded to whole multiples of 1 / FIXED_POINT."""
    out = np.empty(points.shape, dtype=np.int64)

    def project(part: slice) -> None:
        out[part] = np.rint(region.to_square(points[part]) * FIXED_POINT).astype(np.int64)

    for_each_slice(len(points), project)
    return out


def fixed_point_laplace(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Add Laplace noise of ``scale`` to whole multiples of 1 / FIXED_POINT and return plain numbers."""
    # The difference of two exponentials, each with a long reach: one alone would leave holes between whole numbers.
    pair = standard_exponential(rng, exact.size, 2)
    noise = np.rint(scale * FIXED_POINT * (pair[:, 0] - pair[:, 1])).reshape(exact.shape)
    return (exact + noise) / FIXED_POINT


def uniform_in_region(region: Region, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw points of the square uniformly over the region."""
    return rng.uniform(-1.0, 1.0, (count, 2)) * np.array(region.half_extent_square)


def redraw_unusable(centres: FloatArray, region: Region, rng: np.random.Generator) -> FloatArray:
    """Draw anew, uniformly in the region, every centre that lies outside it or on top of another.

    Moving them to the border instead would pile them up there, with radius 0.
    """
    centres = centres.copy()
    half_extent = np.array(region.half_extent_square)
    while True:
        bad = ~(np.abs(centres) <= half_extent).all(axis=1)
        _, first_of_each = np.unique(centres, axis=0, return_index=True)
        repeated = np.ones(len(centres), dtype=bool)
        repeated[first_of_each] = False
        bad |= repeated
        if not bad.any():
            return centres
        centres[bad] = uniform_in_region(region, int(bad.sum()), rng)
