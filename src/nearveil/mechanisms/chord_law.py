"""The law of one coordinate of confined noise.

A point of the unit disc is (1 - w, v) with 0 <= w <= 2 and |v| at most the half chord sqrt(w (2 - w)). Summed over
the chord, both noises leave a log-concave density of w. A concave function lies below the line through any two of
its points outside them, which finds its top and how far it reaches, whatever the scale.

(Counting from the edge, w, and not from the centre keeps the digits for people far away, whose noise hugs the edge.)
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel

LAPLACE = 0
GAUSSIAN = 1

_GOLDEN = 0.381966
# How far below the top the flat part of the envelope ends, in the exponent.
_LEAST_DROP, _MOST_DROP = 0.7, 2.0
# How far the flat part may lie above the true maximum, in the exponent.
_SLACK = 0.05
# More than bisection of a double can need; only rounding ever gets there.
_MOST_STEPS = 300


@kernel
def half_chord(w: float) -> float:
    """Half the chord of the unit disc at depth ``w`` from its edge."""
    return math.sqrt(max(w * (2.0 - w), 0.0))


@kernel
def log_chord_density(noise: int, w: float, first: float, second: float, scale: float) -> float:
    """Log density of the depth ``w``, up to a constant.

    Parameters
    ----------
    noise : int
        LAPLACE: (``first``, ``second``) is x, each coordinate between 0 and 1.
        GAUSSIAN: ``first`` is x's distance from the centre, ``second`` is not used.
    """
    chord = half_chord(w)
    if noise == LAPLACE:
        along = -abs(w - (1.0 - first)) / scale
        if chord <= second:
            return along - (second - chord) / scale + np.log(-math.expm1(-2.0 * chord / scale))
        return along + np.log(-math.expm1(-(second + chord) / scale) - math.expm1(-(chord - second) / scale))
    along = -w * (w + 2.0 * (first - 1.0)) / (2.0 * scale * scale)
    return along + np.log(math.erf(chord / (math.sqrt(2.0) * scale)))


@kernel
def _find_top(noise: int, first: float, second: float, scale: float) -> tuple[float, float, float]:
    """A depth near the mode, the log density there, and an upper bound on it anywhere."""
    low, mid, high = 0.0, 1.0, 2.0
    at_low = at_high = -np.inf
    at_mid = log_chord_density(noise, mid, first, second, scale)
    bound = np.inf
    for _ in range(_MOST_STEPS):
        # The maximum lies between low and high; each outer segment, prolonged, bounds the other side.
        bound = at_mid + max(
            (at_mid - at_low) / (mid - low) * (high - mid), (at_mid - at_high) / (high - mid) * (mid - low)
        )
        if bound - at_mid < _SLACK:
            break
        step_right = high - mid > mid - low
        probe = mid + _GOLDEN * (high - mid) if step_right else mid - _GOLDEN * (mid - low)
        at_probe = log_chord_density(noise, probe, first, second, scale)
        if at_probe > at_mid:
            if step_right:
                low, at_low = mid, at_mid
            else:
                high, at_high = mid, at_mid
            mid, at_mid = probe, at_probe
        elif step_right:
            high, at_high = probe, at_probe
        else:
            low, at_low = probe, at_probe
    return mid, at_mid, bound


@kernel
def _find_shoulder(
    noise: int, first: float, second: float, scale: float, top: float, at_top: float, end: float
) -> tuple[float, float]:
    """A depth between ``top`` and ``end`` where the density has dropped by about e, and its log density."""
    near, far = top, end
    shoulder, at_shoulder = top, at_top
    for _ in range(_MOST_STEPS):
        shoulder = 0.5 * (near + far)
        at_shoulder = log_chord_density(noise, shoulder, first, second, scale)
        drop = at_top - at_shoulder
        if drop < _LEAST_DROP:
            near = shoulder
        elif drop > _MOST_DROP:
            far = shoulder
        else:
            break
    return shoulder, at_shoulder


@kernel
def locate(noise: int, first: float, second: float, scale: float) -> tuple[float, float, float]:
    """A depth near the mode and the two depths where the density has dropped by about e."""
    top, at_top, _ = _find_top(noise, first, second, scale)
    left, _ = _find_shoulder(noise, first, second, scale, top, at_top, 0.0)
    right, _ = _find_shoulder(noise, first, second, scale, top, at_top, 2.0)
    return top, left, right
