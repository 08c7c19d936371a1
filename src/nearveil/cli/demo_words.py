"""What ``nearveil demo`` says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from nearveil.attacks.result import AttackResult
from nearveil.cli.demo_city import INSTANCES, QUERIES, City, K
from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.best_attacker import BestAttacker
from nearveil.evaluation.utility import Utility
from nearveil.report.tables import text_table
from nearveil.types import FloatArray

_SETTINGS = ("open", "protected", "protected, and moves the attacker's accounts too")
_MEANINGS = {"uniform": "asked from anywhere in the region", "users": "asked from where people are"}


def finding(result: AttackResult, city: City) -> str:
    """What the first attack found."""
    person = city.open.true_m[city.instance.target]
    certainty = ", and the answers leave no other place" if result.certified else ""
    return (
        f"  The person is {math.dist(city.instance.start, person):,.0f} m from where the attacker starts. After "
        f"{result.queries} questions the attacker is {_error_m(result, person):.0f} m off{certainty}."
    )


def second_finding(result: AttackResult, city: City) -> str:
    """What the same attack found in the protected city."""
    target = city.instance.target
    if result.estimate is None:
        return "  The same attack again: the person is not even listed where the attacker starts."
    served = _error_m(result, city.closed.setup(0).served_m[target])
    return (
        f"  The same attack again: after {result.queries} questions it is {served:,.0f} m off the published place, and "
        f"{_error_m(result, city.closed.true_m[target]):,.0f} m off the person."
    )


def before_and_after(rows: Sequence[Sequence[AttackRow]]) -> str:
    """The table of many attacks in each setting."""
    cells = [
        _cells(setting, of_setting[attack])
        for attack in range(len(rows[0]))
        for setting, of_setting in zip(_SETTINGS, rows, strict=True)
        # Without accounts there are none to move.
        if of_setting[attack].colluders or setting != _SETTINGS[-1]
    ]
    headers = ("attack", "accounts", "the service is", "mean error (m)", "found within 100 m", "questions")
    return f"{INSTANCES} people attacked, the same before and after:\n\n" + text_table(headers, cells)


def _cells(setting: str, row: AttackRow) -> list[str]:
    score = row.score
    return [
        row.attack,
        str(row.colluders),
        setting,
        f"{score.dist_m.value:,.0f}",
        f"{score.acc.value:.0%}",
        f"{score.queries.value:.1f}",
    ]


def best_attacker(best: BestAttacker) -> str:
    """What the Bayes attacker gets from one published place."""
    return (
        "The best guess from one published place, by an attacker who knows the mechanism and every address in the\n"
        f"city but not who lives where, is wrong by {best.dist_m:,.0f} m on average and within 100 m in "
        f"{best.acc:.0%} of\ncases ({best.targets} people)."
    )


def price(utility: Sequence[Utility]) -> str:
    """What protection costs those who use the service."""
    lines = [f"What it costs those who use the service: of the {K} people nearest to a place the list still has"]
    lines += [
        f"  {one.recall:.0%}   {_MEANINGS[one.protocol]} (recall@{K}, {one.protocol} protocol, {QUERIES:,} queries)"
        for one in utility
    ]
    return "\n".join(lines)


def ending(city: City, out: Path) -> str:
    """Where everything is, and one sentence on what was shown."""
    before, after = (max(row.score.acc.value for row in rows) for rows in city.rows[:2])
    fewest = min(row.score.queries.value for row in city.rows[0])
    recall = city.utility[0].recall
    return (
        f"\nIn {out}: attack-before.png and .html, attack-after.png (one attack), before-after.png (the city);\n"
        "people.csv (made-up people) and published.csv to try things on.\n\n"
        f"Shown: ranked lists alone find {before:.0%} of people within 100 m, in as few as {fewest:.0f} questions;\n"
        f"once the city is protected the same attacks find {after:.0%}, and lists asked from anywhere keep\n"
        f"{recall:.0%} of the true neighbours."
    )


def _error_m(result: AttackResult, place: FloatArray) -> float:
    return math.inf if result.estimate is None else math.dist(result.estimate, place)
