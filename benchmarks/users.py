"""The synthetic users that comparisons share."""

import functools

import numpy as np

from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
PIECE = 1_000_000


def city_piece(first: int, count: int) -> FloatArray:
    """Return the next locations of a city from ``first`` on, at most a million, the same every time."""
    return synthetic_city(min(PIECE, count - first), REGION, rng=1 + first // PIECE)


@functools.lru_cache(maxsize=2)
def city(count: int) -> FloatArray:
    """Return latitudes and longitudes of a synthetic city."""
    return np.concatenate([city_piece(first, count) for first in range(0, count, PIECE)])
