"""Attacks to be made: by whom, on whom and from where, spread over the machine's cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nearveil.attacks.answers import LISTS, Answers
from nearveil.attacks.base import Attack, AttackResult, Trace
from nearveil.attacks.oracle import Spot
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.registry import attack_class
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.evaluation.workers import map_in_processes
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

MOST_COLLUDERS = 32


@dataclass(frozen=True, slots=True)
class AttackSetup:
    """An attack and the number of accounts it is given."""

    attack: Attack
    colluders: int


def set_up_attacks(
    names: Sequence[str], region: Region, *, colluders: Sequence[int], tau_m: float, answers: Answers = LISTS
) -> list[AttackSetup]:
    """Return attacks for a region: the adaptive one once for each number of accounts, the others with their own.

    On answers other than lists no attack has accounts.
    """
    if not answers.is_list:
        return [_setup_without_accounts(kind, region, tau_m, answers) for kind in map(attack_class, names)]
    for count in colluders:
        if not 1 <= count <= MOST_COLLUDERS:
            raise UsageError(f"the adaptive attack takes 1 to {MOST_COLLUDERS} colluders; unfolding needs none")
    found: list[AttackSetup] = []
    for kind in map(attack_class, names):
        numbers = colluders if kind.takes_more_colluders else (kind.colluders_needed,)
        found += [AttackSetup(kind.for_region(region, tau_m=tau_m, colluders=count), count) for count in numbers]
    return found


def _setup_without_accounts(kind: type[Attack], region: Region, tau_m: float, answers: Answers) -> AttackSetup:
    if not kind.takes_other_answers():
        raise UsageError(f"{kind.name} needs ranked lists; on answers={answers} use method=adaptive")
    return AttackSetup(kind.for_region(region, tau_m=tau_m, colluders=1), 0)


# Whom to attack, and from where: the paper's protocol.


START_OFFSET_M = 100.0
_MOST_STARTS = 200


@dataclass(frozen=True, slots=True)
class Instance:
    """One attack to be made: the attacker starts where the target is listed."""

    start: Spot
    target: int


def draw_instances(
    service: SimulatedService, people_m: FloatArray, *, k: int, count: int, rng: np.random.Generator
) -> list[Instance]:
    """Start at a point near a random person; the target is the k-th in the list there."""
    found = []
    for _ in range(count):
        start = _near(people_m[rng.integers(len(people_m))], rng)
        listed = _ranked(service, start, k)
        for _ in range(_MOST_STARTS):
            if listed:
                break
            # A service that is silent for small groups, or far from everybody, is asked elsewhere.
            start = _near(people_m[rng.integers(len(people_m))], rng)
            listed = _ranked(service, start, k)
        else:
            raise UsageError("the service lists nobody near any of its people; relax its answer policy")
        found.append(Instance(start, listed[-1]))
    return found


def instances_of_person(
    service: SimulatedService,
    people_m: FloatArray,
    target: int,
    *,
    k: int,
    count: int,
    rng: np.random.Generator,
    around: int | None = None,
) -> list[Instance]:
    """Start at points near people around the target, wherever the target is listed; all as the service has them.

    ``around`` is how many of the nearest people these are taken from, the target among them; 2k + 1 by default.

    Raises
    ------
    UsageError
        If the target is listed from none of them: the service publishes it far from where it is.
    """
    by_distance = np.argsort(np.hypot(*(people_m - people_m[target]).T), kind="stable")
    by_distance = by_distance[: 2 * k + 1 if around is None else around]
    found: list[Instance] = []
    for _ in range(20 * count):
        start = _near(people_m[rng.choice(by_distance)], rng)
        if target in _ranked(service, start, k):
            found.append(Instance(start, target))
            if len(found) == count:
                return found
    if not found:
        raise UsageError("this person is listed from no place near their own; raise k=, or attack somebody else")
    return [found[number % len(found)] for number in range(count)]


def anybody(people: int, *, count: int, rng: np.random.Generator, person: int | None = None) -> list[Instance]:
    """Targets for answers about one person: anybody, or always the same. Attacks begin without a place near them."""
    targets = rng.integers(people, size=count) if person is None else [person] * count
    return [Instance((0.0, 0.0), int(target)) for target in targets]


def _near(place: FloatArray, rng: np.random.Generator) -> Spot:
    """A point within 100 m, any as likely as any other."""
    length = START_OFFSET_M * math.sqrt(rng.random())
    angle = 2 * math.pi * rng.random()
    return float(place[0] + length * math.cos(angle)), float(place[1] + length * math.sin(angle))


def _ranked(service: SimulatedService, start: Spot, k: int) -> list[int]:
    return [person for person in service.oracle(k=k, colluders=0).nearby(start) if isinstance(person, int)]


# Many attacks, the same whatever the number of cores.


MOST_QUERIES = 1000
_INSTANCES_AT_ONCE = 10


@dataclass(frozen=True, slots=True, eq=False)
class ServiceSetup:
    """A service as it answers: where it believes people to be, and what it does to an attacker's accounts."""

    region: Region
    served_m: FloatArray
    colluder_mechanism: Mechanism | None
    seed: int
    answers: Answers = LISTS
    policy: AnswerPolicy | None = None
    tells_exact: bool = False

    def open(self) -> SimulatedService:
        """Start the service."""
        return SimulatedService(
            self.region,
            self.served_m,
            colluder_mechanism=self.colluder_mechanism,
            rng=self.seed,
            policy=self.policy,
            tells_exact=self.tells_exact,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One attack against some people of one service."""

    setup: ServiceSetup
    attack_setup: AttackSetup
    k: int
    instances: tuple[Instance, ...]
    first_number: int = 0
    near: Spot | None = None

    def run(self) -> list[AttackResult]:
        """Attack everybody in turn."""
        _warm_up(self.attack_setup, self.setup.region, self.setup.answers)
        service = self.setup.open()
        return [self.run_one(number, service) for number in range(len(self.instances))]

    def run_one(self, number: int, service: SimulatedService) -> AttackResult:
        """Attack one of them; the noise of the attacker's accounts depends on the number alone."""
        instance, attack_setup = self.instances[number], self.attack_setup
        seed, answers = self.setup.seed + 1 + self.first_number + number, self.setup.answers
        if not answers.is_list:
            about = service.person_oracle(answers, instance.target, most_queries=MOST_QUERIES, rng=seed)
            return attack_setup.attack.locate(about, self.near)
        oracle = service.oracle(k=self.k, colluders=attack_setup.colluders, most_queries=MOST_QUERIES, rng=seed)
        return attack_setup.attack.infer(oracle, instance.target, instance.start)

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
def _warm_up(attack_setup: AttackSetup, region: Region, answers: Answers) -> None:
    """Attack somebody in a tiny town once per process: compiling is not a cost of the attack."""
    town = ServiceSetup(region, np.random.default_rng(1).normal(0, 300, (60, 2)), None, 1, answers)
    service = town.open()
    instances = draw_instances(service, town.served_m, k=5, count=1, rng=np.random.default_rng(1))
    Trial(town, attack_setup, 5, tuple(instances)).run_one(0, service)


def _run_without_trace(trial: Trial) -> list[AttackResult]:
    # Traces are large, and hundreds of them are never drawn.
    return [replace(result, trace=Trace()) for result in trial.run()]
