"""Steps of planar Laplace noise, compiled: loops that a compiler can turn into instructions on several rows at once.

For that they must not call anything, so logarithm, sine and cosine are written out: the polynomials of fdlibm (Sun
Microsystems, 1993), right to the last bit or two. What is drawn is rounded to a public grid before it is published.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import inlined_kernel, kernel
from nearveil.types import FloatArray, WordArray

_ROWS_AT_ONCE = 128
_UNIT = 2.0**-53
_TWO_PI = 2.0 * math.pi

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
