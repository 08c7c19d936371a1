"""The Bayes attacker beside the others: the best guess from one published place, which a defender should quote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, prior_from_points, score_attacker
from nearveil.evaluation.attack_experiment import AttackExperiment, Share, share_over_runs
from nearveil.types import Progress

TARGETS = 200


@dataclass(frozen=True, slots=True)
class BestAttacker:
    """Mean error and share within tau of one who knows the mechanism and every address, but not who lives where."""

    dist_m: float
    found: Share
    targets: int

    @property
    def acc(self) -> float:
        """The share alone."""
        return self.found.value


def measure_best_attacker(experiment: AttackExperiment, progress: Progress | None = None) -> BestAttacker | None:
    """Let the Bayes attacker guess from the published places of the first run; None where nothing protects.

    Its list of addresses is the population itself, the target's place among them: the strongest prior there is. It
    needs no list from the service and no accounts, so it is the same for every k.
    """
    published = experiment.published(0)
    if published.mechanism is None:
        return None
    dataset = experiment.dataset
    attacker = BayesAttacker(
        mechanism=published.mechanism,
        prior=prior_from_points(dataset.places, dataset.region, spread_m=0.0),
        tau_m=experiment.protocol.tau_m,
    )
    rng = np.random.default_rng(experiment.protocol.seed)
    count = min(TARGETS, len(dataset.places))
    targets = rng.choice(len(dataset.places), size=count, replace=False)
    if count < 2:
        return None
    score = score_attacker(
        attacker, dataset.places, published.served, targets=targets, leave_out=False, progress=progress
    )
    found = share_over_runs([round(score.best_disc.accuracy.value * count)], count)
    return BestAttacker(score.median.error_m.value, found, count)
