"""The paper's parts on a small town: what they measure, what is compared, and what they show."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nearveil.errors import DataError
from nearveil.evaluation import paper, paper_numbers
from nearveil.evaluation.studies import PAPER, figures, load, table1, table3, theorems
from nearveil.evaluation.studies.protected import targets
from nearveil.evaluation.study import Scope, measure
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report.paper_figures import FIGURES

THIRD = "dataset,epsilon,mechanism,metric,value\n"
SCOPE = Scope(datasets=("town",), runs=2, instances=4, queries=40, quick=True)


def town(users: int = 1_200) -> Dataset:
    region = named_region("san-francisco")
    return Dataset("town", region, np.unique(synthetic_city(users, region, rng=1), axis=0), "made up")


@cache
def runs_of(name: str) -> pd.DataFrame:
    return measure(load(name), SCOPE, {"town": town()})


@pytest.mark.evidence
@pytest.mark.parametrize("name", PAPER)
def test_a_part_measures_makes_tables_and_draws(name: str) -> None:
    """Each part of the paper goes from its grid to tables, facts and figures, with a row for each run."""
    part, runs = load(name), runs_of(name)
    assert part.name == name
    assert {"dataset", "seed"} <= set(runs)
    assert (runs["run"].nunique() if "run" in runs else 1) in (1, SCOPE.runs)
    assert all(len(table) for table in part.tables(runs).values())
    assert all(isinstance(value, float | int | str) for value in part.facts(runs).values())
    for figure in FIGURES.get(name, lambda _: {})(runs).values():
        assert all(axes.lines or axes.collections for axes in figure.axes)


def test_attackers_start_at_the_same_points_whatever_is_published() -> None:
    there = town()
    true_m = there.region.to_metres(there.places)
    one, other = (targets(there, served, 10, 30, seed=1, run=0) for served in (true_m, true_m[::-1] * 0.9))
    assert [each.start for each in one] == [each.start for each in other]


def test_an_attack_from_outside_has_rows_of_its_own() -> None:
    """It takes one account, like the paper's, and is called by its name."""
    scope = Scope(datasets=("town",), runs=1, instances=2, attacks=("nearveil.attacks.gi_lia:GILIA",))
    theirs = [row for row in table1.PART.grid(scope) if row["source"] == "yours" and row["k"] == 10]
    assert [row["accounts"] for row in theirs] == [1]
    settings = {name: value for name, value in theirs[0].items() if name != "dataset"}
    found = pd.DataFrame([theirs[0] | table1.measure(town(), **settings)])
    assert table1.estimates(found).attack.tolist() == ["gi-lia, 1 account"]


def test_the_share_of_redrawn_centers_falls_as_noise_does() -> None:
    there = load_dataset(DatasetName.GAUSSIAN)
    most, some, few = (table3.redrawn_share(there, epsilon, seed=1) for epsilon in (0.5, 5.0, 50.0))
    assert (0.6 < most < 0.8, 0.3 < some < 0.5, few < 0.1) == (True, True, True)


def test_differences_are_paired_run_by_run() -> None:
    """A gain that is the same in every run has no width, however much runs differ."""
    settings = [(gamma, centers, run) for gamma in (0.2, 0.5) for centers in (600, 1000) for run in range(4)]
    rows = [
        {"dataset": "town", "reading": "redrawn", "gamma": gamma, "centers": centers, "epsilon": gamma, "run": run,
         "recall": run + centers / 1000 - gamma, "mse_km2": gamma - run}
        for gamma, centers, run in settings
    ]  # fmt: skip
    runs = pd.DataFrame(rows)
    [row] = figures.against_half(runs[runs.centers == 600]).to_dict("records")
    assert (row["recall"].value, row["recall"].half_width) == (pytest.approx(0.3), pytest.approx(0.0, abs=1e-12))
    assert row["mse_km2"].value == pytest.approx(-0.3)


# The paper's numbers, and those of its authors' code.


def test_the_papers_numbers_average_to_what_its_text_says() -> None:
    table = paper_numbers.table3()
    assert len(table) == 64
    means = table.groupby("mechanism")[["recall", "ratio_pooled", "acc", "dist_km"]].mean().round(3)
    assert means.loc["DPRS"].tolist() == [0.546, 0.882, 0.017, 0.541]
    assert means.recall[["SRR", "Square", "2D Laplace"]].tolist() == [0.513, 0.507, 0.482]
    [row] = (
        paper_numbers.table1().query("attack == 'GI-LIA' and dataset == 'brightkite' and k == 10").to_dict("records")
    )
    assert (row["dist_m"], row["acc"], row["cost_s"]) == (26.93, 0.972, 31.86)


@pytest.mark.evidence
def test_tables_have_rows_of_the_authors_code(tmp_path: Path) -> None:
    """Their numbers are in tables 1 and 3 as their own, and leave ours as they are."""
    first, third = tmp_path / "first.csv", tmp_path / "third.csv"
    first.write_text("method,dataset,k,dist_m,acc,cost_s\nGI-LIA,town,10,30,0.9,2\n", encoding="utf-8")
    third.write_text("dataset,epsilon,mechanism,metric,value\ntown,1,DPRS,recall,0.5\n", encoding="utf-8")
    for name, file in (("table1", first), ("table3", third)):
        with_theirs = pd.concat([runs_of(name), paper_numbers.theirs(file)[name]], ignore_index=True)
        alone, both = (load(name).tables(runs)[name] for runs in (runs_of(name), with_theirs))
        assert paper_numbers.AUTHORS in both.to_string()
        assert paper_numbers.AUTHORS not in alone.to_string()
        assert (len(both), len(both.columns) > len(alone.columns)) == (len(alone), True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "needs the columns method,dataset,k,dist_m,acc,cost_s, or dataset,epsilon"),
        (THIRD, "has no rows"),
        (THIRD + "x,1,DPRS,recall,0.5\nx,1,DPRS,recall,high\n", "line 3: value must be a number in its range"),
        (THIRD + "x,1,DPRS,recall,64.4\n", "line 2: value must be a number in its range .*, not 64.4"),
        (THIRD + "x,1,DPRS,dist,547\n", "line 2: value must be a number in its range .*, not 547"),
        (THIRD + "x,1,DPRS,rank,1\n", "line 2: metric must be one of recall, ratio, acc, dist, not rank"),
        (THIRD + "x,1,dprs,recall,1\n", "mechanism must be one of DPRS, SRR"),
        ("method,dataset,k,dist_m,acc,cost_s\nzo-lia,x,10,30,0.9,2\n", "method must be one of GI-LIA, ZO-LIA"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_file_that_is_not_theirs_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        paper_numbers.theirs(file)
    with pytest.raises(DataError, match="cannot be read"):
        paper_numbers.theirs(tmp_path / "nowhere.csv")


# Theorems.


@pytest.mark.parametrize(
    ("number", "claimed", "found"),
    [(1, 0.349, 0.408), (2, 0.910, 1.014), (4, 8.0, 9.316), (5, 0.160, 0.622), (8, 0.200, 0.733)],
)
def test_counterexamples(number: int, claimed: float, found: float) -> None:
    shown = theorems.EXAMPLES[number].shown
    assert shown is not None
    assert shown() == (pytest.approx(claimed, abs=0.001), pytest.approx(found, abs=0.004))


@pytest.mark.statistical
@pytest.mark.parametrize(("norm", "factor", "fits"), [(2, 1.0, True), (2, 0.7, False), (2, 1.3, False), (1, 1, False)])
def test_theorem_7_holds_with_norm_2(norm: Any, factor: float, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By χ² of draws, whose false-alarm rate is 1e-6; draws at 0.7 or 1.3 times the scale do not fit."""
    rsm: Any = paper.rsm
    monkeypatch.setattr(paper, "rsm", lambda *args, norm: rsm(*args[:3], factor * args[3], args[4], norm=norm))
    claimed, found = theorems.fit_by_norm(norm)
    assert (found < claimed) == fits


@pytest.mark.evidence
def test_an_audit_finds_theorem_3_violated() -> None:
    """DPRS loses more than the epsilon that the paper claims for it."""
    [found] = runs_of("theorems").query("what == @theorems.AUDITED").to_dict("records")
    assert (found["verdict"], found["claimed"], found["found"] > 5.0) == ("violated", pytest.approx(5.0), True)
