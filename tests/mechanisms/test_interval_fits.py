"""Private fits of intervals: what they ask of users passes through the noise that is charged, and nothing else does."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms import fit_grid, fit_pic
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_grid import build_grid_intervals, noisy_grid
from nearveil.mechanisms.fit_pic import (
    FIXED_POINT,
    ExactAnswers,
    Question,
    build_pic_intervals,
    fixed_point_laplace,
)
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.mechanisms.intervals import PAPER_CENTRES, Intervals, centres_for
from nearveil.privacy.accounting import LaplaceAnswers, pure_fit_epsilon
from nearveil.region import Region, named_region
from nearveil.types import FloatArray, IntArray

METHODS: tuple[FitMethod, ...] = ("pic", "private-grid")
LEVEL = 1e-6


class FixedAnswers(ExactAnswers):
    """Users whose clusters and cells are the same whatever is asked."""

    region = named_region("san-francisco")
    all_in_one_place = False

    def __init__(self, answers: IntArray) -> None:
        self._answers = answers

    def __len__(self) -> int:
        return 1_000_000

    def sums_around(self, centres: FloatArray) -> IntArray:
        del centres
        return self._answers

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        return np.zeros(columns * rows, dtype=np.int64)


def follows_laplace(noise: FloatArray, scale: float) -> None:
    """Kolmogorov-Smirnov tests at level 1e-6: noise of this scale, and not of 0.7 or 1.3 times."""
    for factor, agrees in ((1.0, True), (0.7, False), (1.3, False)):
        assert (kstest(noise, laplace(scale=factor * scale).cdf).pvalue > LEVEL) == agrees


# -- the noise ----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_sums_and_counts_of_all_clusters_have_the_noise_they_are_charged_for() -> None:
    """Of full clusters and of empty ones, on all three answers; false alarms in one of 100,000 runs."""
    sums = np.zeros((20_000, 3), dtype=np.int64)
    sums[:10_000, 2] = 1_000_000
    stub, seen = FixedAnswers(sums), []
    build_pic_intervals(
        stub, region=stub.region, scale=35.0, centres=len(sums), rounds=1, rng=3,
        watch=lambda _, answers: seen.append(answers),
    )  # fmt: skip
    for part, exact in ((seen[0][:10_000], 1_000_000), (seen[0][10_000:], 0)):
        for noise in (part - [0, 0, exact]).T:
            follows_laplace(noise, 35.0)


@pytest.mark.statistical
def test_the_histogram_and_the_count_have_the_noise_they_are_charged_for() -> None:
    """Of every cell, empty ones too, and of the head count; false alarms in one of 300,000 runs."""
    stub = FixedAnswers(np.zeros((0, 3), dtype=np.int64))
    grid = noisy_grid(stub, 1.0, np.random.default_rng(5))
    assert grid.noisy.size > 50_000
    follows_laplace(grid.noisy.ravel()[:50_000], grid.answers[1].scale)
    few = [noisy_grid(stub, 1e-6, np.random.default_rng(seed)) for seed in range(3000)]
    counted = np.array([grid.users for grid in few])
    assert (counted >= 1).all()
    # Those below 1 are floored: what lies above a million is the upper half of the noise.
    beyond = counted[counted > 1_000_000] - 1_000_000
    follows_laplace(np.concatenate([beyond, -beyond]), few[0].answers[0].scale)


@pytest.mark.parametrize("method", METHODS)
def test_every_answer_passes_through_the_noise_and_is_paid_for(
    method: FitMethod, san_francisco: Region, city: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    scales: list[float] = []

    def spy(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
        scales.append(scale)
        return fixed_point_laplace(exact, scale, rng)

    for module in (fit_pic, fit_grid):
        monkeypatch.setattr(module, "fixed_point_laplace", spy)
    asked: list[Question] = []
    plan = FitPlan(method=method, rounds=4)
    found = build_intervals(
        city, san_francisco, plan, plan.budget(0.8, 1e-5), rng=1, watch=lambda question, _: asked.append(question)
    )
    assert len(asked) == len(scales)
    if method == "pic":
        assert found.answers == (LaplaceAnswers(3 * 4 + 1, scales[0]),)
        assert len(scales) == 5
    else:
        assert [part.scale for part in found.answers] == scales
        assert pure_fit_epsilon(found.answers) == pytest.approx(0.8)
    # One user, in the region's corner where it counts most, changes an answer by 1 at most: what the cost rests on.
    corner = np.vstack([city, [[37.9, -122.6]]])
    without, with_one = ExactAnswers(city, san_francisco), ExactAnswers(corner, san_francisco)
    for question in asked:
        change = np.abs(question(with_one) - question(without))
        assert change.max() == FIXED_POINT
        assert change.any(axis=-1).sum() == 1


def test_everything_after_the_noisy_answers_is_post_processing(
    san_francisco: Region, city: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given the noisy answers, the shape of which follows from those before, the data no longer matters."""
    shapes = []

    def fixed(exact: IntArray, *_: object) -> FloatArray:
        shapes.append(exact.shape)
        return np.full(exact.shape, 30.0)

    monkeypatch.setattr(fit_grid, "fixed_point_laplace", fixed)
    kwargs: dict[str, Any] = {"region": san_francisco, "epsilon": 1.0, "centres": 50, "rng": 3}
    first, second = (build_grid_intervals(users, **kwargs).centres for users in (city, city[:200]))
    assert (first == second).all()
    assert len(shapes) == 4
    assert shapes[:2] == shapes[2:]


# -- how many -----------------------------------------------------------------------------------------------------


def test_one_for_every_twenty_users() -> None:
    assert [centres_for(users) for users in (-50, 1, 59, 60, 15_999, 16_000, 10**9)] == [2, 2, 2, 3, 799, 800, 800]
    assert PAPER_CENTRES == 800


@pytest.mark.parametrize("method", METHODS)
def test_the_number_does_not_show_whether_one_user_is_there(
    san_francisco: Region, city: FloatArray, method: FitMethod
) -> None:
    """Of 59 users the exact rule would make 2 intervals and of 60 always 3.

    With noise of scale 20 (the grid's count at epsilon = 1, and here k-means', too) either comes out in about half of
    the fits: between 10 and 50 of 60, but for less than once in ten million.
    """
    plan = FitPlan(method=method, rounds=1)
    budget = 20.0 if method == "pic" else 1.0
    for users in (59, 60):
        three = [len(build_intervals(city[:users], san_francisco, plan, budget, rng=seed)) >= 3 for seed in range(60)]
        assert 10 <= sum(three) <= 50


def test_the_papers_budget_covers_the_head_count(city: FloatArray) -> None:
    """What the paper would claim is the epsilon asked for, with the head count, and with intervals used again."""
    fitted = DPRS(region="san-francisco", release="paper", epsilon=1.0, seed=1).fit(city)
    again = DPRS(release="paper", epsilon=1.0, intervals=fitted.intervals_)
    for mechanism in (fitted, again):
        assert mechanism.guarantee.also[-1].epsilon == pytest.approx(1.0, abs=1e-6)
    assert again.scales == fitted.scales


# -- what comes out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_with_hardly_any_noise_it_is_k_means(san_francisco: Region, city: FloatArray, method: FitMethod) -> None:
    """Every center that has users is then close to the mean of the users nearest to it."""
    plan = FitPlan(method=method, centres=20, rounds=60)
    found = build_intervals(city, san_francisco, plan, 1e-6 if method == "pic" else 40.0, rng=2)
    x = san_francisco.to_square(city)
    label = np.argmin(((x[:, None] - found.centres[None]) ** 2).sum(axis=-1), axis=1)
    near = [np.hypot(*(found.centres[j] - x[label == j].mean(axis=0))) < 0.04 for j in np.unique(label)]
    assert np.mean(near) >= 0.9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("users", [2, 20, 799, 5000])
def test_centers_lie_in_the_region_and_not_on_its_border(
    san_francisco: Region, city: FloatArray, method: FitMethod, users: int
) -> None:
    plan = FitPlan(method=method)
    found: Intervals = build_intervals(city[:users], san_francisco, plan, plan.budget(1.0, 1e-5), rng=4)
    half_extent = np.array(san_francisco.half_extent_square)
    assert 2 <= len(found) <= 800
    assert (np.abs(found.centres) <= half_extent).all()
    assert (np.abs(found.centres) < half_extent * 0.9999).all(axis=1).mean() > 0.99


def test_bad_parameters(san_francisco: Region, city: FloatArray) -> None:
    for name, value in (("centres", 1), ("rounds", 0), ("scale", 0.0), ("scale", float("nan")), ("gamma", 0.81)):
        with pytest.raises(UsageError, match=name):
            build_pic_intervals(city, **{"region": san_francisco, "scale": 1.0, name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="epsilon"):
        build_grid_intervals(city, region=san_francisco, epsilon=0)


def test_too_few_users_and_one_location(san_francisco: Region, city: FloatArray) -> None:
    kwargs: dict[str, Any] = {"region": san_francisco, "scale": 1.0}
    with pytest.raises(DataError, match="fewer than the 800 intervals"):
        build_pic_intervals(city[:10], centres=800, **kwargs)
    with pytest.raises(DataError, match="two people or more"):
        build_pic_intervals(city[:1], **kwargs)
    with pytest.raises(DataError, match="same location"):
        build_pic_intervals(np.tile(city[:1], (900, 1)), **kwargs)
