"""Noise confined to a disc once more, drawn from a NumPy generator: an oracle for the sampler that draws by rows.

Three exact routes, none of which the sampler itself takes in this way:

- *uniform*, the paper's: propose uniformly on the disc, accept with f(t) / M. For flat f.
- *noise*: propose the noise itself (Laplace: cut to the disc's bounding box by inverse CDF) and accept what falls on
  the disc. For narrow f and x in the disc.
- *chord*: draw one coordinate from its marginal law, by an envelope, the other on its chord. For narrow f, x outside.
"""

import math

import numpy as np

from nearveil.evaluation.experiments.figure8 import uniform_route
from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, _find_shoulder, _find_top, half_chord, log_chord_density
from nearveil.types import FloatArray, IntArray


@kernel
def draw_depth(noise: int, first: float, second: float, scale: float, rng: np.random.Generator) -> float:
    """Draw a depth ``w`` from `log_chord_density` by rejection from a flat top with two exponential tails."""
    top, at_top, bound = _find_top(noise, first, second, scale)
    left, at_left = _find_shoulder(noise, first, second, scale, top, at_top, 0.0)
    right, at_right = _find_shoulder(noise, first, second, scale, top, at_top, 2.0)
    left_rate = (at_top - at_left) / (top - left)
    right_rate = (at_top - at_right) / (right - top)
    left_mass = math.exp(at_left - bound) * -math.expm1(-left_rate * left) / left_rate
    right_mass = math.exp(at_right - bound) * -math.expm1(-right_rate * (2.0 - right)) / right_rate
    flat_mass = right - left
    while True:
        pick = rng.random() * (left_mass + flat_mass + right_mass)
        u = rng.random()
        if pick < left_mass:
            gap = -math.log1p(u * math.expm1(-left_rate * left)) / left_rate
            w, ceiling = left - gap, at_left - left_rate * gap
        elif pick < left_mass + flat_mass:
            w, ceiling = left + u * flat_mass, bound
        else:
            gap = -math.log1p(u * math.expm1(-right_rate * (2.0 - right))) / right_rate
            w, ceiling = right + gap, at_right - right_rate * gap
        if np.log(rng.random()) <= log_chord_density(noise, w, first, second, scale) - ceiling:
            return w


@kernel
def draw_depths(
    noise: int, first: float, second: float, scale: float, count: int, rng: np.random.Generator
) -> FloatArray:
    """Draw so many depths."""
    depths = np.empty(count)
    for i in range(count):
        depths[i] = draw_depth(noise, first, second, scale, rng)
    return depths


@kernel
def truncated_laplace(u: float, x: float, low: float, high: float, scale: float) -> float:
    """Inverse CDF of Laplace noise around ``x`` given that it falls into [low, high]."""
    below = max(x - low, 0.0)
    above = max(high - x, 0.0)
    if below == 0.0:
        t = low - scale * math.log1p(u * math.expm1(-(high - low) / scale))
    elif above == 0.0:
        t = high + scale * math.log1p((1.0 - u) * math.expm1(-(high - low) / scale))
    else:
        mass_below = -math.expm1(-below / scale)
        mass_above = -math.expm1(-above / scale)
        pick = u * (mass_below + mass_above)
        t = (
            x + scale * math.log1p(pick - mass_below)
            if pick < mass_below
            else x - scale * math.log1p(mass_below - pick)
        )
    return min(max(t, low), high)


@kernel
def _truncated_normal(sigma: float, half_width: float, rng: np.random.Generator) -> float:
    """Centred normal noise given that it falls into [-half_width, half_width]; at least 0.6 of tries succeed."""
    while True:
        if half_width < sigma:
            t = half_width * (2.0 * rng.random() - 1.0)
            if np.log(rng.random()) <= -t * t / (2.0 * sigma * sigma):
                return t
        else:
            t = sigma * rng.standard_normal()
            if abs(t) <= half_width:
                return t


@kernel
def noise_route(noise: int, x1: float, x2: float, scale: float, rng: np.random.Generator) -> tuple[float, float]:
    """Propose the noise itself, accept what falls on the unit disc; for x in the disc."""
    while True:
        if noise == LAPLACE:
            t1 = truncated_laplace(rng.random(), x1, -1.0, 1.0, scale)
            t2 = truncated_laplace(rng.random(), x2, -1.0, 1.0, scale)
        else:
            t1 = x1 + scale * rng.standard_normal()
            t2 = x2 + scale * rng.standard_normal()
        if t1 * t1 + t2 * t2 <= 1.0:
            return t1, t2


@kernel
def chord_route(noise: int, x1: float, x2: float, scale: float, rng: np.random.Generator) -> tuple[float, float]:
    """Draw one coordinate from its marginal law, the other on its chord; for any x."""
    if noise == LAPLACE:
        # Beyond the disc's bounding box the law no longer changes, so people far away are moved to the box.
        first, second = min(abs(x1), 1.0), min(abs(x2), 1.0)
        w = draw_depth(noise, first, second, scale, rng)
        chord = half_chord(w)
        t2 = truncated_laplace(rng.random(), second, -chord, chord, scale)
        return math.copysign(1.0, x1) * (1.0 - w), math.copysign(1.0, x2) * t2
    distance = math.hypot(x1, x2)
    east, north = (x1 / distance, x2 / distance) if distance > 0.0 else (1.0, 0.0)
    w = draw_depth(noise, distance, 0.0, scale, rng)
    along, across = 1.0 - w, _truncated_normal(scale, half_chord(w), rng)
    return along * east - across * north, along * north + across * east


@kernel
def draw_on_unit_disc(noise: int, x1: float, x2: float, scale: float, rng: np.random.Generator) -> tuple[float, float]:
    """Draw one point of the unit disc by the route that suits the scale."""
    distance = math.hypot(x1, x2)
    # Flat enough for the paper's route: f varies over the disc by e^2.8 at most, 0.3 or more are accepted.
    flat = scale >= 1.0 if noise == LAPLACE else scale * scale >= max(distance, 1.0)
    if flat:
        return uniform_route(noise, x1, x2, scale, rng)
    if distance <= 1.0:
        return noise_route(noise, x1, x2, scale, rng)
    return chord_route(noise, x1, x2, scale, rng)


ROUTES = ("uniform", "noise", "chord", "whichever suits")


@kernel
def draw_by_route(
    route: int, noise: int, x1: float, x2: float, scale: float, count: int, rng: np.random.Generator
) -> FloatArray:
    """Draw so many points of the unit disc by a route, given by its place in `ROUTES`."""
    out = np.empty((count, 2))
    for i in range(count):
        if route == 0:
            out[i] = uniform_route(noise, x1, x2, scale, rng)
        elif route == 1:
            out[i] = noise_route(noise, x1, x2, scale, rng)
        elif route == 2:
            out[i] = chord_route(noise, x1, x2, scale, rng)
        else:
            out[i] = draw_on_unit_disc(noise, x1, x2, scale, rng)
    return out


@kernel
def sample_discs(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw, for every row of ``x``, a point of disc ``disc[i]`` with noise of scale ``scales[disc[i]]`` around it."""
    out = np.empty_like(x)
    for i in range(len(x)):
        j = disc[i]
        radius = radii[j]
        t1, t2 = draw_on_unit_disc(
            noise,
            (x[i, 0] - centres[j, 0]) / radius,
            (x[i, 1] - centres[j, 1]) / radius,
            scales[j] / radius,
            rng,
        )
        out[i, 0] = centres[j, 0] + radius * t1
        out[i, 1] = centres[j, 1] + radius * t2
    return out
