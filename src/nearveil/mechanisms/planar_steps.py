"""Steps of planar Laplace noise of rate 1, from the keystreams of rows.

The length is the sum of two exponentials, the direction is uniform. One 53-bit number would end an exponential at 37
mean lengths and be coarse before that; so its last 2⁻³² are spread out by another number, as in `exponential`.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.mechanisms.planar_steps_compiled import steps_compiled
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray, WordArray

_UNIT = 2.0**-53
_TAIL = 2.0**-32
_TWO_PI = 2.0 * math.pi


def planar_steps(rows: RowKeystream) -> FloatArray:
    """Draw a step for every row, shape (n, 2)."""
    lengths, direction = rows.blocks(0), rows.blocks(1)
    steps: FloatArray
    steps, least = steps_compiled(lengths, direction)
    if least >= _TAIL:
        return steps
    in_tail = np.flatnonzero((_near(lengths) < _TAIL).any(axis=1))
    if len(in_tail):
        steps[in_tail] = _steps_in_tail(lengths[in_tail], direction[in_tail], rows.blocks(2, in_tail))
    return steps


def _steps_in_tail(lengths: WordArray, direction: WordArray, further: WordArray) -> FloatArray:
    near = _near(lengths)
    beyond = math.log(_TAIL) + np.log(_near(further))
    length = -np.where(near < _TAIL, beyond, np.log(near)).sum(axis=1)
    return length[:, None] * _unit_vectors(direction)


def _near(words: WordArray) -> FloatArray:
    near: FloatArray = 1.0 - (words >> np.uint64(11)).astype(np.float64) * _UNIT
    return near


def _unit_vectors(direction: WordArray) -> FloatArray:
    angle = _TWO_PI * ((direction[:, 0] >> np.uint64(11)).astype(np.float64) * _UNIT)
    return np.column_stack([np.cos(angle), np.sin(angle)])
