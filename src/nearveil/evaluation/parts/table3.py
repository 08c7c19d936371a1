"""Table 3: what the defences cost in utility and what ZO-LIA still finds, the paper's mechanisms at four epsilons."""

from __future__ import annotations

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.defences import paper_defences
from nearveil.evaluation.outcome import Chart, Column, Outcome, Panel, Series, Table, Value, exact
from nearveil.evaluation.parts.scope import Results, Scope
from nearveil.evaluation.parts.table3_remarks import table3_remarks
from nearveil.evaluation.parts.table3_rows import K, Line, Measured, line_of, measure_line
from nearveil.evaluation.protocols import COLLUDER_WORDS, QUERY_WORDS, REGION_WORDS, RegionProtocol

NAME = "table3"
TITLE = "Table 3: the defences, utility and attack side by side"


_COLUMNS = (
    Column("dataset"), Column("epsilon", form="g"), Column("mechanism"), Column("region"),
    Column("recall", "uniform queries"), Column("paper recall", "uniform queries"),
    Column("ratio", "uniform queries"), Column("paper ratio", "uniform queries"),
    Column("Acc", "ZO-LIA, exact accounts"), Column("paper Acc", "ZO-LIA, exact accounts"),
    Column("Dist (km)", "ZO-LIA, exact accounts"), Column("paper Dist (km)", "ZO-LIA, exact accounts"),
    Column("Acc, published", "ZO-LIA, published accounts"),
    Column("Dist (km), published", "ZO-LIA, published accounts"),
    Column("recall, users", "queries from users"), Column("ratio, users", "queries from users"),
)  # fmt: skip


def cells(scope: Scope) -> list[Cell]:
    """Utility and two attacks for every dataset, epsilon, mechanism, region and run."""
    return [cell for line in _lines(scope) for cell in line.cells()]


def outcome(scope: Scope, results: Results) -> Outcome:
    """Put the mechanisms side by side."""
    rows = measured(scope, results)
    table = Table(
        NAME,
        f"Recall@{K} and distance ratio of lists over published places; share of people ZO-LIA finds within 100 m "
        "(Acc) and its mean error (Dist).",
        _COLUMNS,
        tuple(_cells(row) for row in rows),
        f"Recall and ratio: {QUERY_WORDS['uniform']}, and {QUERY_WORDS['users']}, {scope.queries:,} each. Region: "
        f"{REGION_WORDS['paper']}, or {REGION_WORDS['isotropic']}. Attack: {scope.instances} people a run, "
        f"k = {K}, {COLLUDER_WORDS['exact']} or {COLLUDER_WORDS['published']}. {scope.words}. 800 centres.",
    )
    return Outcome(
        NAME,
        TITLE,
        "Does DPRS keep lists useful while ZO-LIA fails, and does it do so better than the others at equal epsilon?",
        (table,),
        (_chart(scope, rows),),
        table3_remarks(rows),
    )


def measured(scope: Scope, results: Results) -> list[Measured]:
    """Return every row of the table."""
    return [measure_line(scope, results, line) for line in _lines(scope)]


def _lines(scope: Scope) -> list[Line]:
    regions: tuple[RegionProtocol, ...] = ("paper",) if scope.quick else ("paper", "isotropic")
    return [
        line_of(scope, dataset, defence)
        for region in regions
        for dataset in scope.datasets
        for epsilon in scope.epsilons
        for defence in paper_defences(epsilon, region=region)
    ]


def _cells(row: Measured) -> tuple[Value, ...]:
    paper = row.paper
    recall, ratio, acc, dist = (None,) * 4 if paper is None else paper
    return (
        row.dataset, row.defence.epsilon, row.defence.label, row.defence.region,
        row.recall, recall, row.ratio, ratio,
        row.attack["exact"].score.acc, acc, row.dist_km("exact"), dist,
        row.attack["published"].score.acc, row.dist_km("published"),
        row.users_recall, row.users_ratio,
    )  # fmt: skip


def _chart(scope: Scope, rows: list[Measured]) -> Chart:
    panels = []
    for dataset in scope.datasets:
        series = []
        for label in dict.fromkeys(row.defence.label for row in rows):
            line = [row for row in rows if _is(row, dataset, label)]
            x = tuple(exact(row.defence.epsilon or 0.0) for row in line)
            series.append(Series(label, x, tuple(row.recall for row in line)))
            known = [row for row in line if row.paper is not None]
            if known:
                beside = tuple(exact(row.paper.recall) for row in known if row.paper)
                series.append(Series(label, tuple(exact(row.defence.epsilon or 0.0) for row in known), beside, "paper"))
        panels.append(Panel(dataset, "epsilon", f"recall@{K}, uniform queries", tuple(series)))
    return Chart(
        NAME,
        "Recall of the paper's mechanisms, each calibrated by its own definition, and what the paper prints",
        tuple(panels),
        len(scope.datasets),
        "Recall at 10 against epsilon for each mechanism and population, with the paper's values.",
    )


def _is(row: Measured, dataset: str, label: str) -> bool:
    return (row.dataset, row.defence.label, row.defence.region) == (dataset, label, "paper")
