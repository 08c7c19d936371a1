"""Noise confined to discs, drawn with randomness that belongs to rows, exactly and fast at every scale.

Each try of a row takes one block of its keystream, two words:

- *uniform*, for flat noise: both coordinates from one word, on a lattice of 2⁻³¹ radii that does not depend on x, and
  the decision from the other. Pairs that miss the disc are tried again, which is quicker than sines and roots.
- *noise*, for narrow noise and x in the disc: a coordinate from each word; what misses the disc is tried again, of
  Laplace noise at most 0.8 wherever x is. (Cutting it to the disc's box first would waste less, and take longer: six
  logarithms and exponentials a try instead of two.) The last bits of these numbers depend on x, so what is published is
  rounded to a public grid.
- *chord*, for narrow noise and x outside: `keyed_chords`, two blocks a try.
"""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms.chord_law import LAPLACE
from nearveil.mechanisms.disc_sampler import log_noise, log_peak
from nearveil.mechanisms.keyed_chords import draw_far_rows
from nearveil.randomness import AT_ONCE, HAS_AES, ROUND_KEY_WORDS, NumberedRows, RowKeystream
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

if HAS_AES:
    from nearveil.randomness import blocks_of_rows, expand_key

UNIT = 2.0**-53
LATTICE = 2.0**-31
FINE_UNIT = 2.0**-63

_TWO_PI = 2.0 * math.pi
# What stays in the nearest cache while it is tried again and again.
_ROWS_AT_A_TIME = 1024
_HALF = 2.0**31 - 0.5
# Who was moved to the edge of the disc is on it, whatever rounding says; noise around them hits it often enough.
EDGE = 1.0 + 1e-9


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
    far = _beyond_noise(noise, x, disc, centres, radii, scales)
    if far.any():
        draw_far_rows(noise, x, disc, centres, radii, scales, rows, np.flatnonzero(far), out)
    if HAS_AES and isinstance(rows, NumberedRows):
        _draw_numbered(noise, x, disc, centres, radii, scales, rows.key_words, np.uint64(rows.first), far, out)
        return out
    pending: IntArray = np.flatnonzero(~far)
    for number in count():
        if not len(pending):
            return out
        words = rows.blocks(number, pending if len(pending) < len(x) else None)
        pending = pending[: try_each(noise, x, disc, centres, radii, scales, words, pending, out)]
    return out


@kernel
def is_flat(noise: int, distance: float, scale: float) -> bool:
    """Whether noise varies over the unit disc so little that uniform proposals will do: by e^2.8 at most."""
    return scale >= 1.0 if noise == LAPLACE else scale * scale >= max(distance, 1.0)


@kernel
def try_each(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    words: WordArray,
    pending: IntArray,
    out: FloatArray,
) -> int:
    """Try once for each pending row; return how many are left, which are moved to the front."""
    left = 0
    for place in range(len(pending)):
        i = pending[place]
        j = disc[i]
        radius, centre_1, centre_2 = radii[j], centres[j, 0], centres[j, 1]
        x1, x2 = (x[i, 0] - centre_1) / radius, (x[i, 1] - centre_2) / radius
        t1, t2, accepted = _try(noise, x1, x2, scales[j] / radius, words[place, 0], words[place, 1])
        # Written in any case: what is not accepted is overwritten by a later try, and no branch is guessed wrong.
        out[i, 0] = centre_1 + radius * t1
        out[i, 1] = centre_2 + radius * t2
        pending[left] = i
        left += 0 if accepted else 1
    return left


@kernel
def _draw_numbered(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    key: WordArray,
    first: np.uint64,
    far: BoolArray,
    out: FloatArray,
) -> None:
    """Draw for all rows but those far away, as `try_each` does, with blocks made on the spot."""
    round_keys = np.empty(ROUND_KEY_WORDS, dtype=np.uint64)
    expand_key(key, round_keys)
    words = np.empty((AT_ONCE, 2), dtype=np.uint64)
    # Some more than are drawn for at a time, for blocks come in eights. Unsigned: no index is counted from the end.
    pending = np.zeros(_ROWS_AT_A_TIME + AT_ONCE, dtype=np.uint64)
    for begin in range(0, len(x), _ROWS_AT_A_TIME):
        count: Any = 0
        for row in range(begin, min(begin + _ROWS_AT_A_TIME, len(x))):
            pending[count] = np.uint64(row)
            count += 0 if far[row] else 1
        number = 0
        while count > 0:
            left = np.uint64(0)
            for start in range(0, count, AT_ONCE):
                blocks_of_rows(round_keys, np.uint64(number), pending, start, first, words)
                for lane in range(min(AT_ONCE, count - start)):
                    i = pending[start + lane]
                    j = np.uint64(disc[i])
                    radius, centre_1, centre_2 = radii[j], centres[j, 0], centres[j, 1]
                    x1, x2 = (x[i, 0] - centre_1) / radius, (x[i, 1] - centre_2) / radius
                    t1, t2, accepted = _try(noise, x1, x2, scales[j] / radius, words[lane, 0], words[lane, 1])
                    out[i, 0] = centre_1 + radius * t1
                    out[i, 1] = centre_2 + radius * t2
                    pending[left] = i
                    left += np.uint64(0) if accepted else np.uint64(1)
            count = np.int64(left)
            number += 1


@kernel
def _try(noise: int, x1: Any, x2: Any, scale: Any, first: Any, second: Any) -> tuple[Any, Any, Any]:
    if is_flat(noise, math.sqrt(x1 * x1 + x2 * x2), scale):
        t1 = (np.float64(first >> np.uint64(32)) - _HALF) * LATTICE
        t2 = (np.float64(first & np.uint64(0xFFFFFFFF)) - _HALF) * LATTICE
        inside = t1 * t1 + t2 * t2 <= 1.0
        below = log_peak(noise, x1, x2, scale) - log_noise(noise, t1 - x1, t2 - x2, scale)
        u = np.float64(second >> np.uint64(11)) * UNIT
        # 1 - z is at most e^-z, and mostly decides.
        if u < 1.0 - below:
            return t1, t2, inside
        return t1, t2, inside & (u < math.exp(-below))
    if noise == LAPLACE:
        t1, t2 = x1 + scale * _laplace(first), x2 + scale * _laplace(second)
    else:
        u1, u2 = np.float64(first >> np.uint64(11)) * UNIT, np.float64(second >> np.uint64(11)) * UNIT
        length = scale * math.sqrt(-2.0 * math.log1p(-u1))
        t1, t2 = x1 + length * math.cos(_TWO_PI * u2), x2 + length * math.sin(_TWO_PI * u2)
    return t1, t2, t1 * t1 + t2 * t2 <= 1.0


@kernel
def _laplace(word: np.uint64) -> float:
    """Laplace noise of scale 1: its sign from the last bit, its size from the 63 others.

    Large noise comes from small numbers, which are the finest; the largest is 44.
    """
    size = -math.log((np.float64(word >> np.uint64(1)) + 0.5) * FINE_UNIT)
    return size if word & np.uint64(1) else -size


def _beyond_noise(
    noise: int, x: FloatArray, disc: IntArray, centres: FloatArray, radii: FloatArray, scales: FloatArray
) -> BoolArray:
    """Which rows lie outside a disc that their narrow noise would hardly ever hit."""
    if noise == LAPLACE and (scales >= radii).all():
        return np.zeros(len(x), dtype=np.bool_)
    far: BoolArray = far_from_disc(noise, x, disc, centres, radii, scales)
    return far


@kernel
def far_from_disc(
    noise: int, x: FloatArray, disc: IntArray, centres: FloatArray, radii: FloatArray, scales: FloatArray
) -> BoolArray:
    """Which rows take the chord's route."""
    far = np.empty(len(x), dtype=np.bool_)
    for i in range(len(x)):
        j = disc[i]
        d1, d2 = x[i, 0] - centres[j, 0], x[i, 1] - centres[j, 1]
        reach = EDGE * radii[j]
        far[i] = d1 * d1 + d2 * d2 > reach * reach and not is_flat(
            noise, math.sqrt(d1 * d1 + d2 * d2) / radii[j], scales[j] / radii[j]
        )
    return far
