"""Per-axis Laplace, SRR and Square: calibration as defined, losses as promised."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from nearveil.errors import UsageError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.square import Square, square_side
from nearveil.mechanisms.srr import SRR, calibrated_channel, staircase_channel
from nearveil.privacy.guarantee import Basis
from nearveil.randomness import EXPONENTIAL_REACH, numbered_rows, standard_exponential
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.mark.statistical
def test_exponential_has_a_tail_beyond_one_uniform() -> None:
    """The spliced tail is exponential too: of draws beyond 32 ln 2, forced here, the rest is exponential again."""

    class Tail(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> FloatArray:  # type: ignore[override]
            u = super().random(*args, **kwargs)  # type: ignore[call-overload]
            u[..., 0] = 1 - 2.0**-40
            return u  # type: ignore[no-any-return]

    tail = standard_exponential(Tail(np.random.PCG64(1)), 20_000, 1).ravel()
    assert kstest(tail - 32 * math.log(2), "expon").pvalue > 1e-6
    assert tail.max() < EXPONENTIAL_REACH
    plain = standard_exponential(np.random.default_rng(1), 50_000, 2).ravel()
    assert kstest(plain, "expon").pvalue > 1e-6


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


def test_square_sides_of_the_design() -> None:
    assert [round(square_side(epsilon, 1, 1), 3) for epsilon in (0.5, 1, 2, 4, 6)] == [
        0.681,
        0.636,
        0.543,
        0.372,
        0.241,
    ]
    for epsilon in (0.5, 1, 2, 4, 6):
        worst_case = square_side(epsilon, 1, 1, "worst-case")
        assert worst_case == pytest.approx((1 + math.exp(epsilon / 2)) ** -0.5)


def test_square_loses_exactly_epsilon_and_stays_in_the_region(rng: np.random.Generator) -> None:
    mechanism = Square(epsilon=1.5, region="san-francisco")
    half = np.array(mechanism.resolved_region.half_extent_square)
    x, t = rng.uniform(-1, 1, (60, 1, 2)) * half, rng.uniform(-1, 1, (1, 400, 2)) * half
    logs = mechanism.log_density(x, t)
    assert np.isfinite(logs).all()
    assert np.ptp(logs, axis=0).max() == pytest.approx(1.5)


# -- SRR -----------------------------------------------------------------------------------------------------------


def channel_matrix(channel: object) -> FloatArray:
    return np.array([channel.row(cell) for cell in range(len(channel.codes))])  # type: ignore[attr-defined]


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_srr_on_a_full_grid_is_exact_with_c_e_to_the_epsilon(epsilon: float) -> None:
    channel = calibrated_channel(np.arange(4**4), 4, epsilon)
    matrix = channel_matrix(channel)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(256))
    assert channel.worst_case[0] == pytest.approx(epsilon)
    assert channel.weights[0] == pytest.approx(math.exp(epsilon))


def sparse_domain() -> np.ndarray:
    """A coastal strip and an island: groups of very unequal size."""
    rng = np.random.default_rng(4)
    return np.unique(np.concatenate([rng.choice(4**5, 60, replace=False), np.arange(256, 272)]))


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1])
def test_srr_on_a_sparse_domain_overspends_uncalibrated_and_not_calibrated(epsilon: float) -> None:
    codes = sparse_domain()
    # From epsilon = 1.61 on there are two groups, own cell and rest, of the same size everywhere: nothing to overspend.
    naive = staircase_channel(codes, 5, math.exp(epsilon))
    assert naive.worst_case[0] > 1.05 * epsilon
    calibrated = calibrated_channel(codes, 5, epsilon)
    matrix = channel_matrix(calibrated)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(len(codes)))
    brute_force = np.log(matrix.max(axis=0) / matrix.min(axis=0)).max()
    assert brute_force == pytest.approx(calibrated.worst_case[0])
    assert 0.95 * epsilon < brute_force <= epsilon + 1e-12


def test_srr_groups_are_by_common_prefix() -> None:
    """A naive oracle: the number of equal base-4 digits from the front."""
    levels = 3
    channel = staircase_channel(np.arange(4**levels), levels, math.exp(1.0))
    groups = len(channel.weights)
    thresholds = np.rint(np.linspace(levels, 0, groups))

    def common(a: int, b: int) -> int:
        digits = [[(code >> (2 * (levels - 1 - i))) & 3 for i in range(levels)] for code in (a, b)]
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*digits, strict=True)))

    for a, b in itertools.product(range(0, 64, 7), range(64)):
        group = int(np.argmax(common(a, b) >= thresholds))
        assert channel.row(a)[b] == pytest.approx(channel.weights[group] * channel.alpha[a])


def test_srr_with_listed_cells_publishes_only_those(city: FloatArray) -> None:
    land = [(column, row) for column in range(8) for row in range(8) if (3 * column + row) % 5 < 2]
    mechanism = SRR(epsilon=1.0, levels=3, cells=land, seed=1, region="san-francisco")
    half = np.array(mechanism.resolved_region.half_extent_square)
    t = mechanism.draw(mechanism.enter(city), numbered_rows(len(city), 1))
    cells = {tuple(cell) for cell in ((t / half + 1) / 2 * 8).astype(int).tolist()}
    assert cells == set(land)
    assert mechanism.guarantee.basis is Basis.CERTIFICATE
    assert SRR(region="san-francisco").guarantee.basis is Basis.THEOREM


@pytest.mark.parametrize("cells", [[], [(0, 0)], [(0, 0), (9, 0)], [(-1, 0), (0, 0)]])
def test_impossible_cells_are_refused(cells: list[tuple[int, int]]) -> None:
    with pytest.raises(UsageError, match="cells"):
        SRR(levels=3, cells=cells, region="san-francisco")


def test_rounding_is_owned_up_to() -> None:
    """With a large epsilon one 53-bit number cannot reach the unlikely answers: delta says so."""
    assert SRR(epsilon=1.0, region="san-francisco").guarantee.delta < 1e-14
    assert Square(epsilon=1.0, region="san-francisco").guarantee.delta < 1e-14
    assert SRR(epsilon=46.0, region="san-francisco").guarantee.delta == 1.0
    assert Square(epsilon=46.0, region="san-francisco").guarantee.delta == 1.0
