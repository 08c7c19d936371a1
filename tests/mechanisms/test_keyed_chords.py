"""Rows far outside their disc: the law of other routes, the row's own words each used once, and nobody beyond."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms import discs_by_generator, discs_in_numpy

from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE
from nearveil.mechanisms._disc_sampler import _shoulders, sample_discs, try_each_chord
from nearveil.randomness import NamedRows, NumberedRows, RowKeystream, new_stream_key
from nearveil.types import FloatArray, IntArray, WordArray

LEVEL = 1e-6
DRAWS = 12_000

PLACES = {
    "just outside": (1.0 + 1e-7, 0.0),
    "just outside, diagonal": (-0.7072, 0.7072),
    "near the diagonal": (0.69, 0.75),
    "beyond the diagonal": (0.8, -0.75),
    "beside": (-0.2, -1.05),
    "corner": (1.0, 1.0),
    "far away": (-2.0, 3e4),
}
NARROW = (1e-12, 1e-6, 1e-3, 0.02, 0.3, 0.95)


def draw(noise: int, x: FloatArray, scale: float, rows: RowKeystream | None = None) -> FloatArray:
    disc = np.zeros(len(x), dtype=np.int64)
    keystream = rows or NumberedRows(new_stream_key(), 0, len(x))
    return sample_discs(noise, x, disc, np.zeros((1, 2)), np.ones(1), np.array([scale]), keystream)


def around(count: int, distance: float) -> FloatArray:
    angle = np.random.default_rng(4).uniform(0, 2 * np.pi, count)
    return distance * np.column_stack([np.cos(angle), np.sin(angle)])


def views(t: FloatArray, place: tuple[float, float]) -> list[FloatArray]:
    """Both coordinates, those along and across the direction of x, and the depth below the edge."""
    east, north = np.array(place) / np.hypot(*place)
    across = t @ [-north, east]
    # A double close to 1 cannot tell depths of less than 1e-15; nor should a test.
    depth = np.round(1 - np.hypot(*t.T), 14)
    return [t[:, 0], t[:, 1], np.round(t @ [east, north], 14), across, depth]


def p_value(ours: FloatArray, theirs: FloatArray, place: tuple[float, float]) -> float:
    pairs = list(zip(views(ours, place), views(theirs, place), strict=True))
    return min(stats.ks_2samp(first, second).pvalue for first, second in pairs) * len(pairs)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1e-6, 0.02, 0.3, 0.95])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_the_law_is_that_of_other_routes(noise: int, place: str, scale: float) -> None:
    """False alarms: 1e-6 per case (Bonferroni over five comparisons). A scale 30 % off is seen in every case."""
    x = np.tile(PLACES[place], (DRAWS, 1))
    disc, unit = np.zeros(DRAWS, dtype=np.int64), (np.zeros((1, 2)), np.ones(1))
    theirs = discs_by_generator.sample_discs(noise, x, disc, *unit, np.array([scale]), np.random.default_rng())
    assert p_value(draw(noise, x, scale), theirs, PLACES[place]) > LEVEL
    for factor in (0.7, 1.3):
        # From 1 on, Laplace noise takes another route; its test is elsewhere.
        if noise == GAUSSIAN or factor * scale < 1.0:
            assert p_value(draw(noise, x, factor * scale), theirs, PLACES[place]) < LEVEL


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
@pytest.mark.parametrize("scale", [*NARROW, 1.05, 500.0])
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_compiled_code_and_numpy_draw_the_same_and_on_the_disc(noise: int, scale: float, distance: float) -> None:
    x = around(4_000, distance)
    rows = NumberedRows(new_stream_key(), 7, len(x))
    compiled = draw(noise, x, scale, rows)
    unit = np.zeros(len(x), dtype=np.int64), np.zeros((1, 2)), np.ones(1)
    plain = discs_in_numpy.sample_discs(noise, x, *unit, np.array([scale]), rows)
    assert np.abs(compiled - plain).max() < 1e-13
    for drawn in (compiled, plain):
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


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_a_fifth_of_tries_succeed_at_least(noise: int) -> None:
    """Of 20,000 tries, five standard errors below 0.22 is 0.205."""
    count = 20_000
    words = np.random.default_rng(2).integers(2**64, size=(count, 4), dtype=np.uint64)
    for scale in NARROW:
        for place in PLACES.values():
            x, pending = np.tile(place, (count, 1)), np.arange(count)
            unit = (np.zeros(count, dtype=np.int64), np.zeros((1, 2)), np.ones(1), np.array([scale]))
            assert try_each_chord(noise, x, *unit, words, pending, np.empty_like(x)) < 0.8 * count


def test_shoulders_are_where_the_exponent_has_dropped_by_one() -> None:
    """So the envelope is above the density, and close to it. Checked with eleven more bits than a double has."""
    rng = np.random.default_rng(6)
    for low, high in np.sort(rng.uniform(0, 1, size=(3000, 2))):
        if low**2 + high**2 <= 1.0:
            continue
        for scale in (1e-9, 1e-4, 0.02, 0.3, 0.5, 0.99):
            top = min(low, np.sqrt(0.5))
            chord = np.sqrt((1 - top) * (1 + top))
            left, right = _shoulders(scale, top, chord, max(chord - top, 0.0), low - top, max(high - chord, 0.0))
            assert _drop(low, high, scale, top, -left) == pytest.approx(1.0, rel=1e-5)
            dropped = _drop(low, high, scale, top, right)
            assert dropped == pytest.approx(1.0, rel=1e-5) or (dropped < 1.0 and right == 1 - top)


def _drop(low: float, high: float, scale: float, top: float, step: float) -> float:
    def exponent(t: np.longdouble) -> np.longdouble:
        return np.abs(t - low) + np.maximum(high - np.sqrt(np.maximum(1 - t * t, 0)), 0)

    start = np.longdouble(top)
    return float((exponent(start + step) - exponent(start)) / scale)
