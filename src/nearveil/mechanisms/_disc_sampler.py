"""Noise confined to the unit disc, with randomness that belongs to rows: the exact rejection sampling of the paper.

A try takes four words of a row's keystream: a proposal t, which is accepted with f(t)/M over what it was proposed by.
Where noise fills the disc, as it does at every usual epsilon, proposals are uniform and do not depend on x, so neither
does the set of what can come out. Where it is narrow, uniform proposals would hardly ever be accepted:

- Around x in the disc or near it, the noise itself is proposed, and accepted in the disc.
- Farther away it hugs the edge around the mode p. At a depth d below the tangent there, both noises have
  f/M <= exp(-d/s): from p to t, |t-x|₁ rises by d / max(|p₁|, |p₂|) at least, and |t-x|₂² by 2 (|x|-1) d. With v along
  the tangent, the disc lies in d >= v²/2. So v is proposed with normal noise of variance s, and d - v²/2 with
  exponential noise of mean s, which together have the density exp(-d/s) there.

At the narrowest noise that can be asked for, an eighth of all tries succeed or more, wherever x is.
The last bits of narrow noise depend on x; what is published is rounded to a public grid.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, log_ratio, mode
from nearveil.randomness import RowKeystream
from nearveil.types import BoolArray, FloatArray, WordArray

_FINE_UNIT = 2.0**-63
# From this scale on, in radii, at least an eighth of uniform proposals are accepted.
_FLAT = 0.6


def sample_disc(noise: int, x: FloatArray, scale: FloatArray, rows: RowKeystream) -> FloatArray:
    """Draw, for every row of ``x``, a point of the unit disc, with noise of its ``scale`` around it."""
    out, pending, block = np.empty_like(x), np.arange(len(x)), 0
    while len(pending):
        some = pending if len(pending) < len(x) else None
        words = np.hstack([rows.blocks(block, some), rows.blocks(block + 1, some)])
        out[pending], accepted = _try_each(noise, x[pending], scale[pending], words)
        pending, block = pending[~accepted], block + 2
    return out


@kernel
def _try_each(noise: int, x: FloatArray, scale: FloatArray, words: WordArray) -> tuple[FloatArray, BoolArray]:
    """Try once for each row; return what was proposed, and for which rows it is accepted."""
    proposed, accepted = np.empty_like(x), np.empty(len(x), dtype=np.bool_)
    for i in range(len(x)):
        t1, t2, log_chance = _propose(noise, x[i, 0], x[i, 1], scale[i], words[i, 0], words[i, 1], words[i, 2])
        accepted[i] = t1 * t1 + t2 * t2 <= 1.0 and math.log(_unit(words[i, 3])) <= log_chance
        proposed[i, 0], proposed[i, 1] = t1, t2
    return proposed, accepted


@kernel
def _unit(word: np.uint64) -> float:
    """A number between 0 and 1 of 63 bits; the small ones, which large noise comes from, are the finest."""
    return (np.float64(word >> np.uint64(1)) + 0.5) * _FINE_UNIT


@kernel
def _propose(
    noise: int, x1: float, x2: float, scale: float, first: np.uint64, second: np.uint64, third: np.uint64
) -> tuple[float, float, float]:
    """Propose a point for the unit disc; return it with the log of the chance to accept it if it is in the disc."""
    u1, u2 = _unit(first), _unit(second)
    distance = math.hypot(x1, x2)
    if scale >= _FLAT * (1.0 if noise == LAPLACE else math.sqrt(max(distance, 1.0))):
        t1, t2 = 2.0 * u1 - 1.0, 2.0 * u2 - 1.0
        return t1, t2, log_ratio(noise, x1, x2, t1, t2, scale)
    p1, p2 = mode(noise, x1, x2)
    if noise == LAPLACE:
        if abs(x1 - p1) + abs(x2 - p2) <= scale:
            return x1 + scale * _laplace(first), x2 + scale * _laplace(second), 0.0
        width = scale * max(abs(p1), abs(p2))
    else:
        length, angle = math.sqrt(-2.0 * math.log(u1)), 2.0 * math.pi * u2
        if distance - 1.0 <= scale:
            return x1 + scale * length * math.cos(angle), x2 + scale * length * math.sin(angle), 0.0
        width = scale * scale / (distance - 1.0)
    across = math.sqrt(-2.0 * width * math.log(u1)) * math.cos(2.0 * math.pi * u2)
    depth = 0.5 * across * across - width * math.log(_unit(third))
    t1, t2 = (1.0 - depth) * p1 - across * p2, (1.0 - depth) * p2 + across * p1
    return t1, t2, log_ratio(noise, x1, x2, t1, t2, scale) + depth / width


@kernel
def _laplace(word: np.uint64) -> float:
    """Laplace noise of scale 1: its sign from the last bit, its size from the others."""
    size = -math.log(_unit(word))
    return size if word & np.uint64(1) else -size
