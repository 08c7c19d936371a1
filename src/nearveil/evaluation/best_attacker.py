"""The Bayes attacker beside the others: the best guess from what is published, which a defender should quote.

It knows the mechanism and every address, but not who lives where. It guesses a place, which has an error, and an
address, by which it names people; both are told apart by how dense it is where people live. It looks at one person
alone, or matches everybody at once; and it may know where some of the people live, whose addresses are then taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from nearveil.attacks.bayes import TARGETS_AT_ONCE, BayesAttacker, prior_from_points
from nearveil.attacks.channels import channel_of
from nearveil.attacks.matching import match_everybody
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths, named_by, score_naming
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment
from nearveil.evaluation.stats import Mean, Share, share_over_runs
from nearveil.evaluation.workers import map_in_processes
from nearveil.mechanisms.base import Mechanism
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
    experiment: AttackExperiment,
    progress: Progress | None = None,
    *,
    targets: int = TARGETS,
    joint: bool = False,
    known_share: float = 0.0,
    cores: int = 1,
) -> BestAttacker | None:
    """Let the Bayes attacker guess from the published places of the first run; None where nothing protects.

    Its list of addresses is the population itself, the target's place among them: the strongest prior there is. It
    needs no list from the service and no accounts, so it is the same for every k.

    Parameters
    ----------
    joint : bool
        Whether everybody is matched at once, each at one address. The targets are the same.
    known_share : float
        Share of the people whose addresses the attacker knows, so that nobody else lives there. The targets are
        others; where these are fewer than ``targets``, it is repeated with other people known.
    """
    check_known_share(known_share, len(experiment.true_m))
    published = experiment.published(0)
    if published.mechanism is None or len(experiment.true_m) < _LEAST_IN_TENTH:
        return None
    if not channel_of(published.mechanism).prepares_fast:
        targets = min(targets, _SAMPLED_TARGETS)
    rng, places = np.random.default_rng(experiment.protocol.seed), experiment.dataset.places
    groups = _groups(len(places), known_share, min(targets, len(places)), rng)
    attacker = _Attacker(published.mechanism, places, published.served, experiment.protocol.tau_m)
    guesses = attacker.match(groups, progress) if joint else attacker.guess(groups, cores, progress)
    whole = guesses.score()
    return BestAttacker(whole.dist_m, whole.found, whole.named, whole.targets, scores_by_tenth(guesses))


def check_known_share(share: float, people: int | None = None) -> None:
    """Refuse a share of known people that leaves nobody to attack."""
    if not 0 <= share < 1:
        raise UsageError("the share of people who are known must be at least 0 and less than 1, such as 0.9")
    if people is not None and share and _unknown(people, share) < _LEAST_IN_TENTH:
        raise UsageError(
            f"with a share of {share:g} of {people:,} people known, fewer than two are left to attack; lower the share"
        )


def _unknown(people: int, share: float) -> int:
    return people - round(share * people)


def _groups(people: int, known_share: float, targets: int, rng: np.random.Generator) -> list[_Group]:
    """Draw whom the attacker does not know, in groups that make up the targets; in each it knows all others."""
    if not known_share:
        return [_Group(np.arange(people), rng.choice(people, size=targets, replace=False))]
    order, size = rng.permutation(people), _unknown(people, known_share)
    groups = []
    for start in range(0, targets, size):
        # The last group is as large as the others.
        unknown = order[start : start + size] if start + size <= people else order[-size:]
        groups.append(_Group(np.sort(unknown), order[start : min(start + size, targets)]))
    return groups


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
    attacker = _Attacker(mechanism, places, published, tau_m)
    return attacker.guess([_Group(np.arange(len(places)), targets)], cores, progress)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """People whom the attacker does not know, as sorted rows, and whom of them it guesses; the others it knows."""

    unknown: IntArray
    targets: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Attacker:
    """Who knows the mechanism and all addresses, has what was published, and may know where some people live."""

    mechanism: Mechanism
    places: FloatArray
    published: FloatArray
    tau_m: float

    def guess(self, groups: list[_Group], cores: int, progress: Progress | None) -> Guesses:
        """Guess each target alone."""
        work = [
            _Work(self.mechanism, self.places[group.unknown], self.published[targets], self.tau_m)
            for group in groups
            for targets in _parts(group.targets, _AT_ONCE)
        ]
        found = [np.empty((0, 2, 2))] * len(work)
        for index, guesses_m in map_in_processes(_Work.do, work, cores=cores):
            found[index] = guesses_m
            if progress:
                progress(len(guesses_m))
        named = [
            score_naming(
                self.mechanism,
                self.places[group.unknown],
                self.published[group.unknown],
                targets=np.searchsorted(group.unknown, group.targets),
            ).probabilities
            for group in groups
        ]
        return self._beside_truth(groups, np.concatenate(found), np.concatenate(named))

    def match(self, groups: list[_Group], progress: Progress | None) -> Guesses:
        """Match everybody to addresses at once, and guess the targets by that."""
        found, named = [], []
        for group in groups:
            matching = match_everybody(self.mechanism, self.places[group.unknown], self.published[group.unknown])
            for targets in _parts(np.searchsorted(group.unknown, group.targets), TARGETS_AT_ONCE):
                logs = matching.log_likelihoods(targets)
                named.append(named_by(matching.book, logs, matching.book.lives_at[targets]))
                middle_m = self.mechanism.resolved_region.to_metres(matching.published[targets])
                guesses = [matching.guess(*one, self.tau_m) for one in zip(logs, middle_m, strict=True)]
                found.append(np.array([(guess.median, guess.best_disc) for guess in guesses]))
                if progress:
                    progress(len(targets))
        return self._beside_truth(groups, np.concatenate(found), np.concatenate(named))

    def _beside_truth(self, groups: list[_Group], guesses_m: FloatArray, named: FloatArray) -> Guesses:
        targets = np.concatenate([group.targets for group in groups])
        true_m = self.mechanism.resolved_region.to_metres(self.places)
        errors_m, disc_errors_m = (np.hypot(*(guesses_m[:, kind] - true_m[targets]).T) for kind in range(2))
        return Guesses(errors_m, disc_errors_m <= self.tau_m, named, density_tenths(true_m)[targets])


def _parts(rows: IntArray, size: int) -> list[IntArray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What one process does: some targets."""

    mechanism: Mechanism
    places: FloatArray
    published: FloatArray
    tau_m: float

    def do(self) -> FloatArray:
        """Return two guesses of each target: the best for the mean error, and the best for the share within tau."""
        prior = prior_from_points(self.places, self.mechanism.resolved_region, spread_m=0.0)
        attacker = BayesAttacker(mechanism=self.mechanism, prior=prior, tau_m=self.tau_m)
        return np.array([(guess.median, guess.best_disc) for guess in attacker.estimate_many(self.published)])
