"""`try_chord` once more, in NumPy: the same words, the same decisions."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms._disc_law import LAPLACE
from nearveil.mechanisms._disc_sampler import DIAGONAL, DROPPED, FINE_UNIT, INWARDS
from nearveil.types import BoolArray, FloatArray, WordArray

_Proposal = tuple[FloatArray, FloatArray, BoolArray]


def try_chord(noise: int, x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    """Propose a point of the unit disc for each row of four words; return whether each is accepted, too."""
    t1, t2, accepted = (_try_laplace if noise == LAPLACE else _try_gaussian)(x1, x2, scale, words)
    shrink = np.where(t1 * t1 + t2 * t2 > 1.0, INWARDS, 1.0)
    return shrink * t1, shrink * t2, accepted


def _fine_unit(words: WordArray) -> FloatArray:
    uniforms: FloatArray = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * FINE_UNIT
    return uniforms


def _try_laplace(x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    a1, a2 = np.minimum(np.abs(x1), 1.0), np.minimum(np.abs(x2), 1.0)
    low, high = np.minimum(a1, a2), np.maximum(a1, a2)
    top = np.minimum(low, DIAGONAL)
    top_chord = np.sqrt((1.0 - top) * (1.0 + top))
    lean, beyond, short = np.maximum(top_chord - top, 0.0), low - top, np.maximum(high - top_chord, 0.0)
    left, right = _shoulders(scale, top, top_chord, lean, beyond, short)

    pick = _fine_unit(words[:, 1]) * (1.0 + DROPPED)
    widths = np.where(pick > DROPPED, pick - DROPPED, -np.log(pick))
    step = np.where(_fine_unit(words[:, 0]) * (left + right) < left, -left * widths, right * widths)
    t = top + step
    chord = np.sqrt(np.maximum((1.0 - t) * (1.0 + t), 0.0))
    total = top_chord + chord
    shorter = step * (2.0 * top + step) / total
    spare = -shorter - short
    drop = step * (step + shorter - 2.0 * lean) / total + 2.0 * np.maximum(step - beyond, 0.0) + np.maximum(spare, 0.0)
    below = np.maximum(drop / scale - np.where(widths > 1.0, widths, 0.0), 0.0)
    accepted = (np.abs(t) <= 1.0) & (_fine_unit(words[:, 3]) < np.exp(-below))
    across, on_chord = _place_on_chord(high, chord, spare, scale, words[:, 2])
    t1, t2 = np.where(a1 > a2, across, t), np.where(a1 > a2, t, across)
    return np.copysign(1.0, x1) * t1, np.copysign(1.0, x2) * t2, accepted & on_chord


def _place_on_chord(
    high: FloatArray, chord: FloatArray, spare: FloatArray, scale: FloatArray, words: WordArray
) -> tuple[FloatArray, BoolArray]:
    length = -scale * np.log(_fine_unit(words))
    above = (high < 1.0) & ((words & np.uint64(1)) == 1)
    across = np.where(above, high + length, np.where(spare > 0.0, high, chord) - length)
    return across, np.where(above, length <= spare, across >= -chord)


def _shoulders(
    scale: FloatArray, top: FloatArray, top_chord: FloatArray, lean: FloatArray, beyond: FloatArray, short: FloatArray
) -> tuple[FloatArray, FloatArray]:
    both = top + top_chord
    bend = scale * (2.0 * both - scale)
    curved = 0.5 * (scale + bend / (np.sqrt(lean * lean + bend) + lean))
    smooth = (beyond > 0.0) & (scale <= 2.0 * DIAGONAL - 1.0) & (curved - scale <= beyond)
    most = scale + 2.0 * beyond
    bend = most * (2.0 * lean - most)
    # Where the root is not real, the disc ends before.
    kinked = 0.5 * (most + bend / (np.sqrt(np.maximum(both * both + bend, 0.0)) + both))
    right = np.select([smooth, most > 1.0 + lean], [curved - scale, 1.0 - top], kinked)
    return np.minimum(curved, short + scale), right


def _try_gaussian(x1: FloatArray, x2: FloatArray, scale: FloatArray, words: WordArray) -> _Proposal:
    distance = np.sqrt(x1 * x1 + x2 * x2)
    east, north = x1 / distance, x2 / distance
    start = (distance - 1.0) / scale
    rate = 0.5 * (start + np.sqrt(start * start + 4.0))
    deep = -np.log(_fine_unit(words[:, 0])) / rate
    radius = 1.0 - scale * deep
    inside = radius > 0.0
    radius = np.where(inside, radius, 1.0)
    normal = np.sqrt(-2.0 * np.log(_fine_unit(words[:, 1]))) * np.cos(2.0 * np.pi * _fine_unit(words[:, 2]))
    half_angle = 0.25 * np.pi * scale * normal / np.sqrt(distance * radius)
    sine, cosine = np.sin(half_angle), np.cos(half_angle)
    turned = half_angle != 0.0
    flatter = np.where(turned, sine, 1.0) / np.where(turned, half_angle, 1.0)
    below = 0.5 * (deep - 1.0 / rate) ** 2 + normal * normal * (np.pi * np.pi / 8.0 * flatter * flatter - 0.5)
    accepted = inside & (np.abs(half_angle) <= 0.5 * np.pi)
    accepted &= _fine_unit(words[:, 3]) < np.sqrt(radius) * np.exp(-below)
    along, across = radius * (1.0 - 2.0 * sine * sine), 2.0 * radius * sine * cosine
    return along * east - across * north, along * north + across * east, accepted
