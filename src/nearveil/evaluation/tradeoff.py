"""One mechanism on one population: what users get, and what the best attacker gets.

Users ask, from where they are, for the k nearest others. What they pay is counted in meters: how far away the users
listed truly are, on average, instead of the true k nearest. The attacker knows the mechanism and every address, but not
who lives where, and guesses a location (geometric median for the error, most likely disc for the share found) and an
address, by which it names users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, Prior, prior_from_points
from nearveil.attacks.channels import channel_of
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths, naming_targets, score_naming
from nearveil.errors import UsageError
from nearveil.evaluation.contenders import Contender, stated_loss
from nearveil.evaluation.stats import Estimate, Mean, share_over_runs
from nearveil.evaluation.study import TAU_M, generator
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.nearby.index import nearest_rows
from nearveil.types import BoolArray, FloatArray, IntArray

_SEED_STREAM, _QUERY_STREAM, _TARGET_STREAM, _NAMING_STREAM = range(4)
_TARGETS_AT_ONCE = 8
_SAMPLED_SHARE = 0.25

Row = Mapping[str, float]
"""What was measured in one run, by name; of a mean also its standard error over users, as ``NAME_se``."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many users ask, are guessed, and are named, in one run.

    As a rule, naming is much faster than guessing; where it is not, a quarter is named.
    """

    queries: int = 2_000
    targets: int = 150
    named: int = NAMING_TARGETS


def measure(
    contender: Contender, value: float, dataset: Dataset, *, seed: int, run: int = 0, k: int = 10, sizes: Sizes
) -> dict[str, float | str]:
    """Fit, publish everybody once, ask, guess and name.

    One seed and run for several settings or mechanisms: they meet the same users and queries, so that they differ by
    what they do, and not by luck.
    """
    mechanism = contender.fitted(value, dataset, int(generator(seed, run, _SEED_STREAM).integers(2**31)))
    published = mechanism.perturb(dataset.places)
    return {
        **what_users_get(dataset, published, k=k, queries=sizes.queries, rng=generator(seed, run, _QUERY_STREAM)),
        **what_attackers_get(mechanism, dataset.places, published, sizes=sizes, seed=seed, run=run),
        "loss": stated_loss(mechanism),
    }


# What users get.


def what_users_get(
    dataset: Dataset, published: FloatArray, *, k: int, queries: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return recall, distance ratio and the cost in meters of lists of k, asked from where users are.

    ``listed_m`` is the mean true distance of the k users listed, ``nearest_m`` that of the true k nearest, ``extra_m``
    the difference; ``ratio`` is the second over the first, each summed over all queries.
    """
    true_m, published_m = (dataset.region.to_metres(places) for places in (dataset.places, published))
    if not 1 <= k < len(true_m):
        raise UsageError(f"k must lie between 1 and the number of other users, {len(true_m) - 1:,}")
    askers = rng.integers(len(true_m), size=queries)
    asked_m = true_m[askers]
    nearest, listed = (nearest_rows(places_m, asked_m, k, askers) for places_m in (true_m, published_m))
    nearest_m, listed_m = (
        np.linalg.norm(true_m[rows] - asked_m[:, None], axis=-1).mean(axis=1) for rows in (nearest, listed)
    )
    recall = (nearest[:, :, None] == listed[:, None, :]).any(axis=2).mean(axis=1)
    # All may be at the location asked from.
    ratio = nearest_m.sum() / listed_m.sum() if listed_m.any() else 1.0
    per_query = (nearest_m - ratio * listed_m) / max(float(listed_m.mean()), 1e-9)
    return {
        **_mean_of("recall", recall),
        **_mean_of("ratio", ratio + per_query),
        **_mean_of("nearest_m", nearest_m),
        **_mean_of("listed_m", listed_m),
        **_mean_of("extra_m", listed_m - nearest_m),
    }


def _mean_of(name: str, values: FloatArray) -> dict[str, float]:
    return {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1)) / math.sqrt(len(values))}


# What the best attacker gets.


def what_attackers_get(
    mechanism: Mechanism, places: FloatArray, published: FloatArray, *, sizes: Sizes, seed: int, run: int = 0
) -> dict[str, float]:
    """Return the best attacker's mean error, and the shares that it finds within 100 m and names.

    ``named_sparsest`` is the share named of the tenth of users who live where users are sparsest.
    """
    targets = generator(seed, run, _TARGET_STREAM).permutation(len(places))[: sizes.targets]
    errors_m, found = guesses(mechanism, places, published, targets)
    measured = {**_mean_of("error_m", errors_m), "found": float(found.mean()), "targets": len(targets)}
    if not sizes.named:
        return measured
    slow = not channel_of(mechanism).prepares_fast
    tenths = density_tenths(mechanism.resolved_region.to_metres(places))
    count = max(TENTHS, int(_SAMPLED_SHARE * sizes.named)) if slow else sizes.named
    rows = naming_targets(tenths, count, generator(seed, run, _NAMING_STREAM))
    named = chances_to_be_named(mechanism, places, published, rows)
    sparsest = tenths[rows] == TENTHS - 1
    return {
        **measured,
        "named": float(named.mean()),
        "named_cases": len(rows),
        "named_sparsest": float(named[sparsest].mean()),
        "sparsest_cases": int(sparsest.sum()),
    }


def guesses(
    mechanism: Mechanism, places: FloatArray, published: FloatArray, targets: IntArray, *, tau_m: float = TAU_M
) -> tuple[FloatArray, BoolArray]:
    """Return the best attacker's error for each target, and whether its disc of 100 m holds it."""
    region = mechanism.resolved_region
    prior, true_m = prior_from_points(places, region, spread_m=0.0), region.to_metres(places)
    errors_m, found = np.empty(len(targets)), np.empty(len(targets), dtype=bool)
    for part, candidates in _parts(mechanism, places, targets):
        attacker = BayesAttacker(mechanism=mechanism, prior=_only(prior, candidates), tau_m=tau_m)
        for number, guess in zip(part, attacker.estimate_many(published[targets[part]]), strict=True):
            here = true_m[targets[number]]
            errors_m[number] = np.hypot(*(guess.median - here))
            found[number] = np.hypot(*(guess.best_disc - here)) <= tau_m
    return errors_m, found


def chances_to_be_named(
    mechanism: Mechanism, places: FloatArray, published: FloatArray, targets: IntArray
) -> FloatArray:
    """Return how likely the best attacker's first guess of an address is right, for each target."""
    chances = np.empty(len(targets))
    for part, candidates in _parts(mechanism, places, targets):
        own = np.searchsorted(candidates, targets[part])
        score = score_naming(mechanism, places[candidates], published[candidates], targets=own)
        chances[part] = score.probabilities
    return chances


def _parts(mechanism: Mechanism, places: FloatArray, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield which of the targets to look at together, and the users who may be any of these, in order.

    Where what is published discloses a group, such as an interval, nobody else comes into question: a few targets at a
    time and the users of their groups give the same guesses, many times faster.
    """
    groups = mechanism.groups(places)
    if groups is None:
        yield np.arange(len(targets)), np.arange(len(places))
        return
    order = np.argsort(groups[targets], kind="stable")
    for part in np.array_split(order, max(1, len(order) // _TARGETS_AT_ONCE)):
        yield part, np.flatnonzero(np.isin(groups, groups[targets[part]]))


def _only(prior: Prior, users: IntArray) -> Prior:
    """Return the same weights for some of the users, and none of the others."""
    return replace(prior, places_m=prior.places_m[users], weights=prior.weights[users], people=prior.people[users])


# Runs together, with intervals.


MEANS = ("recall", "ratio", "nearest_m", "listed_m", "extra_m", "error_m")
SHARES = {"found": "targets", "named": "named_cases", "named_sparsest": "sparsest_cases"}
"""Shares, with the number of cases of each in a run."""


def together(runs: Sequence[Row]) -> dict[str, Estimate]:
    """Return the means and shares of runs of one setting, with 95 % intervals over users.

    Runs may differ by more than their users do, since each has a fit of its own: the interval is then over runs, as
    far as a few of them can tell.
    """
    means = {name: _over_users([run[name] for run in runs], [run[f"{name}_se"] for run in runs]) for name in MEANS}
    shares = {
        name: share_over_runs([run[name] * run[cases] for run in runs], int(runs[0][cases]))
        for name, cases in SHARES.items()
        if cases in runs[0]
    }
    return {**means, **shares}


def _over_users(values: Sequence[float], errors: Sequence[float]) -> Mean:
    count = len(values)
    between = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return Mean(float(np.mean(values)), 1.96 * max(math.hypot(*errors) / count, between))
