"""One try for noise confined to the unit disc around an x far outside it, from four words: no search, no state.

Envelopes have closed forms, and are so close that some 0.2 of tries or
more succeed, however narrow the noise and however far away x.

*Laplace.* Mirrored, swapped and moved to the disc's box, x is (low, high) with 0 <= low <= high <= 1. Where the first
coordinate is t, the chord ends at c(t) = sqrt(1 - t²), and the noise that is left for the second is exponential below
the chord's end, or on both sides of ``high`` if the chord reaches beyond. Its largest value, times that of the first
coordinate, is exp(-(|t - low| + max(high - c(t), 0)) / scale): the exponent is concave, has its top at
min(low, sqrt(1/2)), and where it has dropped by 1 on either side is a root of a quadratic equation. A concave function
lies below the line through two of its points outside them, so the envelope is flat up to there and exponential beyond.
What is drawn for the second coordinate then either falls on the chord or the try has failed.

*Gaussian.* In polar coordinates around the centre, the depth below the edge is the tail of a normal variable, drawn as
C. P. Robert does (an exponential envelope), and the angle a has the density exp(-k (1 - cos a)) up to a constant, which
lies below exp(-k 2 a² / pi²), that of a normal variable.

No difference of nearly equal numbers is taken but x's own from the edge: noise of 1e-12 radii is drawn as well as any.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms.chord_law import LAPLACE

FINE_UNIT = 2.0**-63
DIAGONAL = math.sqrt(0.5)
DROPPED = math.exp(-1.0)
_TWO_PI = 2.0 * math.pi
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
