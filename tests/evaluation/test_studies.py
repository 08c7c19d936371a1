"""The paper's parts on a small town: what they measure, what is compared, and what they show."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.evaluation import paper_numbers
from nearveil.evaluation.studies import PAPER, ablation, figure9, figures4to7, load, table1, table3, theorems
from nearveil.evaluation.studies.protected import attack_users, attack_with_reference, targets
from nearveil.evaluation.study import Scope, measure
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report.paper_figures import FIGURES

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


def test_a_part_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no part 'table9'; choose one of table1, "):
        load("table9")


# The same for all that is compared.


def test_attackers_start_at_the_same_points_whatever_is_published() -> None:
    there = town()
    true_m = there.region.to_metres(there.places)
    open_one, moved = (targets(there, served, 10, 30, seed=1, run=0) for served in (true_m, true_m[::-1] * 0.9))
    np.testing.assert_array_equal(open_one.starts_m, moved.starts_m)
    distances = np.linalg.norm(true_m[:, None] - open_one.starts_m, axis=2)
    nearest = np.linalg.norm(true_m[open_one.users] - open_one.starts_m, axis=1)
    assert (np.sum(distances < nearest, axis=0) == 9).all()
    # Within 100 m of somebody, and not always at the same point.
    assert (distances.min(axis=0) <= 100.0).all()
    assert len(np.unique(open_one.starts_m, axis=0)) == 30


@pytest.mark.parametrize(("name", "method"), [("GI-LIA", "gi-lia"), ("ZO-LIA", "zo-lia")])
def test_the_reference_attacks_the_same_users_with_the_same_result(name: str, method: str) -> None:
    there = town()
    served_m = there.region.to_metres(there.places)
    chosen = targets(there, served_m, 10, 12, seed=1, run=0)
    ours = attack_users(method, there, served_m, chosen, k=10, seed=1)
    theirs = attack_with_reference(name, there, served_m, chosen, k=10, seed=1, run=0)
    assert theirs["dist_m"] == pytest.approx(ours["dist_m"], abs=5.0)
    assert theirs["acc"] == ours["acc"]
    assert theirs["queries"] == pytest.approx(ours["queries"], abs=2.0)


def test_an_attack_from_outside_has_rows_of_its_own() -> None:
    """It takes one account, like the paper's, and is called by its name."""
    scope = Scope(datasets=("town",), runs=1, instances=2, attacks=("nearveil.attacks.gi_lia:GILIA",))
    theirs = [row for row in table1.PART.grid(scope) if row["source"] == "yours" and row["k"] == 10]
    assert [row["accounts"] for row in theirs] == [1]
    settings = {name: value for name, value in theirs[0].items() if name != "dataset"}
    found = pd.DataFrame([theirs[0] | table1.measure(town(), **settings)])
    assert table1.estimates(found).attack.tolist() == ["gi-lia, 1 account"]


def test_lists_longer_than_the_population_are_refused() -> None:
    there = town(60)
    with pytest.raises(UsageError, match="a list of 70 users needs more than the 60"):
        targets(there, there.region.to_metres(there.places), 70, 1, seed=1, run=0)


@pytest.mark.evidence
def test_tables_1_and_3_find_nearveil_and_the_reference_in_agreement() -> None:
    """95 % intervals of Acc, recall, ratio and Dist meet; with 0.7 or 1.3 times the reference's recall they do not."""
    assert table1.disagreements(runs_of("table1")) == 0
    there = load_dataset(DatasetName.GAUSSIAN)
    scope = Scope(datasets=("gaussian",), runs=4, instances=10, queries=500, quick=True)
    part = load("table3")
    grid = [row for row in part.grid(scope) if row["mechanism"] == "DPRS"]
    wanted = [row for row in grid if row["reading"] in (table3.NEARVEIL, table3.REDRAWN)]
    settings = [{name: value for name, value in row.items() if name != "dataset"} for row in wanted]
    runs = pd.DataFrame([row | table3.measure(there, **own) for row, own in zip(wanted, settings, strict=True)])
    assert table3.disagreements(runs) == 0
    for factor in (0.7, 1.3):
        changed = runs.assign(recall=runs.recall.where(runs.reading == table3.NEARVEIL, factor * runs.recall))
        assert table3.disagreements(changed) == 2


def test_agreement_is_lost_where_acc_differs() -> None:
    rows = [
        {"source": source, "attack": "ZO-LIA", "label": "ZO-LIA", "dataset": "town", "k": 10, "accounts": 1,
         "run": run, "acc": acc, "dist_m": 1.0, "cost_s": 1.0, "queries": 60.0, "instances": 50}
        for source, acc in (("Nearveil", 0.9), ("reference", 0.5)) for run in range(3)
    ]  # fmt: skip
    assert table1.disagreements(pd.DataFrame(rows)) == 1


def test_the_share_of_redrawn_centers_falls_as_noise_does() -> None:
    there = load_dataset(DatasetName.GAUSSIAN)
    most, some, few = (table3.redrawn_share(there, epsilon, seed=1) for epsilon in (0.5, 5.0, 50.0))
    assert 0.6 < most < 0.8
    assert 0.3 < some < 0.5
    assert few < 0.1


def test_differences_are_paired_run_by_run() -> None:
    """A gain that is the same in every run has no width, however much runs differ."""
    rows = [
        {"dataset": "town", "gamma": gamma, "run": run, "recall": 0.1 * run + gain, "mse_km2": 0.1 * run - gain}
        for run in range(4)
        for gamma, gain in ((0.2, 0.05), (0.5, 0.0))
    ]
    [row] = figure9.against(pd.DataFrame(rows)).to_dict("records")
    assert (row["recall"].value, row["recall"].half_width) == (pytest.approx(0.05), pytest.approx(0.0, abs=1e-12))
    assert row["distance MSE (km²)"].value == pytest.approx(-0.05)


def test_gains_along_centers_and_epsilon() -> None:
    rows = [
        {"dataset": "town", "epsilon": epsilon, "centers": centers, "run": run, "k": 10,
         "recall": centers / 1000 - epsilon / 100 + run}
        for epsilon in (0.5, 5.0) for centers in (600, 1000) for run in range(2)
    ]  # fmt: skip
    found = figures4to7.gains(pd.DataFrame(rows))
    assert [round(one.value, 6) for one in found["recall"]] == [0.4, 0.4, -0.045, -0.045]
    assert found["change"].tolist() == ["centers: 1000 minus 600"] * 2 + ["epsilon: 5 minus 0.5"] * 2


def test_an_ablation_is_what_the_part_brings_over_its_replacement() -> None:
    rows = [
        {"dataset": "town", "epsilon": 1.0, "reading": "kept", "variant": variant, "run": run, "recall": recall + run}
        for variant, recall in ((ablation.AS_PAPER, 0.5), ("uniform point", 0.4)) for run in range(2)
    ]  # fmt: skip
    assert ablation.gains(pd.DataFrame(rows), "uniform point", ("recall",))["recall"][0].value == pytest.approx(0.1)


# The paper's numbers, and those of its authors' code.


def test_the_papers_numbers_average_to_what_its_text_says() -> None:
    table = paper_numbers.table3()
    assert len(table) == 64
    own, srr, square, laplace = (
        table.xs(name, level="mechanism").mean() for name in ("DPRS", "SRR", "Square", "2D Laplace")
    )
    assert (round(own.recall, 3), round(own.ratio_pooled, 3)) == (0.546, 0.882)
    assert (round(own.acc, 3), round(own.dist_km, 3)) == (0.017, 0.541)
    assert [round(one.recall, 3) for one in (srr, square, laplace)] == [0.513, 0.507, 0.482]
    assert paper_numbers.table1().loc[("GI-LIA", "brightkite", 10)].tolist() == [26.93, 0.972, 31.86]
    assert paper_numbers.table2().loc["gaussian", "locations"] == 25_000


def test_results_of_the_authors_code_stand_beside_ours(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text(
        "dataset,epsilon,mechanism,metric,value\ntown,1,DPRS,recall,0.5\ntown,1,DPRS,recall,0.6\ntown,1,DPRS,acc,0.02\n",
        encoding="utf-8",
    )
    [(name, rows)] = paper_numbers.theirs(file).items()
    assert name == "table3"
    found = table3.estimates(rows, ["recall"])
    assert (found.reading[0], found.recall[0].value) == (paper_numbers.AUTHORS, pytest.approx(0.55))


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
        assert len(both) - len(alone) == (name == "table3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "needs the columns method,dataset,k,dist_m,acc,cost_s, or dataset,epsilon"),
        ("dataset,epsilon,mechanism,metric,value\n", "has no rows"),
        (
            "dataset,epsilon,mechanism,metric,value\nx,1,DPRS,recall,high\n",
            "line 2: value must be a number, not 'high'",
        ),
        ("dataset,epsilon,mechanism,metric,value\nx,1,DPRS,rank,1\n", "there is no metric 'rank'"),
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
    ("example", "claimed", "found"),
    [
        (theorems.confined_divergence, 0.910, 1.014),
        (partial(theorems.displacement, "gaussian"), 0.160, 0.622),
        (partial(theorems.displacement, "laplace"), 0.200, 0.733),
        (theorems.printed_bound, 0.182, 0.272),
    ],
)
def test_counterexamples(example: Callable[[], theorems.Shown], claimed: float, found: float) -> None:
    shown = example()
    assert shown.claimed == pytest.approx(claimed, abs=0.001)
    assert shown.found == pytest.approx(found, abs=0.004)
    assert theorems.differ(shown.claimed, shown.found)


def test_the_true_sensitivity_costs_more() -> None:
    laplace, gaussian = theorems.laplace_sensitivity(), theorems.gaussian_sensitivity()
    assert laplace.found / laplace.claimed == pytest.approx(2.16, abs=0.005)
    assert gaussian.found / gaussian.claimed == pytest.approx(4.0)


@pytest.mark.evidence
def test_an_audit_finds_theorem_3_violated() -> None:
    """DPRS loses more than the epsilon that the paper claims for it."""
    runs = runs_of("theorems")
    [found] = runs[runs.what == theorems.AUDITED].to_dict("records")
    assert (found["verdict"], found["claimed"]) == ("violated", pytest.approx(5.0))
    assert found["found"] > 5.0
