"""Figures 4 to 7: recall along a parameter, the length of the list (4, 7) or the number of centres (5, 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nearveil.evaluation.cells import KS, UtilityCell
from nearveil.evaluation.defences import Defence, paper_defences
from nearveil.evaluation.experiments.scope import Experiment, Results, Scope, mean_of, span
from nearveil.evaluation.paper_numbers import paper_table3
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value, exact
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT
from nearveil.privacy.accounting import Noise

_EPSILON_BY_K = 3.0
_CENTRES = (600, 700, 800, 900, 1000)
_QUICK_CENTRES = (600, 1000)
_PAPER_CENTRES = 800
_PAPER_NAMES = {"DPRS": "DPRS", "DPRS, Laplace": "DPRS", "SRR": "SRR", "Square": "Square", "2D Laplace": "Laplace"}
_GAUSSIAN = Defence(label="DPRS, Gaussian", mechanism="dprs", noise="gaussian", epsilon=_EPSILON_BY_K)
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
    """A figure: lines by label, the same for every population, and what to say of them."""

    name: str
    title: str
    question: str
    x_name: str
    x_label: str
    protocol: str
    lines: Callable[[Scope], dict[str, tuple[Step, ...]]]
    remarks: Callable[[Scope, Sequence[SweptPoint]], tuple[str, ...]]

    def experiment(self) -> Experiment:
        """Return it as an entry of the registry."""
        return Experiment(
            self.name,
            self.title,
            cells=lambda scope: sweep_cells(scope, self),
            outcome=lambda scope, results: sweep_outcome(scope, results, self),
        )


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
        for line in sweep.lines(scope).values()
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
        for label, line in sweep.lines(scope).items()
        for step in line
    ]


def sweep_outcome(scope: Scope, results: Results, sweep: Sweep) -> ExperimentResult:
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
        f"{sweep.protocol}; {QUERY_TEXT['uniform']}, and {QUERY_TEXT['users']}, {scope.queries:,} each; "
        f"{REGION_TEXT['paper']}; {scope.description}."
    )
    table = Table(sweep.name, f"Recall along {sweep.x_label}.", columns, rows, protocol)
    said = (*sweep.remarks(scope, points), _NO_NUMBERS)
    return ExperimentResult(sweep.name, sweep.title, sweep.question, (table,), (_chart(scope, sweep, points),), said)


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
    description = f"Recall against {sweep.x_label}: a row of panels for uniform queries and one for queries from users."
    return Chart(
        sweep.name, sweep.title.partition(": ")[2].capitalize(), tuple(panels), len(scope.datasets), description
    )


def _paper_series(points: Sequence[SweptPoint]) -> list[Series]:
    found = []
    for line in _lines([one for one in points if one.paper is not None]):
        x = tuple(exact(one.x) for one in line)
        found.append(Series(line[0].label, x, tuple(exact(one.paper or 0.0) for one in line), "paper"))
    return found


def _lines_by_k(defences: Sequence[Defence]) -> dict[str, tuple[Step, ...]]:
    """Return a line for each defence, along k; the paper's table has the first point of each."""
    return {
        one.label: tuple(Step(k, one, k, _PAPER_NAMES.get(one.label) if k == KS[0] else None) for k in KS)
        for one in defences
    }


def _beaten(points: Sequence[SweptPoint], best: str) -> str:
    """Say how often one line is above all others, and by how much."""
    margins = []
    for own in (one for one in points if one.label == best):
        others = [
            one.uniform.value
            for one in points
            if (one.dataset, one.x) == (own.dataset, own.x) and not one.label.startswith("DPRS")
        ]
        margins.append(own.uniform.value - max(others))
    return (
        f"{best} is above all baselines at {sum(m > 0 for m in margins)} of {len(margins)} points, by {span(margins)}"
    )


def _remarks_on_laplace(_scope: Scope, points: Sequence[SweptPoint]) -> tuple[str, ...]:
    return (
        f"Recall of DPRS {rising(points, ['DPRS'])}; the paper says that it always rises.",
        f"{_beaten(points, 'DPRS')}; the paper says that it is above them everywhere. Here baselines are calibrated to "
        "the whole region, see Table 3.",
        "At equal epsilon this compares different promises: SRR, Square and per-axis Laplace hold between any two "
        "places of the region; DPRS does not hold between intervals at all.",
    )


def _remarks_on_gaussian(_scope: Scope, points: Sequence[SweptPoint]) -> tuple[str, ...]:
    laplace = {(one.dataset, one.x): one.uniform.value for one in points if one.label == "DPRS"}
    gaps = [one.uniform.value - laplace[one.dataset, one.x] for one in points if one.label == _GAUSSIAN.label]
    return (
        f"{_beaten(points, 'DPRS, Gaussian')}; its recall {rising(points, [_GAUSSIAN.label])}.",
        f"Gaussian noise in place of Laplace changes the recall of DPRS by {span(gaps, '+.3f')}.",
    )


def _lines_by_centres(scope: Scope, noise: Noise) -> dict[str, tuple[Step, ...]]:
    """Return a line for each epsilon, along the number of centres."""
    label = "DPRS" if noise == "laplace" else "DPRS, Gaussian"
    return {
        f"epsilon = {epsilon:g}": tuple(
            Step(
                centres,
                Defence(label=label, mechanism="dprs", noise=noise, epsilon=epsilon, centres=centres),
                paper_name="DPRS" if noise == "laplace" and centres == _PAPER_CENTRES else None,
            )
            for centres in (_QUICK_CENTRES if scope.quick else _CENTRES)
        )
        for epsilon in scope.epsilons
    }


def _remarks_on_centres(scope: Scope, points: Sequence[SweptPoint]) -> tuple[str, ...]:
    """Say whether recall rises with the number of centres, and with epsilon."""
    labels = [f"epsilon = {epsilon:g}" for epsilon in scope.epsilons]
    grown = changes(points, labels)
    least, most = ([one for one in points if one.label == label] for label in (labels[0], labels[-1]))
    higher = sum(b.uniform.value > a.uniform.value for a, b in zip(least, most, strict=True))
    return (
        f"Recall {rising(points, labels)}; from 600 to 1,000 centres it changes by {min(grown):+.3f} to "
        f"{max(grown):+.3f}.",
        f"Recall at epsilon = {scope.epsilons[-1]:g} is above that at {scope.epsilons[0]:g} at {higher} of "
        f"{len(least)} points.",
    )


def _remarks_on_table3_centres(scope: Scope, points: Sequence[SweptPoint]) -> tuple[str, ...]:
    first, second = _remarks_on_centres(scope, points)
    return first, f"{second} The paper does not say with how many centres Table 3 was made; we take 800."


_BY_K = f"Epsilon = {_EPSILON_BY_K:g}, 800 centres"

SWEEPS = (
    Sweep(
        name="figure4",
        title="Figure 4: recall against the length of the list",
        question="The paper: recall rises with k, and DPRS is above SRR, Square and 2D Laplace everywhere.",
        x_name="k",
        x_label="k, length of the list",
        protocol=_BY_K,
        lines=lambda _scope: _lines_by_k(paper_defences(_EPSILON_BY_K)),
        remarks=_remarks_on_laplace,
    ),
    Sweep(
        name="figure5",
        title="Figure 5: recall against the number of centres",
        question="The paper: recall rises gradually as centres grow from 600 to 1,000.",
        x_name="centres",
        x_label="number of centres",
        protocol="k = 10",
        lines=lambda scope: _lines_by_centres(scope, "laplace"),
        remarks=_remarks_on_table3_centres,
    ),
    Sweep(
        name="figure6",
        title="Figure 6: recall against the number of centres, Gaussian noise",
        question="The paper: as with Laplace noise, recall rises with the number of centres and with epsilon.",
        x_name="centres",
        x_label="number of centres",
        protocol="k = 10",
        lines=lambda scope: _lines_by_centres(scope, "gaussian"),
        remarks=_remarks_on_centres,
    ),
    Sweep(
        name="figure7",
        title="Figure 7: recall against the length of the list, Laplace and Gaussian noise",
        question="The paper: DPRS with Gaussian noise is above the baselines too.",
        x_name="k",
        x_label="k, length of the list",
        protocol=_BY_K,
        lines=lambda _scope: _lines_by_k([*paper_defences(_EPSILON_BY_K), _GAUSSIAN]),
        remarks=_remarks_on_gaussian,
    ),
)
