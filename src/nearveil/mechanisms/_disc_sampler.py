"""Noise confined to discs, drawn with randomness that belongs to rows: exact, and fast at every scale.

Each try of a row takes one block of its keystream, two words, or two blocks:

- *uniform*, for flat noise: both coordinates from one word, on a lattice of 2⁻³¹ radii that does not depend on x, and
  the decision from the other. Pairs that miss the disc are tried again, which is quicker than sines and roots.
- *noise*, for narrow noise and x in the disc: a coordinate from each word; what misses the disc is tried again, of
  Laplace noise at most 0.8 wherever x is. (Cutting it to the disc's box first would waste less, and take longer: six
  logarithms and exponentials a try instead of two.) The last bits of these numbers depend on x, so what is published is
  rounded to a public grid.
- *chord*, for narrow noise and x outside, where noise would hardly ever hit the disc: an envelope, two blocks a try.
"""

from __future__ import annotations

import math
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, log_noise, log_peak
from nearveil.randomness import RowKeystream
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

UNIT = 2.0**-53
LATTICE = 2.0**-31
FINE_UNIT = 2.0**-63

_TWO_PI = 2.0 * math.pi
_HALF = 2.0**31 - 0.5
# A point moved to the edge of the disc counts as on it, despite rounding; noise around it hits the disc often enough.
EDGE = 1.0 + 1e-9


class ConfinedNoise(NamedTuple):
    """What is to be drawn: for every row of ``x``, noise of scale ``scales[disc[i]]``, confined to disc ``disc[i]``."""

    noise: int
    x: FloatArray
    disc: IntArray
    centres: FloatArray
    radii: FloatArray
    scales: FloatArray


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


# Rows far outside their disc: each try takes two blocks of the row's keystream.


def draw_far_rows(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    rows: RowKeystream,
    pending: IntArray,
    out: FloatArray,
) -> None:
    """Draw for the pending rows."""
    for number in count(step=2):
        if not len(pending):
            return
        some = pending if len(pending) < len(x) else None
        words = np.hstack([rows.blocks(number, some), rows.blocks(number + 1, some)])
        pending = pending[: try_each_chord(noise, x, disc, centres, radii, scales, words, pending, out)]


@kernel
def try_each_chord(
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
        first, second, third, fourth = words[place, 0], words[place, 1], words[place, 2], words[place, 3]
        t1, t2, accepted = try_chord(noise, x1, x2, scales[j] / radius, first, second, third, fourth)
        out[i, 0] = centre_1 + radius * t1
        out[i, 1] = centre_2 + radius * t2
        pending[left] = i
        left += 0 if accepted else 1
    return left


# One try around an x far outside the unit disc, from four words: no search, no state.
#
# Envelopes have closed forms, and are so close that some 0.2 of tries or more succeed, however narrow the noise and
# however far away x.
#
# *Laplace.* Mirrored, swapped and moved to the disc's box, x is (low, high) with 0 <= low <= high <= 1. Where the
# first coordinate is t, the chord ends at c(t) = sqrt(1 - t²), and the noise that is left for the second is
# exponential below the chord's end, or on both sides of ``high`` if the chord reaches beyond. Its largest value, times
# that of the first coordinate, is exp(-(|t - low| + max(high - c(t), 0)) / scale): the exponent is concave, has its
# top at min(low, sqrt(1/2)), and where it has dropped by 1 on either side is a root of a quadratic equation. A concave
# function lies below the line through two of its points outside them, so the envelope is flat up to there and
# exponential beyond. What is drawn for the second coordinate then either falls on the chord or the try has failed.
#
# *Gaussian.* In polar coordinates around the centre, the depth below the edge is the tail of a normal variable, drawn
# as C. P. Robert does (an exponential envelope), and the angle a has the density exp(-k (1 - cos a)) up to a constant,
# which lies below exp(-k 2 a² / pi²), that of a normal variable.
#
# No difference of nearly equal numbers is taken but x's own from the edge: noise of 1e-12 radii is drawn as well as
# any.

DIAGONAL = math.sqrt(0.5)
DROPPED = math.exp(-1.0)
# What rounding can put beyond the edge is less.
INWARDS = 1.0 - 2.0**-50


@kernel
def try_chord(
    noise: int, x1: Any, x2: Any, scale: Any, first: Any, second: Any, third: Any, fourth: Any
) -> tuple[Any, Any, Any]:
    """Propose a point of the unit disc from four words; return its coordinates and whether it is accepted."""
    if noise == LAPLACE:
        t1, t2, accepted = _try_laplace(x1, x2, scale, first, second, third, fourth)
    else:
        t1, t2, accepted = _try_gaussian(x1, x2, scale, first, second, third, fourth)
    if t1 * t1 + t2 * t2 > 1.0:
        t1, t2 = INWARDS * t1, INWARDS * t2
    return t1, t2, accepted


@kernel
def _fine_unit(word: Any) -> Any:
    """A number between 0 and 1 of 63 bits; the small ones, which large noise comes from, are the finest."""
    return (np.float64(word >> np.uint64(1)) + 0.5) * FINE_UNIT


@kernel
def _try_laplace(x1: Any, x2: Any, scale: Any, side: Any, far: Any, size: Any, decision: Any) -> tuple[Any, Any, Any]:
    # Beyond the disc's box the law no longer changes.
    a1, a2 = min(abs(x1), 1.0), min(abs(x2), 1.0)
    low, high = min(a1, a2), max(a1, a2)
    top = min(low, DIAGONAL)
    top_chord = math.sqrt((1.0 - top) * (1.0 + top))
    lean, beyond, short = max(top_chord - top, 0.0), low - top, max(high - top_chord, 0.0)
    left, right = _shoulders(scale, top, top_chord, lean, beyond, short)

    # How far from the top, in widths: uniform up to 1 and exponential beyond, which has a share of 1/e of the former.
    pick = _fine_unit(far) * (1.0 + DROPPED)
    widths = pick - DROPPED if pick > DROPPED else -math.log(pick)
    step = -left * widths if _fine_unit(side) * (left + right) < left else right * widths
    t = top + step
    chord = math.sqrt(max((1.0 - t) * (1.0 + t), 0.0))
    # By how much the chord is shorter than at the top, and by how much it reaches beyond x.
    total = top_chord + chord
    shorter = step * (2.0 * top + step) / total
    spare = -shorter - short
    drop = step * (step + shorter - 2.0 * lean) / total + 2.0 * max(step - beyond, 0.0) + max(spare, 0.0)
    # Never above the envelope on the disc; beyond it, anything.
    below = max(drop / scale - (widths if widths > 1.0 else 0.0), 0.0)
    accepted = (abs(t) <= 1.0) & (_fine_unit(decision) < math.exp(-below))
    across, on_chord = _place_on_chord(high, chord, spare, scale, size)
    accepted &= on_chord
    if a1 > a2:
        t, across = across, t
    return math.copysign(1.0, x1) * t, math.copysign(1.0, x2) * across, accepted


@kernel
def _place_on_chord(high: Any, chord: Any, spare: Any, scale: Any, word: Any) -> tuple[Any, Any]:
    """The second coordinate, and whether it is on the chord."""
    length = -scale * math.log(_fine_unit(word))
    # Above x or below it, by the bit that the size leaves; with x beyond the box there is nothing above.
    if high < 1.0 and word & np.uint64(1):
        return high + length, length <= spare
    across = (high if spare > 0.0 else chord) - length
    return across, across >= -chord


@kernel
def _shoulders(scale: Any, top: Any, top_chord: Any, lean: Any, beyond: Any, short: Any) -> tuple[Any, Any]:
    """How far to the left and to the right of the top the exponent has dropped by 1, or the disc ends."""
    both = top + top_chord
    bend = scale * (2.0 * both - scale)
    curved = 0.5 * (scale + bend / (math.sqrt(lean * lean + bend) + lean))
    left = min(curved, short + scale)
    # With x beyond the diagonal, the exponent is smooth at its top, and has a kink at x.
    if beyond > 0.0 and scale <= 2.0 * DIAGONAL - 1.0 and curved - scale <= beyond:
        return left, curved - scale
    most = scale + 2.0 * beyond
    if most > 1.0 + lean:
        return left, 1.0 - top
    bend = most * (2.0 * lean - most)
    return left, 0.5 * (most + bend / (math.sqrt(both * both + bend) + both))


@kernel
def _try_gaussian(
    x1: Any, x2: Any, scale: Any, depth: Any, length: Any, turn: Any, decision: Any
) -> tuple[Any, Any, Any]:
    distance = math.sqrt(x1 * x1 + x2 * x2)
    east, north = x1 / distance, x2 / distance
    # The normal tail from here on, in standard deviations, by an exponential envelope of this rate.
    start = (distance - 1.0) / scale
    rate = 0.5 * (start + math.sqrt(start * start + 4.0))
    deep = -math.log(_fine_unit(depth)) / rate
    radius = 1.0 - scale * deep
    if radius <= 0.0:
        return 0.0, 0.0, False
    normal = math.sqrt(-2.0 * math.log(_fine_unit(length))) * math.cos(_TWO_PI * _fine_unit(turn))
    half_angle = 0.25 * math.pi * scale * normal / math.sqrt(distance * radius)
    sine, cosine = math.sin(half_angle), math.cos(half_angle)
    flatter = sine / half_angle if half_angle != 0.0 else 1.0
    below = 0.5 * (deep - 1.0 / rate) ** 2 + normal * normal * (math.pi * math.pi / 8.0 * flatter * flatter - 0.5)
    accepted = (abs(half_angle) <= 0.5 * math.pi) & (_fine_unit(decision) < math.sqrt(radius) * math.exp(-below))
    along, across = radius * (1.0 - 2.0 * sine * sine), 2.0 * radius * sine * cosine
    return along * east - across * north, along * north + across * east, accepted
