"""Where on a family's dial a wish is just met: a coarse sweep, then straight lines between neighbouring points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.frontier import Family, sound_families
from nearveil.evaluation.planning.goal import Dial, PlanWish, dial_of, fitted_to
from nearveil.evaluation.planning.measuring import Bench, Point, Sizes, measure_runs
from nearveil.evaluation.results import Chart, Panel, Series, exact
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.datasets import Dataset
from nearveil.types import Progress

_STEP_BEYOND = float(np.log(2.0))
_MOST_STEPS_BEYOND = 6
# A new point keeps away from those that are there already, so that each step learns something.
_NEAREST, _FARTHEST = 0.1, 0.9
_LEAST_SLOPE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class SearchTask:
    """What one process does: one family on one population."""

    dataset: Dataset
    wish: PlanWish
    family: Family
    dial: Dial
    seed: int
    sizes: Sizes
    refinements: int


@dataclass(frozen=True, slots=True)
class Search:
    """What was found.

    Attributes
    ----------
    points : tuple of Point
        Measured, in the order of the dial.
    turn : float
        Where the wish is just met, as far as these points show; the end of the dial that is nearest to it if nowhere.
    slope : float
        How the wish's level changes there for each unit of the dial.
    """

    family: Family
    dial: Dial
    points: tuple[Point, ...]
    turn: float
    slope: float

    @property
    def error_m(self) -> float:
        """The attacker's error there, on a straight line between points."""
        return self._between([point.error_m.value for point in self.points])

    @property
    def recall(self) -> float:
        """Recall there."""
        return self._between([point.recall.value for point in self.points])

    def _between(self, values: list[float]) -> float:
        return float(np.interp(self.turn, [self.dial.read(point.defence) for point in self.points], values))


def search_family(task: SearchTask) -> Search:
    """Sweep a family, widen the sweep until it holds the wish, and close in on it."""
    bench = Bench(task.dataset, task.wish.k, task.seed)
    points = [bench.measure(member, task.sizes) for member in task.family.members]
    if task.wish.kind == "hide-within":
        return Search(task.family, task.dial, tuple(points), float(np.log(task.wish.value)), 1.0)
    points = _widened(points, bench, task)
    for _ in range(task.refinements):
        pair = _around(points, task.wish)
        if pair is None:
            break
        defence = task.dial.turned(points[0].defence, _crossing(*pair, task))
        if any(defence == point.defence for point in points):
            break
        points = _in_order([*points, bench.measure(defence, task.sizes)], task.dial)
    return Search(task.family, task.dial, tuple(points), *_found(points, task))


def _widened(points: list[Point], bench: Bench, task: SearchTask) -> list[Point]:
    """Go beyond the ends of the sweep, as far as the dial turns, while the wish lies there."""
    low, high = task.dial.ends
    for _ in range(_MOST_STEPS_BEYOND):
        turns = [task.dial.read(point.defence) for point in points]
        if task.wish.level(points[0]) >= task.wish.aim() and turns[0] - low > 1e-3:
            following = turns[0] - _STEP_BEYOND
        elif task.wish.level(points[-1]) < task.wish.aim() and high - turns[-1] > 1e-3:
            following = turns[-1] + _STEP_BEYOND
        else:
            break
        point = bench.measure(task.dial.turned(points[0].defence, following), task.sizes)
        points = _in_order([*points, point], task.dial)
    return points


def _in_order(points: list[Point], dial: Dial) -> list[Point]:
    return sorted(points, key=lambda point: dial.read(point.defence))


def _around(points: list[Point], wish: PlanWish) -> tuple[Point, Point] | None:
    """The first two neighbours that the wish lies between."""
    return next(
        (pair for pair in pairwise(points) if wish.level(pair[0]) < wish.aim() <= wish.level(pair[1])),
        None,
    )


def _crossing(below: Point, above: Point, task: SearchTask) -> float:
    low, high = task.dial.read(below.defence), task.dial.read(above.defence)
    share = (task.wish.aim() - task.wish.level(below)) / (task.wish.level(above) - task.wish.level(below))
    return low + min(max(share, _NEAREST), _FARTHEST) * (high - low)


def _found(points: list[Point], task: SearchTask) -> tuple[float, float]:
    """Where the wish is met, and the slope there."""
    turns = [task.dial.read(point.defence) for point in points]
    levels = [task.wish.level(point) for point in points]
    whole = max((levels[-1] - levels[0]) / (turns[-1] - turns[0]), _LEAST_SLOPE)
    pair = _around(points, task.wish)
    if pair is None:
        return (turns[0] if levels[0] >= task.wish.aim() else turns[-1]), whole
    below, above = pair
    low, high = task.dial.read(below.defence), task.dial.read(above.defence)
    share = (task.wish.aim() - task.wish.level(below)) / (task.wish.level(above) - task.wish.level(below))
    return low + share * (high - low), whole


# Who is measured again, and who is recommended.


def most_promising(searches: Sequence[Search], wish: PlanWish, count: int) -> list[Search]:
    """The best few as far as the search shows, and the best whose guarantee holds between all places."""

    def promise(search: Search) -> tuple[float, float]:
        measured = [wish.shortfall(point) for point in search.points]
        prize = search.error_m if wish.kind == "recall" else search.recall
        return -min(measured), prize

    in_order = sorted(searches, key=promise, reverse=True)
    strong = [search for search in in_order if search.family.between_all_places]
    kept = in_order[:count]
    return kept if not strong or strong[0] in kept else [*kept, strong[0]]


def ranked(contenders: Sequence[Contender], wish: PlanWish) -> tuple[Contender, ...]:
    """The recommended one first: the best, or what cannot be told apart from it and promises more."""
    by_prize = sorted(
        contenders,
        key=lambda one: (one.met, -wish.shortfall(one.point), wish.prize(one.point)),
        reverse=True,
    )
    best = by_prize[0]
    equals = [one for one in by_prize if one.met and _cannot_be_told_apart(best.point, one.point, wish)]
    if best.met and equals:
        best = max(equals, key=lambda one: (_strength(one.family), wish.prize(one.point)))
    return (best, *(one for one in by_prize if one is not best))


def _strength(family: Family) -> int:
    """How much a family promises: within an interval; between all places; and so without fitting on anybody."""
    return int(family.between_all_places) + int(family.between_all_places and family.members[0].kind != "dprs")


def _cannot_be_told_apart(first: Point, second: Point, wish: PlanWish) -> bool:
    widths = [(point.error_m if wish.kind == "recall" else point.recall).half_width or 0.0 for point in (first, second)]
    return abs(wish.prize(first) - wish.prize(second)) <= math.hypot(*widths)


# The last word on a contender: measured with fresh seeds, and turned until the wish is just met.


_MOST_ROUNDS = 3
_LONGEST_STEP = 0.7
_CHECK_STAGE = 100


@dataclass(frozen=True, slots=True, eq=False)
class SettleTask:
    """What one process does: one contender."""

    dataset: Dataset
    wish: PlanWish
    search: Search
    seed: int
    runs: int
    check: Sizes
    final: Sizes


@dataclass(frozen=True, slots=True)
class Contender:
    """A family at its best point, measured; whether it meets the wish by its point estimate."""

    family: Family
    point: Point
    met: bool


def settle(task: SettleTask) -> Contender:
    """Measure a contender with seeds that the search has not seen; turn its dial and measure afresh until it fits.

    Every round has seeds of its own. What is returned is one round's measurement, never a mixture, and never a point
    that was not measured.
    """
    dial, wish = task.search.dial, task.wish
    turn = task.search.turn
    if wish.kind != "hide-within":
        bench = Bench(task.dataset, wish.k, stage_seed(task.seed, _CHECK_STAGE))
        checked = bench.measure(dial.turned(task.search.points[0].defence, turn), task.check)
        turn = _corrected(checked, task, margins=1.0)
    best: Contender | None = None
    for number in range(_MOST_ROUNDS):
        defence = _defence(task, turn)
        seeds = [stage_seed(task.seed, number + 1, run) for run in range(task.runs)]
        point = measure_runs(task.dataset, wish.k, defence, seeds, task.final)
        best = _better(best, Contender(task.search.family, point, wish.met(point)), wish)
        if wish.kind == "hide-within" or (wish.met(point) and not wish.wasteful(point)):
            break
        # After each miss a little farther to the safe side.
        turn = _corrected(point, task, margins=1.0 + number)
        if dial.turned(defence, turn) == defence:
            break
    if best is None:
        raise RuntimeError("there is at least one round")
    return best


def _defence(task: SettleTask, turn: float) -> Defence:
    defence = task.search.points[0].defence
    # A promise is asked for to the letter, and not rounded.
    if task.wish.kind == "hide-within":
        return replace(defence, hide_within_m=task.wish.value)
    return task.search.dial.turned(defence, turn)


def stage_seed(*parts: int) -> int:
    """Return a seed for one purpose, apart from those of all others."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1)[0])


def _corrected(point: Point, task: SettleTask, *, margins: float) -> float:
    """Where the dial should be, given what was measured."""
    step = (task.wish.aim(margins) - task.wish.level(point)) / task.search.slope
    return task.search.dial.read(point.defence) + min(max(step, -_LONGEST_STEP), _LONGEST_STEP)


def _better(first: Contender | None, second: Contender, wish: PlanWish) -> Contender:
    """The one that meets the wish; of two that do, the one with more of the other thing; else the nearer one."""
    if first is None or second.met > first.met:
        return second
    if second.met < first.met:
        return first
    if second.met:
        return max(first, second, key=lambda each: wish.prize(each.point))
    return min(first, second, key=lambda each: wish.shortfall(each.point))


# A plan: every family searched, the best measured again, and one of them recommended.


LEAST_PEOPLE = 50

_SEARCH_STAGE, _SETTLE_STAGE = 1, 2


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: points of a sweep, steps of refinement, contenders, runs, and the size of each."""

    steps: int
    refinements: int
    contenders: int
    runs: int
    search: Sizes
    check: Sizes
    final: Sizes


FULL = Effort(4, 2, 3, 5, Sizes(1000, 40), Sizes(1000, 150), Sizes(2000, 80))
QUICK = Effort(3, 1, 3, 4, Sizes(500, 20), Sizes(500, 60), Sizes(1000, 40))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What came out.

    Attributes
    ----------
    contenders : tuple of Contender
        The best few, measured; the recommended one first, then those that meet the wish, the best first.
    met : bool
        Whether the first meets the wish. If not, nothing that was tried does, and the first comes nearest.
    searches : tuple of Search
        What was measured on the way, for each family.
    left_out : tuple of str
        Families that were not tried, and why.
    """

    wish: PlanWish
    people: int
    contenders: tuple[Contender, ...]
    searches: tuple[Search, ...]
    left_out: tuple[str, ...]
    seed: int
    effort: Effort

    @property
    def best(self) -> Contender:
        """The one recommended; if the wish is not met, the nearest to it."""
        return self.contenders[0]

    @property
    def met(self) -> bool:
        """Whether it meets the wish."""
        return self.best.met

    @property
    def best_between_all_places(self) -> Contender | None:
        """The best of those that meet the wish and whose guarantee holds between any two places."""
        return next((one for one in self.contenders if one.met and one.family.between_all_places), None)


def steps_of_plan(families: Sequence[Family], effort: Effort) -> int:
    """How often `make_plan` reports progress, at most."""
    return len(families) + effort.contenders + 1


def make_plan(
    dataset: Dataset,
    wish: PlanWish,
    *,
    families: Sequence[Family] | None = None,
    effort: Effort = FULL,
    seed: int = 1,
    cores: int = 1,
    progress: Progress | None = None,
) -> Plan:
    """Search every family for the point where the wish is just met, measure the best again, and choose.

    Parameters
    ----------
    dataset : Dataset
        The people to plan for, one place each.
    wish : PlanWish
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
    # Whoever asks is not in their own list.
    least = max(LEAST_PEOPLE, wish.k + 1)
    if people < least:
        raise DataError(
            f"there are {people:,} people to plan for, and at least {least} at different places "
            "are needed; measure on more people, or ask for a shorter list (--k)"
        )
    able, unable = _able(wish, families_for(wish) if families is None else families)
    chosen, left_out = fitted_to(able, people)
    searches = _search(dataset, wish, chosen, effort, seed, cores, progress)
    contenders = _settle(dataset, wish, searches, effort, seed, cores, progress)
    return Plan(wish, people, ranked(contenders, wish), tuple(searches), (*unable, *left_out), seed, effort)


def families_for(wish: PlanWish, *, between_all_places: bool = False) -> tuple[Family, ...]:
    """Return the sound families that can have what is wished for; the metric promise is one between all places."""
    strong = between_all_places or wish.kind == "hide-within"
    return tuple(family for family in sound_families() if family.between_all_places or not strong)


def _able(wish: PlanWish, families: Sequence[Family]) -> tuple[list[Family], list[str]]:
    """Return the families that can promise what is wished for, and a sentence on each that cannot."""
    able = [family for family in families if wish.can_be_promised(family.members[0])]
    if not able:
        raise UsageError("none of these mechanisms can promise the length to those it is fitted on; try planar Laplace")
    unable = [
        f"{family.label}: a person that the intervals are fitted on loses {family.members[0].fit_loss:g} more at any "
        "distance, so that the promise does not hold for the people of the file"
        for family in families
        if family not in able
    ]
    return able, unable


def _search(
    dataset: Dataset,
    wish: PlanWish,
    families: Sequence[Family],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Search]:
    tasks = [
        SearchTask(
            dataset,
            wish,
            family.thinned(min(effort.steps, len(family.members))),
            dial_of(family, dataset.region, len(dataset.places)),
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
    wish: PlanWish,
    searches: Sequence[Search],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Contender]:
    # Those that are fitted take longest, and go first.
    promising = sorted(
        most_promising(searches, wish, effort.contenders), key=lambda search: search.family.members[0].kind != "dprs"
    )
    own_seed = stage_seed(seed, _SETTLE_STAGE)
    tasks = [
        SettleTask(dataset, wish, search, own_seed, effort.runs, effort.check, effort.final) for search in promising
    ]
    found = []
    for _, contender in map_in_processes(settle, tasks, cores=cores):
        found.append(contender)
        if progress:
            progress(1)
    return found


# A plan as a picture: recall against the best attacker's error, a line for each family.


RECOMMENDED, NEAREST = "recommended", "nearest to the wish"


def plan_chart(plan: Plan, whom: str) -> Chart:
    """Return the picture; ``whom`` says in a few words whom it was measured on."""
    recall = f"recall@{plan.wish.k}"
    series = []
    for search in plan.searches:
        line = _line(search, plan.contenders)
        series.append(
            Series(search.family.label, tuple(one.error_m for one in line), tuple(one.recall for one in line))
        )
    wished = _wish_line(plan)
    best = plan.best.point
    label = RECOMMENDED if plan.met else NEAREST
    mark = Series(label, (best.error_m,), (best.recall,), "points", colour_of=plan.best.family.label)
    panel = Panel(
        "",
        "mean error of the best attacker (m): farther right, more is hidden",
        f"{recall}, asked from where people are",
        (*series, *([] if wished is None else [wished]), mark),
        log_x=True,
    )
    words = (
        f"{recall} against the mean error of the best attacker on {whom}, a line for each mechanism, with the wish and "
        f"the point that is {mark.label}: {best.defence.label}, {best.defence.parameter}."
    )
    return Chart("plan", f"Wish: {plan.wish}", (panel,), 1, words)


def _line(search: Search, contenders: Sequence[Contender]) -> list[Point]:
    """The points of a family; where it was measured again, that in place of the steps that led there."""
    settled = [one.point for one in contenders if one.family.label == search.family.label]
    swept = [point for point in search.points if point.defence in search.family.members]
    points = [*swept, *settled] if settled else list(search.points)
    return sorted(points, key=lambda point: search.dial.read(point.defence))


def _wish_line(plan: Plan) -> Series | None:
    """A straight line through the picture; none for a length, which is not on its axes."""
    points = [point for search in plan.searches for point in search.points]
    if plan.wish.kind == "attacker-error":
        top = max(point.recall.value for point in points)
        return Series("the wish", (exact(plan.wish.value),) * 2, (exact(0.0), exact(top)))
    if plan.wish.kind == "recall":
        errors = [point.error_m.value for point in points]
        return Series("the wish", (exact(min(errors)), exact(max(errors))), (exact(plan.wish.value),) * 2)
    return None
