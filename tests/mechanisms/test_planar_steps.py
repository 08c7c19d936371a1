"""Steps of planar Laplace noise: a Gamma length, a uniform direction, and the same in NumPy."""

import numpy as np
import pytest
from scipy import stats

from nearveil.mechanisms import planar_laplace as module
from nearveil.mechanisms.planar_laplace import _near, _unit_vectors, planar_steps
from nearveil.randomness import NumberedRows, RowKeystream, new_stream_key
from nearveil.types import IntArray, WordArray

COUNT = 200_000


@pytest.mark.statistical
def test_the_law() -> None:
    """False alarms: 2e-6. A scale 30 % off is rejected."""
    steps = planar_steps(NumberedRows(new_stream_key(), 0, COUNT))
    length, angle = np.hypot(*steps.T), np.arctan2(steps[:, 1], steps[:, 0])
    assert stats.kstest(length, stats.gamma(2).cdf).pvalue > 1e-6
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6
    for factor in (0.7, 1.3):
        assert stats.kstest(factor * length, stats.gamma(2).cdf).pvalue < 1e-6
    assert abs(stats.spearmanr(length, angle).statistic) < 5 / np.sqrt(COUNT)


def test_numpy_takes_the_same_steps() -> None:
    rows = NumberedRows(new_stream_key(), 0, 20_000)
    lengths = -np.log(_near(rows.blocks(0)).prod(axis=1))
    plain = lengths[:, None] * _unit_vectors(rows.blocks(1))
    assert np.abs(planar_steps(rows) - plain).max() < 1e-12


class _Scripted(RowKeystream):
    """Rows whose words are written down."""

    def __init__(self, *blocks: list[list[int]]) -> None:
        self._blocks = [np.array(block, dtype=np.uint64) for block in blocks]

    def __len__(self) -> int:
        return len(self._blocks[0])

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        return self._blocks[number] if rows is None else self._blocks[number][rows]


def test_the_tail_is_spread_out_by_another_number() -> None:
    largest = 2**64 - 1
    rows = _Scripted(
        [[0, largest], [0, 0]],
        [[0, 0], [0, 0]],
        [[0, largest], [0, 0]],
    )
    steps = planar_steps(rows)
    # 32 binary places of the first number, 53 of the second: the longest that can be drawn.
    assert steps[0, 0] == pytest.approx((32 + 53) * np.log(2))
    assert steps[1, 0] == 0.0
    assert module._TAIL == 2.0**-32
