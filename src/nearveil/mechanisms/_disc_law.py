"""The exact law of noise confined to a disc: f(t) / Z for |t - c| <= R.

Laplace noise has f(t) = exp(-|t - x|₁ / λ), Gaussian noise exp(-|t - x|₂² / (2 σ²)). All is said for the unit disc
around the origin, with ``scale``, λ or σ, in units of the radius: f and its largest value on the disc, the law of one
coordinate, the density with its constant, and the expected displacement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray

LAPLACE = 0
GAUSSIAN = 1
NOISE_CODES = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


@kernel
def nearest_l1_to_unit_disc(a1: float, a2: float) -> float:
    """L1 distance from (a1, a2), both at least 0, to the unit disc around the origin."""
    if a1 * a1 + a2 * a2 <= 1.0:
        return 0.0
    diagonal = math.sqrt(0.5)
    if a1 >= diagonal and a2 >= diagonal:
        return a1 + a2 - 2.0 * diagonal
    if a1 < diagonal:
        return a2 - math.sqrt(1.0 - a1 * a1)
    return a1 - math.sqrt(1.0 - a2 * a2)


@kernel
def log_peak(noise: int, x1: float, x2: float, scale: float) -> float:
    """Return ln M: the largest ln f on the unit disc, in closed form."""
    if noise == LAPLACE:
        return -nearest_l1_to_unit_disc(abs(x1), abs(x2)) / scale
    beyond = max(math.hypot(x1, x2) - 1.0, 0.0)
    return -beyond * beyond / (2.0 * scale * scale)


@kernel
def log_noise(noise: int, d1: float, d2: float, scale: float) -> float:
    """Return ln f at a distance of (d1, d2) from x."""
    if noise == LAPLACE:
        return -(abs(d1) + abs(d2)) / scale
    return -(d1 * d1 + d2 * d2) / (2.0 * scale * scale)


# The law of one coordinate: that of the depth below the edge.
#
# A point of the unit disc is (1 - w, v) with 0 <= w <= 2 and |v| at most the half chord sqrt(w (2 - w)). Summed over
# the chord, both noises leave a log-concave density of w. A concave function lies below the line through any two of its
# points outside them, which finds its top and how far it reaches, whatever the scale. (Counting from the edge and not
# from the centre keeps the digits for people far away, whose noise hugs the edge.)


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


# Density and expected displacement, by quadrature.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# A point drawn on the very edge may come out of rounding just beyond it.
_EDGE = 1.0 + 1e-9


def log_density(noise: int, x: FloatArray, t: FloatArray, scale: float | FloatArray) -> FloatArray:
    """Log density at ``t`` of noise around ``x`` on the unit disc; -inf outside it.

    ``x`` and ``t`` have two columns in their last axis and are broadcast against each other; ``scale`` goes with x.
    """
    x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), x.shape[:-1])
    inside = (t * t).sum(axis=-1) <= _EDGE
    needed = _any_for_each(inside, x.shape[:-1])
    masses = np.zeros(x.shape[:-1])
    masses[needed] = _log_chord_masses(noise, x[needed], scales[needed])
    shape = np.broadcast_shapes(inside.shape, masses.shape)
    found: FloatArray = _log_densities(
        noise, *(np.broadcast_to(one, (*shape, 2)).reshape(-1, 2) for one in (x, t)),
        *(np.broadcast_to(one, shape).reshape(-1) for one in (scales, masses)),
    ).reshape(shape)  # fmt: skip
    return found


@kernel
def _log_densities(noise: int, x: FloatArray, t: FloatArray, scales: FloatArray, masses: FloatArray) -> FloatArray:
    out = np.full(len(x), -np.inf)
    for i in range(len(x)):
        if t[i, 0] * t[i, 0] + t[i, 1] * t[i, 1] <= _EDGE:
            out[i] = _log_density_inside(noise, x[i, 0], x[i, 1], t[i, 0], t[i, 1], scales[i]) - masses[i]
    return out


@kernel
def _log_density_inside(noise: int, x1: float, x2: float, t1: float, t2: float, scale: float) -> float:
    """Log density at a point of the disc, before the mass of the chord law is taken off."""
    if noise == LAPLACE:
        # Beyond the disc's bounding box the law does not change any more.
        away = abs(t1 - min(max(x1, -1.0), 1.0)) + abs(t2 - min(max(x2, -1.0), 1.0))
        return -away / scale - math.log(scale)
    distance = math.hypot(x1, x2)
    along = (t1 * x1 + t2 * x2) / distance if distance > 0.0 else 0.0
    # |t-x|² - (|x|-1)², written so that it keeps its digits for x far away.
    square = t1 * t1 + t2 * t2 - 1.0 + 2.0 * distance * (1.0 - along)
    return -square / (2.0 * scale * scale) - math.log(scale * math.sqrt(2.0 * math.pi))


@dataclass(frozen=True, slots=True, eq=False)
class DiscDensities:
    """Log densities of noise confined to discs, each around an x of its own; asked about many t, it remembers masses.

    Attributes
    ----------
    noise : int
        LAPLACE or GAUSSIAN.
    x : ndarray of shape (n, 2)
        What the noise is around, in units of its disc and from its centre.
    centres, radii : ndarray of shape (n, 2) and (n,)
        The disc of each x.
    scales : ndarray of shape (n,)
        In units of the disc.
    """

    noise: int
    x: FloatArray
    centres: FloatArray
    radii: FloatArray
    scales: FloatArray
    _masses: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_masses", np.full(len(self.x), np.nan))

    def __call__(self, t: FloatArray) -> FloatArray:
        """Return log densities at ``t``, shape (m, 2), per unit of its frame: shape (n, m)."""
        found: FloatArray = _log_densities_on_discs(
            self.noise, self.x, self.centres, self.radii, self.scales, self._masses, np.ascontiguousarray(t)
        )
        return found


@kernel
def _log_densities_on_discs(
    noise: int, x: FloatArray, centres: FloatArray, radii: FloatArray, scales: FloatArray, masses: FloatArray,
    t: FloatArray,
) -> FloatArray:  # fmt: skip
    """Log densities for all pairs; masses that are not known yet (nan) are computed where they are needed."""
    out = np.full((len(x), len(t)), -np.inf)
    for i in range(len(x)):
        radius = radii[i]
        reach = _EDGE * radius * radius
        for j in range(len(t)):
            d1, d2 = t[j, 0] - centres[i, 0], t[j, 1] - centres[i, 1]
            if d1 * d1 + d2 * d2 <= reach:
                if np.isnan(masses[i]):
                    masses[i] = _log_chord_mass(noise, x[i, 0], x[i, 1], scales[i])
                inside = _log_density_inside(noise, x[i, 0], x[i, 1], d1 / radius, d2 / radius, scales[i])
                out[i, j] = inside - masses[i] - 2.0 * math.log(radius)
    return out


def _any_for_each(inside: BoolArray, shape: tuple[int, ...]) -> BoolArray:
    """For each x, whether any t that it is broadcast against lies inside: the mass of others is not needed."""
    whole = np.broadcast_shapes(inside.shape, shape)
    own = (1,) * (len(whole) - len(shape)) + shape
    repeated = tuple(axis for axis, size in enumerate(own) if size == 1 and whole[axis] != 1)
    found: BoolArray = np.broadcast_to(inside, whole).any(axis=repeated, keepdims=True).reshape(shape)
    return found


@kernel
def _folded(noise: int, x1: float, x2: float) -> tuple[float, float]:
    """The two numbers by which the chord law knows x."""
    if noise == LAPLACE:
        return min(abs(x1), 1.0), min(abs(x2), 1.0)
    return math.hypot(x1, x2), 0.0


@kernel
def _log_chord_masses(noise: int, x: FloatArray, scales: FloatArray) -> FloatArray:
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = _log_chord_mass(noise, x[i, 0], x[i, 1], scales[i])
    return out


@kernel
def _log_chord_mass(noise: int, x1: float, x2: float, scale: float) -> float:
    first, second = _folded(noise, x1, x2)
    depths, weights = _depth_rule(noise, first, second, scale)
    logs = np.array([log_chord_density(noise, w, first, second, scale) for w in depths])
    top = logs.max()
    return top + math.log((weights * np.exp(logs - top)).sum())


@kernel
def _depth_rule(noise: int, first: float, second: float, scale: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for an integral over the depth, concentrated around the law's mode.

    In the angle φ with w = 1 - cos φ the chord is sin φ, so that the square root at the ends disappears.
    """
    top, left, right = locate(noise, first, second, scale)
    # Kinks: where the depth passes x and, for Laplace, where the chord's end does.
    cuts = [0.0, math.pi, math.acos(min(first, 1.0))]
    if noise == LAPLACE:
        cuts.append(math.asin(second))
        cuts.append(math.pi - math.asin(second))
    for start, width in ((top, top - left), (top, right - top)):
        reach = 0.25 * width
        while reach < 2.0:
            for w in (start - reach, start + reach):
                if 0.0 < w < 2.0:
                    cuts.append(2.0 * math.asin(math.sqrt(0.5 * w)))
            reach *= 2.0
    edges = np.array(sorted(cuts))
    angles, weights = _composite(edges)
    # 1 - cos φ as 2 sin²(φ/2) keeps small depths exact.
    return 2.0 * np.sin(0.5 * angles) ** 2, weights * np.sin(angles)


@kernel
def _composite(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sixteen Gauss-Legendre nodes between every two neighbouring edges."""
    count = len(_NODES)
    nodes = np.empty((len(edges) - 1) * count)
    weights = np.empty_like(nodes)
    for i in range(len(edges) - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        nodes[i * count : (i + 1) * count] = edges[i] + half * (1.0 + _NODES)
        weights[i * count : (i + 1) * count] = half * _WEIGHTS
    return nodes, weights
