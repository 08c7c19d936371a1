"""Exponential noise with a long reach and a known end."""

from __future__ import annotations

import math

import numpy as np

from nearveil.types import FloatArray

_TAIL = 2.0**-32

REACH = 85 * math.log(2)
"""The longest draw, in mean lengths; a share of 2⁻⁸⁵ of the law lies beyond."""


def standard_exponential(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Draw exponential noise of mean 1, row by row."""
    return exponential_from_uniforms(rng.random((rows, columns, 2)))


def exponential_from_uniforms(u: FloatArray) -> FloatArray:
    """Turn pairs of uniform numbers of [0, 1), the last axis, into exponential noise of mean 1 by inverse CDF.

    One 53-bit uniform would end at 37 mean lengths and be coarse before that. So the last 2⁻³² of it are spread
    out by a second uniform: the tail of an exponential is that exponential again.
    """
    near = 1.0 - u[..., 0]
    tail: FloatArray = np.where(near < _TAIL, math.log(_TAIL) + np.log1p(-u[..., 1]), np.log(near))
    return -tail
