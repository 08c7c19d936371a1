import inspect

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms import fit_pic
from nearveil.mechanisms.fit_pic import (
    FIXED_POINT,
    ExactAnswers,
    build_pic_intervals,
    fixed_point_laplace,
    redraw_unusable,
)
from nearveil.region import Region, named_region
from nearveil.types import FloatArray, IntArray


class FixedSums(ExactAnswers):
    """People whose clusters are the same whatever the centres."""

    region = named_region("san-francisco")
    all_in_one_place = False

    def __init__(self, sums: IntArray) -> None:
        self._sums = sums

    def __len__(self) -> int:
        return int(self._sums[:, 2].sum())

    def sums_around(self, centres: FloatArray) -> IntArray:
        del centres
        return self._sums

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        raise NotImplementedError


def test_with_hardly_any_noise_it_is_k_means(san_francisco: Region, city: FloatArray) -> None:
    """Every centre that has people is then close to the mean of the people nearest to it."""
    found = build_pic_intervals(city, region=san_francisco, scale=1e-6, centres=20, rounds=60, rng=2)
    x = san_francisco.to_square(city)
    label = np.argmin(((x[:, None] - found.centres[None]) ** 2).sum(axis=-1), axis=1)
    for j in np.unique(label):
        assert found.centres[j] == pytest.approx(x[label == j].mean(axis=0), abs=0.02)


@pytest.mark.statistical
def test_every_cluster_is_noised_empty_ones_too() -> None:
    """Noisy means of empty clusters: sum and count are noise alone, each of the right scale.

    Kolmogorov-Smirnov at level 1e-6, and 0.7 or 1.3 times the scale is rejected. A version that skipped empty clusters
    would leave their sums at 0 and fail.
    """
    scale = 35.0
    noisy = fixed_point_laplace(np.zeros((40_000, 3), dtype=np.int64), scale, np.random.default_rng(1))
    assert (noisy != 0).mean() > 0.999
    for column in noisy.T:
        assert kstest(column, laplace(scale=scale).cdf).pvalue > 1e-6
        assert kstest(column, laplace(scale=0.7 * scale).cdf).pvalue < 1e-6
        assert kstest(column, laplace(scale=1.3 * scale).cdf).pvalue < 1e-6


@pytest.mark.statistical
def test_one_round_noises_sums_and_counts_of_all_clusters() -> None:
    """Through the real step: full clusters and empty ones get the same noise on all three answers.

    With 10^6 people at the middle of the square, the noisy mean of that cluster is noise / 10^6 on each axis; an empty
    cluster's is noise / max(noise, 1). Level 1e-6 each.
    """
    scale, people = 35.0, 1_000_000
    sums = np.zeros((20_000, 3), dtype=np.int64)
    sums[:10_000, 2] = people
    noisy: list[FloatArray] = []
    stub = FixedSums(sums)
    build_pic_intervals(
        stub,
        region=stub.region,
        scale=scale,
        centres=len(sums),
        rounds=1,
        rng=3,
        watch=lambda _, answers: noisy.append(answers),
    )
    means = fit_pic._means(noisy[0])
    full, empty = means[:10_000], means[10_000:]
    for axis in (0, 1):
        assert kstest(full[:, axis] * people, laplace(scale=scale).cdf).pvalue > 1e-6
        assert kstest(full[:, axis] * people, laplace(scale=0.7 * scale).cdf).pvalue < 1e-6
    # Half of the empty clusters have a noisy count below 1, floored at 1: their mean is the noisy sum itself.
    naive = np.random.default_rng(9).laplace(0, scale, (10_000, 3))
    expected = naive[:, 0] / np.maximum(naive[:, 2], 1)
    assert kstest(empty[:, 0], expected).pvalue > 1e-6
    assert (empty != 0).all()


def test_noise_is_added_to_every_answer_of_every_round(
    san_francisco: Region, city: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 rounds of 100 clusters and 3 answers each, occupied or not, pass through the noise."""
    asked = []

    def spy(exact: np.ndarray, scale: float, rng: np.random.Generator) -> FloatArray:
        asked.append((exact.shape, scale))
        return fixed_point_laplace(exact, scale, rng)

    monkeypatch.setattr(fit_pic, "fixed_point_laplace", spy)
    build_pic_intervals(city, region=san_francisco, scale=34.5, centres=100, rounds=12, rng=1)
    assert asked == [((100, 3), 34.5)] * 12


def test_one_person_changes_each_answer_by_at_most_one(san_francisco: Region, city: FloatArray) -> None:
    """The sensitivity that the accounting counts on, at the region's corner where it is largest."""
    from nearveil.mechanisms.fit_pic import square_in_fixed_point
    from nearveil.mechanisms.nearest import nearest_centre_table

    corner = np.vstack([city, [[37.9, -122.6]]])
    table = nearest_centre_table(np.array([[0.3, 0.2], [-0.5, 0.1]]), san_francisco.half_extent_square)
    with_one, without = (
        fit_pic.cluster_sums(square_in_fixed_point(san_francisco, people), table) for people in (corner, city)
    )
    change = np.abs(with_one - without)
    assert change[:, :2].max() <= FIXED_POINT
    assert change[:, 2].max() == 1
    assert (change.sum(axis=1) > 0).sum() == 1


def test_centres_lie_in_the_region_and_not_on_its_border(san_francisco: Region, city: FloatArray) -> None:
    found = build_pic_intervals(city, region=san_francisco, scale=34.5, centres=300, rng=4)
    half_extent = np.array(san_francisco.half_extent_square)
    assert (np.abs(found.centres) <= half_extent).all()
    assert (np.abs(found.centres) < half_extent * 0.9999).all(axis=1).mean() > 0.99
    assert (found.radii > 0).all()


def test_unusable_centres_are_drawn_anew(san_francisco: Region) -> None:
    centres = np.array([[0.1, 0.1], [0.1, 0.1], [5.0, 0.0], [0.0, -0.2]])
    fixed = redraw_unusable(centres, san_francisco, np.random.default_rng(1))
    assert (np.abs(fixed) <= np.array(san_francisco.half_extent_square)).all()
    assert len(np.unique(fixed, axis=0)) == 4
    assert (fixed[[0, 3]] == centres[[0, 3]]).all()


def test_start_is_independent_of_the_data(san_francisco: Region, city: FloatArray) -> None:
    """With noise that drowns the data, other data and the same seed give nearly the same centres."""
    first = build_pic_intervals(city, region=san_francisco, scale=1e9, centres=50, rng=6)
    elsewhere = city.mean(axis=0) + 0.1 * (city - city.mean(axis=0))
    second = build_pic_intervals(elsewhere, region=san_francisco, scale=1e9, centres=50, rng=6)
    assert second.centres == pytest.approx(first.centres, abs=1e-4)


def test_parameters_are_public_choices_not_read_off_the_data() -> None:
    """No bound, scale or count is taken from the data: the only statistic of it is the noised one."""
    source = inspect.getsource(fit_pic)
    for word in (".min(", ".max(", "ptp", "percentile", "mean("):
        assert word not in source


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"centres": 1}, "centres"),
        ({"centres": 0}, "centres"),
        ({"rounds": 0}, "rounds"),
        ({"scale": 0.0}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"gamma": 0.81}, "gamma"),
    ],
)
def test_bad_parameters(san_francisco: Region, city: FloatArray, change: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build_pic_intervals(city, **{"region": san_francisco, "scale": 1.0, **change})  # type: ignore[arg-type]


def test_too_few_people_and_one_place(san_francisco: Region, city: FloatArray) -> None:
    with pytest.raises(DataError, match="fewer than the 800 intervals"):
        build_pic_intervals(city[:10], region=san_francisco, scale=1.0, centres=800)
    with pytest.raises(DataError, match="two people or more"):
        build_pic_intervals(city[:1], region=san_francisco, scale=1.0)
    with pytest.raises(DataError, match="same location"):
        build_pic_intervals(np.tile(city[:1], (900, 1)), region=san_francisco, scale=1.0)
