"""The frontier: what is measured, and what its tables say of curves that are known beforehand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nearveil.evaluation.contenders import ALL
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.studies import frontier
from nearveil.evaluation.studies.frontier import PART, Curve
from nearveil.evaluation.study import Scope, measure
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report.frontier_figures import FIGURES

REGION = named_region("san-francisco")


def made_up(name: str, value: float, *, dataset: str = "town", run: int = 0, **measured: float) -> dict[str, Any]:
    """A row of a run with many users, so that its intervals are narrow."""
    means = {"recall": 0.3, "ratio": 0.5, "nearest_m": 100.0, "listed_m": 300.0, "extra_m": 200.0, "error_m": 400.0}
    shares = {"found": 0.2, "named": 0.1, "named_sparsest": 0.3}
    cases = dict.fromkeys(("targets", "named_cases", "sparsest_cases"), 1_000_000)
    row = {
        "dataset": dataset,
        "contender": name,
        "value": value,
        "run": run,
        "runs": 2,
        "queries": 2000,
        "named_most": 5000,
    }
    return row | means | {f"{mean}_se": 1e-4 for mean in means} | shares | cases | measured


def runs_of(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([row | {"run": run} for row in rows for run in range(2)])


# Lists keep 100 m of noise / value; named with meters 2 %, among users a fifth of that in the sparsest tenth.
METERS = [
    made_up(
        "planar-laplace", value, recall=100 / value, named=20 / value, named_sparsest=100 / value, extra_m=value / 2
    )
    for value in (200.0, 400.0, 800.0, 1600.0)
]
AMONG = [
    made_up("among", value, recall=25 / value, named=5 / value, named_sparsest=5 / value, extra_m=4 * value)
    for value in (50.0, 100.0, 200.0, 400.0)
]


def test_lists_and_naming_are_compared_where_they_are_equal() -> None:
    tables = PART.tables(runs_of(*METERS, *AMONG))
    lists, naming = tables["among-equal-lists"], tables["among-equal-naming"]
    assert lists["", "noise (m)"].tolist() == [400.0, 800.0]
    # A quarter as many users as meters keep the same lists: a fifth of the naming of the sparsest, twice the cost.
    assert [one.value for one in lists["", "users"]] == pytest.approx([100, 200], rel=1e-3)
    assert [one.value for one in lists["named", "times"]] == pytest.approx([1, 1], rel=1e-3)
    assert [one.value for one in lists["named, sparsest tenth", "times"]] == pytest.approx([0.2, 0.2], rel=1e-3)
    assert [one.value for one in lists["extra meters", "times"]] == pytest.approx([2, 2], rel=1e-3)
    assert [one.value for one in naming["recall@10", "times"]] == pytest.approx([1, 1], rel=1e-3)
    facts = PART.facts(runs_of(*METERS, *AMONG))
    assert facts["lists_named_sparsest"] == pytest.approx((0.2, 0.2), rel=1e-3)
    assert (facts["naming_named_sparsest"], facts["noise"][0]["noise_m"]) == (None, 400)


def test_nothing_is_said_beyond_the_ends_of_a_curve() -> None:
    tables = PART.tables(runs_of(*METERS, *AMONG[:2]))
    assert [one is None for one in tables["among-equal-lists"]["", "users"]] == [True, True]
    (meters, among) = tables["frontier-equal"].to_dict("records")
    # The sparsest tenth is named half as often at 200 m of noise, and at no number of users that was measured.
    assert meters["extra meters where named, sparsest tenth", "20 %"].value == pytest.approx(250, rel=1e-3)
    assert meters["extra meters where found within 100 m", "50 %"] is None
    assert among["extra meters where named, sparsest tenth", "50 %"] is None


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
    quick = PART.grid(Scope(datasets=("brightkite",), quick=True, mechanisms=(f"{__name__}:Mine",)))
    assert len(quick) < len(grid) / 2
    # Others' classes are measured again when their file has changed.
    assert {bool(row["code"]) for row in quick if row["contender"].endswith("Mine")} == {True}


class Mine(type(ALL["planar-laplace"].mechanism)):  # type: ignore[misc]
    """Somebody else's."""

    name = "mine"


def test_measured_in_pairs_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "_QUICK", ("planar-laplace", "among-published", "paper"))
    town = Dataset("town", REGION, synthetic_city(400, REGION, rng=1))
    runs = measure(PART, Scope(datasets=("town",), runs=2, instances=4, queries=30, quick=True), {"town": town})
    # Too few users for the paper's intervals, and to hide among 200 of them.
    assert runs.groupby("contender").value.unique().map(list).to_dict() == {
        "planar-laplace": [100.0, 350.0, 800.0], "among-published": [50.0],
    }  # fmt: skip
    # All meet the same users who ask.
    assert runs.groupby("run").nearest_m.nunique().tolist() == [1, 1]
    assert list(FIGURES["frontier"](runs)) == ["frontier-town", "among"]
    assert PART.tables(runs)["frontier"]["setting"].tolist()[-1] == "among 50 users"
