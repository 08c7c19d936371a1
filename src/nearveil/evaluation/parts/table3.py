"""Table 3: what the defences cost in utility and what ZO-LIA still finds, the paper's mechanisms at four epsilons."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.defences import paper_defences
from nearveil.evaluation.outcome import Chart, Column, Outcome, Panel, Series, Table, Value, exact
from nearveil.evaluation.parts.scope import SHARE_WORDS, Results, Scope
from nearveil.evaluation.parts.table3_readings import hypothetical_lines
from nearveil.evaluation.parts.table3_remarks import table3_remarks
from nearveil.evaluation.parts.table3_rows import K, Line, Measured, line_of, measure_line, measure_lines
from nearveil.evaluation.protocols import COLLUDER_WORDS, QUERY_WORDS, REGION_WORDS, RegionProtocol

NAME = "table3"
READINGS = "table3-readings"
TITLE = "Table 3: the defences, utility and attack side by side"

_BESIDE_THE_PAPER = (
    Column("recall", "uniform queries"), Column("paper recall", "uniform queries"),
    Column("ratio, pooled", "uniform queries"), Column("paper ratio", "uniform queries"),
    Column("ratio, per query", "uniform queries"),
    Column("Acc", "ZO-LIA, exact accounts"), Column("paper Acc", "ZO-LIA, exact accounts"),
    Column("Dist (km)", "ZO-LIA, exact accounts"), Column("paper Dist (km)", "ZO-LIA, exact accounts"),
)  # fmt: skip
_COLUMNS = (
    Column("dataset"), Column("epsilon", form="g"), Column("mechanism"), Column("reading"), Column("region"),
    *_BESIDE_THE_PAPER,
    Column("Acc, published", "ZO-LIA, published accounts"),
    Column("Dist (km), published", "ZO-LIA, published accounts"),
    Column("recall, users", "queries from users"), Column("ratio, pooled, users", "queries from users"),
    Column("ratio, per query, users", "queries from users"),
)  # fmt: skip


def cells(scope: Scope) -> list[Cell]:
    """Utility and attacks for every dataset, epsilon, mechanism, region and run, and for every hypothesis."""
    return [cell for line in (*_lines(scope), *_hypothetical(scope)) for cell in line.cells()]


def outcome(scope: Scope, results: Results) -> Outcome:
    """Put the mechanisms side by side."""
    rows = measured(scope, results)
    guesses = [measure_line(scope, results, line) for line in _hypothetical(scope)]
    readings = _over_epsilon(scope, results)
    protocol = (
        f"Recall and ratio: {QUERY_WORDS['uniform']}, and {QUERY_WORDS['users']}, {scope.queries:,} each. Region: "
        f"{REGION_WORDS['paper']}, or {REGION_WORDS['isotropic']}. Attack: {scope.instances} people a run, "
        f"k = {K}, {COLLUDER_WORDS['exact']} or {COLLUDER_WORDS['published']}. {scope.words}. {SHARE_WORDS} "
        "800 centres. Rows that begin with 'hypothesis' are guesses of ours that the paper does not state, with their "
        "own k, people and "
        f"centres.{' They are left out of a quick look.' if scope.quick else ''}"
    )
    tables = [
        Table(
            NAME,
            f"Recall@{K} and distance ratio of lists over published places; share of people ZO-LIA finds within 100 m "
            "(Acc) and its mean error (Dist). Ratio: true distances of the true nearest over those of the people "
            "listed; pooled: of sums over all queries, which is what the paper's numbers are; per query: the mean of "
            "all queries' own.",
            _COLUMNS,
            tuple(_cells(row) for row in (*rows, *guesses)),
            protocol,
        )
    ]
    if readings:
        tables.append(
            Table(
                READINGS,
                "Under what reading the paper's numbers come out: means over epsilon, the paper's beside ours. As "
                "stated: with its settings, each baseline calibrated by its own definition. Hypotheses: guesses of "
                "ours.",
                (Column("dataset"), Column("mechanism"), Column("reading"), *_BESIDE_THE_PAPER),
                tuple((row.dataset, row.defence.label, row.reading.words, *_beside_the_paper(row)) for row in readings),
                protocol,
            )
        )
    return Outcome(
        NAME,
        TITLE,
        "Does DPRS keep lists useful while ZO-LIA fails, and does it do so better than the others at equal epsilon?",
        tuple(tables),
        (_chart(scope, rows),),
        table3_remarks(rows, readings),
    )


def measured(scope: Scope, results: Results) -> list[Measured]:
    """Return every row of the table that reads the paper as stated."""
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


def _hypothetical(scope: Scope) -> list[Line]:
    return [] if scope.quick else hypothetical_lines(scope)


def _over_epsilon(scope: Scope, results: Results) -> list[Measured]:
    """Every population, mechanism and reading that the paper has numbers for, in the order of the table."""
    found: dict[tuple[str, str], dict[str, list[Line]]] = {}
    for line in (*_lines(scope), *_hypothetical(scope)):
        if line.paper is not None:
            readings = found.setdefault((line.dataset, line.defence.label), {})
            readings.setdefault(line.reading.words, []).append(line)
    return [measure_lines(scope, results, lines) for readings in found.values() for lines in readings.values()]


def _cells(row: Measured) -> tuple[Value, ...]:
    published = row.attack.get("published")
    return (
        row.dataset, row.defence.epsilon, row.defence.label, row.reading.words, row.defence.region,
        *_beside_the_paper(row),
        *((None, None) if published is None else (published.score.acc, row.dist_km("published"))),
        row.users_recall, row.users_pooled_ratio, row.users_ratio,
    )  # fmt: skip


def _beside_the_paper(row: Measured) -> tuple[Value, ...]:
    recall, ratio, acc, dist = (None,) * 4 if row.paper is None else row.paper
    return (
        row.recall, recall, row.pooled_ratio, ratio, row.ratio,
        row.attack["exact"].score.acc, acc, row.dist_km("exact"), dist,
    )  # fmt: skip


def _chart(scope: Scope, rows: Sequence[Measured]) -> Chart:
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
