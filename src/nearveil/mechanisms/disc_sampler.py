"""Noise confined to a disc: f(t) / Z for |t - c| <= R, with f(t) = exp(-|t - x|₁ / λ) or exp(-|t - x|₂² / (2 σ²)).

Here on the unit disc around the origin: f, and its largest value M on the disc.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nearveil.kernels import kernel
from nearveil.mechanisms.chord_law import GAUSSIAN, LAPLACE
from nearveil.types import FloatArray, IntArray

NOISE_CODES = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


class ConfinedNoise(NamedTuple):
    """What is to be drawn: for every row of ``x``, noise of scale ``scales[disc[i]]``, confined to disc ``disc[i]``."""

    noise: int
    x: FloatArray
    disc: IntArray
    centres: FloatArray
    radii: FloatArray
    scales: FloatArray


@kernel
def nearest_l1_to_unit_disc(a1: float, a2: float) -> float:
    """L1 distance from (a1, a2), both at least 0, to the unit disc around the origin."""
    if a1 * a1 + a2 * a2 <= 1.0:
        return 0.0
    diagonal = math.sqrt(0.5)
    if a1 >= diagonal and a2 >= diagonal:
        return a1 + a2 - 2.0 * diagonal
    if a1 < diagonal:
        return a2 - math.sqrt(1.0 - a1 * a1)
    return a1 - math.sqrt(1.0 - a2 * a2)


@kernel
def log_peak(noise: int, x1: float, x2: float, scale: float) -> float:
    """Return ln M: the largest ln f on the unit disc, in closed form."""
    if noise == LAPLACE:
        return -nearest_l1_to_unit_disc(abs(x1), abs(x2)) / scale
    beyond = max(math.hypot(x1, x2) - 1.0, 0.0)
    return -beyond * beyond / (2.0 * scale * scale)


@kernel
def log_noise(noise: int, d1: float, d2: float, scale: float) -> float:
    """Return ln f at a distance of (d1, d2) from x."""
    if noise == LAPLACE:
        return -(abs(d1) + abs(d2)) / scale
    return -(d1 * d1 + d2 * d2) / (2.0 * scale * scale)
