"""The frontier: what each defence leaves to those who ask, against what it leaves to the best attacker.

From top to bottom: the families of defences that are swept, their curves, who wins, and the experiment itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal

from nearveil.attacks.bayes import NAMING_TARGETS
from nearveil.audit.conformance import failure_of
from nearveil.evaluation.attack_experiment import Estimate, Mean, mean_over_runs
from nearveil.evaluation.cells import PUBLIC_SHARE, PUBLISHED_BEFORE_M, FrontierCell, named_in_a_run
from nearveil.evaluation.defences import CellsFrom, Centres, Defence, FreeCells
from nearveil.evaluation.experiments.scope import SHARE_NOTE, Results, Scope, mean_of, share_of
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value
from nearveil.evaluation.runner import Result
from nearveil.evaluation.utility import QUERY_TEXT, REGION_TEXT
from nearveil.mechanisms.registry import MECHANISMS, mechanism_entry
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Notion
from nearveil.region import named_region

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PAPER_EPSILONS = (0.5, 1.0, 3.0, 5.0, 10.0, 20.0)
CENTRES = (50, 100, 200, 400, 1600)
FIT_EPSILON = 1.0


@dataclass(frozen=True, slots=True)
class Family:
    """A defence along its parameter.

    Attributes
    ----------
    sound : bool
        Whether its guarantee holds as stated; only such can be recommended.
    between_all_places : bool
        Whether the guarantee holds between any two places, and not only within an interval.
    promised : bool
        Whether there is a guarantee at all.
    is_own : bool
        Whether it is one of ours, and not somebody else's class.
    failure : str, optional
        Which check of the conformance suite somebody else's class fails.
    """

    label: str
    members: tuple[Defence, ...]
    sound: bool = True
    between_all_places: bool = True
    promised: bool = True
    is_own: bool = True
    failure: str | None = None

    def thinned(self, steps: int) -> Family:
        """Return the family with a few members, the ends among them."""
        last, steps = len(self.members) - 1, max(steps, 2)
        kept = sorted({round(last * step / (steps - 1)) for step in range(steps)})
        return replace(self, members=tuple(self.members[index] for index in kept))

    def inner(self) -> Family:
        """Return the family without its ends, where something is left."""
        return replace(self, members=self.members[1:-1] or self.members)


def all_families() -> tuple[Family, ...]:
    """Return every mechanism and release, in an isotropic region."""
    return (
        *sound_families(),
        *(among_family(cells_from) for cells_from in AMONG_LABELS if cells_from != "privtree"),
        _paper("paper, private k-means"),
        _paper("paper, Gaussian, private k-means", noise="gaussian"),
        _paper("paper, private grid", centres_from="private-grid"),
        _paper("paper, public random centres", centres_from="public"),
        *(
            family_of(name)
            for name, entry in MECHANISMS.items()
            if entry.strengths and not entry.in_plans and not entry.mechanism.learns
        ),
    )


def sound_families() -> tuple[Family, ...]:
    """Return those that one could deploy: of the registry, hide-among with private cells, sound releases of DPRS."""
    return (
        *(family_of(name) for name, entry in MECHANISMS.items() if entry.in_plans),
        among_family("privtree"),
        _by_length(_metric("metric, private grid", "private-grid")),
        _by_length(_metric("metric, private k-means", "pic")),
        _interval("interval, private grid", _by_epsilon(_confined("private-grid"), EPSILONS)),
        _interval("interval, Gaussian, private grid", _by_epsilon(_confined("private-grid", "gaussian"), EPSILONS)),
        _interval("interval, private k-means", _by_epsilon(_confined("pic"), EPSILONS)),
        _interval(
            "interval, private grid, by centres",
            tuple(replace(_confined("private-grid"), epsilon=1.0, centres=centres) for centres in CENTRES[::-1]),
        ),
    )


@cache
def family_of(name: str) -> Family:
    """Return a mechanism of the registry, or somebody else's, along its parameter, with what its guarantee says."""
    entry = mechanism_entry(name)
    defence = Defence(label=entry.label, mechanism=entry.name, region="isotropic")
    members: tuple[Defence, ...] = (defence,)
    if entry.strength == "hide_within_m":
        members = tuple(replace(defence, hide_within_m=value) for value in entry.strengths)
    elif entry.strength == "epsilon":
        members = tuple(replace(defence, epsilon=value) for value in entry.strengths)
    region = named_region("san-francisco")
    stated = members[0].build(region, seed=0).guarantee
    failure = None if entry.is_own else failure_of(members[len(members) // 2].build(region, seed=0))
    return Family(
        entry.label,
        members,
        sound=stated.holds and all(one.holds for one in stated.also) and failure is None,
        failure=failure,
        between_all_places=stated.is_promised and stated.notion in (Notion.LOCAL, Notion.METRIC),
        promised=stated.is_promised,
        is_own=entry.is_own,
    )


AMONG_LABELS: dict[CellsFrom, str] = {
    "privtree": "among, PrivTree",
    "published": "among, published places",
    "public": "among, public data",
}
"""Hide among people, by where the cells are from; those of a private quadtree cost something, the others nothing."""


def among_family(cells_from: CellsFrom, *, fit_epsilon: float = FIT_EPSILON) -> Family:
    """Return hide-among along the number of people, for one source of cells."""
    defence = Defence(
        label=AMONG_LABELS[cells_from],
        mechanism="hide-among",
        cells_from=cells_from,
        fit_epsilon=fit_epsilon if cells_from == "privtree" else None,
        region="isotropic",
    )
    numbers = MECHANISMS["hide-among"].strengths
    return Family(defence.label, tuple(replace(defence, hide_among=int(number)) for number in numbers))


def family_of_cells(free_cells: FreeCells) -> Family:
    """Return hide-among along the number of people, with cells that cost nobody anything."""
    family = among_family("privtree")
    label = f"among, {free_cells.source}"
    members = (replace(one, label=label, fit_epsilon=None, free_cells=free_cells) for one in family.members)
    return replace(family, label=label, members=tuple(members))


def _by_length(defence: Defence) -> Family:
    lengths_m = MECHANISMS["planar-laplace"].strengths
    return Family(defence.label, tuple(replace(defence, hide_within_m=length_m) for length_m in lengths_m))


def _by_epsilon(defence: Defence, epsilons: tuple[float, ...]) -> tuple[Defence, ...]:
    # From strong protection to weak would be the other way round; the order is that of growing attacker error.
    return tuple(replace(defence, epsilon=epsilon) for epsilon in sorted(epsilons, reverse=True))


def _metric(label: str, centres_from: Centres) -> Defence:
    return Defence(
        label=label,
        mechanism="dprs",
        release="metric",
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _confined(centres_from: Centres, noise: Noise = "laplace") -> Defence:
    return Defence(
        label="",
        mechanism="dprs",
        release="interval",
        noise=noise,
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _interval(label: str, members: tuple[Defence, ...]) -> Family:
    named = tuple(replace(member, label=label) for member in members)
    return Family(label, named, between_all_places=False)


def _paper(label: str, *, noise: Noise = "laplace", centres_from: Centres = "pic") -> Family:
    defence = Defence(label=label, mechanism="dprs", noise=noise, centres_from=centres_from, region="isotropic")
    return Family(label, _by_epsilon(defence, PAPER_EPSILONS), sound=False, between_all_places=False)


# Curves of the frontier: who keeps most at a level of privacy, and by how much.
#
# There are four yardsticks of privacy, and nobody wins by all of them. A mechanism that seldom throws people far away
# has a large mean error, although the attacker finds most of them; the share that it finds within 100 m (Acc) shows
# that. In a dense street 100 m hold many people, and in the country one: the share of people whom the attacker names,
# and that share where people are sparsest, show who is exposed.


Yardstick = Literal["error", "acc", "named", "sparsest"]
"""How privacy is measured: the best attacker's mean error, the share of people it finds within 100 m, the share whose
address is its first guess, or that share in the sparsest tenth."""

_LEVEL_FIELDS: dict[Yardstick, str] = {"error": "error_m", "acc": "acc", "named": "named", "sparsest": "sparsest"}
_UNKNOWN = Mean(math.nan, None)


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One defence on one population: privacy as the best attacker feels it, utility as users feel it.

    ``runs`` has the level by each yardstick, and ``recall`` (at 10), run by run.
    """

    dataset: str
    family: Family
    defence: Defence
    error_m: Mean
    acc: Estimate
    utility: dict[str, Mean]
    runs: tuple[Mapping[str, float], ...] = ()
    named: Estimate = _UNKNOWN
    sparsest: Estimate = _UNKNOWN

    @property
    def recall(self) -> Mean:
        """Recall@10, by which curves are compared."""
        return self.utility["recall@10"]

    def level(self, yardstick: Yardstick) -> Estimate:
        """How much the attacker gets, by a yardstick."""
        found: Estimate = getattr(self, _LEVEL_FIELDS[yardstick])
        return found


def standings(
    points: Sequence[FrontierPoint], dataset: str, level: float, yardstick: Yardstick = "error"
) -> list[tuple[float, Family]]:
    """Recall@10 of each family at a level of privacy, the best first; families that do not reach it are left out."""
    found = []
    for family in {one.family.label: one.family for one in points}.values():
        kept = recall_at(line_of_family(points, dataset, family.label), level, yardstick)
        if kept is not None:
            found.append((kept, family))
    return sorted(found, key=lambda pair: -pair[0])


def line_of_family(points: Sequence[FrontierPoint], dataset: str, label: str) -> list[FrontierPoint]:
    """The points of one family on one population."""
    return [one for one in points if one.dataset == dataset and one.family.label == label]


def recall_at(
    points: Sequence[FrontierPoint], level: float, yardstick: Yardstick = "error", *, at_best: bool = False
) -> float | None:
    """Recall@10 that a family keeps at a level of privacy: along lines between its points, as they are drawn.

    A point with more privacy serves as well. None where there is never as much. ``at_best`` takes the better end of
    every 95 % interval.
    """
    ends = [(_better_end(one.level(yardstick), yardstick, at_best), _up(one.recall, at_best)) for one in points]
    return _recall_along(ends, level, yardstick)


def spread_at(points: Sequence[FrontierPoint], level: float, yardstick: Yardstick = "error") -> list[float] | None:
    """`recall_at` of every run on its own; None where some run does not reach the level."""
    count = min((len(one.runs) for one in points), default=0)
    found = [
        _recall_along([(one.runs[run][yardstick], one.runs[run]["recall"]) for one in points], level, yardstick)
        for run in range(count)
    ]
    known = [kept for kept in found if kept is not None]
    return known if known and len(known) == count else None


def margin_over_others(
    point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick = "error"
) -> float | None:
    """How much more recall@10 than any other family keeps at the same level; None if no other reaches it."""
    others = _kept_by_others(point, points, point.level(yardstick).value, yardstick, at_best=False)
    return point.recall.value - max(others) if others else None


def beats_clearly(point: FrontierPoint, points: Sequence[FrontierPoint], yardstick: Yardstick = "error") -> bool:
    """Whether it still beats all others at the worse ends of its own 95 % intervals and the better ends of theirs."""
    own = point.level(yardstick)
    worse, least = own.low if yardstick == "error" else own.high, point.recall.low
    if worse is None or least is None:
        return False
    others = _kept_by_others(point, points, worse, yardstick, at_best=True)
    return bool(others) and least > max(others)


def _kept_by_others(
    point: FrontierPoint, points: Sequence[FrontierPoint], level: float, yardstick: Yardstick, *, at_best: bool
) -> list[float]:
    found = []
    for label in dict.fromkeys(one.family.label for one in points if one.family.label != point.family.label):
        kept = recall_at(line_of_family(points, point.dataset, label), level, yardstick, at_best=at_best)
        if kept is not None:
            found.append(kept)
    return found


def _recall_along(curve: Sequence[tuple[float, float]], level: float, yardstick: Yardstick) -> float | None:
    wanted = _privacy(level, yardstick)
    line = sorted((_privacy(value, yardstick), recall) for value, recall in curve)
    kept = [recall for privacy, recall in line if privacy >= wanted]
    for (here, low), (there, high) in pairwise(line):
        if here < wanted <= there:
            # The nearer end alone where the other is infinitely far.
            share = (wanted - here) / (there - here) if math.isfinite(here) else 1.0
            kept.append(low + share * (high - low))
    return max(kept) if kept else None


def _privacy(level: float, yardstick: Yardstick) -> float:
    """More is more private; on the scale that the pictures have."""
    if yardstick != "error":
        return -level
    return math.log(level) if level > 0 else -math.inf


def _better_end(level: Estimate, yardstick: Yardstick, at_best: bool) -> float:
    end = level.high if yardstick == "error" else level.low
    return level.value if end is None or not at_best else max(end, 0.0)


def _up(recall: Mean, at_best: bool) -> float:
    return recall.value if recall.high is None or not at_best else recall.high


# Who wins the frontier: a table by level of privacy, and remarks.


LEVELS: dict[Yardstick, tuple[float, ...]] = {
    "error": (50.0, 100.0, 200.0, 300.0, 500.0, 800.0, 1200.0),
    "acc": (0.7, 0.5, 0.3, 0.2, 0.1, 0.05),
    "named": (0.3, 0.2, 0.1, 0.05, 0.03, 0.02),
    "sparsest": (0.5, 0.3, 0.2, 0.1, 0.05),
}
_LEVEL_COLUMNS: dict[Yardstick, Column] = {
    "error": Column("attacker's error (m)", form=",.0f"),
    "acc": Column("attacker finds at most", form=".0%"),
    "named": Column("attacker names at most", form=".0%"),
    "sparsest": Column("attacker names of the sparsest tenth at most", form=".0%"),
}
_YARDSTICK_NAMES: dict[Yardstick, str] = {
    "error": "mean error",
    "acc": "Acc at 100 m",
    "named": "share of people named",
    "sparsest": "share named in the sparsest tenth",
}
_CONDITIONS: tuple[tuple[Yardstick, float, str], ...] = (
    ("error", 100.0, "is wrong by 100 m"),
    ("error", 300.0, "is wrong by 300 m"),
    ("acc", 0.2, "finds 20 % within 100 m"),
    ("named", 0.05, "names 5 %"),
    ("sparsest", 0.1, "names 10 % of the sparsest tenth"),
)


def winner_columns(yardstick: Yardstick) -> tuple[Column, ...]:
    """Return the columns of the table by one yardstick."""
    return (
        Column("dataset"),
        _LEVEL_COLUMNS[yardstick],
        Column("best"),
        Column("recall@10"),
        Column("next best"),
        Column("its recall@10"),
        Column("margin"),
        Column("best that holds between all places"),
        Column("recall@10, between all places"),
    )


def winner_rows(
    points: Sequence[FrontierPoint], dataset: str, yardstick: Yardstick = "error"
) -> list[tuple[Value, ...]]:
    """Return the best and the next best at each level that anybody reaches."""
    rows: list[tuple[Value, ...]] = []
    for level in LEVELS[yardstick]:
        ranked = standings(points, dataset, level, yardstick)
        if not ranked:
            continue
        strong = next((one for one in ranked if one[1].sound and one[1].between_all_places), None)
        runner_up = ranked[1] if len(ranked) > 1 else None

        def named(one: tuple[float, Family] | None, level: float = level) -> tuple[str | None, Mean | None]:
            return (
                (None, None) if one is None else (one[1].label, _with_interval(points, dataset, one, level, yardstick))
            )

        margin = None if runner_up is None else margin_at(points, dataset, ranked[0], runner_up, level, yardstick)
        rows.append((dataset, level, *named(ranked[0]), *named(runner_up), margin, *named(strong)))
    return rows


def margin_at(
    points: Sequence[FrontierPoint],
    dataset: str,
    best: tuple[float, Family],
    following: tuple[float, Family],
    level: float,
    yardstick: Yardstick,
) -> Mean:
    """How much more the best keeps; its interval is that of pairs, run by run, where every run reaches the level."""
    value = best[0] - following[0]
    first, second = (
        spread_at(line_of_family(points, dataset, family.label), level, yardstick) for _, family in (best, following)
    )
    if first is None or second is None:
        return Mean(value, None)
    return Mean(value, mean_over_runs([a - b for a, b in zip(first, second, strict=True)]).half_width)


def _with_interval(
    points: Sequence[FrontierPoint], dataset: str, one: tuple[float, Family], level: float, yardstick: Yardstick
) -> Mean:
    spread = spread_at(line_of_family(points, dataset, one[1].label), level, yardstick)
    return Mean(one[0], None if spread is None else mean_over_runs(spread).half_width)


def frontier_remarks(points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Say who wins where, and what the discs of the release metric do."""
    clear = [one for one in points if all(beats_clearly(one, points, yardstick) for yardstick in LEVELS)]
    return (
        *(_standing(points, dataset) for dataset in dict.fromkeys(one.dataset for one in points)),
        f"{len(clear)} of {len(points)} points beat all other families clearly by all yardsticks: {_counted(clear)}.",
        *_remapping(points),
        *_exposed(points),
        "Read all yardsticks: SRR publishes most people in their own cell of the grid and throws some anywhere, which "
        "makes the mean error large although the attacker finds many. A defence confined to small discs keeps recall "
        "and gives the disc away. Which promise goes with a point is in the table.",
    )


def _standing(points: Sequence[FrontierPoint], dataset: str) -> str:
    sentences = []
    for yardstick, level, condition in _CONDITIONS:
        ranked = standings(points, dataset, level, yardstick)
        if len(ranked) > 1:
            margin = margin_at(points, dataset, ranked[0], ranked[1], level, yardstick)
            width = "" if margin.half_width is None else f" ± {margin.half_width:.2f}"
            sentences.append(
                f"{condition}, {ranked[0][1].label} ({ranked[0][0]:.2f}, {margin.value:+.2f}{width} to the next)"
            )
    if not sentences:
        return f"{dataset}: no two families reach the same level of privacy."
    return f"{dataset}: most recall@10 where the best attacker {'; '.join(sentences)}."


def _counted(points: Sequence[FrontierPoint]) -> str:
    counts = Counter(f"{one.family.label} on {one.dataset}" for one in points)
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"


def _exposed(points: Sequence[FrontierPoint]) -> list[str]:
    """How much more often those in the sparsest tenth are named than people on average."""
    found = []
    for label in ("planar Laplace", *AMONG_LABELS.values()):
        own = [one for one in points if one.family.label == label and one.named.value > 0]
        if own:
            ratios = sorted(one.sparsest.value / one.named.value for one in own)
            found.append(f"{label} {ratios[len(ratios) // 2]:.1f}")
    if not found:
        return []
    return [
        "How many times as often somebody of the sparsest tenth is named as people on average, median over points: "
        f"{', '.join(found)}. Noise in metres exposes the sparsest; hiding among people is worse in metres where "
        "people are dense, by design."
    ]


def _remapping(points: Sequence[FrontierPoint]) -> list[str]:
    """What moving noisy places into the discs does, at equal noise."""
    planar = {(one.dataset, one.defence.hide_within_m): one for one in points if one.family.label == "planar Laplace"}
    gains = [
        one.utility["recall@10"].value - planar[one.dataset, one.defence.hide_within_m].utility["recall@10"].value
        for one in points
        if one.family.label == "metric, private grid" and (one.dataset, one.defence.hide_within_m) in planar
    ]
    if not gains:
        return []
    return [
        f"Moving noisy places into private discs (metric, private grid) changes recall@10 against the same noise "
        f"without discs (planar Laplace) by {min(gains):+.3f} to {max(gains):+.3f}."
    ]


# The frontier: what each defence leaves to those who ask, against what it leaves to the best attacker.


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
        f"{SHARE_NOTE}{_left_out(scope)} Sound releases of DPRS: intervals fitted at epsilon = {FIT_EPSILON:g}. Hide "
        "among people: cells by PrivTree at the same epsilon; or from places published before, with planar Laplace "
        f"noise of {PUBLISHED_BEFORE_M:g} m, which the attacker does not combine with the new ones; or from a random "
        f"{PUBLIC_SHARE:.0%} of the people as public data."
    )
    tables = (
        *(_winner_table(scope, points, yardstick, protocol) for yardstick in LEVELS),
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
        ),
    )
    question = (
        "Epsilon means different things for different mechanisms. What counts is what an attacker who knows the "
        "mechanism and every address gets, and what users get."
    )
    pictures = tuple(_chart(dataset, points) for dataset in scope.datasets)
    return ExperimentResult(NAME, TITLE, question, tables, pictures, frontier_remarks(points))


def _winner_table(scope: Scope, points: Sequence[FrontierPoint], yardstick: Yardstick, protocol: str) -> Table:
    by = _YARDSTICK_NAMES[yardstick]
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
            dataset=dataset,
            seed=scope.seed,
            run=run,
            defence=defence,
            queries=scope.queries,
            targets=scope.targets,
            named=scope.named if scope.quick else named_in_a_run(defence, scope.runs),
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


def promise(family: Family) -> str:
    """What the guarantee of a family is, in a few words."""
    if not family.promised:
        return "none"
    if not family.sound:
        return "claim refuted"
    if family.members and family.members[0].hides_among:
        return "between all places, by steps"
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
        point.named,
        point.sparsest,
        *point.utility.values(),
        *(part for yardstick in LEVELS for part in _victory(point, points, yardstick)),
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
        for yardstick, of in _LEVEL_FIELDS.items():
            x_label = f"best attacker's {_YARDSTICK_NAMES[yardstick]}{' (m)' if yardstick == 'error' else ''}"
            series = []
            for label in dict.fromkeys(one.family.label for one in own):
                line = sorted((one for one in own if one.family.label == label), key=lambda one: getattr(one, of).value)
                x = tuple(getattr(one, of) for one in line)
                series.append(Series(label, x, tuple(one.utility[name] for one in line)))
            panels.append(Panel("", x_label, f"{name}, users", tuple(series), log_x=of == "error_m"))
    description = (
        f"Recall at 10, recall at 50 and distance ratio on {dataset} against the mean error and the Acc of the best "
        "attacker and the shares of people, and of the sparsest tenth, whom it names; a line for each mechanism and "
        "release."
    )
    return Chart(f"{NAME}-{dataset}", f"The frontier on {dataset}", tuple(panels), 4, description)
