"""Every table and figure: what it needs measured, and a whole outcome with the paper's numbers in their places."""

from dataclasses import replace

import pytest

from nearveil.evaluation import cells
from nearveil.evaluation.experiments.registry import EXPERIMENTS, findings
from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.paper_numbers import paper_table1, paper_table2, paper_table3
from nearveil.evaluation.results import Chart, ExperimentResult, Table, Value
from nearveil.evaluation.runner import open_journal, run_cells
from nearveil.evaluation.stats import Mean, share_over_runs
from nearveil.report.files import full_name, table_cells, table_csv, table_markdown
from tests.evaluation.made_up_results import made_up_results, tiny_town

TOWNS = {name: tiny_town(name, people=1000, seed=seed) for seed, name in enumerate(("brightkite", "gaussian"))}
TINY = Scope(datasets=TOWNS, runs=2, instances=2, queries=10, targets=2)
SCOPES = {
    "full": TINY,
    "quick": replace(TINY, quick=True),
    "one run": replace(TINY, runs=1, quick=True),
    "a town of our own": replace(TINY, datasets={"our town": tiny_town("our town", people=1000)}, quick=True),
}


@pytest.fixture(autouse=True)
def nobody_fits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up results need no intervals."""
    if "measured" not in request.fixturenames:
        monkeypatch.setattr(cells, "fitted", lambda mechanism, _dataset: mechanism)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scope, dict[str, ExperimentResult]]:
    """Everything, truly measured, as small as can be."""
    scope = Scope(
        datasets={"brightkite": TOWNS["brightkite"]}, runs=1, instances=1, queries=10, targets=2, quick=True
    )  # fmt: skip
    cells = [cell for part in EXPERIMENTS.values() for cell in part.cells(scope)]
    with open_journal(tmp_path_factory.mktemp("parts") / "cells.jsonl") as journal:
        generated = {
            name: tiny_town(name, people=2000)
            for part in ("year", "services")
            for name in EXPERIMENTS[part].generated()
        }
        results = run_cells(cells, {**generated, **scope.datasets}, journal, cores=1)
    assert len(findings(scope, results)) == 3
    return scope, {name: part.outcome(scope, results) for name, part in EXPERIMENTS.items()}


def made_up_outcome(name: str, scope: Scope) -> ExperimentResult:
    return EXPERIMENTS[name].outcome(scope, made_up_results(EXPERIMENTS[name].cells(scope)))


def check_whole(outcome: ExperimentResult, scope: Scope) -> None:
    assert outcome.title
    assert outcome.question.endswith(("?", "."))
    assert outcome.tables
    for table in outcome.tables:
        check_table(outcome, table, scope)
    assert outcome.pictures
    for picture in outcome.pictures:
        assert len(picture.description) > 40
        assert picture.title
        assert picture.panels
        if isinstance(picture, Chart):
            for panel in picture.panels:
                assert panel.x_label
                assert panel.y_label
                assert panel.series
                assert all(len(series.x) == len(series.y) > 0 for series in panel.series)
                assert len({(series.label, series.kind) for series in panel.series}) == len(panel.series)
    assert outcome.remarks
    for remark in outcome.remarks:
        assert remark.endswith(".")
        assert not any(word in remark for word in ("nan", "None", "inf ", " ."))


def check_table(outcome: ExperimentResult, table: Table, scope: Scope) -> None:
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    names = [full_name(column) for column in table.columns]
    assert len(set(names)) == len(names)
    assert table.caption.endswith(".")
    assert table.protocol.endswith(".")
    assert f"seed {scope.seed}" in table.protocol or outcome.name == "table2"
    datasets = [row[0] for row in table.rows if isinstance(row[0], str)]
    # The paper's generated people have no countryside.
    wanted = set(scope.datasets) - ({"gaussian", "beta"} if outcome.name == "among" else set())
    # The paper's people have no homes, and services are judged on a made-up city.
    wanted -= {"gaussian", "beta", "brightkite", "gowalla"} if outcome.name in ("year", "services") else set()
    assert wanted <= {*datasets, *(row[2] for row in table.rows)} or outcome.name == "figure8"
    _, cells = table_cells(table)
    assert not any("None" in cell or "nan" in cell for row in cells for cell in row)
    assert table_csv(table).count("\n") == len(table.rows) + 1
    assert table.protocol in table_markdown(outcome, table)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", SCOPES)
def test_whole_outcomes(name: str, size: str) -> None:
    scope = SCOPES[size]
    cells = EXPERIMENTS[name].cells(scope)
    # Some share cells, but nothing may be measured for another population, seed or run than was asked for.
    assert {cell.seed for cell in cells} <= {scope.seed}
    assert {cell.run for cell in cells} <= set(range(scope.runs))
    assert {cell.dataset for cell in cells} <= {*scope.datasets, *EXPERIMENTS[name].generated(), "nobody"}
    assert len({cell.key("") for cell in cells}) == len(set(cells))
    outcome = made_up_outcome(name, scope)
    assert (outcome.name, outcome.title) == (EXPERIMENTS[name].name, EXPERIMENTS[name].title)
    check_whole(outcome, scope)


@pytest.mark.evidence
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_whole_outcomes_of_what_was_measured(name: str, measured: tuple[Scope, dict[str, ExperimentResult]]) -> None:
    scope, outcomes = measured
    check_whole(outcomes[name], scope)


def test_files_do_not_overwrite_each_other() -> None:
    outcomes = [made_up_outcome(name, TINY) for name in EXPERIMENTS]
    tables = [table.name for outcome in outcomes for table in outcome.tables]
    pictures = [picture.name for outcome in outcomes for picture in outcome.pictures]
    assert len(set(tables)) == len(tables)
    assert len(set(pictures)) == len(pictures)


def rows_of(name: str, **wanted: Value) -> list[dict[str, Value]]:
    table = made_up_outcome(name, TINY).tables[0]
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    return [row for row in rows if wanted.items() <= row.items()]


def test_the_papers_tables_are_whole() -> None:
    assert (len(paper_table1()), len(paper_table2()), len(paper_table3())) == (24, 4, 64)
    assert paper_table1()["zo-lia", "gowalla", 50] == (56.83, 0.926, 18.92)
    assert paper_table1()["gi-lia", "gaussian", 10] == (26.31, 0.940, 44.42)
    assert paper_table2()["brightkite"] == (18409, 11.76, 0.26)
    assert paper_table3()["gaussian", 0.5, "Laplace"] == (0.541, 0.792, 0.012, 0.591)


@pytest.mark.parametrize(
    ("attack", "dataset", "k", "paper"),
    [
        ("GI-LIA", "brightkite", 50, (25.74, 0.996, 35.12)),
        ("ZO-LIA", "gaussian", 10, (24.35, 0.956, 22.14)),
        ("unfolding", "gaussian", 10, (None, None, None)),
    ],
)
def test_table_1_beside_the_papers(attack: str, dataset: str, k: int, paper: tuple[float | None, ...]) -> None:
    (row,) = rows_of("table1", attack=attack, dataset=dataset, k=k)
    assert (row["paper Dist (m)"], row["paper Acc"], row["paper Cost (s)"]) == paper
    assert (row["Dist (m)"], row["Acc"]) == (Mean(1.0, 0.0), share_over_runs([2, 2], 2))
    assert (row["queries"], row["Cost (s)"], row["others found"]) == (Mean(12.0, 0.0), Mean(0.25, 0.0), 0.5)
    assert row["certified"] is None


@pytest.mark.parametrize(
    ("mechanism", "dataset", "epsilon", "paper"),
    [
        ("DPRS", "brightkite", 1.0, (0.464, 0.881, 0.014, 0.583)),
        ("2D Laplace", "brightkite", 3.0, (0.416, 0.699, 0.022, 0.519)),
        ("SRR", "gaussian", 5.0, (0.649, 0.9, 0.022, 0.423)),
        ("Square", "gaussian", 0.5, (0.587, 0.848, 0.018, 0.579)),
        ("per-axis Laplace", "gaussian", 0.5, (None, None, None, None)),
    ],
)
def test_table_3_beside_the_papers(
    mechanism: str, dataset: str, epsilon: float, paper: tuple[float | None, ...]
) -> None:
    rows = rows_of("table3", mechanism=mechanism, dataset=dataset, epsilon=epsilon)
    found = [[row[f"paper {name}"] for name in ("recall", "ratio", "Acc", "Dist (km)")] for row in rows]
    assert [row["region"] for row in rows] == ["paper", "isotropic"]
    assert found == [list(paper), [None] * 4]
    recall = rows[0]["recall"]
    assert isinstance(recall, Mean)
    # Pooled beside the paper's.
    assert (rows[0]["ratio, pooled"], rows[0]["ratio, per query"]) == (Mean(0.9, 0.0), Mean(0.8, 0.0))
    # Two runs, 0.400 and 0.401, and Student's t with one degree of freedom.
    assert (recall.value, recall.half_width) == (pytest.approx(0.4005), pytest.approx(0.0005 * 12.706, rel=1e-3))
