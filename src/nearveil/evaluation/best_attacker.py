"""The Bayes attacker beside the others: the best guess from what is published, which a defender should quote.

It knows the mechanism and every address, but not who lives where. It guesses a location, which has an error, and an
address, by which it names users; both are told apart by how dense it is where users live. It looks at one user alone,
or matches everybody at once; and it may know where some of the users live, whose addresses are then taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearveil.attacks.bayes import TARGETS_AT_ONCE, BayesAttacker, prior_from_points
from nearveil.attacks.channels import channel_of
from nearveil.attacks.matching import match_everybody
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths, named_by, score_naming
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
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
        count = int(chosen.sum())
        found, named = (share_over_runs([float(each[chosen].sum())], count) for each in (self.found, self.named))
        return AttackerScore(mean_over_runs(self.errors_m[chosen].tolist()), found, named, count)


def scores_by_tenth(guesses: Guesses) -> tuple[AttackerScore, ...]:
    """Return the score of each tenth of density, the densest first; none where a tenth has too few users."""
    if np.bincount(guesses.tenths, minlength=TENTHS).min() < _LEAST_IN_TENTH:
        return ()
    return tuple(guesses.score(tenth) for tenth in range(TENTHS))


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
    rng = np.random.default_rng(experiment.protocol.seed)
    attacker = _Attacker(service.mechanism, places, service.places, experiment.protocol.tau_m)
    groups = _groups(len(places), known_share, min(targets, len(places)), rng)
    guesses = attacker.match(groups, progress) if joint else attacker.guess(groups, cores, progress)
    whole = guesses.score()
    return BestAttacker(whole.dist_m, whole.found, whole.named, whole.targets, scores_by_tenth(guesses))


def guess_people(
    mechanism: Mechanism, places: FloatArray, published: FloatArray, targets: IntArray, *, tau_m: float,
    cores: int = 1, progress: Progress | None = None,
) -> Guesses:  # fmt: skip
    """Let the attacker guess the locations and the addresses of some of the users whose true locations are known."""
    attacker = _Attacker(mechanism, places, published, tau_m)
    return attacker.guess([(np.arange(len(places)), targets)], cores, progress)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Attacker:
    """Who knows the mechanism and all addresses, has what was published, and may know where some users live."""

    mechanism: Mechanism
    places: FloatArray
    published: FloatArray
    tau_m: float

    def guess(self, groups: list[_Group], cores: int, progress: Progress | None) -> Guesses:
        """Guess each target alone."""
        work = [
            (self.mechanism, self.places[unknown], self.published[targets], self.tau_m)
            for unknown, group in groups
            for targets in _parts(group, _AT_ONCE)
        ]
        found = []
        for guesses_m in in_parallel(_guess, work, cores=cores):
            found.append(guesses_m)
            if progress:
                progress(len(guesses_m))
        named = []
        for unknown, targets in groups:
            places, published, rows = self.places[unknown], self.published[unknown], np.searchsorted(unknown, targets)
            named.append(score_naming(self.mechanism, places, published, targets=rows).probabilities)
        return self._beside_truth(groups, found, named)

    def match(self, groups: list[_Group], progress: Progress | None) -> Guesses:
        """Match everybody to addresses at once, and guess the targets by that."""
        found, named = [], []
        for unknown, group in groups:
            matching = match_everybody(self.mechanism, self.places[unknown], self.published[unknown])
            for targets in _parts(np.searchsorted(unknown, group), TARGETS_AT_ONCE):
                logs = matching.log_likelihoods(targets)
                named.append(named_by(matching.book, logs, matching.book.lives_at[targets]))
                middle_m = self.mechanism.resolved_region.to_metres(matching.published[targets])
                guesses = [matching.guess(*one, self.tau_m) for one in zip(logs, middle_m, strict=True)]
                found.append(np.array([(guess.median, guess.best_disc) for guess in guesses]))
                if progress:
                    progress(len(targets))
        return self._beside_truth(groups, found, named)

    def _beside_truth(self, groups: list[_Group], found: list[FloatArray], named: list[FloatArray]) -> Guesses:
        targets, guesses_m = np.concatenate([group for _, group in groups]), np.concatenate(found)
        true_m = self.mechanism.resolved_region.to_metres(self.places)
        errors_m, disc_errors_m = (np.hypot(*(guesses_m[:, kind] - true_m[targets]).T) for kind in range(2))
        return Guesses(errors_m, disc_errors_m <= self.tau_m, np.concatenate(named), density_tenths(true_m)[targets])


def _guess(work: tuple[Mechanism, FloatArray, FloatArray, float]) -> FloatArray:
    """Return two guesses of each target: the best for the mean error, and the best for the share within tau."""
    mechanism, places, published, tau_m = work
    prior = prior_from_points(places, mechanism.resolved_region, spread_m=0.0)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior, tau_m=tau_m)
    return np.array([(guess.median, guess.best_disc) for guess in attacker.estimate_many(published)])
