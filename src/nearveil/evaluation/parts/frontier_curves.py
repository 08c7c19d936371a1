"""Curves of the frontier: who keeps most at a level of privacy, and by how much.

There are two yardsticks of privacy, and both are needed. A mechanism that seldom throws people far away has a large
mean error, although the attacker finds most of them; the share that it finds within 100 m (Acc) shows that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nearveil.evaluation.attack_score import Estimate, Mean
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.parts.families import Family

Yardstick = Literal["error", "acc"]
"""How privacy is measured: the best attacker's mean error, or the share of people it finds within 100 m."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One defence on one population: privacy as the best attacker feels it, utility as users feel it.

    ``runs`` has the attacker's error, its Acc and recall@10, run by run.
    """

    dataset: str
    family: Family
    defence: Defence
    error_m: Mean
    acc: Estimate
    utility: dict[str, Mean]
    runs: tuple[tuple[float, float, float], ...] = ()

    @property
    def recall(self) -> Mean:
        """Recall@10, by which curves are compared."""
        return self.utility["recall@10"]

    def level(self, yardstick: Yardstick) -> Estimate:
        """The attacker's error, or its Acc."""
        return self.error_m if yardstick == "error" else self.acc


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
    column = 0 if yardstick == "error" else 1
    found = [
        _recall_along([(one.runs[run][column], one.runs[run][2]) for one in points], level, yardstick)
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
    if yardstick == "acc":
        return -level
    return math.log(level) if level > 0 else -math.inf


def _better_end(level: Estimate, yardstick: Yardstick, at_best: bool) -> float:
    end = level.high if yardstick == "error" else level.low
    return level.value if end is None or not at_best else max(end, 0.0)


def _up(recall: Mean, at_best: bool) -> float:
    return recall.value if recall.high is None or not at_best else recall.high
