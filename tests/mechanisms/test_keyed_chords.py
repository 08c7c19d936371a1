"""Rows far outside their disc: laws of closed form, the row's own words each used once, and nobody beyond."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import stats

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE
from nearveil.mechanisms._disc_sampler import sample_discs
from nearveil.randomness import NamedRows, NumberedRows, RowKeystream, new_stream_key
from nearveil.types import FloatArray, IntArray, WordArray

LEVEL = 1e-6
DRAWS = 12_000


def draw(noise: int, x: FloatArray, scale: float, rows: RowKeystream | None = None) -> FloatArray:
    disc = np.zeros(len(x), dtype=np.int64)
    keystream = rows or NumberedRows(new_stream_key(), 0, len(x))
    return sample_discs(noise, x, disc, np.zeros((1, 2)), np.ones(1), np.array([scale]), keystream)


def around(count: int, distance: float) -> FloatArray:
    angle = np.random.default_rng(4).uniform(0, 2 * np.pi, count)
    return distance * np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.02, 0.6, 30.0])
def test_far_away_gaussian_depth(scale: float) -> None:
    """Far away at distance D, depth · D / σ² follows Gamma(3/2): a Kolmogorov-Smirnov test at level 1e-6."""
    distance = 3e6
    depth = 1 - draw(GAUSSIAN, np.tile([0.0, distance], (DRAWS, 1)), scale)[:, 1]
    assert stats.kstest(depth * distance / scale**2, stats.gamma(1.5).cdf).pvalue > LEVEL
    for factor in (0.7, 1.3):
        assert stats.kstest(depth * distance / (factor * scale) ** 2, stats.gamma(1.5).cdf).pvalue < LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1e-9, 1e-6])
def test_narrow_laplace_noise_beyond_the_diagonal(scale: float) -> None:
    """At this scale the edge is a parabola: across it draws are normal, and depth · sqrt(2) / λ follows Gamma(3/2).

    Two Kolmogorov-Smirnov tests, at level 1e-6 together.
    """
    t = draw(LAPLACE, np.tile([3.0, 1e5], (DRAWS, 1)), scale)
    across, depth = (t[:, 0] - t[:, 1]) * np.sqrt(0.5), 1 - (t[:, 0] + t[:, 1]) * np.sqrt(0.5)
    for factor, alike in ((1.0, True), (0.7, False), (1.3, False)):
        width = factor * scale
        tests = [
            stats.kstest(across / np.sqrt(width * np.sqrt(0.5)), stats.norm.cdf),
            stats.kstest(depth * np.sqrt(2) / width, stats.gamma(1.5).cdf),
        ]
        assert (min(test.pvalue for test in tests) * len(tests) > LEVEL) == alike


@pytest.mark.parametrize("distance", [1.0 + 1e-8, 1.001, 1.2, 1.42, 1e6])
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 0.02, 0.3, 0.95, 1.05, 500.0])
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_nobody_lands_beyond_the_disc(noise: int, scale: float, distance: float) -> None:
    drawn = draw(noise, around(4_000, distance), scale)
    assert ((drawn * drawn).sum(axis=1) <= 1.0).all()


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_rows_with_names_draw_the_same_in_any_order_and_batch(noise: int) -> None:
    rng = np.random.default_rng(8)
    x, names = around(300, 1.3), rng.integers(2**63, size=(300, 2)).astype(np.uint64)
    order, key = rng.permutation(300), new_stream_key()
    together = draw(noise, x, 0.2, NamedRows(key, names))
    assert np.array_equal(together[order], draw(noise, x[order], 0.2, NamedRows(key, names[order])))
    alone = [draw(noise, x[i : i + 1], 0.2, NamedRows(key, names[i : i + 1]))[0] for i in range(40)]
    assert np.array_equal(together[:40], np.array(alone))


@dataclass
class Watched(RowKeystream):
    """Rows that note which blocks were asked for."""

    rows: NumberedRows
    asked: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        self.asked.update((number, row) for row in (range(len(self)) if rows is None else rows.tolist()))
        return self.rows.blocks(number, rows)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_no_block_is_used_twice(noise: int) -> None:
    rows = Watched(NumberedRows(new_stream_key(), 0, 500))
    draw(noise, around(500, 1.1), 0.3, rows)
    assert set(rows.asked.values()) == {1}
    assert len(rows.asked) > 2 * 500
