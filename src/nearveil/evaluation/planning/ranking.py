"""Who is measured again, and who is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nearveil.evaluation.parts.families import Family
from nearveil.evaluation.planning.measuring import Point
from nearveil.evaluation.planning.search import Search
from nearveil.evaluation.planning.settling import Contender
from nearveil.evaluation.planning.wish import PlanWish


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
