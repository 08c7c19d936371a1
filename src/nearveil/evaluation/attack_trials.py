"""Attacks in numbers: many instances, spread over the machine's cores, the same whatever the number of cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nearveil.attacks.base import AttackResult, Trace
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_instances import Instance, draw_instances
from nearveil.evaluation.contenders import Contender
from nearveil.evaluation.workers import map_in_processes
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

MOST_QUERIES = 1000
_INSTANCES_AT_ONCE = 10


@dataclass(frozen=True, slots=True, eq=False)
class ServiceSetup:
    """A service as it answers: where it believes people to be, and what it does to an attacker's accounts."""

    region: Region
    served_m: FloatArray
    colluder_mechanism: Mechanism | None
    seed: int

    def open(self) -> SimulatedService:
        """Start the service."""
        return SimulatedService(self.region, self.served_m, colluder_mechanism=self.colluder_mechanism, rng=self.seed)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One attack against some people of one service."""

    setup: ServiceSetup
    contender: Contender
    k: int
    instances: tuple[Instance, ...]
    first_number: int = 0

    def run(self) -> list[AttackResult]:
        """Attack everybody in turn."""
        _warm_up(self.contender, self.setup.region)
        service = self.setup.open()
        return [self.run_one(number, service) for number in range(len(self.instances))]

    def run_one(self, number: int, service: SimulatedService) -> AttackResult:
        """Attack one of them; the noise of the attacker's accounts depends on the number alone."""
        instance, contender = self.instances[number], self.contender
        oracle = service.oracle(
            k=self.k,
            colluders=contender.colluders,
            most_queries=MOST_QUERIES,
            rng=self.setup.seed + 1 + self.first_number + number,
        )
        return contender.attack.infer(oracle, instance.target, instance.start)

    def parts(self) -> list[Trial]:
        """The same in parts that can be run apart."""
        return [
            replace(self, instances=self.instances[first : first + _INSTANCES_AT_ONCE], first_number=first)
            for first in range(0, len(self.instances), _INSTANCES_AT_ONCE)
        ]


def run_trials(trials: Sequence[Trial], *, cores: int, progress: Progress | None = None) -> list[list[AttackResult]]:
    """Run trials on several cores; results in the order of the trials, without their traces."""
    parts = [(number, part) for number, trial in enumerate(trials) for part in trial.parts()]
    found: dict[int, list[AttackResult]] = {}
    for index, results in map_in_processes(_run_without_trace, [part for _, part in parts], cores=cores):
        found[index] = results
        if progress:
            progress(len(results))
    ordered: list[list[AttackResult]] = [[] for _ in trials]
    for index, (number, _) in enumerate(parts):
        ordered[number] += found[index]
    return ordered


@cache
def _warm_up(contender: Contender, region: Region) -> None:
    """Attack somebody in a tiny town once per process: compiling is not a cost of the attack."""
    town = ServiceSetup(region, np.random.default_rng(1).normal(0, 300, (60, 2)), None, 1)
    service = town.open()
    instances = draw_instances(service, town.served_m, k=5, count=1, rng=np.random.default_rng(1))
    Trial(town, contender, 5, tuple(instances)).run_one(0, service)


def _run_without_trace(trial: Trial) -> list[AttackResult]:
    # Traces are large, and nobody draws hundreds of them.
    return [replace(result, trace=Trace()) for result in trial.run()]
