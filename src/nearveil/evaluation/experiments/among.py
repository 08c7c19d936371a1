"""Hide among people against noise in metres, at equal lists and at equal naming; and where cells are from.

Curves are joined by lines between the numbers of people that are measured, run by run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearveil.attacks.scores import NAMING_TARGETS, TENTHS
from nearveil.evaluation.cells import PUBLIC_SHARE, PUBLISHED_BEFORE_M, FrontierCell, TenthsCell
from nearveil.evaluation.defences import CellsFrom, Defence
from nearveil.evaluation.experiments.frontier import point_cells
from nearveil.evaluation.experiments.scope import SHARE_NOTE, Results, Scope, mean_of, share_of
from nearveil.evaluation.families import AMONG_LABELS, FIT_EPSILON, among_family
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value
from nearveil.evaluation.runner import Cell, Result
from nearveil.evaluation.stats import Mean, mean_over_runs, share_over_runs
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.io.synthetic import PEOPLE, SEED, city_and_countryside, synthetic_city
from nearveil.region import named_region

NAME = "among"
TITLE = "Hide among people, or within metres"

LENGTHS_M = (300.0, 500.0, 800.0)
NUMBERS = (12, 25, 50, 100, 200, 400)
MOST_SPARSEST, MOST_NAMED, LEAST_AT_10, LEAST_AT_50 = 0.4, 1.0, 1.1, 1.2
"""Goals: shares of what planar Laplace names at equal recall@10, and its recall times so much at equal naming."""

_NAMED = 10_000
_COMPARED = 100
_QUICK_LENGTHS_M, _QUICK_NUMBERS = (500.0,), (50, 100, 200)
_SOURCES: tuple[tuple[str, CellsFrom, float | None], ...] = (
    ("exact counts (protects nobody)", "exact", None),
    ("public data", "public", None),
    ("published places", "published", None),
    ("PrivTree at epsilon 1", "privtree", 1.0),
    ("PrivTree at epsilon 0.25", "privtree", 0.25),
)


def generated_populations() -> dict[str, Dataset]:
    """Return the city that commands show things on, and a city with countryside, both without anybody's data."""
    region = named_region("san-francisco")
    return {
        name: Dataset(name, region, make(PEOPLE, region, rng=SEED), "generated")
        for name, make in (("demo city", synthetic_city), ("countryside", city_and_countryside))
    }


def cells(scope: Scope) -> list[Cell]:
    """Planar Laplace at a few lengths, hide-among along the number of people, all sources of cells at one number."""
    defences = [_planar(length_m) for length_m in _lengths_m(scope)]
    defences += [defence for cells_from in AMONG_LABELS for defence in _among(scope, cells_from)]
    defences += [] if scope.quick else [defence for _, defence in _by_source()]
    found: list[Cell] = []
    for dataset in _populations(scope):
        found += [cell for defence in defences for cell in _point_cells(scope, dataset, defence)]
        found += [cell for defence in _BY_TENTH for cell in _tenths_cells(scope, dataset, defence)]
    return found


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Say how many fewer are named at equal lists, how much better lists are at equal naming, and what falls short."""
    rows = [
        _Comparison(scope, results, dataset, length_m, cells_from)
        for dataset in _populations(scope)
        for length_m in _lengths_m(scope)
        for cells_from in AMONG_LABELS
    ]
    protocol = (
        f"{QUERY_TEXT['users'].capitalize()}, {scope.queries:,}; {REGION_TEXT['isotropic']}; best attacker: knows the "
        f"mechanism, its parameters and cells, and every address but not who lives there, and names up to {_NAMED:,} "
        f"people a run from one published place each; {scope.description}. Cells: PrivTree at epsilon = "
        f"{FIT_EPSILON:g} on the people themselves; places published before with planar Laplace noise of "
        f"{PUBLISHED_BEFORE_M:g} m, which the attacker does not combine with the new ones; or a random "
        f"{PUBLIC_SHARE:.0%} of the people as public data. Between the numbers of people measured, "
        f"{', '.join(map(str, _numbers(scope)))}, curves are joined by lines, run by run; empty where they do not "
        "reach. Whether a goal is reached is judged by the mean."
    )
    tables = [
        _equal_recall_table(rows, protocol),
        _equal_naming_table(rows, protocol),
        _tenths_table(scope, results, protocol),
    ]
    if not scope.quick:
        tables.append(_source_table(scope, results, protocol))
    question = (
        "Noise in metres treats a tower block and a farm alike. Does hiding everybody among equally many people "
        "protect the most exposed, and what does it cost?"
    )
    return ExperimentResult(NAME, TITLE, question, tuple(tables), (_chart(scope, results),), _remarks(rows))


# What is measured.


def _populations(scope: Scope) -> list[str]:
    """Real people and one's own; the paper's generated ones have no countryside."""
    papers = (DatasetName.GAUSSIAN.value, DatasetName.BETA.value)
    real = [name for name in scope.datasets if name not in papers]
    if scope.quick:
        return real or list(scope.datasets)
    return [*real, *generated_populations()]


def _lengths_m(scope: Scope) -> tuple[float, ...]:
    return _QUICK_LENGTHS_M if scope.quick else LENGTHS_M


def _numbers(scope: Scope) -> tuple[int, ...]:
    return _QUICK_NUMBERS if scope.quick else NUMBERS


def _planar(length_m: float) -> Defence:
    return Defence(label="planar Laplace", mechanism="planar-laplace", noise_m=length_m, region="isotropic")


def _among(scope: Scope, cells_from: CellsFrom) -> list[Defence]:
    defence = among_family(cells_from).members[0]
    return [replace(defence, hide_among=number) for number in _numbers(scope)]


def _by_source() -> list[tuple[str, Defence]]:
    defence = replace(among_family("privtree").members[0], hide_among=_COMPARED)
    return [(label, replace(defence, cells_from=source, fit_epsilon=epsilon)) for label, source, epsilon in _SOURCES]


def _point_cells(scope: Scope, dataset: str, defence: Defence) -> list[FrontierCell]:
    return point_cells(scope, dataset, defence, named=scope.named if scope.quick else _NAMED)


_BY_TENTH = (_planar(500.0), replace(among_family("published").members[0], hide_among=_COMPARED))


def _tenths_cells(scope: Scope, dataset: str, defence: Defence) -> list[TenthsCell]:
    """In all runs together 2,000 people are guessed."""
    targets = scope.named if scope.quick else -(-NAMING_TARGETS // scope.runs)
    return [
        TenthsCell(dataset=dataset, seed=scope.seed, run=run, defence=defence, targets=targets)
        for run in scope.each_run()
    ]


# What is compared, run by run.


_RECALL_10, _RECALL_50 = "users recall@10", "users recall@50"
_Figure = Callable[[Result], float]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Hide-among with one source of cells against planar Laplace at one length, on one population."""

    scope: Scope
    results: Results
    dataset: str
    length_m: float
    cells_from: CellsFrom

    @property
    def head(self) -> tuple[Value, ...]:
        return self.dataset, self.length_m, AMONG_LABELS[self.cells_from]

    def planar(self, name: str) -> Mean:
        """A figure of planar Laplace."""
        return mean_over_runs([float(result[name]) for result in self._planar_runs()])

    def at_equal(self, equal: str, name: str) -> Mean | None:
        """A figure of hide-among, where another is as large as that of planar Laplace."""
        return _known(self._along_runs(equal, name))

    def ratio(self, equal: str, name: str) -> Mean | None:
        """The same over that of planar Laplace."""
        own = self._along_runs(equal, name)
        others = [float(result[name]) for result in self._planar_runs()]
        return _known([a / b if b > 0 else math.nan for a, b in zip(own, others, strict=True)])

    def people(self, equal: str) -> Mean | None:
        """The number of people to hide among there."""
        return self.at_equal(equal, "people")

    def _planar_runs(self) -> list[Result]:
        return [self.results[cell] for cell in _point_cells(self.scope, self.dataset, _planar(self.length_m))]

    def _along_runs(self, equal: str, name: str) -> list[float]:
        lines = _lines(self.scope, self.results, self.dataset, self.cells_from)
        planar = [float(result[equal]) for result in self._planar_runs()]
        return [_along(line, equal, value, name) for line, value in zip(lines, planar, strict=True)]


def _lines(scope: Scope, results: Results, dataset: str, cells_from: CellsFrom) -> list[list[Mapping[str, float]]]:
    """For each run, the points of hide-among along the number of people."""
    points = [
        [{**results[cell], "people": float(defence.hide_among or 0)} for cell in _point_cells(scope, dataset, defence)]
        for defence in _among(scope, cells_from)
    ]
    return [list(line) for line in zip(*points, strict=True)]


def _along(line: Sequence[Mapping[str, float]], equal: str, value: float, name: str) -> float:
    """A figure where another has a value, on lines between points; NaN beyond the ends."""
    x = np.array([one[equal] for one in line])
    y = np.array([one[name] for one in line])
    order = np.argsort(x, kind="stable")
    # Shares that are named, and numbers of people, fall by factors: lines in their logarithms.
    x, y, at = (np.log(np.maximum(part, 1e-6)) for part in (x[order], y[order], np.array(value)))
    return float(np.exp(np.interp(at, x, y, left=math.nan, right=math.nan)))


def _known(values: Sequence[float]) -> Mean | None:
    found = [value for value in values if math.isfinite(value)]
    return mean_over_runs(found) if found else None


# Tables.


def _equal_recall_table(rows: Sequence[_Comparison], protocol: str) -> Table:
    columns = (
        Column("dataset"), Column("noise (m)", form=",.0f"), Column("cells"), Column("recall@10"),
        Column("among as many people", form=",.0f"),
        Column("planar Laplace", "named"), Column("among", "named"), Column("ratio", "named", ".2f"),
        Column("not higher", "named"),
        Column("planar Laplace, sparsest", "named, sparsest tenth"), Column("among, sparsest", "named, sparsest tenth"),
        Column("ratio, sparsest", "named, sparsest tenth", ".2f"),
        Column(f"at most {MOST_SPARSEST:g}", "named, sparsest tenth"),
    )  # fmt: skip
    return Table(
        f"{NAME}-equal-recall",
        "At the recall@10 that planar Laplace keeps: the share of people whom the best attacker names, of all and of "
        "the sparsest tenth, and the ratio to planar Laplace.",
        columns,
        tuple(
            (
                *row.head, row.planar(_RECALL_10), row.people(_RECALL_10),
                *(
                    part
                    for name, most in (("named", MOST_NAMED), ("named sparsest", MOST_SPARSEST))
                    for part in (
                        row.planar(name), row.at_equal(_RECALL_10, name), row.ratio(_RECALL_10, name),
                        _verdict(row.ratio(_RECALL_10, name), most=most),
                    )
                ),
            )
            for row in rows
        ),
        protocol,
    )  # fmt: skip


def _equal_naming_table(rows: Sequence[_Comparison], protocol: str) -> Table:
    columns = (
        Column("dataset"), Column("noise (m)", form=",.0f"), Column("cells"), Column("named"),
        Column("among as many people", form=",.0f"),
        Column("planar Laplace", "recall@10"), Column("among", "recall@10"), Column("ratio", "recall@10", ".2f"),
        Column(f"at least {LEAST_AT_10:g}", "recall@10"),
        Column("planar Laplace, 50", "recall@50"), Column("among, 50", "recall@50"),
        Column("ratio, 50", "recall@50", ".2f"), Column(f"at least {LEAST_AT_50:g}", "recall@50"),
    )  # fmt: skip
    return Table(
        f"{NAME}-equal-naming",
        "Where the best attacker names as many of all people as with planar Laplace: recall, and the ratio to planar "
        "Laplace.",
        columns,
        tuple(
            (
                *row.head, row.planar("named"), row.people("named"),
                *(
                    part
                    for name, least in ((_RECALL_10, LEAST_AT_10), (_RECALL_50, LEAST_AT_50))
                    for part in (
                        row.planar(name), row.at_equal("named", name), row.ratio("named", name),
                        _verdict(row.ratio("named", name), least=least),
                    )
                ),
            )
            for row in rows
        ),
        protocol,
    )  # fmt: skip


def _verdict(ratio: Mean | None, *, least: float = -math.inf, most: float = math.inf) -> str:
    if ratio is None:
        return "not measured"
    return "yes" if least <= ratio.value <= most else "no"


_MEASURES = (
    (Column("error (m)", "best attacker", ",.0f"), "attacker error_m"),
    (Column("recall@10", "utility"), _RECALL_10),
    (Column("recall@50", "utility"), _RECALL_50),
)


def _source_table(scope: Scope, results: Results, protocol: str) -> Table:
    rows: list[tuple[Value, ...]] = []
    for dataset in _populations(scope):
        for label, defence in _by_source():
            own = _point_cells(scope, dataset, defence)
            shares = [
                share_of(results, own, name, results[own[0]][f"{name} targets"]) for name in ("named", "named sparsest")
            ]
            rows.append((dataset, label, *shares, *(mean_of(results, own, name) for _, name in _MEASURES)))
    columns = (
        Column("dataset"), Column("cells"), Column("named", "best attacker"),
        Column("named, sparsest tenth", "best attacker"), *(column for column, _ in _MEASURES),
    )  # fmt: skip
    return Table(
        f"{NAME}-cells",
        f"What it matters where cells are from, hidden among {_COMPARED} people. Exact counts are what the others "
        "approach; they protect nobody.",
        columns,
        tuple(rows),
        f"{protocol} {SHARE_NOTE}",
    )


def _tenths_table(scope: Scope, results: Results, protocol: str) -> Table:
    rows: list[tuple[Value, ...]] = []
    for dataset in _populations(scope):
        for defence in _BY_TENTH:
            own = [results[cell] for cell in _tenths_cells(scope, dataset, defence)]
            for tenth in range(TENTHS):
                cases = int(own[0]["targets"][tenth])
                shares = (share_over_runs([one[of][tenth] * cases for one in own], cases) for of in ("named", "acc"))
                error_m = mean_over_runs([one["error_m"][tenth] for one in own])
                rows.append((dataset, f"{defence.label}, {defence.parameter}", tenth + 1, *shares, error_m))
    columns = (
        Column("dataset"), Column("defence"), Column("tenth of density", form="d"), Column("named", "best attacker"),
        Column("within 100 m", "best attacker"), Column("error (m)", "best attacker", ",.0f"),
    )  # fmt: skip
    return Table(
        f"{NAME}-tenths",
        "The best attacker by tenths of density, from 1, the densest, to 10, the sparsest.",
        columns,
        tuple(rows),
        f"{protocol} Here {len(own) * sum(own[0]['targets']):,} people are guessed in all. {SHARE_NOTE}",
    )


def _chart(scope: Scope, results: Results) -> Chart:
    panels = []
    for dataset in _populations(scope):
        for x_label, name in (("share named", "named"), ("share named, sparsest tenth", "named sparsest")):
            lines = {"planar Laplace": [_planar(length_m) for length_m in _lengths_m(scope)]}
            lines |= {label: _among(scope, cells_from) for cells_from, label in AMONG_LABELS.items()}
            series = []
            for label, defences in lines.items():
                points = [_point_cells(scope, dataset, defence) for defence in defences]
                x, y = (tuple(mean_of(results, own, one) for own in points) for one in (name, _RECALL_10))
                series.append(Series(label, x, y))
            panels.append(Panel(dataset, x_label, "recall@10, users", tuple(series), log_x=True))
    description = (
        "Recall at 10 against the share of people whom the best attacker names, of all and of the sparsest tenth, for "
        "planar Laplace and for hiding among people with cells from three sources."
    )
    return Chart(NAME, "Hide among people, or within metres", tuple(panels), 2, description)


_GOALS: tuple[tuple[str, str, str, float, float], ...] = (
    ("named in the sparsest tenth, at equal recall@10", _RECALL_10, "named sparsest", -math.inf, MOST_SPARSEST),
    ("named overall, at equal recall@10", _RECALL_10, "named", -math.inf, MOST_NAMED),
    ("recall@10, at equal naming", "named", _RECALL_10, LEAST_AT_10, math.inf),
    ("recall@50, at equal naming", "named", _RECALL_50, LEAST_AT_50, math.inf),
)


def _remarks(rows: Sequence[_Comparison]) -> tuple[str, ...]:
    """For each goal: the ratios, and where it is not reached."""
    found = []
    for label, equal, name, least, most in _GOALS:
        ratios = [(row, row.ratio(equal, name)) for row in rows]
        known = [(row, ratio.value) for row, ratio in ratios if ratio is not None]
        if not known:
            continue
        values = [value for _, value in known]
        goal = f"at most {most:g}" if math.isfinite(most) else f"at least {least:g}"
        missed = [row for row, value in known if not least <= value <= most]
        where = "; ".join(f"{row.dataset} at {row.length_m:g} m, {AMONG_LABELS[row.cells_from]}" for row in missed)
        found.append(
            f"{label}: {min(values):.2f} to {max(values):.2f} times that of planar Laplace; {goal} in "
            f"{len(known) - len(missed)} of {len(known)}{f', not in: {where}' if missed else ''}"
            f"{f'; not measured in {len(rows) - len(known)} more' if len(known) < len(rows) else ''}."
        )
    return (
        *found,
        "In metres it is worse for people in dense places, by design: it hides among people. It counts people where "
        "and when the cells were made.",
    )
