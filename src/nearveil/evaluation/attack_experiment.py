"""A population under attack: every attack against the same people, run by run, protected or not.

How attacks did is Dist, Acc, Cost and queries. Means have 95 % intervals over runs, shares have binomial ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from nearveil.attacks.answers import LISTS, Answers
from nearveil.attacks.base import AttackResult
from nearveil.attacks.oracle import Spot
from nearveil.attacks.policies import AnswerPolicy
from nearveil.errors import UsageError
from nearveil.evaluation.attack_trials import (
    AttackSetup,
    Instance,
    ServiceSetup,
    Trial,
    anybody,
    draw_instances,
    instances_of_person,
    run_trials,
)
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray, Progress


@dataclass(frozen=True, slots=True)
class ScoredAttack:
    """One attack beside the truth.

    Attributes
    ----------
    error_m : float
        From the estimate to where the target is; from the start where the attack believes nothing.
    served_error_m : float
        The same to where the service has the target: what a certificate speaks of.
    start_distance_m : float
        From the start to where the service has the target.
    others_listed, others_claimed, others_located : int
        Other people in the attack's lists, how many it claims to have located, and how many are within tau of there.
    radius_m : float or None
        The radius that the attack states; see `AttackResult`.
    """

    error_m: float
    served_error_m: float
    start_distance_m: float
    queries: int
    seconds: float
    certified: bool
    others_listed: int
    others_claimed: int
    others_located: int
    radius_m: float | None = None


def compare(
    result: AttackResult,
    instance: Instance,
    *,
    true_m: FloatArray,
    served_m: FloatArray,
    half_extent_m: tuple[float, float],
    tau_m: float,
) -> ScoredAttack:
    """Put one result beside the truth."""
    guess = instance.start if result.estimate is None else _into_region(result.estimate, half_extent_m)
    located = [
        person
        for person, spot in result.others.items()
        if person in result.listed and _gap(spot, true_m, person) <= tau_m
    ]
    return ScoredAttack(
        error_m=_gap(guess, true_m, instance.target),
        served_error_m=_gap(guess, served_m, instance.target),
        start_distance_m=_gap(instance.start, served_m, instance.target),
        queries=result.queries,
        seconds=result.seconds,
        certified=result.certified,
        others_listed=len(result.listed),
        others_claimed=len(result.others),
        others_located=len(located),
        radius_m=result.radius_m,
    )


def _into_region(spot: Spot, half_extent_m: tuple[float, float]) -> Spot:
    """Move an estimate into the region, which is public."""
    (x, y), (width, height) = spot, half_extent_m
    return min(max(x, -width), width), min(max(y, -height), height)


def _gap(spot: Spot, places_m: FloatArray, person: object) -> float:
    return math.dist(spot, places_m[person]) if isinstance(person, int) else math.inf


@dataclass(frozen=True, slots=True)
class AttackScore:
    """All attempts of one attack in one setting, runs by runs.

    Attributes
    ----------
    dist_m, cost_s, queries : Mean
        Mean error, seconds per attack, questions per attack.
    acc, certified : Share
        Share within tau, share certified.
    queries_p95 : float
        95th percentile of the questions, over all attempts.
    false_certificates : int
        Certified, and farther than tau from where the service has the target.
    at_least : float or None
        Questions that no attack can do without on average, even with everybody else's map; see `least_questions`.
    others_located : float or None
        Share of all other people in the attack's lists who were located within tau; None if none were looked for.
    acc_served : Share or None
        Share within tau of where the service has the target: its published place, or its place on the service's grid.
    radius_m : float or None
        Mean of the radii that the attack states; None if it states none.
    radius_held : float or None
        Share of these within which the service has the target.
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
    at_least: float | None
    others_located: float | None
    acc_served: Share | None = None
    radius_m: float | None = None
    radius_held: float | None = None


def score_attempts(runs: Sequence[Sequence[ScoredAttack]], *, tau_m: float, k: int, farthest_m: float) -> AttackScore:
    """Return the score of an attack from its attempts, run by run."""

    def over_runs(value: Callable[[ScoredAttack], float]) -> Mean:
        return mean_over_runs([float(np.mean([value(attempt) for attempt in run])) for run in runs])

    def share(holds: Callable[[ScoredAttack], bool]) -> Share:
        return share_over_runs([sum(holds(attempt) for attempt in run) for run in runs], len(runs[0]))

    everything = [attempt for run in runs for attempt in run]
    listed = sum(attempt.others_listed for attempt in everything)
    located = sum(attempt.others_located for attempt in everything)
    bits = [bits_to_find(attempt.start_distance_m, tau_m, farthest_m) for attempt in everything]
    stated = [(one.radius_m, one.served_error_m) for one in everything if one.radius_m is not None]
    return AttackScore(
        runs=len(runs),
        instances=len(runs[0]),
        dist_m=over_runs(lambda attempt: attempt.error_m),
        acc=share(lambda attempt: attempt.error_m <= tau_m),
        cost_s=over_runs(lambda attempt: attempt.seconds),
        queries=over_runs(lambda attempt: attempt.queries),
        queries_p95=float(np.percentile([attempt.queries for attempt in everything], 95)),
        certified=share(lambda attempt: attempt.certified),
        false_certificates=sum(attempt.certified and attempt.served_error_m > tau_m for attempt in everything),
        at_least=least_questions(float(np.mean(bits)), k) if k else None,
        others_located=located / listed if any(attempt.others_claimed for attempt in everything) else None,
        acc_served=share(lambda attempt: attempt.served_error_m <= tau_m),
        radius_m=float(np.mean([radius for radius, _ in stated])) if stated else None,
        radius_held=float(np.mean([error <= radius for radius, error in stated])) if stated else None,
    )


def bits_to_find(distance_m: float, tau_m: float, farthest_m: float) -> float:
    """Bits that lead to a circle of tau about a target at a distance from the start.

    log2((2 (R/tau)² + 1/2) ln(Rmax / (tau/2))), for somebody who takes every order of magnitude of the distance from
    the start to be equally likely.
    """
    spread = max(math.log(farthest_m / (tau_m / 2)), 1.0)
    return max(math.log2((2 * (distance_m / tau_m) ** 2 + 0.5) * spread), 0.0)


def least_questions(bits: float, k: int) -> float:
    """Return how many questions are needed at least on average to learn so many bits about one person.

    Hand the attacker everybody else's map, and all of its own accounts: then an answer can only tell the target's place
    among the k of the list, or that it is not listed, which is at most log2(k + 1) bits.

    Examples
    --------
    >>> least_questions(7.0, 127)
    1.0
    """
    return bits / math.log2(k + 1)


# The experiment.


# Instances, ties and noise of a run do not share a stream with those of any other.
_SEED_STEP = 1_000_003
LEAST_TAU_M = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackProtocol:
    """How attacks are measured.

    Attributes
    ----------
    runs, instances : int
        Number of runs, each with its own seed, and of targets in each.
    tau_m : float
        Found means within this distance.
    seed : int
        Of the whole experiment.
    published_colluders : bool
        Whether the service publishes the attacker's accounts like everybody else's, or has them where they are.
    policy : AnswerPolicy
        What the service does to a list before it shows it.
    tells_exact : bool
        Whether attackers are told that lists are exact, where they are, and so need no confirmations: the paper's
        setting.
    """

    runs: int = 5
    instances: int = 50
    tau_m: float = 100.0
    seed: int = 1
    published_colluders: bool = False
    policy: AnswerPolicy = field(default_factory=AnswerPolicy)
    tells_exact: bool = False

    def __post_init__(self) -> None:
        if self.runs < 1 or self.instances < 1:
            raise UsageError("there must be at least one run and one instance")
        if not LEAST_TAU_M <= self.tau_m < float("inf"):
            raise UsageError("tau must be a distance of at least 1 m, such as 100m")

    def seed_of(self, run: int) -> int:
        """Seed of one run."""
        return self.seed * _SEED_STEP + run * 7919


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRun:
    """What the service answers from in one run: true places, or published ones and who published them."""

    served: FloatArray
    mechanism: Mechanism | None


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How one attack did in one setting."""

    attack: str
    dataset: str
    k: int
    colluders: int
    protected: bool
    published_colluders: bool
    score: AttackScore
    answers: str = "list"
    policy: str = ""


class AttackExperiment:
    """One population, as the service has it in every run.

    Parameters
    ----------
    dataset : Dataset
        True places.
    protocol : AttackProtocol
        How it is measured.
    mechanism : Mechanism, optional
        Protects everybody, anew in every run; without it the service answers from true places.
    answers : Answers
        What the service answers; ranked lists by default.
    """

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
        self._published: dict[int, PublishedRun] = {}

    def check_k(self, k: int) -> None:
        """Refuse lists that are longer than the population allows."""
        if self.answers.is_list and not 1 <= k <= len(self.true_m):
            raise UsageError(f"k must lie between 1 and the number of people, {len(self.true_m):,}")

    def published(self, run: int) -> PublishedRun:
        """What the service answers from in one run; published once, when it is first asked for."""
        if run not in self._published:
            self._published[run] = self._publish(run)
        return self._published[run]

    def publish_all(self, progress: Progress) -> Self:
        """Publish all runs now, to show how long it takes."""
        for run in range(self.protocol.runs):
            self.published(run)
            progress(1)
        return self

    def _publish(self, run: int) -> PublishedRun:
        if self.mechanism is None:
            return PublishedRun(self.dataset.places, None)
        seeded = self.mechanism.with_params(seed=self.protocol.seed_of(run), **self.mechanism.learned_params)
        own = seeded.fitted_on(self.dataset.places)
        return PublishedRun(own.perturb(self.dataset.places), own)

    def setup(self, run: int) -> ServiceSetup:
        """The service of one run."""
        published = self.published(run)
        region, policy = self.dataset.region, self.protocol.policy
        return ServiceSetup(
            region,
            policy.snapped(region.to_metres(published.served), region.half_extent_m),
            published.mechanism if self.protocol.published_colluders else None,
            self.protocol.seed_of(run),
            self.answers,
            policy,
            self.protocol.tells_exact,
        )

    def instances(self, run: int, k: int, person: int | None = None) -> tuple[Instance, ...]:
        """Whom to attack in one run, the same for every attack_setup."""
        setup = self.setup(run)
        self.check_k(k)
        rng = np.random.default_rng([self.protocol.seed_of(run), k])
        if not self.answers.is_list:
            drawn = anybody(len(self.true_m), count=self.protocol.instances, rng=rng, person=person)
        elif person is None:
            drawn = draw_instances(setup.open(), self.true_m, k=k, count=self.protocol.instances, rng=rng)
        else:
            drawn = instances_of_person(
                setup.open(), setup.served_m, person, k=k, count=self.protocol.instances, rng=rng
            )
        return tuple(drawn)

    def run(
        self,
        attack_setups: Sequence[AttackSetup],
        ks: Sequence[int],
        *,
        person: int | None = None,
        cores: int,
        progress: Progress | None = None,
    ) -> list[AttackRow]:
        """Attack, and return a row for each k and attack_setup."""
        runs = range(self.protocol.runs)
        setups = [self.setup(run) for run in runs]
        targets = {(run, k): self.instances(run, k, person) for k in ks for run in runs}
        cells = [(k, attack_setup) for k in ks for attack_setup in attack_setups]
        trials = [Trial(setups[run], attack_setup, k, targets[run, k]) for k, attack_setup in cells for run in runs]
        results = run_trials(trials, cores=cores, progress=progress)
        attempts = [self._compare(trial, found) for trial, found in zip(trials, results, strict=True)]
        return [
            self.row(*cell, attempts[number * len(runs) : (number + 1) * len(runs)])
            for number, cell in enumerate(cells)
        ]

    def attempts(
        self, run: int, attack_setup: AttackSetup, k: int, instances: tuple[Instance, ...] | None = None
    ) -> list[ScoredAttack]:
        """Attack in one run, in this process: the people of the protocol, or others."""
        trial = Trial(self.setup(run), attack_setup, k, self.instances(run, k) if instances is None else instances)
        return self._compare(trial, trial.run())

    def row(self, k: int, attack_setup: AttackSetup, attempts: Sequence[Sequence[ScoredAttack]]) -> AttackRow:
        """Return the row of one attack_setup from its attempts, run by run."""
        return AttackRow(
            attack=attack_setup.attack.name,
            dataset=self.dataset.name,
            k=k,
            colluders=attack_setup.colluders,
            protected=self.mechanism is not None,
            published_colluders=self.protocol.published_colluders,
            answers=str(self.answers),
            score=score_attempts(
                attempts,
                tau_m=self.protocol.tau_m,
                k=k,
                farthest_m=self.dataset.region.radius_m,
            ),
            policy=str(self.protocol.policy),
        )

    def _compare(self, trial: Trial, results: Sequence[AttackResult]) -> list[ScoredAttack]:
        return [
            compare(
                result,
                instance,
                true_m=self.true_m,
                served_m=trial.setup.served_m,
                half_extent_m=self.dataset.region.half_extent_m,
                tau_m=self.protocol.tau_m,
            )
            for result, instance in zip(results, trial.instances, strict=True)
        ]
