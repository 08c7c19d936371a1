"""The nearest center and the nearest point of discs, against comparing everything with everything."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from nearveil.mechanisms.nearest import NearestCentre, nearest_point_of_discs


def test_sums_are_exact_and_count_everybody(rng: np.random.Generator) -> None:
    centres, whole = rng.uniform(-1, 1, (50, 2)), rng.integers(-(2**20), 2**20, (20_000, 2))
    x = (whole * 2.0**-20).astype(np.float64)
    own = ((x[:, None] - centres) ** 2).sum(axis=-1).argmin(axis=1)
    assert (NearestCentre(centres)(x) == own).all()
    sums = NearestCentre(centres).sums(whole, 2.0**-20)
    for j in range(50):
        assert sums[j].tolist() == [*whole[own == j].sum(axis=0), (own == j).sum()]


@pytest.mark.parametrize(("count", "largest"), [(60, 0.12), (5, 0.2), (400, 0.9)])
def test_the_nearest_disc_has_the_least_distance_to_its_edge(count: int, largest: float) -> None:
    """Not that of the nearest center: a large disc may reach nearer, also from beyond many others."""
    rng = np.random.default_rng(4)
    centres, radii = rng.uniform(-0.9, 0.9, (count, 2)), rng.uniform(0.005, 0.02, count)
    radii[: count // 5] = rng.uniform(0.02, largest, count // 5)
    z = rng.uniform(-3, 3, (3000, 2))
    gaps = np.hypot(*(z[:, None] - centres).transpose(2, 0, 1)) - radii
    best, least = gaps.argmin(axis=1), gaps.min(axis=1)
    moved = nearest_point_of_discs(z, centres, radii)
    assert (moved[least <= 0] == z[least <= 0]).all()
    assert np.hypot(*(moved - z).T) == pytest.approx(np.maximum(least, 0.0), abs=1e-12)
    off_edge = np.hypot(*(moved - centres[best]).T) - radii[best]
    assert np.abs(off_edge[least > 0]).max() < 1e-12
    assert (best != cKDTree(centres).query(z)[1]).mean() > 0.02
