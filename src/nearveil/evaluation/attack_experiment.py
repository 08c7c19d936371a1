"""What attacks on a service are made of: the service, whom to attack from where, and how far off the attacks are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from nearveil.attacks.answers import LISTS, Answers
from nearveil.attacks.base import Attack, AttackResult, Trace
from nearveil.attacks.oracle import Point
from nearveil.attacks.policies import AnswerPolicy
from nearveil.attacks.registry import attack_class
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.evaluation.parallel import in_parallel
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

LEAST_TAU_M = 1.0
START_OFFSET_M = 100.0
MOST_ACCOUNTS = 32
MOST_QUERIES = 1000
_MOST_STARTS = 200
_INSTANCES_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class AttackSetup:
    """An attack and the number of accounts it is given."""

    attack: Attack
    accounts: int


def set_up_attacks(
    names: Sequence[str], region: Region, *, accounts: Sequence[int], tau_m: float, answers: Answers = LISTS
) -> list[AttackSetup]:
    """Return attacks for a region: the adaptive one once for each number of accounts, the others with their own.

    On answers other than lists no attack has accounts.
    """
    if not LEAST_TAU_M <= tau_m < math.inf:
        raise UsageError("tau_m= is a distance of at least 1 m, such as tau_m=100")
    if answers.is_list and any(not 1 <= count <= MOST_ACCOUNTS for count in accounts):
        raise UsageError(f"the adaptive attack takes 1 to {MOST_ACCOUNTS} accounts, such as accounts=4")
    found: list[AttackSetup] = []
    for kind in map(attack_class, names):
        if answers.is_list:
            counts = accounts if kind.takes_more_accounts else (kind.accounts_needed,)
            found += [AttackSetup(kind.for_region(region, tau_m=tau_m, accounts=count), count) for count in counts]
        elif kind.takes_other_answers():
            found.append(AttackSetup(kind.for_region(region, tau_m=tau_m, accounts=1), 0))
        else:
            raise UsageError(f"{kind.name} needs ranked lists; on answers={answers} use method=adaptive")
    return found


# A service, and whom to attack in it.


@dataclass(frozen=True, slots=True)
class Instance:
    """One attack to be made: the attacker starts where the target is listed."""

    start: Point
    target: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Service:
    """A service that answers from ``places`` in degrees, as ``mechanism`` published them if there is one.

    The attacker's accounts are exact unless they are published too, ``accounts_through`` a mechanism.
    """

    region: Region
    places: FloatArray
    mechanism: Mechanism | None = None
    answers: Answers = LISTS
    policy: AnswerPolicy = field(default_factory=AnswerPolicy)
    seed: int = 1
    accounts_through: Mechanism | None = None
    tells_exact: bool = False

    @cached_property
    def served_m(self) -> FloatArray:
        """Where it has its users in meters; on its grid, if it has one."""
        return self.policy.snapped(self.region.to_metres(self.places), self.region.half_extent_m)

    def open(self) -> SimulatedService:
        """Start the service."""
        return SimulatedService(
            self.region, self.served_m, account_mechanism=self.accounts_through, rng=self.seed, policy=self.policy,
            tells_exact=self.tells_exact,
        )  # fmt: skip

    def attack(
        self, setup: AttackSetup, k: int, instances: Sequence[Instance], *, first: int = 0, near: Point | None = None,
        progress: Progress | None = None,
    ) -> list[AttackResult]:  # fmt: skip
        """Attack users one after the other; the noise of the attacker's accounts depends on their numbers alone.

        ``near`` is where the attacker takes a target to be whom answers other than lists are about.
        """
        service, found = self.open(), list[AttackResult]()
        for seed, one in enumerate(instances, start=self.seed + 1 + first):
            if self.answers.is_list:
                oracle = service.oracle(k=k, accounts=setup.accounts, most_queries=MOST_QUERIES, rng=seed)
                found.append(setup.attack.infer(oracle, one.target, one.start))
            else:
                about = service.person_oracle(self.answers, one.target, most_queries=MOST_QUERIES, rng=seed)
                found.append(setup.attack.locate(about, near))
            if progress:
                progress(1)
        return found


def draw_instances(
    service: SimulatedService, people_m: FloatArray, *, k: int, count: int, rng: np.random.Generator
) -> list[Instance]:
    """Start at a point near a random user; the target is the k-th in the list there."""
    found: list[Instance] = []
    for _ in range(count):
        # A service that is silent for small groups, or far from everybody, is asked elsewhere.
        for _ in range(1 + _MOST_STARTS):
            start = _near(people_m[rng.integers(len(people_m))], rng)
            if listed := _ranked(service, start, k):
                found.append(Instance(start, listed[-1]))
                break
        else:
            raise UsageError("the service lists nobody near any of its users; relax policy=")
    return found


def instances_of_person(
    service: SimulatedService, people_m: FloatArray, target: int, *, k: int, count: int, rng: np.random.Generator,
    around: int | None = None,
) -> list[Instance]:  # fmt: skip
    """Start at points near users around the target from where it is listed; fewer than ``count`` if they are rare.

    All users are where the service has them; ``around`` is how many of the nearest are tried, by default 2k + 1. A
    target that is listed from none of these points, published far from where it is, is a `UsageError`.
    """
    by_distance = np.argsort(np.hypot(*(people_m - people_m[target]).T), kind="stable")
    by_distance = by_distance[: 2 * k + 1 if around is None else around]
    found: list[Instance] = []
    for _ in range(20 * count):
        start = _near(people_m[rng.choice(by_distance)], rng)
        if target in _ranked(service, start, k):
            found.append(Instance(start, target))
        if len(found) == count:
            break
    if not found:
        raise UsageError("this user is in no list near them; raise k=, or attack another user")
    return found


def _near(place: FloatArray, rng: np.random.Generator) -> Point:
    """Return a point within 100 m, any as likely as any other."""
    length, angle = START_OFFSET_M * math.sqrt(rng.random()), 2 * math.pi * rng.random()
    return float(place[0] + length * math.cos(angle)), float(place[1] + length * math.sin(angle))


def _ranked(service: SimulatedService, start: Point, k: int) -> list[int]:
    return [person for person in service.oracle(k=k, accounts=0).nearby(start) if isinstance(person, int)]


# Many attacks, the same whatever the number of cores.


Task = tuple[Service, AttackSetup, int, Sequence[Instance]]
"""An attack on some users of a service that lists k."""


def run_attacks(
    tasks: Sequence[Task], *, cores: int = 1, progress: Progress | None = None
) -> list[list[AttackResult]]:  # fmt: skip
    """Run attacks, and return their results in the order of the tasks, without traces."""
    if cores == 1:
        return [_without_traces(one.attack(setup, k, some, progress=progress)) for one, setup, k, some in tasks]
    parts: list[tuple[int, int, Task]] = []
    for number, (service, setup, k, instances) in enumerate(tasks):
        # Other processes get no mechanism that they do not need, which may be large.
        sent = replace(service, mechanism=None)
        starts = range(0, len(instances), _INSTANCES_AT_ONCE)
        parts += [(number, at, (sent, setup, k, instances[at : at + _INSTANCES_AT_ONCE])) for at in starts]
    found: list[list[AttackResult]] = [[] for _ in tasks]
    for (number, _, _), results in zip(parts, in_parallel(_run_part, parts, cores=cores), strict=True):
        found[number] += results
        if progress:
            progress(len(results))
    return found


def _run_part(part: tuple[int, int, Task]) -> list[AttackResult]:
    _, first, (service, setup, k, instances) = part
    warm_up(setup, service.region, service.answers)
    return _without_traces(service.attack(setup, k, instances, first=first))


def _without_traces(results: Sequence[AttackResult]) -> list[AttackResult]:
    """Drop what is large and never drawn."""
    return [replace(result, trace=Trace()) for result in results]


@cache
def warm_up(setup: AttackSetup, region: Region, answers: Answers) -> None:
    """Attack somebody in a tiny town once per process: compiling is not a cost of the attack."""
    rng = np.random.default_rng(1)
    town = Service(region=region, places=region.from_metres(rng.normal(0, 300, (60, 2))), answers=answers)
    town.attack(setup, 5, draw_instances(town.open(), town.served_m, k=5, count=1, rng=rng))


# How attacks did.


class Attempt(NamedTuple):
    """One attack beside the truth.

    Errors are from the estimate, or else the start, to where the target is and to where the service has it.
    """

    error_m: float
    served_error_m: float
    queries: int
    seconds: float
    certified: bool


def compare(result: AttackResult, instance: Instance, service: Service, *, true_m: FloatArray) -> Attempt:
    """Put one result beside the truth."""
    x, y = instance.start if result.estimate is None else result.estimate
    width, height = service.region.half_extent_m
    # The region is public: nobody takes a target to be outside.
    guess = min(max(x, -width), width), min(max(y, -height), height)
    served = service.served_m[instance.target]
    return Attempt(
        math.dist(guess, true_m[instance.target]), math.dist(guess, served), result.queries, result.seconds,
        result.certified,
    )  # fmt: skip
