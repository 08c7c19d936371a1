"""The law of noise confined to a disc, against naive oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE, log_density

coordinate = st.floats(-3, 3)
NOISES = [LAPLACE, GAUSSIAN]

RADII, TURNS = np.sqrt((np.arange(900) + 0.5) / 900), 2 * np.pi * (np.arange(360) + 0.5) / 360
DISC = RADII[:, None, None] * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=-1)


@given(x1=coordinate, x2=coordinate, scale=st.floats(0.05, 20), noise=st.sampled_from(NOISES))
def test_density_integrates_to_one(x1: float, x2: float, scale: float, noise: int) -> None:
    """By an independent rule in polar coordinates."""
    total = np.exp(log_density(noise, np.array([x1, x2]), DISC, scale)).mean() * np.pi
    assert total == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("noise", NOISES)
def test_density_falls_as_that_of_the_noise_and_is_zero_outside(noise: int, rng: np.random.Generator) -> None:
    x, scale = rng.uniform(-3, 3, (60, 1, 2)), rng.uniform(0.2, 1.0, (60, 1))
    t = rng.uniform(-1.3, 1.3, (60, 50, 2))
    found, inside = log_density(noise, x, t, scale), np.hypot(*t.transpose(2, 0, 1)) <= 1
    assert np.array_equal(np.isfinite(found), inside)
    away = np.abs(t - x)
    fall = away.sum(axis=-1) / scale if noise == LAPLACE else (away**2).sum(axis=-1) / (2 * scale**2)
    constant = np.where(inside, found + fall, np.nan)
    assert np.nanmax(constant, axis=1) == pytest.approx(np.nanmin(constant, axis=1), abs=1e-9)
