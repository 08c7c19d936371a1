"""Rows draw for themselves, whatever their company."""

import numpy as np
import pytest

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE
from nearveil.mechanisms._disc_sampler import sample_discs
from nearveil.randomness import NumberedRows, new_stream_key
from nearveil.types import FloatArray

CENTRES = np.array([[0.1, -0.2], [0.5, 0.5], [-0.6, 0.3]])
RADII = np.array([0.3, 0.02, 0.1])
CASES = [(noise, scale) for noise in (LAPLACE, GAUSSIAN) for scale in (0.01, 0.1, 0.5, 4.0)]


def people(count: int, *, reach: float = 1.5, seed: int = 3) -> tuple[FloatArray, np.ndarray]:
    """People in and around the discs, and the disc of each."""
    rng = np.random.default_rng(seed)
    disc = rng.integers(len(CENTRES), size=count)
    angle, length = rng.uniform(0, 2 * np.pi, count), RADII[disc] * np.sqrt(rng.uniform(0, reach**2, count))
    return CENTRES[disc] + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), disc


def draw(noise: int, scale: float, x: FloatArray, disc: np.ndarray, rows: NumberedRows) -> FloatArray:
    return sample_discs(noise, x, disc, CENTRES, RADII, np.full(len(RADII), scale), rows)


@pytest.mark.parametrize(("noise", "scale"), CASES)
def test_a_batch_is_its_rows_one_at_a_time(noise: int, scale: float) -> None:
    x, disc = people(60)
    key = new_stream_key()
    together = draw(noise, scale, x, disc, NumberedRows(key, 5, 60))
    alone = [draw(noise, scale, x[i : i + 1], disc[i : i + 1], NumberedRows(key, 5 + i, 1))[0] for i in range(60)]
    assert np.array_equal(together, np.array(alone))


@pytest.mark.parametrize(("noise", "scale"), CASES)
def test_everybody_lands_on_their_disc(noise: int, scale: float) -> None:
    x, disc = people(20_000, reach=3.0)
    drawn = draw(noise, scale, x, disc, NumberedRows(new_stream_key(), 0, len(x)))
    assert (np.hypot(*(drawn - CENTRES[disc]).T) <= RADII[disc] * (1 + 1e-9)).all()
