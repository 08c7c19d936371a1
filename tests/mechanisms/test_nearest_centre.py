import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from nearveil.mechanisms.nearest import nearest_centre_table


@settings(max_examples=30)  # tables of close centres take long to build
@given(
    seed=st.integers(0, 10_000),
    count=st.sampled_from([2, 3, 40, 200]),
    spread=st.sampled_from([1.0, 0.02, 1e-5]),
    lookups=st.sampled_from([None, 3000]),
)
def test_agrees_with_a_kd_tree(seed: int, count: int, spread: float, lookups: int | None) -> None:
    rng = np.random.default_rng(seed)
    half_extent = (0.8, 1.0)
    centres = np.clip(rng.normal(0, spread, (count, 2)), -0.8, 0.8)
    points = rng.uniform(-1, 1, (3000, 2)) * half_extent
    points[:1000] = np.clip(centres[rng.integers(count, size=1000)] + rng.normal(0, spread, (1000, 2)), -0.8, 0.8)
    found = nearest_centre_table(centres, half_extent, lookups=lookups)(points)
    distance, _ = cKDTree(centres).query(points)
    assert np.hypot(*(points - centres[found]).T) == pytest.approx(distance, rel=1e-12, abs=1e-15)


def test_sums_are_exact_and_count_everybody(rng: np.random.Generator) -> None:
    centres = rng.uniform(-1, 1, (50, 2))
    whole = rng.integers(-(2**20), 2**20, (20_000, 2))
    table = nearest_centre_table(centres, (1.0, 1.0))
    sums = table.sums(whole, 2.0**-20)
    label = table((whole * 2.0**-20).astype(np.float64))
    for j in range(50):
        assert sums[j].tolist() == [*whole[label == j].sum(axis=0), (label == j).sum()]
