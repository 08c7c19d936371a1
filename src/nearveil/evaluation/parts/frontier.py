"""The frontier: what each defence leaves to those who ask, against what it leaves to the best attacker."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.cells.cell import Result
from nearveil.evaluation.cells.frontier_cell import FrontierCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.outcome import Chart, Column, Outcome, Panel, Series, Table, Value
from nearveil.evaluation.parts.families import FIT_EPSILON, Family, all_families
from nearveil.evaluation.parts.frontier_curves import FrontierPoint, Yardstick, beats_clearly, margin_over_others
from nearveil.evaluation.parts.frontier_winners import LEVELS, frontier_remarks, winner_columns, winner_rows
from nearveil.evaluation.parts.scope import SHARE_WORDS, Results, Scope, mean_of, share_of
from nearveil.evaluation.protocols import QUERY_WORDS, REGION_WORDS

NAME = "frontier"
TITLE = "The frontier: utility against the best attacker"

_QUICK_STEPS = 3
_QUICK_FAMILIES = ("planar Laplace", "metric, private grid", "interval, private grid", "paper, private k-means")
_MEASURES = {"recall@10": "users recall@10", "recall@50": "users recall@50", "ratio@10": "users ratio@10"}


def cells(scope: Scope) -> list[FrontierCell]:
    """Every member of every family."""
    return [
        cell
        for dataset in scope.datasets
        for family in _families(scope)
        for defence in family.members
        for cell in point_cells(scope, dataset, defence)
    ]


def outcome(scope: Scope, results: Results) -> Outcome:
    """Draw one picture for each population, and say who wins where."""
    points = frontier_points(scope, results)
    protocol = (
        f"{QUERY_WORDS['users'].capitalize()}, {scope.queries:,}; {REGION_WORDS['isotropic']}; best attacker: knows "
        f"the mechanism, its parameters and intervals, and every address but not who lives there, and guesses "
        f"{scope.targets} people a run from one published place each (geometric median for the error, most likely disc "
        f"for Acc at 100 m); {scope.words}. {SHARE_WORDS}{_left_out(scope)} Sound releases of DPRS: intervals fitted "
        f"at epsilon = {FIT_EPSILON:g}."
    )
    tables = (
        *(_winner_table(scope, points, yardstick, protocol) for yardstick in LEVELS),
        Table(
            NAME,
            "Every point. Beats all others by: how much more recall@10 than any other family keeps at the same mean "
            "error of the best attacker, or at the same Acc; empty where another family is as good or better, or no "
            "other reaches that. Clearly: also at the worse ends of its own 95 % intervals and the better ends of all "
            "others'.",
            _POINT_COLUMNS,
            tuple(_point_row(one, points) for one in points),
            protocol,
        ),
    )
    question = (
        "Epsilon means different things for different mechanisms. What counts is what an attacker who knows the "
        "mechanism and every address gets, and what users get."
    )
    pictures = tuple(_chart(dataset, points) for dataset in scope.datasets)
    return Outcome(NAME, TITLE, question, tables, pictures, frontier_remarks(points))


def _winner_table(scope: Scope, points: Sequence[FrontierPoint], yardstick: Yardstick, protocol: str) -> Table:
    by = "mean error" if yardstick == "error" else "Acc at 100 m"
    return Table(
        f"frontier-winners-{yardstick}",
        f"At each level of privacy, by the best attacker's {by}: the defence that keeps most recall@10, the next best, "
        "and the margin. Between measured points curves are joined by lines, as in the picture.",
        winner_columns(yardstick),
        tuple(row for dataset in scope.datasets for row in winner_rows(points, dataset, yardstick)),
        protocol,
    )


def point_cells(scope: Scope, dataset: str, defence: Defence) -> list[FrontierCell]:
    """Return the cells of one point, run by run."""
    return [
        FrontierCell(
            dataset=dataset, seed=scope.seed, run=run, defence=defence, queries=scope.queries, targets=scope.targets
        )
        for run in scope.each_run()
    ]


def frontier_points(scope: Scope, results: Results) -> list[FrontierPoint]:
    """Return every point, measured."""
    return [
        measured_point(scope, results, dataset, family, defence)
        for dataset in scope.datasets
        for family in _families(scope)
        for defence in family.members
    ]


def measured_point(scope: Scope, results: Results, dataset: str, family: Family, defence: Defence) -> FrontierPoint:
    """Put the runs of one point together."""
    own = point_cells(scope, dataset, defence)
    return FrontierPoint(
        dataset,
        family,
        defence,
        mean_of(results, own, "attacker error_m"),
        share_of(results, own, "attacker acc", min(scope.targets, len(scope.datasets[dataset].places))),
        {name: mean_of(results, own, measure) for name, measure in _MEASURES.items()},
        tuple(_compared(results[cell]) for cell in own),
    )


def _compared(result: Result) -> tuple[float, float, float]:
    return result["attacker error_m"], result["attacker acc"], result[_MEASURES["recall@10"]]


def _left_out(scope: Scope) -> str:
    missing = [family.label for family in all_families() if scope.quick and family.label not in _QUICK_FAMILIES]
    return f" Left out of a quick look: {'; '.join(missing)}." if missing else ""


def _families(scope: Scope) -> tuple[Family, ...]:
    if not scope.quick:
        return all_families()
    return tuple(family.inner().thinned(_QUICK_STEPS) for family in all_families() if family.label in _QUICK_FAMILIES)


_POINT_COLUMNS = (
    Column("dataset"),
    Column("defence"),
    Column("parameter"),
    Column("guarantee"),
    Column("error (m)", "best attacker", ",.0f"),
    Column("Acc at 100 m", "best attacker"),
    *(Column(name, "utility") for name in _MEASURES),
    Column("by, error", "beats all others at equal error"),
    Column("clearly, error", "beats all others at equal error"),
    Column("by, Acc", "beats all others at equal Acc"),
    Column("clearly, Acc", "beats all others at equal Acc"),
)


def promise(family: Family) -> str:
    """What the guarantee of a family is, in a few words."""
    if not family.sound:
        return "claim refuted"
    return "between all places" if family.between_all_places else "within an interval"


def _parameter(defence: Defence) -> str:
    return f"{defence.parameter}, {defence.centres:,} centres" if defence.centres != 800 else defence.parameter


def _point_row(point: FrontierPoint, points: Sequence[FrontierPoint]) -> tuple[Value, ...]:
    return (
        point.dataset,
        point.family.label,
        _parameter(point.defence),
        promise(point.family),
        point.error_m,
        point.acc,
        *point.utility.values(),
        *_victory(point, points, "error"),
        *_victory(point, points, "acc"),
    )


def _victory(point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick) -> tuple[Value, Value]:
    margin = margin_over_others(point, points, yardstick)
    return (
        margin if margin is not None and margin > 0 else None,
        "yes" if beats_clearly(point, points, yardstick) else None,
    )


def _chart(dataset: str, points: Sequence[FrontierPoint]) -> Chart:
    panels = []
    own = [one for one in points if one.dataset == dataset]
    for name in _MEASURES:
        for x_label, of in (("best attacker's mean error (m)", "error_m"), ("best attacker's Acc at 100 m", "acc")):
            series = []
            for label in dict.fromkeys(one.family.label for one in own):
                line = sorted((one for one in own if one.family.label == label), key=lambda one: getattr(one, of).value)
                x = tuple(getattr(one, of) for one in line)
                series.append(Series(label, x, tuple(one.utility[name] for one in line)))
            panels.append(Panel("", x_label, f"{name}, users", tuple(series), log_x=of == "error_m"))
    words = (
        f"Recall at 10, recall at 50 and distance ratio on {dataset} against the mean error and the Acc of the best "
        "attacker, a line for each mechanism and release."
    )
    return Chart(f"{NAME}-{dataset}", f"The frontier on {dataset}", tuple(panels), 2, words)
