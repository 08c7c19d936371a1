"""The ablation that the paper lacks: public random centres, drawn without any data, in place of private ones."""

from __future__ import annotations

from nearveil.evaluation.defences import Centres, Defence
from nearveil.evaluation.experiments.scope import SHARE_NOTE, Results, Scope, difference, span
from nearveil.evaluation.experiments.table3 import Line, MeasuredRow, line_of, measure_line
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value, exact
from nearveil.evaluation.runner import Cell
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.utility import COLLUDER_TEXT, QUERY_TEXT, REGION_TEXT

NAME = "ablation"
TITLE = "Ablation: centres without data"

LABELS: dict[Centres, str] = {
    "pic": "private k-means (the paper)",
    "public": "public random centres",
    "private-grid": "private grid (ours)",
}
_COLUMNS = (
    Column("dataset"), Column("epsilon", form="g"), Column("centres"),
    Column("recall, uniform", "utility"), Column("recall, users", "utility"),
    Column("Acc", "ZO-LIA"), Column("Dist (km)", "ZO-LIA"),
)  # fmt: skip


def cells(scope: Scope) -> list[Cell]:
    """As in Table 3, for three kinds of centres."""
    return [cell for line in _lines(scope) for cell in line.cells()]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Put the kinds of centres side by side."""
    rows = [measure_line(scope, results, line) for line in _lines(scope)]
    table = Table(
        NAME,
        "DPRS, release paper, with the same noise in the intervals of three kinds of centres. Public random centres "
        "are drawn uniformly in the region and use no data.",
        _COLUMNS,
        tuple(_cells(row) for row in rows),
        f"{QUERY_TEXT['uniform'].capitalize()}, and {QUERY_TEXT['users']}, {scope.queries:,} each, k = 10; "
        f"{REGION_TEXT['paper']}; attack: {scope.instances} people a run, {COLLUDER_TEXT['exact']}; "
        f"{scope.description}. {SHARE_NOTE} 800 centres.",
    )
    question = (
        "Private k-means takes half of the budget. Does it buy anything over centres that are drawn without any data?"
    )
    return ExperimentResult(NAME, TITLE, question, (table,), (_chart(scope, rows),), _remarks(scope, results))


def pic_gains(scope: Scope, results: Results, name: str) -> dict[tuple[str, float], Mean]:
    """How much more private centres have than public ones, by dataset and epsilon: paired, run by run."""
    cells = {
        (line.dataset, line.defence.epsilon or 0.0, line.defence.centres_from): line.utility for line in _lines(scope)
    }
    return {
        (dataset, epsilon): difference(results, cells[dataset, epsilon, "pic"], cells[dataset, epsilon, "public"], name)
        for dataset in scope.datasets
        for epsilon in scope.epsilons
    }


def _lines(scope: Scope) -> list[Line]:
    return [
        line_of(scope, dataset, Defence(label=LABELS[source], mechanism="dprs", epsilon=epsilon, centres_from=source))
        for dataset in scope.datasets
        for epsilon in scope.epsilons
        for source in LABELS
    ]


def _cells(row: MeasuredRow) -> tuple[Value, ...]:
    return (
        row.dataset, row.defence.epsilon, row.defence.label, row.recall, row.users_recall,
        row.attack["exact"].score.acc, row.dist_km("exact"),
    )  # fmt: skip


def _chart(scope: Scope, rows: list[MeasuredRow]) -> Chart:
    panels = []
    for queries, of in (("uniform queries", "recall"), ("queries from users", "users_recall")):
        for dataset in scope.datasets:
            series = []
            for label in LABELS.values():
                line = [row for row in rows if row.dataset == dataset and row.defence.label == label]
                x = tuple(exact(row.defence.epsilon or 0.0) for row in line)
                series.append(Series(label, x, tuple(getattr(row, of) for row in line)))
            panels.append(Panel(dataset, "epsilon", f"recall@10, {queries}", tuple(series)))
    description = (
        "Recall against epsilon with centres from private k-means, from public randomness and from the private grid."
    )
    return Chart(NAME, "What private centres buy", tuple(panels), len(scope.datasets), description)


def _remarks(scope: Scope, results: Results) -> tuple[str, ...]:
    found = []
    for queries, name in (("Uniform queries", "uniform recall@10"), ("Queries from users", "users recall@10")):
        gains = list(pic_gains(scope, results, name).values())
        values = [gain.value for gain in gains]
        sentence = f"{queries}: private k-means in place of random centres changes recall by {span(values, '+.3f')}"
        found.append(f"{sentence}; {_verdicts(gains)}.")
    return (
        *found,
        "Where the two do not differ, the half of epsilon that private k-means takes bought nothing. The private grid "
        "has the same budget for its intervals.",
    )


def _verdicts(gains: list[Mean]) -> str:
    """Count what the paired 95 % intervals say."""
    known = [(gain.value, gain.half_width) for gain in gains if gain.half_width is not None]
    if not known:
        return "one run has no intervals to judge that by"
    better, worse = (sum(sign * value > width for value, width in known) for sign in (1, -1))
    return (
        f"of {len(known)} paired 95 % intervals {better} say more, {worse} say less, and "
        f"{len(known) - better - worse} leave it open"
    )
