"""Where a family just meets a goal: a coarse sweep, then straight lines between points, then fresh measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import Family
from nearveil.evaluation.planning.goal import Goal, SweptParameter
from nearveil.evaluation.planning.measuring import Bench, Point, Sizes, measure_runs
from nearveil.io.datasets import Dataset

_STEP_BEYOND = float(np.log(2.0))
_MOST_STEPS_BEYOND = 6
# A new point keeps away from those that are there already, so that each step learns something.
_NEAREST, _FARTHEST = 0.1, 0.9
_LEAST_SLOPE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class SearchTask:
    """What one process does: one family on one population."""

    dataset: Dataset
    goal: Goal
    family: Family
    parameter: SweptParameter
    seed: int
    sizes: Sizes
    refinements: int


@dataclass(frozen=True, slots=True)
class Search:
    """What was found.

    Attributes
    ----------
    points : tuple of Point
        Measured, in the order of the parameter.
    setting : float
        Where the goal is just met, as far as these points show; the nearest end if nowhere.
    slope : float
        How the goal's level changes there for each unit of the parameter.
    """

    family: Family
    parameter: SweptParameter
    points: tuple[Point, ...]
    setting: float
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
        return float(
            np.interp(self.setting, [self.parameter.setting_of(point.defence) for point in self.points], values)
        )


def search_family(task: SearchTask) -> Search:
    """Sweep a family, widen the sweep until it holds the goal, and close in on it."""
    bench = Bench(task.dataset, task.goal.k, task.seed)
    points = [bench.measure(member, task.sizes) for member in task.family.members]
    if task.goal.is_setting:
        return Search(task.family, task.parameter, tuple(points), float(np.log(task.goal.value)), 1.0)
    points = _widened(points, bench, task)
    for _ in range(task.refinements):
        pair = _around(points, task.goal)
        if pair is None:
            break
        defence = task.parameter.with_setting(points[0].defence, _crossing(*pair, task))
        if any(defence == point.defence for point in points):
            break
        points = _in_order([*points, bench.measure(defence, task.sizes)], task.parameter)
    return Search(task.family, task.parameter, tuple(points), *_found(points, task))


def _widened(points: list[Point], bench: Bench, task: SearchTask) -> list[Point]:
    """Go beyond the ends of the sweep, as far as the parameter goes, while the goal lies there."""
    low, high = task.parameter.ends
    for _ in range(_MOST_STEPS_BEYOND):
        settings = [task.parameter.setting_of(point.defence) for point in points]
        if task.goal.level(points[0]) >= task.goal.target_level() and settings[0] - low > 1e-3:
            next_setting = settings[0] - _STEP_BEYOND
        elif task.goal.level(points[-1]) < task.goal.target_level() and high - settings[-1] > 1e-3:
            next_setting = settings[-1] + _STEP_BEYOND
        else:
            break
        point = bench.measure(task.parameter.with_setting(points[0].defence, next_setting), task.sizes)
        points = _in_order([*points, point], task.parameter)
    return points


def _in_order(points: list[Point], parameter: SweptParameter) -> list[Point]:
    return sorted(points, key=lambda point: parameter.setting_of(point.defence))


def _around(points: list[Point], goal: Goal) -> tuple[Point, Point] | None:
    """The first two neighbours that the goal lies between."""
    return next(
        (pair for pair in pairwise(points) if goal.level(pair[0]) < goal.target_level() <= goal.level(pair[1])),
        None,
    )


def _crossing(below: Point, above: Point, task: SearchTask) -> float:
    low, high = task.parameter.setting_of(below.defence), task.parameter.setting_of(above.defence)
    share = (task.goal.target_level() - task.goal.level(below)) / (task.goal.level(above) - task.goal.level(below))
    return low + min(max(share, _NEAREST), _FARTHEST) * (high - low)


def _found(points: list[Point], task: SearchTask) -> tuple[float, float]:
    """Where the goal is met, and the slope there."""
    settings = [task.parameter.setting_of(point.defence) for point in points]
    levels = [task.goal.level(point) for point in points]
    if len(points) == 1:
        return settings[0], 1.0
    whole = max((levels[-1] - levels[0]) / (settings[-1] - settings[0]), _LEAST_SLOPE)
    pair = _around(points, task.goal)
    if pair is None:
        return (settings[0] if levels[0] >= task.goal.target_level() else settings[-1]), whole
    below, above = pair
    low, high = task.parameter.setting_of(below.defence), task.parameter.setting_of(above.defence)
    share = (task.goal.target_level() - task.goal.level(below)) / (task.goal.level(above) - task.goal.level(below))
    return low + share * (high - low), whole


# Who is measured again, and who is recommended.


def most_promising(searches: Sequence[Search], goal: Goal, count: int) -> list[Search]:
    """The best few that hold between all places, as far as the search shows, the best other, and somebody else's."""

    def promise(search: Search) -> tuple[float, float]:
        measured = [goal.shortfall(point) for point in search.points]
        prize = search.error_m if goal.kind == "recall" else search.recall
        return -min(measured), prize

    in_order = sorted(searches, key=promise, reverse=True)
    sound = [search for search in in_order if search.family.sound]
    strong = [search for search in sound if search.family.between_all_places]
    others = [search for search in sound if not search.family.between_all_places]
    asked_for = [search for search in in_order if not search.family.is_own]
    # Where nothing holds between all places, the best few of the others.
    kept = (*strong[:count], *others[: 1 if strong else count], *asked_for)
    return list({search.family.label: search for search in kept}.values())


def ranked(contenders: Sequence[Contender], goal: Goal) -> tuple[Contender, ...]:
    """The recommended one first: the best, or one that is indistinguishable from it and promises more.

    Of those that meet the goal, one whose guarantee holds between all places comes before one that gives the interval
    away, whatever that keeps. What makes no promise that holds is measured and shown, but never recommended.
    """

    def merits(one: Contender) -> tuple[bool, bool, bool, float, float]:
        is_strong = one.met and one.family.between_all_places
        return one.family.sound, one.met, is_strong, -goal.shortfall(one.point), goal.objective(one.point)

    by_prize = sorted(contenders, key=merits, reverse=True)
    best = by_prize[0]
    may_be = [one for one in by_prize if one.met and one.family.sound]
    equals = [one for one in may_be if _is_indistinguishable(best.point, one.point, goal)]
    if best.met and equals:
        best = max(equals, key=lambda one: (_strength(one.family), goal.objective(one.point)))
    return (best, *(one for one in by_prize if one is not best))


def _strength(family: Family) -> int:
    """How much a family promises: within an interval; between all places; and so without fitting on anybody."""
    return int(family.between_all_places) + int(family.between_all_places and not family.members[0].fit_loss)


def _is_indistinguishable(first: Point, second: Point, goal: Goal) -> bool:
    widths = [(point.error_m if goal.kind == "recall" else point.recall).half_width or 0.0 for point in (first, second)]
    return abs(goal.objective(first) - goal.objective(second)) <= math.hypot(*widths)


# The final measurement of a candidate: with fresh seeds, and set so that the goal is just met.


_MOST_ROUNDS = 3
_LONGEST_STEP = 0.7
_CHECK_STAGE = 100


@dataclass(frozen=True, slots=True, eq=False)
class SettleTask:
    """What one process does: one contender."""

    dataset: Dataset
    goal: Goal
    search: Search
    seed: int
    runs: int
    check: Sizes
    final: Sizes


@dataclass(frozen=True, slots=True)
class Contender:
    """A family at its best point, measured; whether it meets the goal by its point estimate."""

    family: Family
    point: Point
    met: bool


def settle(task: SettleTask) -> Contender:
    """Measure a candidate with seeds that the search has not seen, and correct its setting until it fits.

    Every round has seeds of its own. What is returned is one round's measurement, never a mixture, and never a point
    that was not measured.
    """
    parameter, goal = task.search.parameter, task.goal
    setting = task.search.setting
    if not goal.is_setting:
        bench = Bench(task.dataset, goal.k, stage_seed(task.seed, _CHECK_STAGE))
        checked = bench.measure(parameter.with_setting(task.search.points[0].defence, setting), task.check)
        setting = _corrected(checked, task, margins=1.0)
    best: Contender | None = None
    for number in range(_MOST_ROUNDS):
        defence = _defence(task, setting)
        seeds = [stage_seed(task.seed, number + 1, run) for run in range(task.runs)]
        point = measure_runs(task.dataset, goal.k, defence, seeds, task.final)
        best = _better(best, Contender(task.search.family, point, goal.met(point)), goal)
        if goal.is_setting or (goal.met(point) and not goal.overshoots(point)):
            break
        # After each miss a little farther to the safe side.
        setting = _corrected(point, task, margins=1.0 + number)
        if parameter.with_setting(defence, setting) == defence:
            break
    if best is None:
        raise RuntimeError("there is at least one round")
    return best


def _defence(task: SettleTask, setting: float) -> Defence:
    defence = task.search.points[0].defence
    # A promise is asked for to the letter, and not rounded.
    if task.goal.kind == "noise":
        return replace(defence, noise_m=task.goal.value)
    if task.goal.kind == "hide-among":
        return replace(defence, hide_among=int(task.goal.value))
    return task.search.parameter.with_setting(defence, setting)


def stage_seed(*parts: int) -> int:
    """Return a seed for one purpose, apart from those of all others."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1)[0])


def _corrected(point: Point, task: SettleTask, *, margins: float) -> float:
    """Where the parameter should be, given what was measured."""
    step = (task.goal.target_level(margins) - task.goal.level(point)) / task.search.slope
    return task.search.parameter.setting_of(point.defence) + min(max(step, -_LONGEST_STEP), _LONGEST_STEP)


def _better(first: Contender | None, second: Contender, goal: Goal) -> Contender:
    """The one that meets the goal; of two that do, the one with more of the other thing; else the nearer one."""
    if first is None or second.met > first.met:
        return second
    if second.met < first.met:
        return first
    if second.met:
        return max(first, second, key=lambda each: goal.objective(each.point))
    return min(first, second, key=lambda each: goal.shortfall(each.point))
