"""SRR: groups by common prefix, a loss that is computed on any domain and never above epsilon, and draws by the law."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from nearveil.errors import UsageError
from nearveil.mechanisms.srr import SRR, StaircaseChannel, calibrated_channel, staircase_channel
from nearveil.privacy.guarantee import Basis, Method
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray, IntArray

CITY = "37.5,-122.6,37.9,-122.2"
LAND = [(column, row) for column in range(8) for row in range(8) if (3 * column + row) % 5 < 2]


def matrix_of(channel: StaircaseChannel) -> FloatArray:
    return np.array([channel.row(cell) for cell in range(len(channel.codes))])


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_on_a_full_grid_c_of_e_to_the_epsilon_is_exact(epsilon: float) -> None:
    channel = calibrated_channel(np.arange(4**4), 4, epsilon)
    assert matrix_of(channel).sum(axis=1) == pytest.approx(np.ones(256))
    assert channel.worst_case[0] == pytest.approx(epsilon)
    assert channel.weights[0] == pytest.approx(math.exp(epsilon))
    assert SRR(epsilon=epsilon, region=CITY).guarantee.basis is Basis.THEOREM


def coast() -> IntArray:
    """A coastal strip and an island: groups of very unequal size."""
    rng = np.random.default_rng(4)
    return np.unique(np.concatenate([rng.choice(4**5, 60, replace=False), np.arange(256, 272)]))


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1])
def test_a_sparse_domain_overspends_uncalibrated_and_not_calibrated(epsilon: float) -> None:
    """The loss over every pair and output, by hand."""
    # From epsilon = 1.61 on there are two groups, own cell and rest, of the same size everywhere: nothing to overspend.
    assert staircase_channel(coast(), 5, math.exp(epsilon)).worst_case[0] > 1.05 * epsilon
    channel = calibrated_channel(coast(), 5, epsilon)
    matrix = matrix_of(channel)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(len(matrix)))
    by_hand = np.log(matrix.max(axis=0) / matrix.min(axis=0)).max()
    loss, first, second, output = channel.worst_case
    assert loss == pytest.approx(by_hand)
    assert math.log(matrix[first, output] / matrix[second, output]) == pytest.approx(by_hand)
    assert 0.95 * epsilon < by_hand <= epsilon + 1e-12


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_coarse_grid_loses_what_its_certificate_says(levels: int, epsilon: float) -> None:
    mechanism = SRR(epsilon=epsilon, levels=levels, region=CITY)
    certificate = mechanism.guarantee.certificate
    assert certificate is not None
    assert mechanism.channel.worst_case[0] == pytest.approx(certificate.attained) == pytest.approx(epsilon)


def test_groups_are_by_common_prefix() -> None:
    """By hand: the number of equal base-4 digits from the front."""
    levels = 3
    channel = staircase_channel(np.arange(4**levels), levels, math.exp(1.0))
    thresholds = np.rint(np.linspace(levels, 0, len(channel.weights)))

    def common(a: int, b: int) -> int:
        digits = [[(code >> (2 * (levels - 1 - i))) & 3 for i in range(levels)] for code in (a, b)]
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*digits, strict=True)))

    for a, b in itertools.product(range(0, 64, 7), range(64)):
        group = int(np.argmax(common(a, b) >= thresholds))
        assert channel.row(a)[b] == pytest.approx(channel.weights[group] * channel.alpha[a])


@pytest.mark.statistical
@pytest.mark.parametrize("cells", [None, LAND], ids=["full grid", "listed cells"])
@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.7, False), (1.3, False)])
def test_draws_follow_the_density(cells: list[tuple[int, int]] | None, factor: float, holds: bool) -> None:
    """100,000 draws from one location: a chi-square test over cells with a false-alarm rate of 1e-6."""
    mechanism, count = SRR(epsilon=2.0, levels=3, cells=cells, region=CITY), 100_000
    half = np.array(mechanism.resolved_region.half_extent_square)
    x = np.array([[0.3, -0.4]]) * half
    drawn = mechanism.rescaled(factor).draw(np.repeat(x, count, axis=0), numbered_rows(count, rng=4))
    column, row = ((drawn / half + 1) / 2 * 8).astype(int).T
    seen = np.bincount(8 * row + column, minlength=64)
    middles = np.stack(np.meshgrid(*2 * [(np.arange(8) + 0.5) / 4 - 1]), axis=-1).reshape(-1, 2) * half
    expected = np.exp(mechanism.log_density(x, middles)) * 4 * half.prod() / 64
    assert expected.sum() == pytest.approx(1)
    assert not seen[expected == 0].any()
    assert (chisquare(seen[expected > 0], count * expected[expected > 0]).pvalue > 1e-6) == holds


def test_what_is_said_of_it() -> None:
    listed = SRR(epsilon=1.0, levels=3, cells=LAND, region=CITY).guarantee
    assert (listed.basis, listed.certificate and listed.certificate.method) == (Basis.CERTIFICATE, Method.EXHAUSTIVE)


@pytest.mark.parametrize("cells", [[], [(0, 0)], [(0, 0), (9, 0)], [(-1, 0), (0, 0)]])
def test_impossible_cells_are_refused(cells: list[tuple[int, int]]) -> None:
    with pytest.raises(UsageError, match="cells"):
        SRR(levels=3, cells=cells, region=CITY)
