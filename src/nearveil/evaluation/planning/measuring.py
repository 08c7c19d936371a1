"""One defence on one population: what users get, and what the best attacker gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.evaluation.attack_score import Mean, Share, mean_over_runs, share_over_runs
from nearveil.evaluation.cells.publication import Publication
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.planning.guessing import guess
from nearveil.evaluation.utility import draw_queries, measure_utility
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals

_QUERY_STREAM, _TARGET_STREAM = 1, 2
_MORE = 2


@dataclass(frozen=True, slots=True)
class Point:
    """A defence, measured.

    Attributes
    ----------
    recall, ratio : Mean
        Recall and distance ratio at the k wished for, asked from where people are.
    error_m : Mean
        The best attacker's mean error.
    acc : Share
        The share of people whom it finds within 100 m.
    seeds : tuple of int
        Of its runs.
    """

    defence: Defence
    recall: Mean
    ratio: Mean
    error_m: Mean
    acc: Share
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many queries are asked, and how many people the attacker guesses, in one run."""

    queries: int
    targets: int

    def targets_for(self, defence: Defence, people: int) -> int:
        """More for all but the release metric, whose attacker takes several times as long for each."""
        return min(people, self.targets if defence.release == "metric" else _MORE * self.targets)


class Bench:
    """Measures defences on one population with one seed; intervals that several of them use are fitted once.

    One seed for all: they meet the same people, the same queries and the same noise, so that they differ by what they
    do and not by luck.
    """

    def __init__(self, dataset: Dataset, k: int, seed: int) -> None:
        self._dataset = dataset
        self._k = k
        self._seed = seed
        self._true_m = dataset.region.to_metres(dataset.places)
        self._fits: dict[tuple[object, ...], Intervals] = {}

    def measure(self, defence: Defence, sizes: Sizes) -> Point:
        """Protect everybody once, ask, and guess."""
        mechanism = self._fitted(defence)
        places = mechanism.perturb(self._dataset.places)
        queries = draw_queries(self._true_m, self._dataset.region, "users", sizes.queries, self._rng(_QUERY_STREAM))
        utility = measure_utility(self._true_m, self._dataset.region.to_metres(places), queries, k=self._k)
        targets = sizes.targets_for(defence, len(places))
        error_m, acc = guess(Publication(self._dataset, mechanism, places), targets, self._rng(_TARGET_STREAM))
        return Point(
            defence,
            Mean(utility.recall, None),
            Mean(utility.distance_ratio, None),
            Mean(error_m, None),
            share_over_runs([round(acc * targets)], targets),
            (self._seed,),
        )

    def _fitted(self, defence: Defence) -> Mechanism:
        mechanism = defence.build(self._dataset.region, self._seed)
        if not isinstance(mechanism, DPRS):
            return mechanism
        key = (defence.centres_from, defence.centres, defence.fit_epsilon, defence.gamma)
        if key not in self._fits:
            self._fits[key] = mechanism.fit(self._dataset.places).intervals_
        return mechanism.with_params(intervals=self._fits[key])

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, stream])


def measure_runs(dataset: Dataset, k: int, defence: Defence, seeds: Sequence[int], sizes: Sizes) -> Point:
    """Measure a defence once with each seed, fitting anew: means with 95 % intervals over runs."""
    targets = sizes.targets_for(defence, len(dataset.places))
    runs = [Bench(dataset, k, seed).measure(defence, sizes) for seed in seeds]
    return Point(
        defence,
        mean_over_runs([run.recall.value for run in runs]),
        mean_over_runs([run.ratio.value for run in runs]),
        mean_over_runs([run.error_m.value for run in runs]),
        share_over_runs([round(run.acc.value * targets) for run in runs], targets),
        tuple(seeds),
    )
