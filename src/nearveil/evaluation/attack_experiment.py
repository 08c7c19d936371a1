"""Attacks on a population: its service, whom to attack from where, the attacks, and how they did.

Every attack has the same targets, run by run. Means have 95 % intervals over runs, shares have binomial ones.
"""

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
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, Progress

LEAST_TAU_M = 1.0
START_OFFSET_M = 100.0
MOST_ACCOUNTS = 32
MOST_QUERIES = 1000
_MOST_STARTS = 200
_INSTANCES_AT_ONCE = 10
# Instances, ties and noise of a run do not share a stream with those of any other.
_SEED_STEP = 1_000_003


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
    if answers.is_list and any(not 1 <= count <= MOST_ACCOUNTS for count in accounts):
        raise UsageError(f"the adaptive attack takes 1 to {MOST_ACCOUNTS} accounts; unfolding needs none")
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


# The service of one run, and whom to attack in it: the paper's protocol.


@dataclass(frozen=True, slots=True)
class Instance:
    """One attack to be made: the attacker starts where the target is listed."""

    start: Point
    target: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Service:
    """A service in one run: it answers from ``places`` in degrees, as ``mechanism`` published them if there is one.

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
        self, setup: AttackSetup, k: int, instances: Sequence[Instance], *, first: int = 0, near: Point | None = None
    ) -> list[AttackResult]:
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
            raise UsageError("the service lists nobody near any of its people; relax its answer policy")
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
        raise UsageError("this person is listed from no place near their own; raise k=, or attack somebody else")
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


def run_attacks(tasks: Sequence[Task], *, cores: int = 1, progress: Progress | None = None) -> list[list[AttackResult]]:
    """Run attacks, and return their results in the order of the tasks, without traces."""
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
    # Traces are large, and hundreds of them are never drawn.
    return [replace(result, trace=Trace()) for result in service.attack(setup, k, instances, first=first)]


@cache
def warm_up(setup: AttackSetup, region: Region, answers: Answers) -> None:
    """Attack somebody in a tiny town once per process: compiling is not a cost of the attack."""
    rng = np.random.default_rng(1)
    town = Service(region=region, places=region.from_metres(rng.normal(0, 300, (60, 2))), answers=answers)
    town.attack(setup, 5, draw_instances(town.open(), town.served_m, k=5, count=1, rng=rng))


# How attacks did.


class Attempt(NamedTuple):
    """One attack beside the truth.

    Errors are from the estimate, or else the start, to where the target is and to where the service has it. The radius
    is not a number where the attack states none.
    """

    error_m: float
    served_error_m: float
    queries: int
    seconds: float
    certified: bool
    radius_m: float


def compare(result: AttackResult, instance: Instance, service: Service, *, true_m: FloatArray) -> Attempt:
    """Put one result beside the truth."""
    x, y = instance.start if result.estimate is None else result.estimate
    width, height = service.region.half_extent_m
    # The region is public: nobody takes a target to be outside.
    guess = min(max(x, -width), width), min(max(y, -height), height)
    served = service.served_m[instance.target]
    return Attempt(
        math.dist(guess, true_m[instance.target]), math.dist(guess, served), result.queries, result.seconds,
        result.certified, math.nan if result.radius_m is None else result.radius_m,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttackScore:
    """All attempts of one attack in one setting: mean error, share within tau, seconds and queries of an attack.

    A certificate is false if the service has the target farther off than tau; ``acc_served`` is the share within tau of
    there. ``radius_m`` is the mean of the radii that the attack states, and ``radius_held`` the share of them that hold
    the target.
    """

    runs: int
    instances: int
    dist_m: Mean
    acc: Share
    cost_s: Mean
    queries: Mean
    queries_p95: float
    certified: Share
    false_certificates: int
    acc_served: Share
    radius_m: float | None = None
    radius_held: float | None = None


def score_attempts(runs: Sequence[Sequence[Attempt]], *, tau_m: float) -> AttackScore:
    """Return the score of an attack from its attempts, run by run."""
    columns = np.moveaxis(np.array(runs, dtype=np.float64), 2, 0)
    error_m, served_m, queries, seconds, certified, radius_m = columns
    stated = ~np.isnan(radius_m)

    def over_runs(values: FloatArray) -> Mean:
        return mean_over_runs(values.mean(axis=1).tolist())

    def share(holds: BoolArray) -> Share:
        return share_over_runs(holds.sum(axis=1).tolist(), holds.shape[1])

    return AttackScore(
        runs=len(error_m),
        instances=len(error_m[0]),
        dist_m=over_runs(error_m),
        acc=share(error_m <= tau_m),
        cost_s=over_runs(seconds),
        queries=over_runs(queries),
        queries_p95=float(np.percentile(queries, 95)),
        certified=share(certified > 0),
        false_certificates=int(((certified > 0) & (served_m > tau_m)).sum()),
        acc_served=share(served_m <= tau_m),
        radius_m=float(radius_m[stated].mean()) if stated.any() else None,
        radius_held=float((served_m <= radius_m)[stated].mean()) if stated.any() else None,
    )


# The experiment.


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackProtocol:
    """How attacks are measured: runs, targets in each, how near counts as found, and what is done to lists before."""

    runs: int = 5
    instances: int = 50
    tau_m: float = 100.0
    seed: int = 1
    policy: AnswerPolicy = field(default_factory=AnswerPolicy)

    def __post_init__(self) -> None:
        if self.runs < 1 or self.instances < 1:
            raise UsageError("there must be at least one run and one instance")
        if not LEAST_TAU_M <= self.tau_m < float("inf"):
            raise UsageError("tau must be a distance of at least 1 m, such as 100m")

    def seed_of(self, run: int) -> int:
        """Return the seed of one run."""
        return self.seed * _SEED_STEP + run * 7919


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How one attack did in one setting."""

    attack: str
    dataset: str
    k: int
    accounts: int
    protected: bool
    score: AttackScore
    answers: str = "list"
    policy: str = ""


class AttackExperiment:
    """Attacks on a population, whom a mechanism, if there is one, publishes anew in every run."""

    def __init__(
        self, dataset: Dataset, protocol: AttackProtocol, mechanism: Mechanism | None, answers: Answers = LISTS
    ) -> None:
        if not len(dataset.places):
            raise UsageError("a service without people cannot be attacked; give at least one person")
        lists_only = replace(protocol.policy, snap_m=0.0)
        if not answers.is_list and not lists_only.is_plain:
            raise UsageError(
                f"the answer policy {lists_only} is for ranked lists and has no effect on the answers {answers}; leave "
                "it out, or keep snap alone"
            )
        self.dataset, self.protocol, self.mechanism, self.answers = dataset, protocol, mechanism, answers
        self.true_m = dataset.region.to_metres(dataset.places)
        self._services: dict[int, Service] = {}

    def check_k(self, k: int) -> None:
        """Refuse lists that are longer than the population allows."""
        if self.answers.is_list and not 1 <= k <= len(self.true_m):
            raise UsageError(f"k must lie between 1 and the number of people, {len(self.true_m):,}")

    def service(self, run: int) -> Service:
        """Return the service of one run, which publishes everybody when it is first asked for."""
        if run not in self._services:
            protocol, places, own = self.protocol, self.dataset.places, self.mechanism
            seed = protocol.seed_of(run)
            if own is not None:
                own = own.with_params(seed=seed, **own.learned_params).fitted_on(places)
                places = own.perturb(places)
            self._services[run] = Service(
                region=self.dataset.region, places=places, mechanism=own, seed=seed, answers=self.answers,
                policy=protocol.policy,
            )  # fmt: skip
        return self._services[run]

    def publish_all(self, progress: Progress) -> None:
        """Publish all runs now, to show how long it takes."""
        for run in range(self.protocol.runs):
            self.service(run)
            progress(1)

    def instances(self, run: int, k: int, person: int | None = None) -> tuple[Instance, ...]:
        """Return whom to attack in one run, the same for every attack: those of the paper's protocol, or one person.

        Answers other than lists are about anybody, and attacks begin without a location near them.
        """
        self.check_k(k)
        rng, count = np.random.default_rng([self.protocol.seed_of(run), k]), self.protocol.instances
        if not self.answers.is_list:
            targets = rng.integers(len(self.true_m), size=count) if person is None else [person] * count
            return tuple(Instance((0.0, 0.0), int(target)) for target in targets)
        service, people_m = self.service(run).open(), self.service(run).served_m
        if person is None:
            return tuple(draw_instances(service, self.true_m, k=k, count=count, rng=rng))
        return tuple(instances_of_person(service, people_m, person, k=k, count=count, rng=rng))

    def run(
        self, attack_setups: Sequence[AttackSetup], ks: Sequence[int], *, person: int | None = None, cores: int,
        progress: Progress | None = None,
    ) -> list[AttackRow]:  # fmt: skip
        """Attack, and return a row for each k and attack.

        One person may be listed from fewer places than the protocol asks for; then every run has as many as the fewest.
        """
        tasks, runs = list[Task](), range(self.protocol.runs)
        for k in ks:
            drawn = [self.instances(run, k, person) for run in runs]
            fewest = min(map(len, drawn))
            tasks += [(self.service(run), one, k, drawn[run][:fewest]) for one in attack_setups for run in runs]
        results = run_attacks(tasks, cores=cores, progress=progress)
        rows = [slice(at, at + len(runs)) for at in range(0, len(tasks), len(runs))]
        return [self.row(tasks[part], results[part]) for part in rows]

    def row(self, tasks: Sequence[Task], results: Sequence[Sequence[AttackResult]]) -> AttackRow:
        """Return the row of one attack in one setting from its tasks, one for each run, and their results."""
        (_, setup, k, _), tau_m = tasks[0], self.protocol.tau_m
        attempts = [
            [compare(*one, service, true_m=self.true_m) for one in zip(found, instances, strict=True)]
            for (service, _, _, instances), found in zip(tasks, results, strict=True)
        ]
        return AttackRow(
            attack=setup.attack.name, dataset=self.dataset.name, k=k, accounts=setup.accounts,
            protected=self.mechanism is not None,
            score=score_attempts(attempts, tau_m=tau_m), answers=str(self.answers), policy=str(self.protocol.policy),
        )  # fmt: skip
