"""The Bayes attacker beside the others: the best guess from one published place, which a defender should quote.

It knows the mechanism and every address, but not who lives where. It guesses a place, which has an error, and an
address, by which it names people; both are told apart by how dense it is where people live.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from nearveil.attacks.bayes import BayesAttacker, prior_from_points
from nearveil.attacks.channels import channel_of
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, score_naming
from nearveil.evaluation.attack_experiment import AttackExperiment, Mean, Share, share_over_runs
from nearveil.evaluation.workers import map_in_processes
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

TARGETS = NAMING_TARGETS
"""How many people are guessed, where there are as many."""

# Without a density the attacker samples the mechanism, which takes long.
_SAMPLED_TARGETS = 200
_AT_ONCE = 125
_LEAST_IN_TENTH = 2


@dataclass(frozen=True, slots=True)
class AttackerScore:
    """How the attacker did on some people.

    Attributes
    ----------
    dist_m : Mean
        Mean error of its best guess of a place, with a 95 % interval over people.
    found, named : Share
        Shares of people within tau, and of those whose address is its first guess, ties shared evenly.
    """

    dist_m: Mean
    found: Share
    named: Share
    targets: int


@dataclass(frozen=True, slots=True)
class BestAttacker(AttackerScore):
    """How the attacker did on everybody, and on each tenth of density, the densest first; none where people are few."""

    tenths: tuple[AttackerScore, ...] = ()

    @property
    def acc(self) -> float:
        """The share within tau alone."""
        return self.found.value

    @property
    def named_sparsest(self) -> Share | None:
        """The share of the sparsest tenth that is named."""
        return self.tenths[-1].named if self.tenths else None


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """The attacker's guesses beside the truth, target by target."""

    errors_m: FloatArray
    found: BoolArray
    named: FloatArray
    tenths: IntArray

    def score(self, tenth: int | None = None) -> AttackerScore:
        """Put them together: all, or those of one tenth of density."""
        chosen = np.full(len(self.tenths), True) if tenth is None else self.tenths == tenth
        errors_m, count = self.errors_m[chosen], int(chosen.sum())
        spread_m = float(errors_m.std(ddof=1)) / math.sqrt(count)
        return AttackerScore(
            Mean(float(errors_m.mean()), float(stats.t.ppf(0.975, count - 1)) * spread_m),
            share_over_runs([int(self.found[chosen].sum())], count),
            share_over_runs([float(self.named[chosen].sum())], count),
            count,
        )


def measure_best_attacker(
    experiment: AttackExperiment, progress: Progress | None = None, *, targets: int = TARGETS, cores: int = 1
) -> BestAttacker | None:
    """Let the Bayes attacker guess from the published places of the first run; None where nothing protects.

    Its list of addresses is the population itself, the target's place among them: the strongest prior there is. It
    needs no list from the service and no accounts, so it is the same for every k.
    """
    published = experiment.published(0)
    if published.mechanism is None or len(experiment.true_m) < _LEAST_IN_TENTH:
        return None
    if not channel_of(published.mechanism).prepares_fast:
        targets = min(targets, _SAMPLED_TARGETS)
    rng, people = np.random.default_rng(experiment.protocol.seed), len(experiment.true_m)
    rows = rng.choice(people, size=min(targets, people), replace=False)
    guesses = guess_people(
        published.mechanism,
        experiment.dataset.places,
        published.served,
        rows,
        tau_m=experiment.protocol.tau_m,
        cores=cores,
        progress=progress,
    )
    whole = guesses.score()
    return BestAttacker(whole.dist_m, whole.found, whole.named, whole.targets, scores_by_tenth(guesses))


def scores_by_tenth(guesses: Guesses) -> tuple[AttackerScore, ...]:
    """Return the score of each tenth of density, the densest first; none where a tenth has too few people."""
    if np.bincount(guesses.tenths, minlength=TENTHS).min() < _LEAST_IN_TENTH:
        return ()
    return tuple(guesses.score(tenth) for tenth in range(TENTHS))


def guess_people(
    mechanism: Mechanism,
    places: FloatArray,
    published: FloatArray,
    targets: IntArray,
    *,
    tau_m: float,
    cores: int = 1,
    progress: Progress | None = None,
) -> Guesses:
    """Let the attacker guess the places and the addresses of some of the people whose true places are known."""
    region = mechanism.resolved_region
    parts = [targets[start : start + _AT_ONCE] for start in range(0, len(targets), _AT_ONCE)]
    work = [_Work(mechanism, region, places, published[part], tau_m) for part in parts]
    medians, discs = [np.empty((0, 2))] * len(parts), [np.empty((0, 2))] * len(parts)
    for index, (median_m, disc_m) in map_in_processes(_Work.do, work, cores=cores):
        medians[index], discs[index] = median_m, disc_m
        if progress:
            progress(len(parts[index]))
    true_m = region.to_metres(places[targets])
    errors_m, disc_errors_m = (np.hypot(*(np.vstack(guess) - true_m).T) for guess in (medians, discs))
    naming = score_naming(mechanism, places, published, targets=targets)
    return Guesses(errors_m, disc_errors_m <= tau_m, naming.probabilities, naming.tenths)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What one process does: some targets."""

    mechanism: Mechanism
    region: Region
    places: FloatArray
    published: FloatArray
    tau_m: float

    def do(self) -> tuple[FloatArray, FloatArray]:
        """Return the best guess of each target for the mean error, and that for the share within tau."""
        prior = prior_from_points(self.places, self.region, spread_m=0.0)
        attacker = BayesAttacker(mechanism=self.mechanism, prior=prior, tau_m=self.tau_m)
        guesses = attacker.estimate_many(self.published)
        return np.array([guess.median for guess in guesses]), np.array([guess.best_disc for guess in guesses])
