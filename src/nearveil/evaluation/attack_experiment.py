"""A population under attack: every contender against the same people, run by run, protected or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from nearveil.attacks.base import AttackResult
from nearveil.errors import UsageError
from nearveil.evaluation.attack_instances import Instance, draw_instances, instances_of_person
from nearveil.evaluation.attack_score import AttackScore, Attempt, compare, score_attempts
from nearveil.evaluation.attack_trials import ServiceSetup, Trial, run_trials
from nearveil.evaluation.contenders import Contender
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray, Progress

# Instances, ties and noise of a run do not share a stream with those of any other.
_SEED_STEP = 1_000_003
LEAST_TAU_M = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackProtocol:
    """How attacks are measured.

    Attributes
    ----------
    runs, instances : int
        So many runs with seeds of their own, and so many targets in each.
    tau_m : float
        Found means within this distance.
    seed : int
        Of the whole experiment.
    published_colluders : bool
        Whether the service publishes the attacker's accounts like everybody else's, or has them where they are.
    """

    runs: int = 5
    instances: int = 50
    tau_m: float = 100.0
    seed: int = 1
    published_colluders: bool = False

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
    """

    def __init__(self, dataset: Dataset, protocol: AttackProtocol, mechanism: Mechanism | None) -> None:
        if not len(dataset.places):
            raise UsageError("a service without people cannot be attacked; give at least one person")
        self.dataset, self.protocol, self.mechanism = dataset, protocol, mechanism
        self.true_m = dataset.region.to_metres(dataset.places)
        self._published: dict[int, PublishedRun] = {}

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
        own = self.mechanism.with_params(seed=self.protocol.seed_of(run)).fit(self.dataset.places)
        return PublishedRun(own.perturb(self.dataset.places), own)

    def setup(self, run: int) -> ServiceSetup:
        """The service of one run."""
        published = self.published(run)
        return ServiceSetup(
            self.dataset.region,
            self.dataset.region.to_metres(published.served),
            published.mechanism if self.protocol.published_colluders else None,
            self.protocol.seed_of(run),
        )

    def instances(self, run: int, k: int, person: int | None = None) -> tuple[Instance, ...]:
        """Whom to attack in one run, the same for every contender."""
        setup = self.setup(run)
        if not 1 <= k <= len(self.true_m):
            raise UsageError(f"k must lie between 1 and the number of people, {len(self.true_m):,}")
        rng = np.random.default_rng([self.protocol.seed_of(run), k])
        if person is None:
            drawn = draw_instances(setup.open(), self.true_m, k=k, count=self.protocol.instances, rng=rng)
        else:
            drawn = instances_of_person(
                setup.open(), setup.served_m, person, k=k, count=self.protocol.instances, rng=rng
            )
        return tuple(drawn)

    def run(
        self,
        contenders: Sequence[Contender],
        ks: Sequence[int],
        *,
        person: int | None = None,
        cores: int,
        progress: Progress | None = None,
    ) -> list[AttackRow]:
        """Attack, and return a row for each k and contender."""
        runs = range(self.protocol.runs)
        setups = [self.setup(run) for run in runs]
        targets = {(run, k): self.instances(run, k, person) for k in ks for run in runs}
        cells = [(k, contender) for k in ks for contender in contenders]
        trials = [Trial(setups[run], contender, k, targets[run, k]) for k, contender in cells for run in runs]
        results = run_trials(trials, cores=cores, progress=progress)
        attempts = [self._compare(trial, found) for trial, found in zip(trials, results, strict=True)]
        edges = range(0, len(attempts) + 1, self.protocol.runs)
        return [
            self.row(k, contender, attempts[first:last])
            for (k, contender), (first, last) in zip(cells, pairwise(edges), strict=True)
        ]

    def attempts(self, run: int, contender: Contender, k: int) -> list[Attempt]:
        """Attack in one run, in this process."""
        trial = Trial(self.setup(run), contender, k, self.instances(run, k))
        return self._compare(trial, trial.run())

    def row(self, k: int, contender: Contender, attempts: Sequence[Sequence[Attempt]]) -> AttackRow:
        """Return the row of one contender from its attempts, run by run."""
        return AttackRow(
            attack=contender.attack.name,
            dataset=self.dataset.name,
            k=k,
            colluders=contender.colluders,
            protected=self.mechanism is not None,
            published_colluders=self.protocol.published_colluders,
            score=score_attempts(
                attempts,
                tau_m=self.protocol.tau_m,
                colluders=contender.colluders,
                farthest_m=self.dataset.region.radius_m,
            ),
        )

    def _compare(self, trial: Trial, results: Sequence[AttackResult]) -> list[Attempt]:
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
