"""The frontier: what each defence leaves to those who ask, against what it leaves to the best attacker.

The families of defences are in `nearveil.evaluation.families`, their curves and who wins in `frontier_curves`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.attacks.scores import NAMING_TARGETS
from nearveil.evaluation.cells import PUBLIC_SHARE, PUBLISHED_BEFORE_M, FrontierCell, named_in_a_run
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.frontier_curves import (
    LEVEL_FIELDS,
    LEVELS,
    YARDSTICK_NAMES,
    FrontierPoint,
    Yardstick,
    beats_clearly,
    best_at_what,
    frontier_remarks,
    margin_over_others,
    winner_columns,
    winner_rows,
    winning_labels,
)
from nearveil.evaluation.experiments.scope import SHARE_NOTE, Results, Scope, mean_of, share_of
from nearveil.evaluation.families import FIT_EPSILON, Family, all_families, family_of, promise
from nearveil.evaluation.results import (
    Axis,
    Chart,
    Column,
    Curve,
    ExperimentResult,
    Exploration,
    Panel,
    Series,
    Table,
    Value,
    cut_to_share,
)
from nearveil.evaluation.runner import Result
from nearveil.evaluation.stats import Estimate
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT
from nearveil.mechanisms.registry import mechanism_entry

NAME = "frontier"
TITLE = "The frontier: utility against the best attacker"

_QUICK_STEPS = 3
_QUICK_FAMILIES = (
    "planar Laplace", "among, published places", "metric, private grid", "interval, private grid",
    "paper, private k-means",
)  # fmt: skip
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


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Draw one picture for each population, and say who wins where."""
    points = frontier_points(scope, results)
    protocol = (
        f"{QUERY_TEXT['users'].capitalize()}, {scope.queries:,}; {REGION_TEXT['isotropic']}; best attacker: knows "
        f"the mechanism, its parameters and intervals, and every address but not who lives there, and guesses "
        f"{scope.targets} people a run from one published place each (geometric median for the error, most likely disc "
        f"for Acc at 100 m), and names {_named_people(scope)} (the first guess of an address, several people at one "
        f"address counting as one; tenths of density by the distance to the 50th neighbour); {scope.description}. "
        f"{SHARE_NOTE} Recalls have theirs over runs, in brackets too, cut at 0 and 1."
        f"{_left_out(scope)} Sound releases of DPRS: intervals fitted at epsilon = {FIT_EPSILON:g}. Hide "
        "among people: cells by PrivTree at the same epsilon; or from places published before, with planar Laplace "
        f"noise of {PUBLISHED_BEFORE_M:g} m, which the attacker does not combine with the new ones; or from a random "
        f"{PUBLIC_SHARE:.0%} of the people as public data."
    )
    tables = (
        _winner_table(scope, points, protocol),
        *_own_table(points, protocol),
        Table(
            NAME,
            "Every point. Beats all others by: how much more recall@10 than any other family keeps at the same mean "
            "error of the best attacker, at the same Acc, or where it names as many; empty where another family is as "
            "good or better, or no "
            "other reaches that. Clearly: also at the worse ends of its own 95 % intervals and the better ends of all "
            "others'.",
            _POINT_COLUMNS,
            tuple(_point_row(one, points) for one in points),
            protocol,
            in_files_alone=True,
        ),
    )
    question = (
        "Epsilon means different things for different mechanisms. What counts is what an attacker who knows the "
        "mechanism and every address gets, and what users get."
    )
    pictures = tuple(_chart(dataset, points) for dataset in scope.datasets)
    return ExperimentResult(NAME, TITLE, question, tables, pictures, frontier_remarks(points))


def _winner_table(scope: Scope, points: Sequence[FrontierPoint], protocol: str) -> Table:
    return Table(
        "frontier-winners",
        "At each level of privacy, by what the best attacker gets (finds: within 100 m): the defence that keeps most "
        "recall@10, its lead over the next best (clear: no, where the lead may be chance, so that there is no clear "
        "winner), and, if its guarantee does not hold between all places, the best whose does. "
        "Between measured points curves are joined by lines, as in the picture.",
        winner_columns(len(scope.datasets)),
        tuple(
            row for dataset in scope.datasets for yardstick in LEVELS for row in winner_rows(points, dataset, yardstick)
        ),
        protocol,
    )


def _own_table(points: Sequence[FrontierPoint], protocol: str) -> list[Table]:
    """The points of somebody else's classes, where there are any."""
    own = [one for one in points if not one.family.is_own]
    rows = [
        (one.dataset, one.family.label, _parameter(one.defence), promise(one.family), one.error_m, one.acc, one.named,
         one.sparsest, cut_to_share(one.recall))
        for one in own
    ]  # fmt: skip
    columns = (
        Column("dataset", in_terminal=len({one.dataset for one in own}) > 1),
        Column("mechanism"),
        Column("parameter"),
        Column("guarantee", in_terminal=False),
        Column("attacker's error (m)", form=",.0f"),
        Column("found within 100 m", form=".2f"),
        Column("named", form=".2f"),
        Column("named, sparsest tenth", form=".2f"),
        Column("recall@10", form=".2f"),
    )
    caption = "Your own mechanisms: what the best attacker gets, and what lists keep."
    return [Table("frontier-own", caption, columns, tuple(rows), protocol)] if own else []


def point_cells(scope: Scope, dataset: str, defence: Defence, *, named: int | None = None) -> list[FrontierCell]:
    """Return the cells of one point, run by run."""
    if named is None:
        named = scope.named if scope.quick else named_in_a_run(defence, scope.runs)
    return [
        FrontierCell(
            dataset=dataset,
            seed=scope.seed,
            run=run,
            defence=defence,
            queries=scope.queries,
            targets=scope.targets,
            named=named,
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
        *(share_of(results, own, name, results[own[0]][f"{name} targets"]) for name in ("named", "named sparsest")),
    )


def _compared(result: Result) -> dict[str, float]:
    return {
        "error": result["attacker error_m"],
        "acc": result["attacker acc"],
        "named": result["named"],
        "sparsest": result["named sparsest"],
        "recall": result[_MEASURES["recall@10"]],
    }


def _named_people(scope: Scope) -> str:
    if scope.quick:
        return f"{scope.named:,} people a run"
    return f"{NAMING_TARGETS:,} people (a run, where that is fast, or else in all runs)"


def _left_out(scope: Scope) -> str:
    missing = [family.label for family in all_families() if scope.quick and family.label not in _QUICK_FAMILIES]
    said = f" Left out of a quick look: {'; '.join(missing)}." if missing else ""
    drawn = [entry.label for entry in map(mechanism_entry, scope.mechanisms) if not entry.has_density]
    if drawn:
        said += (
            f" Without a density: {'; '.join(drawn)}; there the attacker goes by draws of its own, and may be wrong by "
            "more than one who knows the density."
        )
    return said


def _families(scope: Scope) -> tuple[Family, ...]:
    others = tuple(family_of(name) for name in scope.mechanisms)
    if not scope.quick:
        return (*all_families(), *others)
    ours = tuple(family for family in all_families() if family.label in _QUICK_FAMILIES)
    return tuple(family.inner().thinned(_QUICK_STEPS) for family in (*ours, *others))


_POINT_COLUMNS = (
    Column("dataset"),
    Column("defence"),
    Column("parameter"),
    Column("guarantee"),
    Column("error (m)", "best attacker", ",.0f"),
    Column("Acc at 100 m", "best attacker"),
    Column("named", "best attacker"),
    Column("named, sparsest tenth", "best attacker"),
    *(Column(name, "utility") for name in _MEASURES),
    *(
        Column(f"{kind}, {name}", f"beats all others at equal {name}")
        for name in ("error", "Acc", "naming", "naming of the sparsest")
        for kind in ("by", "clearly")
    ),
)


def _shown(point: FrontierPoint, measure: str) -> Estimate:
    """A measure of utility; a recall is a share, and a ratio is none."""
    value = point.utility[measure]
    return cut_to_share(value) if measure.startswith("recall") else value


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
        point.named,
        point.sparsest,
        *(_shown(point, name) for name in _MEASURES),
        *(part for yardstick in LEVELS for part in _victory(point, points, yardstick)),
    )


def _victory(point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick) -> tuple[Value, Value]:
    margin = margin_over_others(point, points, yardstick)
    return (
        margin if margin is not None and margin > 0 else None,
        "yes" if beats_clearly(point, points, yardstick) else None,
    )


# More lines than this in colour cannot be told apart.
_MOST_COLOURED = 8


def _chart(dataset: str, points: Sequence[FrontierPoint]) -> Chart:
    own = [one for one in points if one.dataset == dataset]
    families = {one.family.label: one.family for one in own}
    winners = winning_labels(points, dataset)
    # The default is always in colour: others are compared with it.
    coloured = families if len(families) <= _MOST_COLOURED else winners | {"planar Laplace"}
    panels = []
    for yardstick, of in LEVEL_FIELDS.items():
        series = []
        for label, family in families.items():
            line = sorted((one for one in own if one.family.label == label), key=lambda one: getattr(one, of).value)
            x, y = tuple(getattr(one, of) for one in line), tuple(cut_to_share(one.recall) for one in line)
            emphasis = "own" if not family.is_own else "" if label in coloured else "background"
            series.append(Series(label, x, y, emphasis=emphasis))  # type: ignore[arg-type]
        panels.append(
            Panel(
                "", _X_LABELS[yardstick], "recall@10 (share)", tuple(series),
                log_x=yardstick == "error", reverse_x=yardstick != "error",
            )
        )  # fmt: skip
    description = (
        f"Recall at 10 on {dataset} against the mean error of the best attacker, the share of people whom it finds "
        "within 100 m, and the shares of people, and of the sparsest tenth, whom it names; a line for each mechanism "
        "and release."
    )
    caption = (
        "Up and to the right is better in every panel: lists keep more of the true neighbours, and the best attacker "
        f"gets less. Bars are 95 % intervals, cut at 0 and 1 for shares. "
        f"{' '.join(best_at_what(points, dataset, with_figures=False))}"
    )
    title = f"The frontier on {dataset}"
    return Chart(f"{NAME}-{dataset}", title, tuple(panels), 2, description, caption, _exploration(own))


_X_LABELS: dict[Yardstick, str] = {
    "error": "mean error of the best attacker (m)",
    "acc": "people found within 100 m (share)",
    "named": "people named (share)",
    "sparsest": "people named in the sparsest tenth (share)",
}


def _exploration(points: Sequence[FrontierPoint]) -> Exploration:
    """The same points with all measures of privacy and of utility, for a reader to choose from."""
    x = tuple(
        Axis(YARDSTICK_NAMES[yardstick], label, is_log=yardstick == "error", is_reversed=yardstick != "error")
        for yardstick, label in _X_LABELS.items()
    )
    curves = []
    for label in dict.fromkeys(one.family.label for one in points):
        line = [one for one in points if one.family.label == label]
        values = {YARDSTICK_NAMES[yardstick]: tuple(one.level(yardstick) for one in line) for yardstick in LEVELS}
        values |= {name: tuple(_shown(one, name) for one in line) for name in _MEASURES}
        notes = tuple(f"{_parameter(one.defence)}; guarantee: {promise(one.family)}" for one in line)
        curves.append(Curve(label, notes, values, is_own=not line[0].family.is_own))
    return Exploration(
        x, tuple(Axis(name, f"{name}, asked from where people are") for name in _MEASURES), tuple(curves)
    )
