"""How well attacks on plain ranked lists do where people live otherwise than in the cities they were made for.

``python -m benchmarks.attack_populations --targets 50`` prints a row for each population and attack. Found means within
100 m of where the service has the target. Where people share a point they cannot be told apart, and the target is found
if their shared point is. "Said wrongly" counts attacks that ended with "found", certified or not, more than 100 m away.
Lists have 30 people, and the attacker starts within 100 m of somebody, where the target is the last in the list.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.audit.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.evaluation.attack_trials import ServiceSetup, Trial, draw_instances, run_trials, set_up_attacks
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region, named_region
from nearveil.report.tables import text_table
from nearveil.types import FloatArray

TAU_M = 100.0
K = 30


def city(people: int, region: Region) -> FloatArray:
    """A made-up city that no attack was tuned on."""
    return region.to_metres(synthetic_city(people, region, rng=47))


def on_points(people: int, each: int, region: Region) -> FloatArray:
    """A city in which as many people share each point."""
    return np.repeat(city(people // each, region), each, axis=0)


def on_a_line(people: int, region: Region) -> FloatArray:
    """People along a road of 10 km, up to 5 m beside it."""
    rng = np.random.default_rng(47)
    along_m, beside_m = rng.uniform(-5000, 5000, people), rng.uniform(-5, 5, people)
    turn = math.radians(30)
    return np.column_stack(
        [along_m * math.cos(turn) - beside_m * math.sin(turn), along_m * math.sin(turn) + beside_m * math.cos(turn)]
    )


POPULATIONS: dict[str, Callable[[Region], FloatArray]] = {
    "city of 5,000": lambda region: city(5000, region),
    "towers: 50 people a point, 5,000 in all": lambda region: on_points(5000, 50, region),
    "5 people a point, 5,000 in all": lambda region: on_points(5000, 5, region),
    "300 people": lambda region: city(300, region),
    "1,000 people on a line": lambda region: on_a_line(1000, region),
    "a million people": lambda region: city(1_000_000, region),
}


def row_of(population: str, trial: Trial, results: list[AttackResult]) -> list[str]:
    """One row of the table."""
    found = wrongly = certified = certified_wrongly = 0
    for instance, result in zip(trial.instances, results, strict=True):
        place = trial.setup.served_m[instance.target]
        is_near = result.estimate is not None and math.dist(result.estimate, place) <= TAU_M
        found += is_near
        wrongly += result.outcome is Outcome.FOUND and not is_near
        certified, certified_wrongly = (
            certified + result.certified,
            certified_wrongly + (result.certified and not is_near),
        )
    count = len(results)
    low, high = clopper_pearson_low(found, count, 0.025), clopper_pearson_high(found, count, 0.025)
    attack = trial.attack_setup
    name = f"{attack.attack.name}, {attack.colluders} accounts" if attack.colluders else attack.attack.name
    return [
        population,
        name.replace("1 accounts", "1 account"),
        f"{found / count:.2f} ({float(low):.2f}–{float(high):.2f})",
        f"{np.mean([result.queries for result in results]):.1f}",
        f"{wrongly} of {count}",
        f"{certified}, {certified_wrongly}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--only", help="only populations whose name contains this")
    parser.add_argument("--attack", action="append", help="only this attack; may be repeated")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    region = named_region("san-francisco")
    attacks = set_up_attacks(options.attack or ["adaptive", "unfolding"], region, colluders=[1, 4], tau_m=TAU_M)
    rows = []
    for name, people in POPULATIONS.items():
        if options.only and options.only not in name:
            continue
        places_m = people(region)
        setup = ServiceSetup(region, places_m, None, 1)
        drawn = draw_instances(setup.open(), places_m, k=K, count=options.targets, rng=np.random.default_rng(2))
        trials = [Trial(setup, attack, K, tuple(drawn)) for attack in attacks]
        for trial, results in zip(trials, run_trials(trials, cores=options.cores), strict=True):
            rows.append(row_of(name, trial, results))
    headers = [
        "population",
        "attack",
        "found within 100 m",
        "questions",
        "said found wrongly",
        "certified, of these false",
    ]
    print(text_table(headers, rows))


if __name__ == "__main__":
    main()
