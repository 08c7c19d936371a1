"""How many intervals there are where nobody says: by a noisy or public number of people, never by the true one."""

from typing import Any

import numpy as np
import pytest

from nearveil.mechanisms import fit_pic
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_pic import build_pic_intervals, fixed_point_laplace
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.mechanisms.intervals import PAPER_CENTRES, centres_for
from nearveil.region import Region
from nearveil.types import FloatArray

METHODS = ("pic", "private-grid")


def test_one_for_every_twenty_people() -> None:
    assert [centres_for(people) for people in (-50, 1, 59, 60, 15_999, 16_000, 10**9)] == [2, 2, 2, 3, 799, 800, 800]
    assert PAPER_CENTRES == 800


@pytest.mark.parametrize("method", METHODS)
def test_the_number_does_not_show_whether_one_person_is_there(
    san_francisco: Region, city: FloatArray, method: Any
) -> None:
    """Of 59 people the exact rule would make 2 intervals and of 60 always 3.

    With noise of scale 20 (the grid's count at epsilon = 1, and here k-means', too) either comes out in about half of
    the fits: between 10 and 50 of 60, but for less than once in ten million.
    """
    plan = FitPlan(method=method, rounds=1)
    budget = 20.0 if method == "pic" else 1.0
    for people in (59, 60):
        three = [len(build_intervals(city[:people], san_francisco, plan, budget, rng=seed)) >= 3 for seed in range(60)]
        assert 10 <= sum(three) <= 50


@pytest.mark.parametrize("method", METHODS)
def test_a_public_number_is_taken_as_it_is(san_francisco: Region, city: FloatArray, method: Any) -> None:
    plan = FitPlan(method=method, rounds=2, population=300)
    found = [build_intervals(city[:100], san_francisco, plan, 1.0, rng=seed) for seed in range(5)]
    assert {len(intervals) for intervals in found} == {15}
    assert found[0].answers[0].count == (6 if method == "pic" else 1)


def test_k_means_pays_for_its_head_count(
    san_francisco: Region, city: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(exact: np.ndarray, scale: float, rng: np.random.Generator) -> FloatArray:
        asked.append((exact.shape, scale))
        return fixed_point_laplace(exact, scale, rng)

    monkeypatch.setattr(fit_pic, "fixed_point_laplace", spy)
    found = build_pic_intervals(city, region=san_francisco, scale=7.0, rounds=2, rng=1)
    assert asked == [((1,), 7.0), ((len(found), 3), 7.0), ((len(found), 3), 7.0)]
    assert found.answers == (type(found.answers[0])(3 * 2 + 1, 7.0),)
    assert FitPlan(rounds=2).queries == 7
    assert FitPlan(rounds=2, centres=50).queries == FitPlan(rounds=2, population=50).queries == 6


def test_the_papers_budget_covers_the_head_count(city: FloatArray) -> None:
    """What the paper would claim is the epsilon asked for, with the head count, and with intervals used again."""
    fitted = DPRS(release="paper", epsilon=1.0, seed=1).fit(city)
    again = DPRS(release="paper", epsilon=1.0, intervals=fitted.intervals_)
    for mechanism in (fitted, again):
        assert mechanism.guarantee.also[-1].epsilon == pytest.approx(1.0, abs=1e-6)
    assert again.scales == fitted.scales


@pytest.mark.parametrize("release", ["metric", "interval", "paper"])
@pytest.mark.parametrize("people", [2, 20, 799])
def test_small_files_are_fitted(city: FloatArray, release: Any, people: int) -> None:
    dprs = DPRS(release=release, seed=1).fit(city[:people])
    assert dprs.perturb(city[:people]).shape == (people, 2)
    assert 2 <= len(dprs.intervals_) < 60
    assert "one for every 20" in str(dprs.guarantee.also[0].because)
