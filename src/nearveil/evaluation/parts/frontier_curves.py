"""Curves of the frontier: who keeps most at a level of privacy, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nearveil.evaluation.attack_score import Mean
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.parts.families import Family


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One defence on one population: privacy as the best attacker feels it, utility as users feel it."""

    dataset: str
    family: Family
    defence: Defence
    error_m: Mean
    acc: Mean
    utility: dict[str, Mean]
    runs: tuple[tuple[float, float], ...] = ()
    """The attacker's error and recall@10, run by run."""


def standings(points: Sequence[FrontierPoint], dataset: str, error_m: float) -> list[tuple[float, Family]]:
    """Recall@10 of each family at an attacker error, the best first; families that do not reach it are left out."""
    found = []
    for family in {one.family.label: one.family for one in points}.values():
        line = [one for one in points if one.dataset == dataset and one.family.label == family.label]
        kept = recall_at(line, error_m)
        if kept is not None:
            found.append((kept, family))
    return sorted(found, key=lambda pair: -pair[0])


def spread_at(points: Sequence[FrontierPoint], error_m: float) -> list[float] | None:
    """`recall_at` of every run on its own; None where some run does not reach the error."""
    count = min((len(one.runs) for one in points), default=0)
    found = [_recall_along([one.runs[run] for one in points], error_m) for run in range(count)]
    known = [kept for kept in found if kept is not None]
    return known if known and len(known) == count else None


def recall_at(points: Sequence[FrontierPoint], error_m: float, *, at_best: bool = False) -> float | None:
    """Recall@10 that a family keeps where the best attacker is wrong by so much: along straight lines between points.

    A point whose attacker is wrong by more serves as well. None where the attacker is never wrong by as much.
    ``at_best`` takes the better end of every 95 % interval.
    """
    return _recall_along(
        [(_end(one.error_m, at_best), _end(one.utility["recall@10"], at_best)) for one in points], error_m
    )


def _recall_along(curve: Sequence[tuple[float, float]], error_m: float) -> float | None:
    line = sorted(curve)
    kept = [recall for error, recall in line if error >= error_m]
    for (here, low), (there, high) in pairwise(line):
        if here < error_m <= there:
            kept.append(low + (error_m - here) / (there - here) * (high - low))
    return max(kept) if kept else None


def margin_over_others(point: FrontierPoint, points: Sequence[FrontierPoint]) -> float | None:
    """How much more recall@10 than any other family keeps at the same attacker error; None if no other reaches it."""
    others = _kept_by_others(point, points, point.error_m.value, at_best=False)
    return point.utility["recall@10"].value - max(others) if others else None


def beats_clearly(point: FrontierPoint, points: Sequence[FrontierPoint]) -> bool:
    """Whether it still beats all others at the worse ends of its own 95 % intervals and the better ends of theirs."""
    own = (point.error_m, point.utility["recall@10"])
    if any(one.half_width is None for one in own):
        return False
    error_m, recall = (one.value - (one.half_width or 0.0) for one in own)
    others = _kept_by_others(point, points, error_m, at_best=True)
    return bool(others) and recall > max(others)


def _kept_by_others(
    point: FrontierPoint, points: Sequence[FrontierPoint], error_m: float, *, at_best: bool
) -> list[float]:
    found = []
    for label in dict.fromkeys(one.family.label for one in points if one.family.label != point.family.label):
        line = [one for one in points if one.dataset == point.dataset and one.family.label == label]
        kept = recall_at(line, error_m, at_best=at_best)
        if kept is not None:
            found.append(kept)
    return found


def _end(mean: Mean, at_best: bool) -> float:
    return mean.value + (mean.half_width or 0.0) if at_best else mean.value
