"""Per-axis Laplace and Square: calibration as defined, losses as promised."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.square import Square, square_side
from nearveil.randomness import EXPONENTIAL_REACH, exponential_from_uniforms, numbered_rows
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.mark.statistical
def test_exponential_has_a_tail_beyond_one_uniform() -> None:
    """The spliced tail is exponential too: of draws beyond 32 ln 2, forced here, the rest is exponential again.

    False-alarm rate 1e-6 each.
    """

    class Tail(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> FloatArray:  # type: ignore[override]
            u = super().random(*args, **kwargs)  # type: ignore[call-overload]
            u[..., 0] = 1 - 2.0**-40
            return u  # type: ignore[no-any-return]

    tail = exponential_from_uniforms(Tail(np.random.PCG64(1)).random((20_000, 2))).ravel()
    assert kstest(tail - 32 * math.log(2), "expon").pvalue > 1e-6
    assert tail.max() < EXPONENTIAL_REACH
    plain = exponential_from_uniforms(np.random.default_rng(1).random((100_000, 2))).ravel()
    assert kstest(plain, "expon").pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [AxisLaplace, Square])
@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.7, False), (1.3, False)])
def test_draws_follow_the_density(kind: type[AxisLaplace | Square], factor: float, holds: bool) -> None:
    """Of 100,000 draws each coordinate by Kolmogorov and Smirnov, with a false-alarm rate of 1e-6."""
    mechanism = kind(epsilon=4.0, region="san-francisco")
    half = np.array(mechanism.resolved_region.half_extent_square) * (1 if kind is Square else 20)
    x, steps = np.array([0.3, -0.4]), (np.arange(1000) + 0.5) / 500 - 1
    drawn = mechanism.rescaled(factor).draw(np.tile(x, (100_000, 1)), numbered_rows(100_000, 4))
    density = np.exp(mechanism.log_density(x, np.stack(np.meshgrid(*np.outer(half, steps)), axis=-1)))
    for axis in (0, 1):
        share = np.cumsum(density.sum(axis=axis)) / density.sum()
        law = lambda t, axis=axis, share=share: np.interp(t, half[axis] * (steps + 0.001), share)  # noqa: E731
        assert (kstest(drawn[:, axis], law).pvalue > 1e-6) == holds


# -- per-axis Laplace ----------------------------------------------------------------------------------------------


def test_axis_laplace_is_calibrated_to_the_whole_square() -> None:
    region = Region(37.5, -122.6, 37.9, -122.2, scaling="per-axis")
    mechanism = AxisLaplace(epsilon=2.0, region=region)
    assert mechanism.scale == pytest.approx(4 / 2.0)
    corners = np.array([[-1.0, -1.0], [1.0, 1.0]])
    ratio = mechanism.log_density(corners[0], corners[0]) - mechanism.log_density(corners[1], corners[0])
    assert ratio == pytest.approx(2.0)


# -- Square --------------------------------------------------------------------------------------------------------


def average_squared_error(side: float, epsilon: float, width: float, height: float) -> float:
    """By quadrature over uniform x: a naive oracle for the polynomial's root."""
    area, excess = width * height, math.expm1(epsilon)
    alpha = 1 / (area + excess * side**2)

    def axis(length: float) -> tuple[float, float]:
        everywhere = quad(lambda x: (x**3 + (length - x) ** 3) / 3, 0, length)[0] / length

        def in_square(x: float) -> float:
            low = min(max(x - side / 2, 0), length - side)
            return ((x - low) ** 3 + (low + side - x) ** 3) / 3

        knots = [side / 2, length - side / 2]
        return everywhere, quad(in_square, 0, length, points=knots)[0] / length

    (all_x, near_x), (all_y, near_y) = axis(width), axis(height)
    return alpha * (height * all_x + width * all_y + excess * side * (near_x + near_y))


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1.59, 2.0), (3, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_square_side_makes_the_average_error_least(epsilon: float, width: float, height: float) -> None:
    side = square_side(epsilon, width, height)
    best = average_squared_error(side, epsilon, width, height)
    if side < min(width, height):
        for other in (0.97 * side, 1.03 * side):
            assert average_squared_error(other, epsilon, width, height) > best


def test_square_loses_exactly_epsilon_and_stays_in_the_region(rng: np.random.Generator) -> None:
    mechanism = Square(epsilon=1.5, region="san-francisco")
    half = np.array(mechanism.resolved_region.half_extent_square)
    x, t = rng.uniform(-1, 1, (60, 1, 2)) * half, rng.uniform(-1, 1, (1, 400, 2)) * half
    logs = mechanism.log_density(x, t)
    assert np.isfinite(logs).all()
    assert np.ptp(logs, axis=0).max() == pytest.approx(1.5)
