"""How well attacks on ranked lists do on populations and services that they were not made for.

``python -m benchmarks.attack_populations --targets 50`` prints a row for each population and attack, on plain lists.
With ``--policies`` it is a row for each answer policy and number of accounts of the adaptive attack; the people are two
cities of 3,000, with half of the targets in each. ``--cities`` and ``--seed`` make others. Found means within 100 m of
where the service has the target. Where people share a point they cannot be told apart, and the target is found if their
shared point is. "Wrong" counts attacks that ended with "found", or certified, more than 100 m away. Lists have 30
people (presets: their own length), and the attacker starts within 100 m of somebody, where the target is the last in
the list.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.policies import PRESETS, AnswerPolicy
from nearveil.auditing.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.evaluation.attack_experiment import (
    AttackSetup,
    Instance,
    Service,
    Task,
    draw_instances,
    run_attacks,
    set_up_attacks,
)
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region, named_region
from nearveil.report.text_table import text_table
from nearveil.types import FloatArray

TAU_M = 100.0
K = 30


def city(people: int, region: Region, seed: int = 47) -> FloatArray:
    """A made-up city that no attack was tuned on."""
    return region.to_metres(synthetic_city(people, region, rng=seed))


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


POLICIES = (
    "snap:100m", "snap:250m", "drop:0.1", "drop:0.02", "order-noise:0.1", "order-noise:0.02", "bands:500m",
    "cutoff:1km", "cutoff:1km,group:5", "delay:2", "snap:100m,drop:0.1", "snap:100m,delay:2", "bands:500m,cutoff:2km",
    "drop:0.1,order-noise:0.1", "cutoff:1km,drop:0.1",
)  # fmt: skip
POLICY_PEOPLE = 3000
POLICY_CITIES = (53, 59)

Row = tuple[str, list[Task]]
"""What is attacked, and the attacks that a row counts together."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Who is attacked: how many, in which made-up cities of the policies' rows, drawn with which seed."""

    targets: int
    cities: tuple[int, ...] = POLICY_CITIES
    seed: int = 2

    def instances(self, service: Service, k: int, count: int) -> tuple[Instance, ...]:
        """Draw some targets and where the attacks on them start."""
        rng = np.random.default_rng(self.seed)
        return tuple(draw_instances(service.open(), service.served_m, k=k, count=count, rng=rng))


def rows_by_population(only: str, attacks: list[AttackSetup], region: Region, draw: Draw) -> Iterator[Row]:
    """Plain lists of people who live otherwise."""
    for name, people in POPULATIONS.items():
        if only in name:
            service = Service(region=region, places=region.from_metres(people(region)))
            drawn = draw.instances(service, K, draw.targets)
            for attack in attacks:
                yield name, [(service, attack, K, drawn)]


def rows_by_policy(only: str, attacks: list[AttackSetup], region: Region, draw: Draw) -> Iterator[Row]:
    """What services do to lists, in some cities."""
    shapes = {"plain lists": (AnswerPolicy(), K)}
    shapes |= {f"`{policy}`": (AnswerPolicy.parse(policy), K) for policy in POLICIES}
    # The preset with plain lists is there already.
    shapes |= {
        f"preset `{name}`": (preset.policy, POLICY_PEOPLE if preset.lists_everybody else K)
        for name, preset in PRESETS.items()
        if not preset.policy.is_plain
    }
    cities = [city(POLICY_PEOPLE, region, seed) for seed in draw.cities]
    for name, (policy, k) in shapes.items():
        if only not in name:
            continue
        services = [Service(region=region, places=region.from_metres(people), policy=policy) for people in cities]
        drawn = [draw.instances(service, k, draw.targets // len(services)) for service in services]
        for attack in attacks:
            yield name, [(service, attack, k, some) for service, some in zip(services, drawn, strict=True)]


def cells_of(name: str, attacked: list[tuple[Task, list[AttackResult]]]) -> list[str]:
    """One row of the table."""
    results, errors_m = [], []
    for (service, _, _, instances), found in attacked:
        for instance, result in zip(instances, found, strict=True):
            place = service.served_m[instance.target]
            results.append(result)
            errors_m.append(math.inf if result.estimate is None else math.dist(result.estimate, place))
    count, near = len(results), [error_m <= TAU_M for error_m in errors_m]
    low, high = clopper_pearson_low(sum(near), count, 0.025), clopper_pearson_high(sum(near), count, 0.025)
    said = [is_near for is_near, result in zip(near, results, strict=True) if result.outcome is Outcome.FOUND]
    certified = [is_near for is_near, result in zip(near, results, strict=True) if result.certified]
    held = [error_m <= result.radius_m for error_m, result in zip(errors_m, results, strict=True) if result.radius_m]
    setup = attacked[0][0][1]
    accounts = {0: "", 1: ", 1 account"}.get(setup.accounts, f", {setup.accounts} accounts")
    return [
        name,
        setup.attack.name + accounts,
        f"{sum(near) / count:.2f} ({float(low):.2f}–{float(high):.2f})",
        f"{np.mean([result.queries for result in results]):.1f}",
        f"{len(said) - sum(said)} of {len(said)}",
        f"{len(certified) - sum(certified)} of {len(certified)}",
        f"{sum(held)} of {len(held)}",
    ]


HEADERS = (
    "lists", "attack", "found within 100 m", "questions", 'wrong of "found"', "wrong of certified", "radii that hold",
)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=50, help="people attacked for each row")
    parser.add_argument("--policies", action="store_true", help="policies and presets instead of populations")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--attack", action="append", help="only this attack; may be repeated")
    parser.add_argument(
        "--cities", type=int, nargs="+", default=POLICY_CITIES, metavar="SEED", help="other cities for --policies"
    )
    parser.add_argument("--seed", type=int, default=2, help="draws the targets")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    region = named_region("san-francisco")
    usual = ["adaptive"] if options.policies else ["adaptive", "unfolding"]
    attacks = set_up_attacks(options.attack or usual, region, accounts=[1, 4], tau_m=TAU_M)
    listing = rows_by_policy if options.policies else rows_by_population
    rows = list(listing(options.only, attacks, region, Draw(options.targets, tuple(options.cities), options.seed)))
    results = iter(run_attacks([task for _, tasks in rows for task in tasks], cores=options.cores))
    cells = [cells_of(name, [(task, next(results)) for task in tasks]) for name, tasks in rows]
    print(text_table(HEADERS, cells))


if __name__ == "__main__":
    main()
