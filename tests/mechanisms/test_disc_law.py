import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.discs_by_generator import truncated_laplace

from nearveil.evaluation.experiments.figure8 import noise_and_resample
from nearveil.mechanisms._disc_law import (
    GAUSSIAN,
    LAPLACE,
    expected_displacement,
    log_density,
    log_peak,
    nearest_l1_to_unit_disc,
)
from nearveil.mechanisms._disc_sampler import sample_discs
from nearveil.mechanisms.releases import exact_displacement, paper_displacement_bound
from nearveil.randomness import numbered_rows

coordinate = st.floats(-3, 3)

ANGLES = np.linspace(0, 2 * np.pi, 100_001)
CIRCLE = np.cos(ANGLES), np.sin(ANGLES)
RADII, TURNS = np.sqrt((np.arange(900) + 0.5) / 900), 2 * np.pi * (np.arange(360) + 0.5) / 360
DISC = RADII[:, None, None] * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=-1)


@given(x1=coordinate, x2=coordinate)
def test_closed_form_peak_is_the_maximum(x1: float, x2: float) -> None:
    """A naive oracle: the least distance to many points of the circle."""
    l1 = np.abs(CIRCLE[0] - x1) + np.abs(CIRCLE[1] - x2)
    l2 = np.hypot(CIRCLE[0] - x1, CIRCLE[1] - x2)
    inside = math.hypot(x1, x2) <= 1
    assert nearest_l1_to_unit_disc(abs(x1), abs(x2)) == pytest.approx(0 if inside else l1.min(), abs=1e-4)
    assert log_peak(LAPLACE, x1, x2, 0.5) == pytest.approx(0 if inside else -l1.min() / 0.5, abs=1e-4)
    assert log_peak(GAUSSIAN, x1, x2, 0.5) == pytest.approx(0 if inside else -(l2.min() ** 2) / 0.5, abs=1e-4)


@given(x1=coordinate, x2=coordinate, scale=st.floats(0.05, 20), noise=st.sampled_from([LAPLACE, GAUSSIAN]))
def test_density_integrates_to_one(x1: float, x2: float, scale: float, noise: int) -> None:
    """By an independent rule in polar coordinates."""
    total = np.exp(log_density(noise, np.array([x1, x2]), DISC, scale)).mean() * np.pi
    assert total == pytest.approx(1, abs=0.02)


def test_density_is_zero_outside() -> None:
    assert log_density(LAPLACE, np.zeros(2), np.array([[0.8, 0.8]]), 1.0) == -np.inf


def test_density_broadcasts_over_places_and_outputs(rng: np.random.Generator) -> None:
    x, t = rng.uniform(-1, 1, (5, 1, 2)), rng.uniform(-0.7, 0.7, (1, 7, 2))
    together = log_density(GAUSSIAN, x, t, 0.4)
    assert together.shape == (5, 7)
    assert together[3, 2] == pytest.approx(log_density(GAUSSIAN, x[3, 0], t[0, 2], 0.4))


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_density_is_the_same_beside_outputs_outside(noise: int, rng: np.random.Generator) -> None:
    """Masses are left out where no output needs them, whatever is broadcast against what."""
    x, scale = rng.uniform(-1, 1, (6, 1, 2)), rng.uniform(0.2, 1.0, (6, 1))
    t = rng.uniform(-1.3, 1.3, (6, 5, 2))
    t[2] = 3.0
    alone = [[log_density(noise, x[i, 0], t[i, j], scale[i, 0]) for j in range(5)] for i in range(6)]
    assert log_density(noise, x, t, scale) == pytest.approx(np.array(alone, dtype=np.float64))
    assert log_density(noise, x[:, 0], t[:, 0], scale[:, 0]) == pytest.approx(np.array(alone, dtype=np.float64)[:, 0])
    assert np.isneginf(log_density(noise, x, t, scale)[2]).all()


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.6, 0.8), (1.0, 1.0), (-3.0, 0.4)])
@pytest.mark.parametrize("scale", [1e-4, 0.1, 2.0])
def test_expected_displacement_is_the_mean_of_draws(noise: int, place: tuple[float, float], scale: float) -> None:
    """Within 5 standard errors of the mean of 100,000 draws: a false alarm in less than 1 of 10^6, each."""
    x = np.tile(np.array(place), (100_000, 1))
    draws = sample_discs(
        noise, x, np.zeros(len(x), np.int64), np.zeros((1, 2)), np.ones(1), np.array([scale]), numbered_rows(len(x), 4)
    )
    for norm, lengths in ((1, np.abs(draws - x).sum(axis=1)), (2, np.hypot(*(draws - x).T))):
        expected = expected_displacement(noise, *place, scale, norm)
        assert abs(lengths.mean() - expected) < 5 * lengths.std() / math.sqrt(len(x)) + 1e-12


def test_papers_bounds_hold_in_the_disc_and_fail_in_the_corner() -> None:
    assert paper_displacement_bound(0.1) == pytest.approx(0.200, abs=5e-4)
    assert exact_displacement((1.0, 1.0), 0.1) == pytest.approx(0.733, abs=5e-4)
    for noise in ("laplace", "gaussian"):
        for scale in (0.05, 0.1, 0.5, 1.0, 3.0):
            bound = paper_displacement_bound(scale, noise)  # type: ignore[arg-type]
            for radius in np.linspace(0, 1, 6):
                for angle in np.linspace(0, np.pi / 2, 7):
                    place = (radius * math.cos(angle), radius * math.sin(angle))
                    # The quadrature is good to 1e-5.
                    assert exact_displacement(place, scale, noise) <= bound * (1 + 1e-5)  # type: ignore[arg-type]
            if scale <= 0.5:
                assert exact_displacement((1.0, 1.0), scale, noise) > bound  # type: ignore[arg-type]


def test_bound_for_tiny_scales_does_not_overflow() -> None:
    assert paper_displacement_bound(1e-6) == pytest.approx(2e-6)


@given(u=st.floats(0, 1, exclude_max=True), x=st.floats(-4, 4), scale=st.floats(1e-3, 50))
def test_truncated_laplace_inverts_its_distribution(u: float, x: float, scale: float) -> None:
    low, high = -0.7, 1.1

    def mass_up_to(t: float) -> float:
        grid = np.linspace(low, t, 4001)
        return float(np.trapezoid(np.exp(-(np.abs(grid - x) - nearest) / scale), grid))

    nearest = max(low - x, x - high, 0.0)
    t = truncated_laplace(u, x, low, high, scale)
    assert low <= t <= high
    if scale > 0.02:
        assert mass_up_to(t) / mass_up_to(high) == pytest.approx(u, abs=2e-3)


def test_hopeless_resampling_gives_up_with_a_sentence() -> None:
    with pytest.raises(Exception, match="gave up"):
        noise_and_resample(
            np.array([[9.0, 9.0]]),
            centre=(0, 0),
            radius=0.01,
            scale=0.01,
            noise="laplace",
            rng=np.random.default_rng(1),
            most_tries=1000,
        )
