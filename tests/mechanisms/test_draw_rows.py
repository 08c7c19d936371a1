"""Whoever changes how a place is drawn is drawn by, whichever way rows get their randomness."""

import numpy as np

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.randomness import NumberedRows, new_stream_key
from nearveil.types import FloatArray

HOME = np.array([[37.7, -122.4]] * 50)


class Standing(PlanarLaplace):
    """Moves nobody."""

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return x


def test_a_changed_draw_is_used_without_a_seed_too() -> None:
    assert np.abs(Standing().perturb(HOME) - HOME).max() < 1e-6
    rows = NumberedRows(new_stream_key(), 0, len(HOME))
    assert np.abs(Standing().perturb_rows(HOME, rows) - HOME).max() < 1e-6
    assert np.abs(PlanarLaplace().perturb(HOME) - HOME).max() > 1e-4
