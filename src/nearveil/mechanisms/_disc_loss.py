"""The largest privacy loss of noise confined to a disc, for places in the disc: a verified upper bound.

On the unit disc D, with Z(x) the integral of exp(-|t-x|₁/s) over t in D, the loss between x and y at the output t is
(|t-y|₁ - |t-x|₁)/s + ln Z(y) - ln Z(x). Three steps make its maximum a question of one angle:

1. |t-y|₁ - |t-x|₁ is at most |x-y|₁, and equal to it at t = x. So the largest loss is the maximum over x and y of
   |x-y|₁/s + ln Z(y) - ln Z(x), which by symmetry is (max G - min G)/s over D with G(x) = x₁ + x₂ - s ln Z(x).
2. s ∂ ln Z/∂xᵢ = E sign(Tᵢ - xᵢ), so ∂G/∂xᵢ = 2 P(Tᵢ < xᵢ), which lies between 0 and 2: G rises along both axes, so its
   maximum lies on the circle around the diagonal direction and its minimum opposite.
3. With ζ(a) = Z at the angle a from a diagonal (the same for all diagonals), the largest loss is
   (max_a [√2 cos a - s ln ζ(a)] + max_a [√2 cos a + s ln ζ(a)])/s, over a from 0 to 45°. The derivative of the first
   bracket is 2 (p₂ cos θ - p₁ sin θ) for probabilities p₁, p₂ and θ = a + 45°, and that of the second is alike: both
   change by at most 2 for each radian, since θ stays between 45° and 90°.

ζ itself is bounded on both sides: its integrand, summed over chords, is log-concave (Prékopa), so it lies above the
line through two neighboring nodes in the logarithm and below the lines of the segments beside.

For Gaussian noise no mesh is needed: the exponent is linear in t, and ln Z(x) + |x|²/(2σ²) is convex and rises with
|x| by less than 1/σ² for each unit. So y lies on the circle, x opposite and as far out as it can, and the largest
loss is 2/σ² exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, log_chord_density
from nearveil.privacy.accounting import Noise
from nearveil.types import FloatArray

_ANGLES = 1000
_NODES = 512
# What the rounding of floating-point numbers may hide, in the exponent.
_ROUNDING = 1e-9
_LIPSCHITZ = 2.0


@dataclass(frozen=True, slots=True)
class DiscLoss:
    """Noise on the unit disc and what it loses between places of the disc.

    Attributes
    ----------
    scale : float
        λ or σ, in units of the radius.
    bound : float
        Verified upper bound on the loss.
    attained : float
        Loss between antipodal points: on a diagonal for Laplace noise, any for Gaussian.
    """

    scale: float
    bound: float
    attained: float


@lru_cache(maxsize=64)
def calibrated_disc_loss(epsilon: float, noise: Noise) -> DiscLoss:
    """Return the narrowest noise found whose verified loss on the disc is at most ``epsilon``.

    Examples
    --------
    >>> found = calibrated_disc_loss(1.0, "laplace")
    >>> found.bound <= 1.0 < 1.001 * found.attained
    True
    """
    if noise == "gaussian":
        return DiscLoss(scale=math.sqrt(2 / epsilon), bound=epsilon, attained=epsilon)
    scale = 2 * math.sqrt(2) / epsilon
    bound = laplace_disc_loss(scale)
    # Not "bound > epsilon": NaN must not pass for a bound.
    while not bound <= epsilon:
        if not bound < 2 * epsilon + 1:
            raise ArithmeticError("the loss on the disc could not be bounded; no release can be made of it")
        # The bound is nearly proportional to 1 / scale, so this is enough at the first or second time.
        scale *= bound / epsilon * (1 + 1e-12)
        bound = laplace_disc_loss(scale)
    return DiscLoss(scale=scale, bound=bound, attained=2 * math.sqrt(2) / scale)


def laplace_disc_loss(scale: float, angles: int = _ANGLES) -> float:
    """Return a verified upper bound on the loss of Laplace noise on the unit disc."""
    step = math.pi / 4 / angles
    middles: FloatArray = (np.arange(angles, dtype=np.float64) + 0.5) * step
    low, high = _log_mass_bounds(middles, scale)
    outwards = math.sqrt(2) * np.cos(middles) - scale * low
    inwards = math.sqrt(2) * np.cos(middles) + scale * high
    return (float(outwards.max()) + float(inwards.max()) + 2 * _LIPSCHITZ * step / 2) / scale + _ROUNDING


@kernel
def _log_mass_bounds(angles: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds on ln ζ, for each angle from a diagonal."""
    low, high = np.empty(len(angles)), np.empty(len(angles))
    for i in range(len(angles)):
        theta = angles[i] + math.pi / 4
        low[i], high[i] = _log_concave_mass(abs(math.cos(theta)), abs(math.sin(theta)), scale)
    return low, high


@kernel
def _log_concave_mass(first: float, second: float, scale: float) -> tuple[float, float]:
    """Bounds on the log of the integral of a log-concave density of the depth, up to a constant.

    Between two nodes the density lies above the exponential through both, and below the exponentials through the
    nodes on either side.
    """
    # Even in the angle of the chord, with the two depths where the law has a kink among the nodes.
    depths = np.empty(_NODES + 2)
    for i in range(_NODES):
        depths[i] = 1.0 - math.cos(math.pi * (i + 0.5) / _NODES)
    depths[_NODES], depths[_NODES + 1] = 1.0 - first, 1.0 + first
    depths.sort()
    logs = np.array([log_chord_density(LAPLACE, w, first, second, scale) for w in depths])
    top = logs.max()
    last = len(depths) - 1
    below = above = 0.0
    for i in range(last):
        width = depths[i + 1] - depths[i]
        if width <= 0.0:
            continue
        below += width * _log_mean(math.exp(logs[i] - top), math.exp(logs[i + 1] - top))
        from_left = _slope(depths, logs, i - 1) if i > 0 else np.inf
        from_right = _slope(depths, logs, i + 1) if i + 1 < last else -np.inf
        above += _under_two_lines(logs[i] - top, from_left, logs[i + 1] - top, from_right, width)
    # Beyond the outer nodes: nothing at least, and at most what the outermost segments' lines leave.
    above += _tail(logs[0] - top, -_slope(depths, logs, 0), depths[0])
    above += _tail(logs[last] - top, _slope(depths, logs, last - 1), 2.0 - depths[last])
    return top + math.log(below), top + math.log(above)


@kernel
def _slope(depths: FloatArray, logs: FloatArray, i: int) -> float:
    """Slope of the segment that begins at node ``i``; of a segment without length, the one that bounds nothing."""
    width = depths[i + 1] - depths[i]
    return (logs[i + 1] - logs[i]) / width if width > 0.0 else np.nan


@kernel
def _log_mean(a: float, b: float) -> float:
    """Mean of the exponential between two values: their logarithmic mean."""
    if abs(a - b) <= 1e-6 * max(a, b):
        # Between the geometric and the arithmetic mean, and equal to both at this precision; the lesser.
        return math.sqrt(a * b)
    return (a - b) / math.log(a / b)


@kernel
def _exponential_area(log_start: float, slope: float, width: float) -> float:
    """Integral of exp(log_start + slope v) over 0 <= v <= width."""
    rise = slope * width
    return math.exp(log_start) * width * (math.expm1(rise) / rise if abs(rise) > 1e-12 else 1.0)


@kernel
def _under_two_lines(at_left: float, slope_left: float, at_right: float, slope_right: float, width: float) -> float:
    """Area under the lesser of two exponentials: one through the left end, one through the right end."""
    no_left = not np.isfinite(slope_left)
    no_right = not np.isfinite(slope_right)
    if no_left and no_right:
        return np.inf
    if no_left:
        return _exponential_area(at_right, -slope_right, width)
    if no_right:
        return _exponential_area(at_left, slope_left, width)
    gap = slope_left - slope_right
    cross = (at_right - slope_right * width - at_left) / gap if gap > 0.0 else width
    cross = min(max(cross, 0.0), width)
    return _exponential_area(at_left, slope_left, cross) + _exponential_area(at_right, -slope_right, width - cross)


@kernel
def _tail(at_end: float, slope_outwards: float, width: float) -> float:
    """Area beyond an outer node, under the line of the segment inside it."""
    return _exponential_area(at_end, slope_outwards, width)
