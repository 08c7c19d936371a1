"""The exact law of noise confined to a disc: f(t) / Z for |t - c| <= R.

Laplace noise has f(t) = exp(-|t - x|₁ / λ), Gaussian noise exp(-|t - x|₂² / (2 σ²)). All is said for the unit disc
around the origin, with ``scale``, λ or σ, in units of the radius: where f is largest on the disc, how far it has
dropped elsewhere, the law of one coordinate, and the density with its constant.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel
from nearveil.types import FloatArray

LAPLACE = 0
GAUSSIAN = 1
NOISE_CODES = {"laplace": LAPLACE, "gaussian": GAUSSIAN}

_DIAGONAL = math.sqrt(0.5)
# A point drawn on the very edge may come out of rounding just beyond it.
_EDGE = 1.0 + 1e-9


@kernel
def mode(noise: int, x1: float, x2: float) -> tuple[float, float]:
    """Return where f is largest on the unit disc: the point nearest to x, for Laplace noise in the L1 distance."""
    if x1 * x1 + x2 * x2 <= 1.0:
        return x1, x2
    if noise == GAUSSIAN:
        distance = math.hypot(x1, x2)
        return x1 / distance, x2 / distance
    p1, p2 = min(abs(x1), _DIAGONAL), min(abs(x2), _DIAGONAL)
    if p1 < _DIAGONAL:
        p2 = math.sqrt(1.0 - p1 * p1)
    elif p2 < _DIAGONAL:
        p1 = math.sqrt(1.0 - p2 * p2)
    return math.copysign(p1, x1), math.copysign(p2, x2)


@kernel
def log_ratio(noise: int, x1: float, x2: float, t1: float, t2: float, scale: float) -> float:
    """Return ln f(t)/M at a point of the unit disc, with M the largest value of f there; at most 0."""
    p1, p2 = mode(noise, x1, x2)
    if noise == LAPLACE:
        # Beyond the disc's bounding box the law no longer changes.
        b1, b2 = min(max(x1, -1.0), 1.0), min(max(x2, -1.0), 1.0)
        further = abs(t1 - b1) - abs(p1 - b1) + abs(t2 - b2) - abs(p2 - b2)
        return min(-further / scale, 0.0)
    # |t-x|² - |p-x|², written so that it keeps its digits for x far away.
    further = (t1 - p1) * (t1 + p1 - 2.0 * x1) + (t2 - p2) * (t2 + p2 - 2.0 * x2)
    return min(-further / (2.0 * scale * scale), 0.0)


# The law of one coordinate: that of the depth below the edge.
#
# A point of the unit disc is (1 - w, v) with 0 <= w <= 2 and |v| at most the half chord sqrt(w (2 - w)). Summed over
# the chord, both noises leave a log-concave density of w. (Counting from the edge and not from the center keeps the
# digits for users far away, whose noise hugs the edge.)


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
        GAUSSIAN: ``first`` is x's distance from the center, ``second`` is not used.
    """
    chord = half_chord(w)
    if noise == LAPLACE:
        along = -abs(w - (1.0 - first)) / scale
        if chord <= second:
            return along - (second - chord) / scale + np.log(-math.expm1(-2.0 * chord / scale))
        return along + np.log(-math.expm1(-(second + chord) / scale) - math.expm1(-(chord - second) / scale))
    along = -w * (w + 2.0 * (first - 1.0)) / (2.0 * scale * scale)
    return along + np.log(math.erf(chord / (math.sqrt(2.0) * scale)))


# The density, by quadrature over the depth.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def log_density(
    noise: int, x: FloatArray, t: FloatArray, scale: float | FloatArray, masses: FloatArray | None = None
) -> FloatArray:
    """Log density at ``t`` of noise around ``x`` on the unit disc; -inf outside it.

    ``x`` and ``t`` have two columns in their last axis and are broadcast against each other; ``scale`` goes with x, and
    so do ``masses``, the `log_masses`, which are computed if not given.
    """
    x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), x.shape[:-1])
    masses = log_masses(noise, x, scales) if masses is None else masses
    shape = np.broadcast_shapes(t.shape[:-1], x.shape[:-1])
    out = np.full(shape, -np.inf)
    inside = np.broadcast_to((t * t).sum(axis=-1) <= _EDGE, shape)
    own_x, own_t = (np.broadcast_to(one, (*shape, 2))[inside] for one in (x, t))
    own_scale, own_mass = (np.broadcast_to(one, shape)[inside] for one in (scales, masses))
    out[inside] = _log_ratios(noise, own_x, own_t, own_scale) - own_mass
    return out


def log_masses(noise: int, x: FloatArray, scales: FloatArray) -> FloatArray:
    """Return for each row of ``x`` the log of the integral over the unit disc of f/M."""
    found: FloatArray = _log_masses(noise, x.reshape(-1, 2), np.ravel(scales)).reshape(x.shape[:-1])
    return found


@kernel
def _log_ratios(noise: int, x: FloatArray, t: FloatArray, scales: FloatArray) -> FloatArray:
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = log_ratio(noise, x[i, 0], x[i, 1], t[i, 0], t[i, 1], scales[i])
    return out


@kernel
def _log_masses(noise: int, x: FloatArray, scales: FloatArray) -> FloatArray:
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = _log_mass(noise, x[i, 0], x[i, 1], scales[i])
    return out


@kernel
def _log_mass(noise: int, x1: float, x2: float, scale: float) -> float:
    if noise == LAPLACE:
        first, second = min(abs(x1), 1.0), min(abs(x2), 1.0)
        p1, p2 = mode(noise, first, second)
        # What `log_chord_density` leaves out, and ln M.
        constant = math.log(scale) + (abs(first - p1) + abs(second - p2)) / scale
    else:
        first, second = math.hypot(x1, x2), 0.0
        p1 = min(first, 1.0)
        constant = math.log(scale * math.sqrt(2.0 * math.pi)) - 0.5 * ((1.0 - p1) / scale) ** 2
    angles, weights = _rule(_cuts(noise, first, second, p1, scale))
    # In the angle φ with w = 1 - cos φ the square root at the ends of the chord disappears; 2 sin²(φ/2) is exact.
    depths = 2.0 * np.sin(0.5 * angles) ** 2
    logs = np.array([log_chord_density(noise, w, first, second, scale) for w in depths])
    top = logs.max()
    return constant + top + math.log((weights * np.sin(angles) * np.exp(logs - top)).sum())


@kernel
def _cuts(noise: int, first: float, second: float, top: float, scale: float) -> FloatArray:
    """Angles between which the density of the depth is smooth: its kinks, and ever closer ones around its top."""
    middle = math.acos(top)
    cuts = [0.0, math.pi, middle, math.acos(min(first, 1.0))]
    if noise == LAPLACE:
        cuts.append(math.asin(second))
        cuts.append(math.pi - math.asin(second))
    reach, finest = math.pi, 0.25 * scale / math.sqrt(max(first, 1.0))
    while reach > finest:
        reach *= 0.5
        for angle in (middle - reach, middle + reach):
            if 0.0 < angle < math.pi:
                cuts.append(angle)
    return np.array(sorted(cuts))


@kernel
def _rule(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sixteen Gauss-Legendre nodes, with weights, between every two neighboring edges."""
    start, half = edges[:-1].reshape(-1, 1), 0.5 * np.diff(edges).reshape(-1, 1)
    return (start + half * (1.0 + _NODES)).ravel(), (half * _WEIGHTS).ravel()
