"""Noise and resample, compiled: noise, again and again, until the result lies in the disc.

The law is that of `nearveil.mechanisms._disc_sampler`; the time it takes has no bound.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.errors import UsageError
from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, NOISE_CODES
from nearveil.privacy.accounting import Noise
from nearveil.types import FloatArray

MOST_TRIES = 10_000_000


def noise_and_resample(
    x: FloatArray,
    *,
    centre: tuple[float, float],
    radius: float,
    scale: float,
    noise: Noise,
    rng: np.random.Generator,
    most_tries: int = MOST_TRIES,
) -> tuple[FloatArray, int]:
    """Return a point of the disc for every row of ``x``, and how many tries that took in all.

    Raises
    ------
    UsageError
        If a single row takes more than ``most_tries``.
    """
    drawn, tries = _resample(NOISE_CODES[noise], x, *centre, radius, scale, most_tries, rng)
    if np.isnan(drawn).any():
        raise UsageError(f"noise and resample gave up on a row after {most_tries:,} tries; use a larger scale or disc")
    return drawn, int(tries)


@kernel
def _resample(
    noise: int,
    x: FloatArray,
    centre_x: float,
    centre_y: float,
    radius: float,
    scale: float,
    most_tries: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    out = np.full(x.shape, np.nan)
    tries = 0
    for i in range(len(x)):
        for _ in range(most_tries):
            tries += 1
            if noise == LAPLACE:
                t1 = x[i, 0] + scale * (math.log1p(-rng.random()) - math.log1p(-rng.random()))
                t2 = x[i, 1] + scale * (math.log1p(-rng.random()) - math.log1p(-rng.random()))
            else:
                t1 = x[i, 0] + scale * rng.standard_normal()
                t2 = x[i, 1] + scale * rng.standard_normal()
            if (t1 - centre_x) ** 2 + (t2 - centre_y) ** 2 <= radius * radius:
                out[i, 0], out[i, 1] = t1, t2
                break
    return out, tries
