"""What is compared, how it is measured, and what the frontier says of curves that are known beforehand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nearveil.evaluation.contenders import ALL, Contender, contender, deployable
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.studies import frontier
from nearveil.evaluation.studies.frontier import PART, Curve
from nearveil.evaluation.study import Scope
from nearveil.evaluation.study import measure as measure_part
from nearveil.evaluation.tradeoff import (
    MEANS,
    SHARES,
    Sizes,
    measure,
    together,
    what_attackers_get,
    what_users_get,
)
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region, named_region
from nearveil.report.beyond_figures import FIGURES
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
TOWN = Dataset("town", REGION, synthetic_city(900, REGION, rng=1))
SMALL = Sizes(queries=60, targets=12, named=100)


def test_users_get_what_a_loop_counts() -> None:
    published = PlanarLaplace(800, REGION, seed=3).perturb(TOWN.places)
    found = what_users_get(TOWN, published, k=5, queries=80, rng=np.random.default_rng(7))
    true_m, published_m = REGION.to_metres(TOWN.places), REGION.to_metres(published)
    recall, listed_m, nearest_m = [], [], []
    for asker in np.random.default_rng(7).integers(len(true_m), size=80):
        truly, seemingly = (np.hypot(*(places - true_m[asker]).T) for places in (true_m, published_m))
        truly[asker] = seemingly[asker] = np.inf
        nearest, listed = np.argsort(truly)[:5], np.argsort(seemingly)[:5]
        recall.append(len(set(nearest) & set(listed)) / 5)
        listed_m.append(truly[listed].mean())
        nearest_m.append(truly[nearest].mean())
    assert found["recall"] == pytest.approx(np.mean(recall))
    assert found["listed_m"] == pytest.approx(np.mean(listed_m))
    assert found["extra_m"] == pytest.approx(np.mean(listed_m) - np.mean(nearest_m))
    assert found["extra_m_se"] == pytest.approx(np.std(np.subtract(listed_m, nearest_m), ddof=1) / math.sqrt(80))


class Disclosing(PlanarLaplace):
    """Says that it discloses more than it does."""

    def groups(self, points: FloatArray) -> Any:
        return np.arange(len(points))


def test_others_are_not_believed_what_they_disclose() -> None:
    mechanism = Disclosing(800, REGION, seed=1)
    found = what_attackers_get(mechanism, TOWN.places, mechanism.perturb(TOWN.places), sizes=SMALL, seed=1)
    assert found["named"] < 0.5


def test_the_sparsest_are_named_most_and_noise_helps() -> None:
    sizes, meters = Sizes(queries=60, targets=12, named=900), ALL["planar-laplace"]
    less, more, again = (measure(meters, value, TOWN, seed=1, sizes=sizes) for value in (300, 3000, 300))
    assert less["named"] > more["named"]
    assert all(one["named_sparsest"] > one["named"] and one["sparsest_cases"] == 90 for one in (less, more))
    assert less["extra_m"] < more["extra_m"]
    assert less == again


# Contenders.


class Learned(PlanarLaplace):
    """Learns its noise from its parameter when it is fitted."""

    def __init__(self, *, epsilon: float = 1.0, region: Region | str | None = None, seed: int | None = None) -> None:
        super().__init__(1000.0, region, seed)
        self.epsilon = epsilon

    def fit(self, points: object, y: object = None, *, progress: Any = None) -> "Learned":
        super().fit(points, y, progress=progress)
        self.noise_m = 1000 / self.epsilon
        return self


def test_a_mechanism_that_learns_is_fitted_for_each_setting() -> None:
    learning = Contender("mine:Learned", "mine", Learned(region=REGION), "epsilon", (1.0, 10.0, 0.1))
    assert [learning.fitted(value, TOWN, 1).noise_m for value in learning.values] == [1000, 100, 10_000]  # type: ignore[attr-defined]


def test_what_may_be_recommended_is_sound_and_others_are_labeled() -> None:
    assert {one.name for one in deployable()} == {"planar-laplace", "among", "metric", "interval"}
    assert all(one.sound for one in deployable())
    assert ALL["paper"].promise == "claim refuted"
    assert ALL["interval"].promise == "within an interval"
    assert len({one.label for one in ALL.values()}) == len(ALL)
    assert contender("dprs") is ALL["metric"]
    mine = contender(Learned)
    assert (mine.swept, mine.promise) == ("epsilon", "between all locations")


@pytest.mark.parametrize(("name", "loss"), [("planar-laplace", 0), ("metric", 2), ("among", 2), ("among-published", 0)])
def test_users_pay_for_what_is_learned_from_them(name: str, loss: float) -> None:
    assert ALL[name].fit_loss == loss


# Runs together.


def rows(*values: float, error: float) -> list[dict[str, float]]:
    means = {f"{name}{of}": error for name in MEANS for of in ("", "_se")}
    shares = dict.fromkeys(SHARES, 0.5) | dict.fromkeys(SHARES.values(), 10)
    return [{**means, **shares, "extra_m": value} for value in values]


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False), (1.3, False)])
def test_intervals_hold_the_true_mean(factor: float, right: bool) -> None:
    """95 % of 3,000, within 2.6 standard deviations: a false alarm in one of a hundred seeds, and this one is fixed."""
    values = 100 + 4.0 * np.random.default_rng(1).normal(size=3_000)
    held = []
    for value in values:
        found = together(rows(value, error=4.0 * factor))["extra_m"]
        assert found.low is not None and found.high is not None
        held.append(found.low <= 100 <= found.high)
    assert bool(abs(np.mean(held) - 0.95) < 0.0103) == right


def test_runs_that_differ_by_more_than_their_users_widen_the_interval() -> None:
    alike, apart = (together(rows(*values, error=1.0))["extra_m"] for values in ((99, 101), (80, 120)))
    assert alike.high == pytest.approx(100 + 1.96)
    assert apart.high == pytest.approx(100 + 1.96 * 20)


# The frontier.


def curve(name: str, *values: float, extra_m: float, **shares: float) -> list[dict[str, Any]]:
    """Rows with shares of one over the value, and meters in proportion to it; of many users, so surely."""
    means = dict.fromkeys(MEANS, 100.0) | {f"{mean}_se": 1e-4 for mean in MEANS}
    row = means | {"found": 0.2} | dict.fromkeys(SHARES.values(), 1_000_000)
    row |= {"dataset": "town", "contender": name, "runs": 2, "queries": 2000, "named_most": 5000}  # type: ignore[dict-item]
    return [
        row | {"value": value, "run": run, "extra_m": extra_m * value} | {of: one / value for of, one in shares.items()}
        for value in values
        for run in range(2)
    ]


METERS = curve("planar-laplace", 200, 400, 800, 1600, extra_m=0.5, recall=100, named=20, named_sparsest=100)
AMONG = curve("among", 50, 100, 200, 400, extra_m=4, recall=25, named=5, named_sparsest=5)


def test_naming_and_meters_are_compared_where_lists_are_equal() -> None:
    tables = PART.tables(pd.DataFrame(METERS + AMONG))
    lists = tables["among-equal-lists"]
    assert lists["", "noise (m)"].tolist() == [400.0, 800.0]
    # A quarter as many users as meters keep the same lists: a fifth of the naming of the sparsest, twice the cost.
    assert [one.value for one in lists["", "users"]] == pytest.approx([100, 200], rel=1e-3)
    assert [one.value for one in lists["named", "times"]] == pytest.approx([1, 1], rel=1e-3)
    assert [one.value for one in lists["named, sparsest tenth", "times"]] == pytest.approx([0.2, 0.2], rel=1e-3)
    assert [one.value for one in lists["extra meters", "times"]] == pytest.approx([2, 2], rel=1e-3)
    facts = PART.facts(pd.DataFrame(METERS + AMONG))
    assert facts["lists_named_sparsest"] == pytest.approx((0.2, 0.2), rel=1e-3)
    assert (facts["lists_found"], facts["noise"][0]["noise_m"]) == (None, 400)


def test_nothing_is_said_beyond_the_ends_of_a_curve() -> None:
    tables = PART.tables(pd.DataFrame(METERS + AMONG[:4]))
    assert [one is None for one in tables["among-equal-lists"]["", "users"]] == [True, True]


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False), (1.3, False)])
def test_intervals_between_points_hold_what_is_true(factor: float, right: bool) -> None:
    """95 % of 500, within 2.6 standard deviations: a false alarm for one of a hundred seeds."""
    rng, held = np.random.default_rng(5), []
    for number in range(500):
        points = [
            {"recall": Mean(x, 1e-9), "extra_m": Mean(y * (1 + 0.02 * rng.normal()), 1.96 * 0.02 * y * factor)}
            for x, y in ((0.4, 100.0), (0.1, 400.0))
        ]
        one = Curve(f"town {number}", ALL["among"], [10.0, 20.0], points)  # type: ignore[arg-type]
        drawn = one.at("recall", np.full(401, 0.2), "extra_m")
        held.append(abs(drawn[0] - 200) <= 1.96 * drawn[1:].std())
    assert bool(abs(np.mean(held) - 0.95) < 0.026) == right


def test_a_few_runs_with_many_users_on_real_populations() -> None:
    grid = PART.grid(Scope(datasets=("brightkite", "gaussian"), runs=5, instances=60))
    assert {row["dataset"] for row in grid} == {"brightkite"}
    assert {(row["runs"], row["targets"]) for row in grid} == {(2, 150)}
    assert {row["contender"] for row in grid} == set(ALL)
    assert {row["dataset"] for row in PART.grid(Scope(datasets=("beta",), quick=True))} == {"beta"}
    quick = PART.grid(Scope(datasets=("brightkite",), quick=True, mechanisms=(f"{__name__}:Learned",)))
    assert len(quick) < len(grid) / 2
    # Others' classes are measured again when their file has changed.
    assert {bool(row["code"]) for row in quick if row["contender"].endswith("Learned")} == {True}


def test_measured_in_pairs_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "_QUICK", ("planar-laplace", "among-published", "paper"))
    few = Dataset("town", REGION, TOWN.places[:400])
    runs = measure_part(PART, Scope(datasets=("town",), runs=2, instances=4, queries=30, quick=True), {"town": few})
    # Too few users for the paper's intervals, and to hide among 200 of them.
    assert runs.groupby("contender").value.unique().map(list).to_dict() == {
        "planar-laplace": [100.0, 350.0, 800.0], "among-published": [50.0],
    }  # fmt: skip
    # All meet the same users who ask.
    assert runs.groupby("run").nearest_m.nunique().tolist() == [1, 1]
    assert list(FIGURES["frontier"](runs)) == ["frontier-town", "among"]
    assert PART.tables(runs)["frontier"]["setting"].tolist()[-1] == "among 50 users"
