"""The Bayes attacker beside the others: the best guess from what is published, which a defender should quote.

It knows the mechanism and every address, but not who lives where. It guesses a location, which has an error, and an
address, by which it names users; both are told apart by how dense it is where users live. It looks at one user alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearveil.attacks.channels import channel_of
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths
from nearveil.evaluation.attack_experiment import AttackExperiment
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.evaluation.tradeoff import chances_to_be_named, guesses
from nearveil.mechanisms.base import Mechanism
from nearveil.types import BoolArray, FloatArray, IntArray, ProgressBar, no_bar

# Without a density the attacker samples the mechanism, which takes long.
_SAMPLED_TARGETS = 200
_AT_ONCE = 125
_LEAST_IN_TENTH = 2


@dataclass(frozen=True, slots=True)
class BestAttacker:
    """How the attacker did on its targets, with 95 % intervals over them.

    ``found`` is the share within tau, and ``named`` of those whose address is its first guess, ties shared evenly;
    ``named_sparsest`` the same of the tenth of users who live where users are sparsest, None where users are few.
    """

    dist_m: Mean
    found: Share
    named: Share
    named_sparsest: Share | None
    targets: int


def measure_best_attacker(
    experiment: AttackExperiment, progress: ProgressBar = no_bar, *, targets: int = NAMING_TARGETS, cores: int = 1
) -> BestAttacker | None:
    """Let the Bayes attacker guess from the published locations of the first run; None where nothing protects.

    Its list of addresses is the population itself, the target's location among them: the strongest prior there is. It
    needs no list from the service and no accounts, so it is the same for every k.
    """
    places, service = experiment.dataset.places, experiment.service(0)
    if service.mechanism is None or len(places) < _LEAST_IN_TENTH:
        return None
    if not channel_of(service.mechanism).prepares_fast:
        targets = min(targets, _SAMPLED_TARGETS)
    rng, tau_m = np.random.default_rng(experiment.protocol.seed), experiment.protocol.tau_m
    rows = rng.choice(len(places), size=min(targets, len(places)), replace=False)
    starts = range(0, len(rows), _AT_ONCE)
    work = [(service.mechanism, places, service.places, rows[at : at + _AT_ONCE], tau_m) for at in starts]
    with progress(f"the best attacker on {experiment.dataset.name}", len(work)) as advance:
        parts = list(in_parallel(_guess, work, cores=cores, progress=advance))
    errors_m, near, named = (np.concatenate(column) for column in zip(*parts, strict=True))
    sparsest = density_tenths(experiment.true_m)[rows] == TENTHS - 1

    def share(hits: FloatArray) -> Share:
        return share_over_runs([float(hits.sum())], len(hits))

    enough = sparsest.sum() >= _LEAST_IN_TENTH
    return BestAttacker(
        mean_over_runs(errors_m.tolist()),
        share(near),
        share(named),
        share(named[sparsest]) if enough else None,
        len(rows),
    )


def _guess(
    work: tuple[Mechanism, FloatArray, FloatArray, IntArray, float],
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return each target's error, whether it is within tau, and how likely the first guess of an address is right."""
    mechanism, places, published, targets, tau_m = work
    errors_m, found = guesses(mechanism, places, published, targets, tau_m=tau_m)
    return errors_m, found, chances_to_be_named(mechanism, places, published, targets)
