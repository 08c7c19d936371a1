"""Where on a family's dial a wish is just met: a coarse sweep, then straight lines between neighbouring points."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nearveil.evaluation.parts.families import Family
from nearveil.evaluation.planning.dial import Dial
from nearveil.evaluation.planning.measuring import Bench, Point, Sizes
from nearveil.evaluation.planning.wish import PlanWish
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
