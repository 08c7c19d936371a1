"""A plan as a picture: recall against the best attacker's error, a line for each family."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.outcome import Chart, Panel, Series, exact
from nearveil.evaluation.planning.measuring import Point
from nearveil.evaluation.planning.plan import Plan
from nearveil.evaluation.planning.search import Search
from nearveil.evaluation.planning.settling import Contender

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
