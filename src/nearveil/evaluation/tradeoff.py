"""One mechanism on one population: what users get, and what the best attacker gets.

Users ask, from where they are, for the k nearest others. What they pay is counted in meters: how far away the users
listed truly are, on average, in place of the true k nearest. The attacker knows the mechanism and every address, but
not who lives where, and guesses a location and an address, by which it names users.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, prior_from_points
from nearveil.attacks.channels import CellChannel, DensityChannel, channel_of
from nearveil.attacks.scores import NAMING_TARGETS, TENTHS, density_tenths, naming_targets, score_attacker, score_naming
from nearveil.errors import UsageError
from nearveil.evaluation.contenders import Contender
from nearveil.evaluation.stats import Estimate, Mean, share_over_runs
from nearveil.evaluation.study import generator
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.nearby.index import nearest_rows
from nearveil.types import FloatArray

_SEED_STREAM, _QUERY_STREAM, _TARGET_STREAM, _NAMING_STREAM = range(4)
# Without a density the attacker samples the mechanism, which takes long.
_MOST_SAMPLED, _MOST_NAMED_SLOWLY = 200, 1_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many users ask, are guessed, and are named, in one run; at most 1,000 are named where that is slow."""

    queries: int = 2_000
    targets: int = 150
    named: int = NAMING_TARGETS


def measure(
    contender: Contender, value: float, dataset: Dataset, *, seed: int, run: int = 0, k: int = 10, sizes: Sizes
) -> dict[str, Any]:
    """Fit, publish everybody once, ask, guess and name; of a mean also return its standard error, as ``NAME_se``.

    With one seed and run, all settings and mechanisms meet the same users and queries: they differ by what they do.
    """
    mechanism = contender.fitted(value, dataset, int(generator(seed, run, _SEED_STREAM).integers(2**31)))
    published = mechanism.perturb(dataset.places)
    return {
        **what_users_get(dataset, published, k=k, queries=sizes.queries, rng=generator(seed, run, _QUERY_STREAM)),
        **what_attackers_get(mechanism, dataset.places, published, sizes=sizes, seed=seed, run=run),
    }


def what_users_get(
    dataset: Dataset, published: FloatArray, *, k: int, queries: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the mean true distance of the k users listed and of the k nearest, the difference, and recall."""
    true_m, published_m = (dataset.region.to_metres(places) for places in (dataset.places, published))
    if not 1 <= k < len(true_m):
        raise UsageError(f"k must lie between 1 and the number of other users, {len(true_m) - 1:,}")
    askers = rng.integers(len(true_m), size=queries)
    asked_m = true_m[askers]
    nearest, listed = (nearest_rows(places_m, asked_m, k, askers) for places_m in (true_m, published_m))
    nearest_m, listed_m = (
        np.linalg.norm(true_m[rows] - asked_m[:, None], axis=-1).mean(axis=1) for rows in (nearest, listed)
    )
    return {
        **_mean_of("recall", (nearest[:, :, None] == listed[:, None, :]).any(axis=2).mean(axis=1)),
        **_mean_of("nearest_m", nearest_m),
        **_mean_of("listed_m", listed_m),
        **_mean_of("extra_m", listed_m - nearest_m),
    }


def _mean_of(name: str, values: FloatArray) -> dict[str, float]:
    return {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1)) / math.sqrt(len(values))}


def what_attackers_get(
    mechanism: Mechanism, places: FloatArray, published: FloatArray, *, sizes: Sizes, seed: int, run: int = 0,
    tau_m: float = 100.0,
) -> dict[str, float]:  # fmt: skip
    """Return the best attacker's mean error, and the shares that it finds, names, and names where users are sparse."""
    count = sizes.targets if channel_of(mechanism).prepares_fast else min(sizes.targets, _MOST_SAMPLED)
    targets = generator(seed, run, _TARGET_STREAM).permutation(len(places))[:count]
    attacker = BayesAttacker(
        mechanism=mechanism, prior=prior_from_points(places, mechanism.resolved_region), tau_m=tau_m
    )
    errors_m = score_attacker(attacker, places[targets], published[targets])
    found = float((errors_m["best_disc"] <= tau_m).mean())
    measured = {**_mean_of("error_m", errors_m["median"]), "found": found, "targets": len(targets)}
    if not sizes.named:
        return measured
    is_fast = isinstance(channel_of(mechanism), CellChannel | DensityChannel)
    tenths = density_tenths(mechanism.resolved_region.to_metres(places))
    count = sizes.named if is_fast else min(sizes.named, _MOST_NAMED_SLOWLY)
    rows = naming_targets(tenths, count, generator(seed, run, _NAMING_STREAM))
    named, sparsest = score_naming(mechanism, places, published, targets=rows), tenths[rows] == TENTHS - 1
    return {
        **measured,
        "named": float(named.mean()),
        "named_cases": len(rows),
        "named_sparsest": float(named[sparsest].mean()),
        "sparsest_cases": int(sparsest.sum()),
    }


MEANS = ("recall", "nearest_m", "listed_m", "extra_m", "error_m")
SHARES = {"found": "targets", "named": "named_cases", "named_sparsest": "sparsest_cases"}
"""Shares, with the name of the number of cases of each."""


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    """Return the means and shares of the runs of one setting, with 95 % intervals over users.

    Runs have fits of their own and may differ by more than their users do: then the interval is theirs.
    """
    found: dict[str, Estimate] = {}
    for name in MEANS:
        values, errors = np.array([(run[name], run[f"{name}_se"]) for run in runs]).T
        between = values.std(ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
        within = math.hypot(*errors) / len(runs)
        found[name] = Mean(float(values.mean()), 1.96 * max(within, float(between)))
    for name, cases in SHARES.items():
        if cases in runs[0]:
            found[name] = share_over_runs([run[name] * run[cases] for run in runs], int(runs[0][cases]))
    return found
