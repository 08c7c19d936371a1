import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.evaluation.experiments.figure8 import noise_and_resample
from nearveil.mechanisms._disc_law import (
    GAUSSIAN,
    LAPLACE,
    log_density,
    log_peak,
    nearest_l1_to_unit_disc,
)

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
