"""`sample_discs` once more, in NumPy: the same words, the same decisions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.mechanisms.chords_in_numpy import try_chord

from nearveil.mechanisms._disc_law import LAPLACE
from nearveil.randomness import RowKeystream
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

_UNIT = 2.0**-53
_LATTICE = 2.0**-31
_HALF = 2.0**31 - 0.5
_EDGE = 1.0 + 1e-9

_Proposal = tuple[FloatArray, FloatArray, BoolArray]
_Propose = Callable[[int, FloatArray, FloatArray, FloatArray, WordArray], _Proposal]


def sample_discs(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    rows: RowKeystream,
) -> FloatArray:
    """Draw, for every row of ``x``, a point of disc ``disc[i]`` with noise of scale ``scales[disc[i]]`` around it."""
    out = np.empty_like(x)
    task = noise, x, disc, centres, radii, scales
    far = _far_from_disc(*task)
    for pending, blocks, propose in ((np.flatnonzero(~far), 1, _try), (np.flatnonzero(far), 2, try_chord)):
        number, left = 0, pending
        while len(left):
            words = np.hstack([rows.blocks(number + more, left) for more in range(blocks)])
            left = _try_each(*task, words, left, out, propose)
            number += blocks
    return out


def _far_from_disc(
    noise: int, x: FloatArray, disc: IntArray, centres: FloatArray, radii: FloatArray, scales: FloatArray
) -> BoolArray:
    """Which rows take the chord's route."""
    radius = radii[disc]
    d1, d2 = (x - centres[disc]).T
    reach, squared = _EDGE * radius, d1 * d1 + d2 * d2
    far: BoolArray = (squared > reach * reach) & ~_is_flat(noise, np.sqrt(squared) / radius, scales[disc] / radius)
    return far


def _try_each(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    words: WordArray,
    pending: IntArray,
    out: FloatArray,
    propose: _Propose,
) -> IntArray:
    """Try once for each pending row; return those that are left."""
    own = disc[pending]
    centre, radius = centres[own], radii[own]
    x1, x2 = ((x[pending] - centre) / radius[:, None]).T
    t1, t2, accepted = propose(noise, x1, x2, scales[own] / radius, words)
    out[pending[accepted]] = centre[accepted] + radius[accepted, None] * np.column_stack([t1, t2])[accepted]
    return pending[~accepted]


def _try(noise: int, x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    flat = _is_flat(noise, np.sqrt(x1 * x1 + x2 * x2), scale)
    t1, t2, accepted = np.empty_like(x1), np.empty_like(x2), np.empty(len(x1), dtype=np.bool_)
    for rows, propose in ((flat, _uniform), (~flat, _noise)):
        t1[rows], t2[rows], accepted[rows] = propose(noise, x1[rows], x2[rows], scale[rows], words[rows])
    return t1, t2, accepted


def _is_flat(noise: int, distance: FloatArray, scale: FloatArray) -> BoolArray:
    flat: BoolArray = scale >= 1.0 if noise == LAPLACE else scale * scale >= np.maximum(distance, 1.0)
    return flat


def _uniform(noise: int, x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    t1 = ((words[:, 0] >> np.uint64(32)).astype(np.float64) - _HALF) * _LATTICE
    t2 = ((words[:, 0] & np.uint64(0xFFFFFFFF)).astype(np.float64) - _HALF) * _LATTICE
    below = _log_peak(noise, x1, x2, scale) - _log_noise(noise, t1 - x1, t2 - x2, scale)
    u = _unit(words[:, 1])
    return t1, t2, (t1 * t1 + t2 * t2 <= 1.0) & ((u < 1.0 - below) | (u < np.exp(-below)))


def _noise(noise: int, x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    if noise == LAPLACE:
        t1, t2 = x1 + scale * _laplace(words[:, 0]), x2 + scale * _laplace(words[:, 1])
    else:
        u1, u2 = _unit(words[:, 0]), _unit(words[:, 1])
        length = scale * np.sqrt(-2.0 * np.log1p(-u1))
        t1, t2 = x1 + length * np.cos(2 * np.pi * u2), x2 + length * np.sin(2 * np.pi * u2)
    return t1, t2, t1 * t1 + t2 * t2 <= 1.0


def _unit(words: WordArray) -> FloatArray:
    uniforms: FloatArray = (words >> np.uint64(11)).astype(np.float64) * _UNIT
    return uniforms


def _log_noise(noise: int, d1: FloatArray, d2: FloatArray, scale: FloatArray) -> FloatArray:
    if noise == LAPLACE:
        return -(np.abs(d1) + np.abs(d2)) / scale
    return -(d1 * d1 + d2 * d2) / (2.0 * scale * scale)


def _log_peak(noise: int, x1: FloatArray, x2: FloatArray, scale: FloatArray) -> FloatArray:
    if noise == LAPLACE:
        return -_nearest_l1(np.abs(x1), np.abs(x2)) / scale
    beyond = np.maximum(np.hypot(x1, x2) - 1.0, 0.0)
    return -beyond * beyond / (2.0 * scale * scale)


def _nearest_l1(a1: FloatArray, a2: FloatArray) -> FloatArray:
    diagonal = np.sqrt(0.5)
    cases = [a1 * a1 + a2 * a2 <= 1.0, (a1 >= diagonal) & (a2 >= diagonal), a1 < diagonal]
    along_second = a2 - np.sqrt(np.maximum(1.0 - a1 * a1, 0.0))
    along_first = a1 - np.sqrt(np.maximum(1.0 - a2 * a2, 0.0))
    return np.select(cases, [np.zeros_like(a1), a1 + a2 - 2.0 * diagonal, along_second], along_first)


def _laplace(words: WordArray) -> FloatArray:
    """Laplace noise of scale 1."""
    size = -np.log(((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63)
    noise: FloatArray = np.where(words & np.uint64(1), size, -size)
    return noise
