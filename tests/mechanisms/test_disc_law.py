"""The law of noise confined to a disc, against naive oracles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE, log_density, log_ratio, mode

coordinate = st.floats(-3, 3)
NOISES = [LAPLACE, GAUSSIAN]

ANGLES = np.linspace(0, 2 * np.pi, 100_001)
CIRCLE = np.cos(ANGLES), np.sin(ANGLES)
RADII, TURNS = np.sqrt((np.arange(900) + 0.5) / 900), 2 * np.pi * (np.arange(360) + 0.5) / 360
DISC = RADII[:, None, None] * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=-1)


@given(x1=coordinate, x2=coordinate)
def test_the_mode_is_the_nearest_point_of_the_disc(x1: float, x2: float) -> None:
    """The least distance to many points of the circle, in the L1 norm for Laplace noise."""
    distances = (np.abs(CIRCLE[0] - x1) + np.abs(CIRCLE[1] - x2), np.hypot(CIRCLE[0] - x1, CIRCLE[1] - x2))
    for noise, far in zip(NOISES, distances, strict=True):
        p1, p2 = mode(noise, x1, x2)
        least = abs(p1 - x1) + abs(p2 - x2) if noise == LAPLACE else math.hypot(p1 - x1, p2 - x2)
        assert least == pytest.approx(0 if math.hypot(x1, x2) <= 1 else far.min(), abs=1e-4)
        assert math.hypot(p1, p2) <= 1 + 1e-12


@given(x1=coordinate, x2=coordinate, noise=st.sampled_from(NOISES), turn=st.floats(0, 7), share=st.floats(0, 1))
def test_the_ratio_is_that_of_the_noise_to_its_largest_value(
    x1: float, x2: float, noise: int, turn: float, share: float
) -> None:
    t1, t2, (p1, p2) = share * math.cos(turn), share * math.sin(turn), mode(noise, x1, x2)

    def log_noise(d1: float, d2: float) -> float:
        return -(abs(d1) + abs(d2)) / 0.5 if noise == LAPLACE else -(d1 * d1 + d2 * d2) / 0.5

    expected = log_noise(t1 - x1, t2 - x2) - log_noise(p1 - x1, p2 - x2)
    assert log_ratio(noise, x1, x2, t1, t2, 0.5) == pytest.approx(expected, abs=1e-9)


@given(x1=coordinate, x2=coordinate, scale=st.floats(0.05, 20), noise=st.sampled_from(NOISES))
def test_density_integrates_to_one(x1: float, x2: float, scale: float, noise: int) -> None:
    """By an independent rule in polar coordinates."""
    total = np.exp(log_density(noise, np.array([x1, x2]), DISC, scale)).mean() * np.pi
    assert total == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("noise", NOISES)
def test_density_broadcasts_and_is_zero_outside(noise: int, rng: np.random.Generator) -> None:
    x, scale = rng.uniform(-1, 1, (6, 1, 2)), rng.uniform(0.2, 1.0, (6, 1))
    t = rng.uniform(-1.3, 1.3, (6, 5, 2))
    alone = [[log_density(noise, x[i, 0], t[i, j], scale[i, 0]) for j in range(5)] for i in range(6)]
    assert log_density(noise, x, t, scale) == pytest.approx(np.array(alone, dtype=np.float64))
    assert np.array_equal(np.isneginf(log_density(noise, x, t, scale)), np.hypot(*t.transpose(2, 0, 1)) > 1)
