"""Every number on a card, checked against the formula it stands for, and randomness where nobody gave a seed."""

import math

import numpy as np
import pytest

from nearveil import DPRS, SRR, AxisLaplace, PlanarLaplace, Region, Square, build_grid_intervals, build_pic_intervals
from nearveil.mechanisms.fit_pic import FIXED_POINT, fixed_point_laplace
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.mechanisms.releases import losses_by_cell
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import round_up
from nearveil.randomness import EXPONENTIAL_REACH
from nearveil.types import FloatArray


def two_cells(gamma: float = 0.5) -> Intervals:
    """Two discs in the square [-1, 1]²: their cells are its left and its right half."""
    return Intervals(
        region=Region(37.5, -122.6, 37.9, -122.2, scaling="per-axis"),
        centres=np.array([[-0.5, 0.0], [0.5, 0.0]]),
        method="public",
        answers=(),
        gamma=gamma,
        seeded=False,
    )


def largest_loss(intervals: Intervals, scale: float, noise: Noise) -> float:
    return float(losses_by_cell(intervals, cell_polygons(intervals), scale, noise).max())


def test_loss_within_an_interval_by_hand() -> None:
    """Half a square is 1 x 2: L1 diameter 3, diameter sqrt(5)."""
    assert largest_loss(two_cells(), 4.0, "laplace") == pytest.approx(4 * math.sqrt(2) * 0.5 / 4.0)
    assert largest_loss(two_cells(), 4.0, "gaussian") == pytest.approx(2 * 0.5 * math.sqrt(5) / 16.0)
    assert largest_loss(two_cells(gamma=0.8), 4.0, "laplace") == pytest.approx(min(2 * 3, 4 * math.sqrt(2) * 0.8) / 4.0)


def test_epsilons_and_deltas_of_the_rivals() -> None:
    unreached, groups = 2.0**-53 * (1 + math.exp(1.7)), len(SRR(epsilon=1.7, region="san-francisco").channel.weights)
    deltas = {SRR: groups * unreached, Square: 2 * unreached, AxisLaplace: 2 * math.exp(1.7 - EXPONENTIAL_REACH)}
    for kind, delta in deltas.items():
        mechanism = kind(epsilon=1.7, region="san-francisco")
        assert mechanism.guarantee.epsilon == 1.7
        assert mechanism.guarantee.delta == pytest.approx(delta, rel=1e-9, abs=0)
    # With a large epsilon one 53-bit number cannot reach the unlikely answers: delta says so.
    assert [kind(epsilon=46.0, region="san-francisco").guarantee.delta for kind in (SRR, Square)] == [1.0, 1.0]
    planar = PlanarLaplace(noise_m=700).guarantee
    assert planar.epsilon == pytest.approx(2 / 700)
    assert planar.delta == pytest.approx(2 * math.exp(20) * 2.0**-85, rel=1e-9, abs=0)
    assert "up to 7 km apart" in planar.neighbors
    assert math.log(2.0**85) == pytest.approx(EXPONENTIAL_REACH)


def test_cost_of_replacing_somebody_is_twice_that_of_removing(city: FloatArray) -> None:
    promise = DPRS(epsilon=1.0, release="paper", centres=100, region="san-francisco").fit(city).guarantee
    intervals, together, _ = promise.also
    assert intervals.epsilon == pytest.approx(0.64748, abs=1e-4)
    assert together.epsilon == pytest.approx(promise.epsilon + 2 * intervals.epsilon)
    assert together.delta == pytest.approx(2.92e-5, rel=1e-2)
    # With much budget the delta of two steps would be no probability any more: then without delta.
    plenty = DPRS(epsilon=40.0, release="paper", centres=100, region="san-francisco").fit(city)
    together = plenty.guarantee.also[1]
    assert together.epsilon == pytest.approx(plenty.guarantee.epsilon + 2 * 36 / plenty.scales.fit_scale)
    _, unreachable = plenty.intervals_.fit_cost(1e-300)
    pure = 36 / plenty.scales.fit_scale
    assert together.delta == pytest.approx(unreachable * (1 + math.exp(pure)) + plenty.guarantee.delta, rel=1e-9, abs=0)


def test_delta_of_narrow_noise_in_a_disc(city: FloatArray) -> None:
    promise = DPRS(epsilon=20.0, release="paper", centres=12, region="san-francisco").fit(city).guarantee
    assert promise.delta == pytest.approx(2.0**-50 * math.exp(promise.epsilon), rel=1e-9, abs=0)


def test_figures_are_never_rounded_down() -> None:
    for value in (1.29495, 2 / 700, 0.0999, 9.999, 1e-15 * 1.2345, 123.456):
        assert value <= float(round_up(value)) <= 1.01 * value


@pytest.mark.parametrize("build", [build_pic_intervals, build_grid_intervals])
def test_fits_without_a_seed_differ(build: object, san_francisco: Region, city: FloatArray) -> None:
    budget = {"scale": 34.5} if build is build_pic_intervals else {"epsilon": 1.0}
    first, second = (build(city, region=san_francisco, centres=50, **budget) for _ in range(2))  # type: ignore[operator]
    assert not first.seeded
    assert (first.centres != second.centres).any(axis=1).mean() > 0.9


def test_large_releases_without_a_seed_differ_from_each_other_and_from_chunk_to_chunk() -> None:
    """Everybody at one place: any repetition would show."""
    people = np.tile([[37.7, -122.4]], (150_000, 1))
    mechanism = PlanarLaplace(noise_m=5000)
    first, second = mechanism.perturb(people), mechanism.perturb(people)
    chunk = 65_536
    assert (first != second).any(axis=1).mean() > 0.999
    assert (first[:chunk] != first[chunk : 2 * chunk]).any(axis=1).mean() > 0.999
    assert np.abs(first - first.round(6)).max() < 1e-12
    seeded = mechanism.with_params(seed=1).perturb(people)
    assert (seeded[:chunk] != seeded[chunk : 2 * chunk]).any(axis=1).mean() > 0.999


def test_noise_on_private_sums_is_whole_numbers() -> None:
    noisy = fixed_point_laplace(np.zeros((500, 3), dtype=np.int64), 0.37, np.random.default_rng(1)) * FIXED_POINT
    assert (noisy == np.rint(noisy)).all()


def test_points_on_the_very_edge_stay_within_the_square(san_francisco: Region) -> None:
    """The sensitivity of private sums rests on it."""
    beyond = np.array([[37.9 + 9e-10, -122.6 - 9e-10], [37.5 - 9e-10, -122.2 + 9e-10]])
    for region in (san_francisco, san_francisco.with_scaling("per-axis")):
        assert region.contains(beyond).all()
        assert (np.abs(region.to_square(beyond)) <= np.array(region.half_extent_square)).all()
