"""Planar Laplace: geo-indistinguishability, the metric notion (Andrés et al., 2013)."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import (
    NOT_COVERED_BY_METRIC,
    Basis,
    Certificate,
    Guarantee,
    Method,
    Notion,
    check_positive,
)
from nearveil.randomness import EXPONENTIAL_REACH, RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray, WordArray

# Beyond the reach of one of its two exponentials the law comes short; seen by someone up to ten times noise_m
# away, for whom the same place is up to e^20 times likelier.
NUMERICAL_DELTA = 2 * math.exp(20 - EXPONENTIAL_REACH)

DEFAULT_NOISE_M = 500.0
"""How far noise moves people on average where nothing else is asked for."""

_LEAST_NOISE_M = 1.0
LARGEST_NOISE_M = 1e7


class PlanarLaplace(Mechanism):
    """Add planar Laplace noise: density ε² / (2π) exp(-ε d) at distance d.

    Parameters
    ----------
    noise_m : float
        Mean displacement in metres; ε is 2 / noise_m per metre.
    region : Region or str
        Public region; published places are clamped to it, which costs nothing.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> home = [[37.77, -122.42]]
    >>> published = PlanarLaplace(noise_m=500, region="san-francisco", seed=1).perturb(home)
    >>> published.shape
    (1, 2)
    """

    def __init__(
        self,
        *,
        noise_m: float = DEFAULT_NOISE_M,
        region: Region | str = "san-francisco",
        seed: int | None = None,
    ) -> None:
        check_noise_m(noise_m)
        self.noise_m = noise_m
        self.region = region
        self.seed = seed

    @property
    def epsilon_per_m(self) -> float:
        """Privacy loss per metre on the ground."""
        return 2.0 / self.noise_m

    @property
    def mean_noise_m(self) -> float | None:
        """The noise; None in a region so small that moving locations back to its edge changes the mean."""
        return self.noise_m if self.noise_m < min(self.resolved_region.half_extent_m) / 10 else None

    @property
    def rate_per_m(self) -> float:
        """One over the scale of the noise."""
        # The map may stretch distances a little; noise that much wider keeps the promise on the ground.
        return self.epsilon_per_m / self.resolved_region.largest_stretch

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Add a step of Gamma(2, 1/ε) length, the sum of two exponentials, in a uniform direction."""
        return x + planar_steps(rows) / self.rate_per_m

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square metre, before clamping."""
        distance = np.sqrt(((np.asarray(t) - np.asarray(x)) ** 2).sum(axis=-1))
        density: FloatArray = math.log(self.rate_per_m**2 / (2 * math.pi)) - self.rate_per_m * distance
        return density

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide."""
        return self.with_params(noise_m=self.noise_m * factor)

    @property
    def guarantee(self) -> Guarantee:
        """Geo-indistinguishability between all places."""
        return Guarantee(
            title="Every published place",
            notion=Notion.METRIC,
            epsilon=self.epsilon_per_m,
            unit="per metre",
            delta=NUMERICAL_DELTA,
            neighbours=(
                "any two places that one published place may stand for, at a loss of epsilon times their distance on "
                f"the ground (delta is for places up to {10 * self.noise_m / 1000:,.3g} km apart)"
            ),
            promise=(
                f"of two places {self.noise_m:,.6g} m apart, the published place is at most e^2 = 7.4 times "
                "likelier from one than from the other (a loss of 2)"
            ),
            not_covered=NOT_COVERED_BY_METRIC,
            basis=Basis.THEOREM,
            because=(
                "planar Laplace noise, then clamping and rounding to a public grid, which cannot add to the loss; "
                "delta bounds what the finite precision of the noise adds"
            ),
            notes=self._notes(),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        """By the triangle inequality, with equality where the two places and the output lie on a line."""
        return Certificate(
            bound=self.rate_per_m * self.resolved_region.largest_stretch,
            # East and west of the centre, where the projection keeps distances exactly.
            attained=self.rate_per_m,
            first=(0.0, 0.0),
            second=(-min(self.noise_m, self.resolved_region.half_extent_m[0]), 0.0),
            output=(0.0, 0.0),
            frame=self.frame,
            method=Method.CLOSED_FORM,
            how=(
                "the log density falls at one rate with the distance on the map, so the loss is at most that rate "
                "times the distance of two places on the map, which is at most the map's largest stretch times that on "
                "the ground"
            ),
        )


def displaced(x: FloatArray, noise: FloatArray, rate_per_m: float) -> FloatArray:
    """Move every row of ``x`` (metres) by three standard exponentials: two make the length, e^-E the direction.

    The law of `PlanarLaplace.draw` for a running service, whose noise belongs to a key, a person and a place
    (`nearveil.nearby.publishing.keys`).
    """
    length = noise[:, :2].sum(axis=1) / rate_per_m
    angle = 2 * np.pi * np.exp(-noise[:, 2])
    return x + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def check_noise_m(noise_m: float) -> float:
    """Return the distance in metres if noise can be made of it, or say what can be asked for."""
    value = check_positive(noise_m, "the noise")
    if value < _LEAST_NOISE_M:
        raise UsageError("the noise must be at least 1 metre; published places are rounded to 0.11 m")
    if value > LARGEST_NOISE_M:
        raise UsageError("the noise must be at most 10,000 km, half the way around the earth")
    return value


def noise_m_from_epsilon_per_km(epsilon_per_km: float) -> float:
    """Return the noise, in metres, for a loss of ``epsilon_per_km`` per kilometre."""
    return check_noise_m(2000.0 / check_positive(epsilon_per_km, "epsilon per km"))


# Steps of noise of rate 1, from the keystreams of rows: the length is the sum of two exponentials, the direction is
# uniform. One 53-bit number would end an exponential at 37 mean lengths and be coarse before that; so its last 2⁻³² are
# spread out by another number, as in `exponential_from_uniforms`.


_UNIT = 2.0**-53
_TAIL = 2.0**-32
_TWO_PI = 2.0 * math.pi


def planar_steps(rows: RowKeystream) -> FloatArray:
    """Draw a step for every row, shape (n, 2)."""
    lengths, direction = rows.blocks(0), rows.blocks(1)
    steps: FloatArray
    steps, least = steps_compiled(lengths, direction)
    if least >= _TAIL:
        return steps
    in_tail = np.flatnonzero((_near(lengths) < _TAIL).any(axis=1))
    if len(in_tail):
        steps[in_tail] = _steps_in_tail(lengths[in_tail], direction[in_tail], rows.blocks(2, in_tail))
    return steps


def _steps_in_tail(lengths: WordArray, direction: WordArray, further: WordArray) -> FloatArray:
    near = _near(lengths)
    beyond = math.log(_TAIL) + np.log(_near(further))
    length = -np.where(near < _TAIL, beyond, np.log(near)).sum(axis=1)
    return length[:, None] * _unit_vectors(direction)


def _near(words: WordArray) -> FloatArray:
    near: FloatArray = 1.0 - (words >> np.uint64(11)).astype(np.float64) * _UNIT
    return near


def _unit_vectors(direction: WordArray) -> FloatArray:
    angle = _TWO_PI * ((direction[:, 0] >> np.uint64(11)).astype(np.float64) * _UNIT)
    return np.column_stack([np.cos(angle), np.sin(angle)])


# The steps in loops that a compiler can turn into instructions on several rows at once.
#
# For that they must not call anything, so logarithm, sine and cosine are written out: the polynomials of fdlibm (Sun
# Microsystems, 1993), right to the last bit or two. What is drawn is rounded to a public grid before it is published.


_ROWS_AT_ONCE = 128

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXPONENT_SHIFT = 52
_EXPONENT_OF_ONE = 1023
_FRACTION = (1 << 52) - 1
# The bits of sqrt(1/2), cut off: numbers are brought to [sqrt(1/2), sqrt(2)).
_ROOT_BITS = 0x3FE6A09E00000000
_ONE_LESS_ROOT = (1023 << 52) - _ROOT_BITS


@kernel
def steps_compiled(lengths: WordArray, direction: WordArray) -> tuple[FloatArray, float]:
    """Return the steps, and the least of all the numbers whose logarithms make the lengths."""
    steps = np.empty((len(lengths), 2))
    value, power, turns = np.ones(_ROWS_AT_ONCE), np.zeros(_ROWS_AT_ONCE), np.zeros(_ROWS_AT_ONCE)
    east, north = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    bits = value.view(np.int64)
    largest = np.uint64(0)
    for start in range(0, len(lengths), _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, len(lengths) - start)
        for lane in range(count):
            largest = max(largest, lengths[start + lane, 0], lengths[start + lane, 1])
            value[lane] = (1.0 - _unit(lengths[start + lane, 0])) * (1.0 - _unit(lengths[start + lane, 1]))
            turns[lane] = _unit(direction[start + lane, 0])
        for lane in range(count):
            raised = bits[lane] + _ONE_LESS_ROOT
            power[lane] = np.float64((raised >> _EXPONENT_SHIFT) - _EXPONENT_OF_ONE)
            bits[lane] = (raised & _FRACTION) + _ROOT_BITS
        for lane in range(count):
            value[lane] = -_log(value[lane], power[lane])
        for lane in range(count):
            quarters = np.rint(4.0 * turns[lane])
            # Exact: both are multiples of the unit.
            angle = _TWO_PI * (turns[lane] - 0.25 * quarters)
            sine, cosine = _sine(angle), _cosine(angle)
            halves = np.floor(0.5 * quarters)
            aside = quarters - 2.0 * halves > 0.5
            length = -value[lane] if halves == 1.0 else value[lane]
            east[lane] = length * (-sine if aside else cosine)
            north[lane] = length * (cosine if aside else sine)
        for lane in range(count):
            steps[start + lane, 0], steps[start + lane, 1] = east[lane], north[lane]
    return steps, 1.0 - _unit(largest)


@inlined_kernel
def _unit(word: np.uint64) -> float:
    return np.float64(np.int64(word >> np.uint64(11))) * _UNIT


@inlined_kernel
def _log(value: float, power: float) -> float:
    """The logarithm of value times 2^power, with value in [sqrt(1/2), sqrt(2))."""
    f = value - 1.0
    # Unlike the sign, this is not checked for a zero, which would keep rows apart.
    s = np.divide(f, 2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    return s * (half + (odd + even)) + power * _LN2_LOW - half + f + power * _LN2_HIGH


@inlined_kernel
def _sine(x: float) -> float:
    """The sine of an angle of at most pi / 4."""
    z = x * x
    r = 8.33333333332248946124e-03 + z * (
        -1.98412698298579493134e-04
        + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10))
    )
    return x + z * x * (-1.66666666666666324348e-01 + z * r)


@inlined_kernel
def _cosine(x: float) -> float:
    """The cosine of an angle of at most pi / 4."""
    z = x * x
    r = z * (
        4.16666666666666019037e-02
        + z
        * (
            -1.38888888888741095749e-03
            + z
            * (
                2.48015872894767294178e-05
                + z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))
            )
        )
    )
    half = 0.5 * z
    most = 1.0 - half
    return most + (((1.0 - most) - half) + z * r)
