"""What ``nearveil demo`` says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

from nearveil.attacks.base import AttackResult
from nearveil.cli.demo_city import EPSILON, HIDE_WITHIN_M, INSTANCES, QUERIES, City, K, Service
from nearveil.evaluation.utility import QueryProtocol, Utility
from nearveil.mechanisms.base import Mechanism
from nearveil.report.attack_scene import length
from nearveil.report.tables import text_table
from nearveil.types import FloatArray

_MEANINGS: dict[QueryProtocol, str] = {
    "users": "asked from where people are",
    "uniform": "asked from anywhere in the region",
}


def finding(result: AttackResult, city: City) -> str:
    """What the first attack found."""
    person = city.true_m[city.instance.target]
    certainty = ", and the answers leave no other place" if result.certified else ""
    return (
        f"  The person is {math.dist(city.instance.start, person):,.0f} m from where the attacker starts. After "
        f"{result.queries} questions\n  the attacker is {_error_m(result, person):.0f} m off{certainty}."
    )


def second_finding(result: AttackResult, service: Service, city: City) -> str:
    """What the same attack found in a protected service."""
    target, experiment = city.instance.target, service.experiment
    if result.estimate is None:
        return f"  {service.name}: after {result.queries} questions the attacker has no estimate, {result.outcome}."
    published_m = _error_m(result, experiment.setup(0).served_m[target])
    return (
        f"  {service.name}: after {result.queries} questions {length(published_m)} from the published place, "
        f"and {length(_error_m(result, experiment.true_m[target]))} from the person."
    )


def side_by_side(city: City, utilities: list[list[Utility]]) -> str:
    """The table of the three services."""
    cells = [
        ["moved by, on average", *(f"{service.moved.mean_m:,.0f} m" for service in city.services)],
        [f"found within {city.protocol.tau_m:g} m, and mean error, by", "", "", ""],
        *(_attack_cells(number, city) for number in range(len(city.open.rows))),
        ["  the best guess from one published place", *(_best_cell(service) for service in city.services)],
        [f"true neighbours in a list of {K} (recall@{K})", "", "", ""],
        *(
            [f"  {words}", *(f"{_recall(found, protocol):.0%}" for found in utilities)]
            for protocol, words in _MEANINGS.items()
        ),
        [f"largest loss at {HIDE_WITHIN_M:g} m (epsilon)", *_losses(city)],
    ]
    headers = ["", *(service.name for service in city.services)]
    settings = ["", *(service.setting for service in city.services)]
    return text_table(headers, [settings, *cells])


def _attack_cells(number: int, city: City) -> list[str]:
    first = city.open.rows[number]
    accounts = {0: "no account", 1: "1 account"}.get(first.colluders, f"{first.colluders} accounts")
    scores = [service.rows[number].score for service in city.services]
    return [
        f"  {first.attack}, {accounts}, {first.score.queries.value:.0f} questions",
        *(f"{score.acc.value:.0%}, {score.dist_m.value:,.0f} m" for score in scores),
    ]


def _best_cell(service: Service) -> str:
    return "–" if service.best is None else f"{service.best.acc:.0%}, {service.best.dist_m:,.0f} m"


def _recall(found: list[Utility], protocol: QueryProtocol) -> float:
    return next(one.recall for one in found if one.protocol == protocol)


def _losses(city: City) -> list[str]:
    """What holds between two places of one person, that far apart."""
    loss = cast(Mechanism, city.default.mechanism).guarantee.epsilon * HIDE_WITHIN_M
    return ["no limit", f"no limit across discs; claimed {EPSILON:g}", f"{loss:.3g}"]


def notes(city: City) -> str:
    """How the table was measured."""
    targets = max(service.best.targets for service in city.services if service.best is not None)
    return (
        f"{INSTANCES} attacks each: at the same {INSTANCES} places the attacker looks for whoever comes {K}th in the "
        "list. Its accounts\ncount as exactly where it puts them, which is the harder test. The best guess is that of "
        "the Bayes attacker,\nwho knows the mechanism and every address in the city but not who lives where "
        f"({targets} people). Recall:\n{QUERIES:,} queries each."
    )


def promises(city: City) -> str:
    """What the two protections promise."""
    paper, default = (cast(Mechanism, service.mechanism) for service in (city.paper, city.default))
    return (
        f"The paper claims epsilon = {EPSILON:g} between data sets that differ in one person (Theorem 3). That does "
        f"not hold; its card says what does:\n\n{paper.guarantee}\n\n"
        f"Planar Laplace, hide within {HIDE_WITHIN_M:g} m, is what 'nearveil protect' does unless told otherwise:\n\n"
        f"{default.guarantee}"
    )


def ending(city: City, utilities: list[list[Utility]], out: Path) -> str:
    """Where everything is, and what was shown."""
    fewest = min(row.score.queries.value for row in city.open.rows)
    _, paper, default = (_recall(found, "users") for found in utilities)
    best = "" if city.default.best is None else f" and the best guess {city.default.best.acc:.0%}"
    return (
        f"\nIn {out}: before-after.png (the three services), attack-before.png and .html (one attack on the open\n"
        "one), attack-after.png (the same on planar Laplace); people.csv (made-up people) and published.csv (the\n"
        "same by planar Laplace) to try things on.\n\n"
        f"Shown: ranked lists alone find {city.open.most_found} people within {city.protocol.tau_m:g} m, in as "
        f"few as {fewest:.0f} questions.\n"
        f"Hidden within {HIDE_WITHIN_M:g} m, the same attacks find {city.default.most_found}{best}, and lists "
        f"asked from where people are\nkeep {default:.0%} of the true neighbours. With the paper's DPRS the attacks "
        f"find {city.paper.most_found} and lists keep {paper:.0%}."
    )


def _error_m(result: AttackResult, place: FloatArray) -> float:
    return math.inf if result.estimate is None else math.dist(result.estimate, place)
