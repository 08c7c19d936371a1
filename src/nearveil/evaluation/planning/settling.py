"""The last word on a contender: measured with fresh seeds, and turned until the wish is just met."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.parts.families import Family
from nearveil.evaluation.planning.measuring import Bench, Point, Sizes, measure_runs
from nearveil.evaluation.planning.search import Search
from nearveil.evaluation.planning.wish import PlanWish
from nearveil.io.datasets import Dataset

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
