"""The best attacker's error, many times faster where noise is confined to the target's own interval.

There the published place discloses the interval, so people of other intervals are not candidates. The attacker gets
targets a few at a time and only the people who share an interval with one of them: the guesses are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, Prior, prior_from_points
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, score_attacker
from nearveil.evaluation.cells import TAU_M, Publication, best_guess_of, naming_of
from nearveil.evaluation.defences import Defence, stated_loss
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.evaluation.utility import draw_queries, measure_utility
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Learned, Mechanism
from nearveil.types import BoolArray, IntArray

_TARGETS_AT_ONCE = 8


def guess(publication: Publication, targets: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the best attacker's mean error in metres and its Acc at 100 m, as `best_guess_of` does."""
    mechanism = publication.mechanism
    places = publication.dataset.places
    own = mechanism.groups(places)
    if own is None:
        found = best_guess_of(publication, targets, rng)
        return float(found["attacker error_m"]), float(found["attacker acc"])
    rows = rng.choice(len(places), size=min(targets, len(places)), replace=False)
    prior = prior_from_points(places, mechanism.resolved_region, spread_m=0.0)
    errors_m, accuracies, sizes = [], [], []
    for part in _parts(rows, own):
        attacker = BayesAttacker(
            mechanism=mechanism, prior=_only(prior, np.isin(own, own[part])), tau_m=TAU_M
        )  # fmt: skip
        score = score_attacker(attacker, places, publication.places, targets=part, leave_out=False)
        errors_m.append(score.median.error_m.value)
        accuracies.append(score.best_disc.accuracy.value)
        sizes.append(len(part))
    return float(np.average(errors_m, weights=sizes)), float(np.average(accuracies, weights=sizes))


def _parts(rows: IntArray, own: IntArray) -> list[IntArray]:
    """Targets a few at a time, those of one interval together; never one alone, which has no standard error."""
    ordered = rows[np.argsort(own[rows], kind="stable")]
    return np.array_split(ordered, max(1, len(ordered) // _TARGETS_AT_ONCE))


def _only(prior: Prior, people: BoolArray) -> Prior:
    """The same weights for some of the people, and none of the others."""
    kept = people[prior.people]
    return replace(prior, places_m=prior.places_m[kept], weights=prior.weights[kept], people=prior.people[kept])


# One defence on one population: what users get, and what the best attacker gets.


_QUERY_STREAM, _TARGET_STREAM, _NAMING_STREAM = 1, 2, 3
_MORE = 2


@dataclass(frozen=True, slots=True)
class Point:
    """A defence, measured.

    Attributes
    ----------
    recall, ratio : Mean
        Recall and distance ratio at the k asked for, asked from where people are.
    error_m : Mean
        The best attacker's mean error.
    acc : Share
        The share of people whom it finds within 100 m.
    seeds : tuple of int
        Of its runs.
    named, named_sparsest : Share, optional
        Shares of people, and of the sparsest tenth, whose address is its first guess; None where not measured.
    loss : str
        What the people of the file lose, in a few words.
    """

    defence: Defence
    recall: Mean
    ratio: Mean
    error_m: Mean
    acc: Share
    seeds: tuple[int, ...]
    named: Share | None = None
    named_sparsest: Share | None = None
    loss: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many queries are asked, how many people the attacker guesses, and how many it names, in one run.

    Where naming is fast, 2,000 people are named if any.
    """

    queries: int
    targets: int
    named: int = 0

    def targets_for(self, defence: Defence, people: int) -> int:
        """More for all but the release metric, whose attacker takes several times as long for each."""
        return min(people, self.targets if defence.release == "metric" else _MORE * self.targets)

    def named_for(self, defence: Defence) -> int:
        """How many people are named."""
        return max(self.named, NAMING_TARGETS) if self.named and defence.entry.named_fast else self.named


class Bench:
    """Measures defences on one population with one seed; what several of them learn alike is fitted once.

    One seed for all: they meet the same people, the same queries and the same noise, so that they differ by what they
    do and not by luck.
    """

    def __init__(self, dataset: Dataset, k: int, seed: int) -> None:
        self._dataset = dataset
        self._k = k
        self._seed = seed
        self._true_m = dataset.region.to_metres(dataset.places)
        self._fits: dict[tuple[object, ...], Learned | None] = {}

    def measure(self, defence: Defence, sizes: Sizes) -> Point:
        """Protect everybody once, ask, and guess."""
        mechanism = self._fitted(defence)
        places = mechanism.perturb(self._dataset.places)
        queries = draw_queries(self._true_m, self._dataset.region, "users", sizes.queries, self._rng(_QUERY_STREAM))
        utility = measure_utility(self._true_m, self._dataset.region.to_metres(places), queries, k=self._k)
        targets = sizes.targets_for(defence, len(places))
        publication = Publication(self._dataset, mechanism, places)
        error_m, acc = guess(publication, targets, self._rng(_TARGET_STREAM))
        return Point(
            defence,
            Mean(utility.recall, None),
            Mean(utility.distance_ratio, None),
            Mean(error_m, None),
            share_over_runs([round(acc * targets)], targets),
            (self._seed,),
            *self._named(publication, sizes.named_for(defence)),
            loss=_loss(defence, mechanism),
        )

    def _named(self, publication: Publication, people: int) -> tuple[Share | None, Share | None]:
        if not people:
            return None, None
        found = naming_of(publication, people, self._rng(_NAMING_STREAM))
        named, sparsest = (
            share_over_runs([found[name] * found[f"{name} targets"]], found[f"{name} targets"])
            for name in ("named", "named sparsest")
        )
        return named, sparsest

    def _fitted(self, defence: Defence) -> Mechanism:
        mechanism = defence.build(self._dataset.region, self._seed)
        if not mechanism.is_to_be_fitted:
            return mechanism
        key = type(mechanism), mechanism.fit_settings
        if key not in self._fits:
            self._fits[key] = mechanism.fitted_on(self._dataset.places).learned
        return mechanism.with_params(**{str(mechanism.learns): self._fits[key]})

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, stream])


def _loss(defence: Defence, mechanism: Mechanism) -> str:
    """What the people of the file lose; that of hide-among depends on the cells."""
    if not mechanism.cost_follows_fit:
        return defence.loss
    card = mechanism.guarantee
    together = next((one for one in card.also if one.offset), card)
    return stated_loss(together)


def measure_runs(dataset: Dataset, k: int, defence: Defence, seeds: Sequence[int], sizes: Sizes) -> Point:
    """Measure a defence once with each seed, fitting anew: means with 95 % intervals over runs."""
    targets = sizes.targets_for(defence, len(dataset.places))
    people = min(sizes.named_for(defence), len(dataset.places))
    runs = [Bench(dataset, k, seed).measure(defence, sizes) for seed in seeds]
    return Point(
        defence,
        mean_over_runs([run.recall.value for run in runs]),
        mean_over_runs([run.ratio.value for run in runs]),
        mean_over_runs([run.error_m.value for run in runs]),
        share_over_runs([round(run.acc.value * targets) for run in runs], targets),
        tuple(seeds),
        named=_pooled([run.named for run in runs], people),
        named_sparsest=_pooled([run.named_sparsest for run in runs], -(-people // TENTHS)),
        loss=runs[0].loss,
    )


def _pooled(shares: Sequence[Share | None], cases: int) -> Share | None:
    known = [share.value * cases for share in shares if share is not None]
    return share_over_runs(known, cases) if known and cases else None
