"""The made-up people that comparisons share."""

import functools

import numpy as np

from nearveil import named_region
from nearveil.io.synthetic import synthetic_city
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
_PIECE = 1_000_000


@functools.lru_cache(maxsize=2)
def people_in_degrees(count: int) -> FloatArray:
    """Return places of a made-up city, the same every time."""
    return np.concatenate([city_piece(first, count) for first in range(0, count, _PIECE)])


def city_piece(first: int, count: int) -> FloatArray:
    """Return the next places from ``first`` on, at most a million."""
    return synthetic_city(min(_PIECE, count - first), REGION, rng=1 + first // _PIECE)


def in_disc(radius: float, count: int) -> FloatArray:
    """Points uniform on the disc around the origin."""
    rng = np.random.default_rng(1)
    return radius * np.sqrt(rng.random(count))[:, None] * _unit_vectors(2 * np.pi * rng.random(count))


def on_ring(count: int) -> FloatArray:
    """Points around the unit circle."""
    return _unit_vectors(np.linspace(0, 2 * np.pi, count))


def _unit_vectors(angle: FloatArray) -> FloatArray:
    return np.column_stack([np.cos(angle), np.sin(angle)])
