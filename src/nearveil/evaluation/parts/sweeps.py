"""Recall along a parameter: what Figures 4 to 7 of the paper have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nearveil.evaluation.attack_score import Mean
from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.outcome import Chart, Column, Outcome, Panel, Series, Table, Value, exact
from nearveil.evaluation.paper_numbers import paper_table3
from nearveil.evaluation.parts.scope import Results, Scope, mean_of
from nearveil.evaluation.protocols import QUERY_WORDS, REGION_WORDS

_NO_NUMBERS = "The paper draws this figure and prints no numbers for it; values of its Table 3 stand where they apply."


@dataclass(frozen=True, slots=True)
class Step:
    """One point of a line: where it stands, what is measured there, and its name in the paper's Table 3, if any."""

    x: float
    defence: Defence
    k: int = 10
    paper_name: str | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A figure: lines by label, the same for every population."""

    name: str
    title: str
    question: str
    x_name: str
    x_label: str
    lines: dict[str, tuple[Step, ...]]
    protocol: str


@dataclass(frozen=True, slots=True)
class SweptPoint:
    """One point, measured."""

    dataset: str
    label: str
    x: float
    uniform: Mean
    users: Mean
    paper: float | None


def sweep_cells(scope: Scope, sweep: Sweep) -> list[UtilityCell]:
    """Return what must be measured; steps that differ in k only share their cells."""
    return [
        cell
        for dataset in scope.datasets
        for line in sweep.lines.values()
        for step in line
        for cell in _cells(scope, dataset, step)
    ]


def swept(scope: Scope, results: Results, sweep: Sweep) -> list[SweptPoint]:
    """Return every point, measured."""
    return [
        SweptPoint(
            dataset,
            label,
            step.x,
            mean_of(results, _cells(scope, dataset, step), f"uniform recall@{step.k}"),
            mean_of(results, _cells(scope, dataset, step), f"users recall@{step.k}"),
            _paper_recall(dataset, step),
        )
        for dataset in scope.datasets
        for label, line in sweep.lines.items()
        for step in line
    ]


def sweep_outcome(
    scope: Scope, results: Results, sweep: Sweep, remarks: Callable[[Sequence[SweptPoint]], tuple[str, ...]]
) -> Outcome:
    """Return the figure as a table and a picture."""
    points = swept(scope, results, sweep)
    columns = (
        Column("dataset"), Column("line"), Column(sweep.x_name, form="g"),
        Column("recall, uniform", "ours"), Column("recall, users", "ours"), Column("recall", "paper, Table 3"),
    )[: 6 if any(one.paper is not None for one in points) else 5]  # fmt: skip
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (one.dataset, one.label, one.x, one.uniform, one.users, one.paper)[: len(columns)] for one in points
    )
    protocol = (
        f"{sweep.protocol}; {QUERY_WORDS['uniform']}, and {QUERY_WORDS['users']}, {scope.queries:,} each; "
        f"{REGION_WORDS['paper']}; {scope.words}."
    )
    table = Table(sweep.name, f"Recall along {sweep.x_label}.", columns, rows, protocol)
    said = (*remarks(points), _NO_NUMBERS)
    return Outcome(sweep.name, sweep.title, sweep.question, (table,), (_chart(scope, sweep, points),), said)


def rising(points: Sequence[SweptPoint], labels: Sequence[str]) -> str:
    """Say where the uniform recall rises from each step to the next, and where from the first to the last at least."""
    lines = _lines([one for one in points if one.label in labels])
    steadily = sum(all(a.uniform.value < b.uniform.value for a, b in pairwise(line)) for line in lines)
    overall = sum(line[0].uniform.value < line[-1].uniform.value for line in lines)
    return (
        f"rises at every step in {steadily} of {len(lines)} lines, and from the first step to the last in "
        f"{overall} of {len(lines)}"
    )


def changes(points: Sequence[SweptPoint], labels: Sequence[str]) -> list[float]:
    """How much the uniform recall changes from the first step of each line to the last."""
    lines = _lines([one for one in points if one.label in labels])
    return [line[-1].uniform.value - line[0].uniform.value for line in lines]


def _lines(points: Sequence[SweptPoint]) -> list[list[SweptPoint]]:
    found: dict[tuple[str, str], list[SweptPoint]] = {}
    for one in points:
        found.setdefault((one.dataset, one.label), []).append(one)
    return list(found.values())


def _cells(scope: Scope, dataset: str, step: Step) -> list[UtilityCell]:
    return [
        UtilityCell(dataset=dataset, seed=scope.seed, run=run, defence=step.defence, queries=scope.queries)
        for run in scope.each_run()
    ]


def _paper_recall(dataset: str, step: Step) -> float | None:
    if step.paper_name is None:
        return None
    known = paper_table3().get((dataset, step.defence.epsilon or 0.0, step.paper_name))
    return None if known is None else known.recall


def _chart(scope: Scope, sweep: Sweep, points: Sequence[SweptPoint]) -> Chart:
    panels = []
    for protocol, of in (("uniform queries", "uniform"), ("queries from users", "users")):
        for dataset in scope.datasets:
            series = []
            for line in _lines([one for one in points if one.dataset == dataset]):
                x = tuple(exact(one.x) for one in line)
                series.append(Series(line[0].label, x, tuple(getattr(one, of) for one in line)))
            if of == "uniform":
                series += _paper_series([one for one in points if one.dataset == dataset])
            panels.append(Panel(dataset, sweep.x_label, f"recall, {protocol}", tuple(series)))
    words = f"Recall against {sweep.x_label}: a row of panels for uniform queries and one for queries from users."
    return Chart(sweep.name, sweep.title.partition(": ")[2].capitalize(), tuple(panels), len(scope.datasets), words)


def _paper_series(points: Sequence[SweptPoint]) -> list[Series]:
    found = []
    for line in _lines([one for one in points if one.paper is not None]):
        x = tuple(exact(one.x) for one in line)
        found.append(Series(line[0].label, x, tuple(exact(one.paper or 0.0) for one in line), "paper"))
    return found
