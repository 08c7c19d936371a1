"""The Bayes attacker beside the others: the best guess from what is published, which a defender should quote.

It knows the mechanism and every address, but not who lives where. It guesses a location, which has an error, and an
address, by which it names users; both are told apart by how dense it is where users live. It looks at one user alone,
or matches everybody at once; and it may know where some of the users live, whose addresses are then taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearveil.attacks.bayes import TARGETS_AT_ONCE
from nearveil.attacks.channels import channel_of
from nearveil.attacks.matching import match_everybody
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths, named_by
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.evaluation.tradeoff import chances_to_be_named, guesses
from nearveil.mechanisms.base import Mechanism
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

TARGETS = NAMING_TARGETS
"""How many users are guessed, where there are as many."""

# Without a density the attacker samples the mechanism, which takes long.
_SAMPLED_TARGETS = 200
_AT_ONCE = 125
_LEAST_IN_TENTH = 2


@dataclass(frozen=True, slots=True)
class AttackerScore:
    """How the attacker did on some users, with 95 % intervals over them.

    ``found`` is the share within tau, and ``named`` of those whose address is its first guess, ties shared evenly.
    """

    dist_m: Mean
    found: Share
    named: Share
    targets: int


@dataclass(frozen=True, slots=True)
class BestAttacker(AttackerScore):
    """How the attacker did on everybody, and on each tenth of density, the densest first; none where users are few."""

    tenths: tuple[AttackerScore, ...] = ()

    @property
    def acc(self) -> float:
        """The share within tau alone."""
        return self.found.value

    @property
    def named_sparsest(self) -> Share | None:
        """The share of the sparsest tenth that is named."""
        return self.tenths[-1].named if self.tenths else None


def check_known_share(share: float, people: int | None = None) -> None:
    """Refuse a share of known users that leaves nobody to attack."""
    if not 0 <= share < 1:
        raise UsageError("the share of people who are known must be at least 0 and less than 1, such as 0.9")
    if people is not None and share and people - round(share * people) < _LEAST_IN_TENTH:
        raise UsageError(
            f"with a share of {share:g} of {people:,} people known, fewer than two are left to attack; lower the share"
        )


def measure_best_attacker(
    experiment: AttackExperiment, progress: Progress | None = None, *, targets: int = TARGETS, joint: bool = False,
    known_share: float = 0.0, cores: int = 1,
) -> BestAttacker | None:  # fmt: skip
    """Let the Bayes attacker guess from the published locations of the first run; None where nothing protects.

    Its list of addresses is the population itself, the target's location among them: the strongest prior there is. It
    needs no list from the service and no accounts, so it is the same for every k.

    Parameters
    ----------
    joint : bool
        Whether everybody is matched at once, each at one address. The targets are the same.
    known_share : float
        Share of the users whose addresses the attacker knows, so that nobody else lives there. The targets are
        others; where these are fewer than ``targets``, it is repeated with other users known.
    """
    places, service = experiment.dataset.places, experiment.service(0)
    check_known_share(known_share, len(places))
    if service.mechanism is None or len(places) < _LEAST_IN_TENTH:
        return None
    if not channel_of(service.mechanism).prepares_fast:
        targets = min(targets, _SAMPLED_TARGETS)
    rng, tau_m = np.random.default_rng(experiment.protocol.seed), experiment.protocol.tau_m
    groups = _groups(len(places), known_share, min(targets, len(places)), rng)
    work = [
        (service.mechanism, places[unknown], service.places[unknown], part, tau_m)
        for unknown, group in groups
        for part in _parts(np.searchsorted(unknown, group), len(group) if joint else _AT_ONCE)
    ]
    parts = []
    # Matching everybody takes all the memory that there is; one core does it.
    for answer in in_parallel(_match if joint else _guess, work, cores=1 if joint else cores):
        parts.append(answer)
        if progress:
            progress(len(answer[0]))
    errors_m, near, named = (np.concatenate(column) for column in zip(*parts, strict=True))
    tenths = density_tenths(experiment.true_m)[np.concatenate([group for _, group in groups])]

    def score(chosen: BoolArray) -> AttackerScore:
        count = int(chosen.sum())
        found, first = (share_over_runs([float(each[chosen].sum())], count) for each in (near, named))
        return AttackerScore(mean_over_runs(errors_m[chosen].tolist()), found, first, count)

    enough = np.bincount(tenths, minlength=TENTHS).min() >= _LEAST_IN_TENTH
    by_tenth = tuple(score(tenths == tenth) for tenth in range(TENTHS)) if enough else ()
    whole = score(tenths >= 0)
    return BestAttacker(whole.dist_m, whole.found, whole.named, whole.targets, by_tenth)


_Group = tuple[IntArray, IntArray]
"""Users whom the attacker does not know, as sorted rows, and whom of them it guesses; the others it knows."""


def _groups(people: int, known_share: float, targets: int, rng: np.random.Generator) -> list[_Group]:
    """Draw groups that make up the targets."""
    if not known_share:
        return [(np.arange(people), rng.choice(people, size=targets, replace=False))]
    order, size = rng.permutation(people), people - round(known_share * people)
    # The last group is as large as the others.
    unknown = [order[min(start, people - size) :][:size] for start in range(0, targets, size)]
    return [(np.sort(rows), order[:targets][at * size : (at + 1) * size]) for at, rows in enumerate(unknown)]


def _parts(rows: IntArray, size: int) -> list[IntArray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


_Work = tuple[Mechanism, FloatArray, FloatArray, IntArray, float]
"""Mechanism, locations and what is published of all who may live there, rows of the targets, and tau."""
_Guesses = tuple[FloatArray, BoolArray, FloatArray]
"""Error of each target, whether it is within tau, and how likely the first guess of an address is right."""


def _guess(work: _Work) -> _Guesses:
    """Guess each target alone."""
    mechanism, places, published, targets, tau_m = work
    errors_m, found = guesses(mechanism, places, published, targets, tau_m=tau_m)
    return errors_m, found, chances_to_be_named(mechanism, places, published, targets)


def _match(work: _Work) -> _Guesses:
    """Match everybody to addresses at once, and guess the targets by that."""
    mechanism, places, published, rows, tau_m = work
    region, found, named = mechanism.resolved_region, list[FloatArray](), list[FloatArray]()
    matching = match_everybody(mechanism, places, published)
    for targets in _parts(rows, TARGETS_AT_ONCE):
        logs = matching.log_likelihoods(targets)
        named.append(named_by(matching.book, logs, matching.book.lives_at[targets]))
        middle_m = region.to_metres(matching.published[targets])
        points = [matching.guess(*one, tau_m) for one in zip(logs, middle_m, strict=True)]
        found.append(np.array([(point.median, point.best_disc) for point in points]))
    gaps_m = np.concatenate(found) - region.to_metres(places)[rows][:, None]
    errors_m, disc_errors_m = np.hypot(*gaps_m.transpose(2, 1, 0))
    return errors_m, disc_errors_m <= tau_m, np.concatenate(named)
