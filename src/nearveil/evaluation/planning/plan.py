"""From somebody's people and a goal to a mechanism with its parameters: measured on those people, not promised."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.defences import FreeCells
from nearveil.evaluation.families import Family, family_of, family_of_cells, sound_families
from nearveil.evaluation.longitudinal import MONTHS, MonthsFigure
from nearveil.evaluation.planning.goal import Goal, fitted_to, parameter_of
from nearveil.evaluation.planning.measuring import Point, Sizes
from nearveil.evaluation.planning.months import checked_months, service_months
from nearveil.evaluation.planning.people import PeopleSource, PlanningPeople
from nearveil.evaluation.planning.search import (
    Contender,
    Search,
    SearchTask,
    SettleTask,
    most_promising,
    ranked,
    search_family,
    settle,
    stage_seed,
)
from nearveil.evaluation.results import Chart, Panel, Series, cut_to_share, exact
from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.workers import map_in_processes
from nearveil.html_card import html_card, html_table
from nearveil.io.datasets import Dataset
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import MechanismEntry, entry_of_class, mechanism_entry
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region, as_region
from nearveil.types import FloatArray, Progress, ProgressBar, no_bar

LEAST_PEOPLE = 50

NOT_COVERED = (
    "This plan was made on true places: what is printed and drawn here, the choice itself among it, is not covered by "
    "any guarantee. Keep it to yourself and do not publish it. With --private-epsilon 1 a plan is made on a noisy "
    "histogram instead, and its cost is stated."
)
COVERED = (
    "This plan was made on made-up people drawn from one noisy histogram, and looked at nothing else. Whatever is done "
    "with it costs the people of the file no more than its own card says, on top of what protecting them costs. "
    "Made-up people are less clumped than real ones, so on the true ones recall is likely lower than it says here."
)
SEEDED = "A seed was given, so this plan protects nobody: anyone who knows the seed can undo the noise."

_ONE_FIT = (
    "The {} of this card are those of one fit for this plan. 'nearveil protect' fits its own on the people of the "
    "file, for whom the statement that begins with 'Together' is the one that holds."
)
_SEED = 1
_SEARCH_STAGE, _SETTLE_STAGE, _MONTHS_STAGE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: points of a sweep, steps of refinement, contenders, runs, and the size of each.

    And after how many months, and of how many people, it is measured what a service gives away.
    """

    steps: int
    refinements: int
    contenders: int
    runs: int
    search: Sizes
    check: Sizes
    final: Sizes
    months: tuple[int, ...] = ()
    followed: int = 0

    def for_goal(self, goal: Goal) -> Effort:
        """Name nobody on the way to a goal that is about something else."""
        if goal.is_about_naming:
            return self
        return replace(self, search=replace(self.search, named=0), check=replace(self.check, named=0))


FULL = Effort(4, 2, 3, 5, Sizes(1000, 40, 300), Sizes(1000, 150, 500), Sizes(2000, 80, 400), MONTHS, 200)
QUICK = Effort(3, 1, 3, 4, Sizes(500, 20, 100), Sizes(500, 60, 200), Sizes(1000, 40, 100), (1, 12), 30)


@dataclass(frozen=True, eq=False)
class Plan:
    """The result of planning. `nearveil.report.plan.plan_text` prints it, and `plan_chart` draws it.

    Attributes
    ----------
    goal : Goal
        What was wanted.
    contenders : tuple of Contender
        The best few, measured; the recommended one first, then those that meet the goal: first those whose guarantee
        holds between all places, and each time the best first.
    searches : tuple of Search
        What was measured on the way, for each family.
    left_out : tuple of str
        Families that were not tried, and why.
    notes : tuple of str
        What to know of how some of them were judged.
    people : PlanningPeople
        Whom it was measured on.
    months : tuple of MonthsFigure
        What a service with the best protection gives away of people who stay at home; empty where no service has it.
    seeded : bool
        Whether made-up people were drawn from a seed, so that nobody is protected.
    """

    goal: Goal
    contenders: tuple[Contender, ...]
    searches: tuple[Search, ...]
    left_out: tuple[str, ...]
    seed: int
    effort: Effort
    people: PlanningPeople = field(repr=False)
    notes: tuple[str, ...] = ()
    months: tuple[MonthsFigure, ...] = ()
    seeded: bool = False
    seconds: float = 0.0
    source: PeopleSource | None = field(default=None, repr=False)
    named: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def best(self) -> Contender:
        """The one recommended; if the goal is not met, the nearest to it."""
        return self.contenders[0]

    @property
    def met(self) -> bool:
        """Whether it meets the goal, with a promise that holds."""
        return self.best.met and self.best.family.sound

    @property
    def recommended(self) -> Contender | None:
        """The one recommended; None if nothing meets the goal."""
        return self.best if self.met else None

    @property
    def weaker_alternative(self) -> Contender | None:
        """The best that keeps more than the recommended one, but whose guarantee holds within an interval only."""
        if not self.met or not self.best.family.between_all_places:
            return None
        least = self.goal.objective(self.best.point)
        return next(
            (
                one
                for one in self.contenders
                if one.met and one.family.sound and not one.family.between_all_places
                and self.goal.objective(one.point) > least
            ),
            None,
        )  # fmt: skip

    @property
    def guarantee(self) -> Guarantee:
        """The card of the best mechanism, run without a seed."""
        dataset = self.people.dataset
        built = self.best.point.defence.build(dataset.region, seed=0).with_params(seed=None)
        guarantee = built.fitted_on(dataset.places).guarantee
        return guarantee.with_note(_ONE_FIT.format(built.learns)) if built.is_to_be_fitted else guarantee

    @property
    def coverage(self) -> str:
        """A sentence on whether the plan itself is covered by a guarantee."""
        if self.people.guarantee is None:
            return NOT_COVERED
        return SEEDED if self.seeded else COVERED

    def met_in_words(self, contender: Contender) -> str:
        """Say whether a contender meets the goal, and whether that may be chance."""
        if not contender.met:
            return "not met"
        return "met (may be chance)" if self.goal.may_be_chance(contender.point) else "met"

    def command(self, contender: Contender) -> str | None:
        """Return the ``nearveil protect`` that runs a contender; None for a plan whose people have no source."""
        defence = contender.point.defence
        return (
            None
            if self.source is None
            else self.source.protect_command(defence, named=self.named.get(defence.mechanism))
        )

    def _repr_html_(self) -> str:
        """The plan, for a notebook."""
        from nearveil.report.plan import plan_table  # noqa: PLC0415

        command = self.command(self.best)
        facts = [
            ("Goal", f"{self.goal}, {self.met_in_words(self.best) if self.met else 'not met by anything tried'}"),
            ("Recommended" if self.met else "Closest", f"{self.best.family.label}, {self.best.point.defence.loss}"),
            *([] if command is None else [("Command", command)]),
            ("Measured on", self.people.description),
        ]
        return html_card("Plan", facts, notes=[*self.notes, self.coverage], more=[html_table(*plan_table(self))])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        weaker = self.weaker_alternative
        planning = self.people.guarantee
        return {
            "goal": {"kind": self.goal.kind, "value": self.goal.value, "k": self.goal.k, "words": str(self.goal)},
            "met": self.met,
            "recommended": self._summary(self.best) if self.met else None,
            "nearest": None if self.met else self._summary(self.best),
            "weaker_alternative": None if weaker is None else self._summary(weaker),
            "alternatives": [self._summary(contender) for contender in self.contenders],
            "service_after_months": [_months(figure) for figure in self.months],
            "guarantee": self.guarantee.to_dict(),
            "planning_guarantee": planning.to_dict() if planning else None,
            "covered_by_a_guarantee": planning is not None and not self.seeded,
            "words": self.coverage,
            "measured_on": self.people.description,
            "people": len(self.people.dataset.places),
            "sweep": [
                {"mechanism": search.family.label, **_figures(point)}
                for search in self.searches
                for point in search.points
            ],
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "seed": self.seed,
            "seeded": self.seeded,
            "seconds": round(self.seconds, 3),
        }

    def _summary(self, contender: Contender) -> dict[str, Any]:
        return {
            "mechanism": contender.family.label,
            "met": contender.met,
            "promised": contender.family.promised,
            "between_all_places": contender.family.between_all_places,
            "command": self.command(contender),
            **_figures(contender.point),
        }


def plan(
    people: str | Path | FloatArray,
    goal: Goal,
    *,
    region: Region | str,
    read: ReadOptions | None = None,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    between_all_places: bool = False,
    free_cells: Sequence[FreeCells] = (),
    private_epsilon: float | None = None,
    months: Sequence[int] | None = None,
    quick: bool = False,
    cores: int | None = None,
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> Plan:
    """Recommend a mechanism and its parameters for some people and a goal.

    Planar Laplace, hiding among people, the sound releases of DPRS and the mechanisms given are measured on these
    people: what users keep, how wrong the best attacker is, and whom it names. On true places, the
    plan and the choice itself are not covered by any guarantee.

    Parameters
    ----------
    people : path, or array-like of shape (n, 2)
        A file of true places, or the places (latitude, longitude).
    goal : Goal
        What is wanted.
    region : Region or str
        The public region.
    read : ReadOptions, optional
        Which columns of a file are what; ``clip`` counts for places in memory as well.
    mechanisms : sequence of str or class
        Further candidates: names of the registry, ``file.py:Class``, or classes. One that promises nothing, or fails
        the conformance suite, is measured and shown, and never recommended.
    between_all_places : bool
        Only mechanisms whose guarantee holds between any two places.
    free_cells : sequence of FreeCells
        Cells to hide among people with at no cost to them: from public data, from places published before, or as they
        are in a file. Cells by PrivTree, which cost something, are tried anyway.
    private_epsilon : float, optional
        Plan on made-up people from one noisy histogram, which costs everybody this once.
    months : sequence of int, optional
        After how many months to measure what a service with the recommended protection gives away; 1, 3, 6, 12 and 24
        by default, or 1 and 12 if quick. An empty one leaves it out.
    quick : bool
        Measure less: faster, with wider intervals.
    cores : int, optional
        Processes to use; all cores by default.
    seed : int, optional
        Makes the plan repeatable. With ``private_epsilon`` it protects nobody.
    progress : callable, optional
        Gives a progress bar.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> from nearveil.region import named_region
    >>> points = synthetic_city(100, named_region("san-francisco"), rng=1)
    >>> found = plan(points, Goal.noise(500), region="san-francisco", quick=True, cores=1)
    >>> found.recommended.family.label, found.recommended.point.defence.parameter
    ('planar Laplace', 'noise of 500 m')
    """
    started = time.perf_counter()
    if seed is not None and seed < 0:
        raise UsageError("--seed is a whole number, 0 or more")
    entries = [mechanism_entry(one) if isinstance(one, str) else entry_of_class(one) for one in mechanisms]
    source = PeopleSource(
        people=people, region=as_region(region), region_text=_region_text(region), read=read or ReadOptions()
    )
    if private_epsilon is None:
        found = source.true_people()
    else:
        found = source.private_people(private_epsilon, seed)
        # How long the file takes to read is a fact about it, and not covered by what was spent.
        started = time.perf_counter()
    ours = families_for(goal, between_all_places=between_all_places)
    if goal.kind != "noise":
        ours += tuple(family_of_cells(one) for one in free_cells)
    others, left_out = _others(entries, ours, strong=between_all_places)
    effort = QUICK if quick else FULL
    effort = effort if months is None else replace(effort, months=checked_months(months))
    with (progress or no_bar)("planning", steps_of_plan((*ours, *others), effort)) as advance:
        made = make_plan(
            found.dataset,
            goal,
            families=(*ours, *others),
            effort=effort,
            seed=_SEED if seed is None else seed,
            cores=cores or os.cpu_count() or 1,
            progress=advance,
        )
        given_away = service_months(
            found.dataset,
            made.best.point.defence,
            effort.months,
            people=effort.followed,
            seed=stage_seed(made.seed, _MONTHS_STAGE),
            progress=advance,
        )
    return replace(
        made,
        months=given_away,
        people=found,
        left_out=(*left_out, *made.left_out),
        notes=(
            *(_NO_DENSITY.format(entry.label) for entry in entries if not entry.has_density),
            *(_FAILS.format(one.label, one.failure) for one in others if one.failure is not None),
        ),
        seeded=private_epsilon is not None and seed is not None,
        seconds=time.perf_counter() - started,
        source=source.without_places(),
        named={entry.name: one for entry, one in zip(entries, mechanisms, strict=True) if isinstance(one, str)},
    )


_FAILS = "{} is measured and not recommended: it fails the conformance suite ({})"
_NO_DENSITY = (
    "{} has no density: the attacker goes by draws of its own, and one who knew the density may be nearer than it says"
)


def _region_text(region: Region | str) -> str:
    return region if isinstance(region, str) else f"{region.south},{region.west},{region.north},{region.east}"


def _others(
    entries: Sequence[MechanismEntry], ours: Sequence[Family], *, strong: bool
) -> tuple[list[Family], list[str]]:
    """Return the families that were asked for, and a sentence on each that is left out."""
    taken = {family.label for family in ours}
    kept, left_out = [], []
    for family in [family_of(entry.name) for entry in dict.fromkeys(entries)]:
        if strong and not family.between_all_places:
            left_out.append(f"{family.label}: its guarantee does not hold between all places")
        elif family.label in taken and not family.is_own:
            raise UsageError(f"two mechanisms are called {family.label!r}; give the class another name")
        elif family.label not in taken:
            kept.append(family)
        taken.add(family.label)
    return kept, left_out


def steps_of_plan(families: Sequence[Family], effort: Effort) -> int:
    """How often `plan` reports progress, at most."""
    return len(families) + effort.contenders + 2 + sum(not family.is_own for family in families)


def make_plan(
    dataset: Dataset,
    goal: Goal,
    *,
    families: Sequence[Family] | None = None,
    effort: Effort = FULL,
    seed: int = _SEED,
    cores: int = 1,
    progress: Progress | None = None,
) -> Plan:
    """Search every family for the point where the goal is just met, measure the best again, and choose.

    Parameters
    ----------
    dataset : Dataset
        The people to plan for, one place each.
    goal : Goal
        What is wanted.
    families : sequence of Family, optional
        What may be recommended; every sound family by default (`families_for`).
    effort : Effort
        How much is measured.
    seed : int
        Of all measurements.
    cores : int
        Processes to use.
    progress : callable, optional
        Called with 1 after each family and each contender.
    """
    people = len(dataset.places)
    # The person who asks is not in their own list.
    least = max(LEAST_PEOPLE, goal.k + 1)
    if people < least:
        raise DataError(
            f"there are {people:,} people to plan for, and at least {least} at different places "
            "are needed; measure on more people, or ask for a shorter list (--k)"
        )
    able, unable = _able(goal, families_for(goal) if families is None else families)
    effort = effort.for_goal(goal)
    if goal.kind == "hide-among" and goal.value > people:
        raise UsageError(f"there are {people:,} people, and nobody can be hidden among {goal.value:,.0f} of them")
    chosen, left_out = fitted_to(able, people)
    searches = _search(dataset, goal, chosen, effort, seed, cores, progress)
    contenders = _settle(dataset, goal, searches, effort, seed, cores, progress)
    whom = PlanningPeople(dataset, f"the {people:,} places of {dataset.name}")
    return Plan(goal, ranked(contenders, goal), tuple(searches), (*unable, *left_out), seed, effort, whom)


def families_for(goal: Goal, *, between_all_places: bool = False) -> tuple[Family, ...]:
    """Return the sound families that can have what is wanted; a promise in metres or people is of one kind only."""
    strong = between_all_places or goal.kind == "noise"
    ours = [family for family in sound_families() if family.between_all_places or not strong]
    if goal.kind == "noise":
        ours = [family for family in ours if not family.members[0].hides_among]
    if goal.kind == "hide-among":
        ours = [family for family in ours if family.members[0].hides_among]
    return tuple(ours)


def _able(goal: Goal, families: Sequence[Family]) -> tuple[list[Family], list[str]]:
    """Return the families that can promise what is wanted, and a sentence on each that cannot."""
    able = [family for family in families if goal.can_be_promised(family.members[0])]
    if not able:
        if goal.kind == "hide-among":
            raise UsageError("none of these mechanisms hides people among people; try hide-among")
        raise UsageError("none of these mechanisms can promise the length to those it is fitted on; try planar Laplace")
    unable = []
    for family in families:
        if family not in able:
            lost = family.members[0].fit_loss
            why = (
                f"a person that the intervals are fitted on loses {lost:g} more at any distance, so that the promise "
                "does not hold for the people of the file"
                if lost
                else "its guarantee is not the metric promise at that length"
            )
            unable.append(f"{family.label}: {why}")
    return able, unable


def _search(
    dataset: Dataset,
    goal: Goal,
    families: Sequence[Family],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Search]:
    tasks = [
        SearchTask(
            dataset,
            goal,
            family.thinned(min(effort.steps, len(family.members))),
            parameter_of(family, dataset.region, len(dataset.places)),
            stage_seed(seed, _SEARCH_STAGE),
            effort.search,
            effort.refinements,
        )
        for family in families
    ]
    # Planar Laplace takes a moment and stands first; the others are about as long as each other.
    found: dict[int, Search] = {}
    for index, search in map_in_processes(search_family, tasks[::-1], cores=cores):
        found[len(tasks) - 1 - index] = search
        if progress:
            progress(1)
    return [replace(found[index], family=families[index]) for index in range(len(tasks))]


def _settle(
    dataset: Dataset,
    goal: Goal,
    searches: Sequence[Search],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Contender]:
    # Those that are fitted take longest, and go first.
    contenders = most_promising(searches, goal, effort.contenders)
    promising = sorted(contenders, key=lambda search: search.family.members[0].entry.mechanism.learns is None)
    own_seed = stage_seed(seed, _SETTLE_STAGE)
    tasks = [
        SettleTask(dataset, goal, search, own_seed, effort.runs, effort.check, effort.final) for search in promising
    ]
    found = []
    for _, contender in map_in_processes(settle, tasks, cores=cores):
        found.append(contender)
        if progress:
            progress(1)
    return found


# A plan as a picture: recall against the best attacker's error, a line for each family.


RECOMMENDED, NEAREST = "recommended", "nearest to the goal"


def plan_chart(plan: Plan, whom: str) -> Chart:
    """Return the picture; ``whom`` names the people it was measured on."""
    recall = f"recall@{plan.goal.k}"
    series = []
    for search in plan.searches:
        line = _line(search, plan.contenders)
        series.append(
            Series(
                search.family.label, tuple(one.error_m for one in line), tuple(cut_to_share(one.recall) for one in line)
            )
        )
    wanted = _goal_line(plan)
    best = plan.best.point
    label = RECOMMENDED if plan.met else NEAREST
    mark = Series(label, (best.error_m,), (cut_to_share(best.recall),), "points", colour_of=plan.best.family.label)
    panel = Panel(
        "",
        "mean error of the best attacker (m): farther right, more is hidden",
        f"{recall}, asked from where people are",
        (*series, *([] if wanted is None else [wanted]), mark),
        log_x=True,
    )
    description = (
        f"{recall} against the mean error of the best attacker on {whom}, a line for each mechanism, with the goal and "
        f"the point that is {mark.label}: {best.defence.label}, {best.defence.parameter}."
    )
    return Chart("plan", f"Goal: {plan.goal}", (panel,), 1, description)


def _line(search: Search, contenders: Sequence[Contender]) -> list[Point]:
    """The points of a family; where it was measured again, that in place of the steps that led there."""
    settled = [one.point for one in contenders if one.family.label == search.family.label]
    swept = [point for point in search.points if point.defence in search.family.members]
    points = [*swept, *settled] if settled else list(search.points)
    return sorted(points, key=lambda point: search.parameter.setting_of(point.defence))


def _goal_line(plan: Plan) -> Series | None:
    """A straight line through the picture; none for a length, which is not on its axes."""
    points = [point for search in plan.searches for point in search.points]
    if plan.goal.kind == "attacker-error":
        top = max(point.recall.value for point in points)
        return Series("the goal", (exact(plan.goal.value),) * 2, (exact(0.0), exact(top)))
    if plan.goal.kind == "recall":
        errors = [point.error_m.value for point in points]
        return Series("the goal", (exact(min(errors)), exact(max(errors))), (exact(plan.goal.value),) * 2)
    return None


def _figures(point: Point) -> dict[str, Any]:
    defence = point.defence
    return {
        "noise_m": defence.noise_m,
        "hide_among": defence.hide_among,
        "epsilon": defence.epsilon,
        "fit_epsilon": defence.fit_epsilon,
        "fit_loss": defence.fit_loss,
        "centres": defence.centres if defence.is_dprs else None,
        **{name: _mean(getattr(point, name)) for name in ("recall", "ratio", "error_m")},
        **{name: _share(getattr(point, name)) for name in ("acc", "named", "named_sparsest")},
        "seeds": list(point.seeds),
    }


def _months(figure: MonthsFigure) -> dict[str, Any]:
    return {
        "months": figure.months,
        "people": figure.people,
        "found_within_100_m": _share(figure.found),
        "named": _share(figure.named),
        "error_m": _mean(figure.error_m),
        "points_a_month": figure.points.value,
    }


def _mean(mean: Mean) -> dict[str, float | None]:
    return {"value": mean.value, "half_width": mean.half_width}


def _share(share: Share | None) -> dict[str, float] | None:
    return None if share is None else {"value": share.value, "low": share.low, "high": share.high}
