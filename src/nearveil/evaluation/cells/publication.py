"""What a defence publishes in one run, and what that is worth to those who ask and to those who attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, prior_from_points, score_attacker
from nearveil.evaluation.cells.fits import fitted
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.displacement import ground_distance_m
from nearveil.evaluation.utility import QueryProtocol, draw_queries, measure_utilities
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.types import FloatArray

KS = (10, 20, 30, 40, 50)
PROTOCOLS: tuple[QueryProtocol, ...] = ("uniform", "users")
TAU_M = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """A fitted mechanism and the places it published."""

    dataset: Dataset
    mechanism: Mechanism
    places: FloatArray


def publish(dataset: Dataset, defence: Defence, seed: int) -> Publication:
    """Protect a population."""
    mechanism = fitted(defence.build(dataset.region, seed), dataset)
    return Publication(dataset, mechanism, mechanism.perturb(dataset.places))


def utility_of(publication: Publication, queries: int, rng: np.random.Generator) -> dict[str, Any]:
    """Recall, ratio and distance error under both query protocols for every k, and how far people were moved."""
    dataset = publication.dataset
    true_m = dataset.region.to_metres(dataset.places)
    published_m = dataset.region.to_metres(publication.places)
    found: dict[str, Any] = {}
    ks = [k for k in KS if k < len(true_m)]
    for protocol in PROTOCOLS:
        asked = draw_queries(true_m, dataset.region, protocol, queries, rng)
        for one in measure_utilities(true_m, published_m, asked, ks=ks):
            found[f"{protocol} recall@{one.k}"] = one.recall
            found[f"{protocol} ratio@{one.k}"] = one.distance_ratio
            found[f"{protocol} pooled ratio@{one.k}"] = one.pooled_distance_ratio
            found[f"{protocol} distance mse@{one.k}"] = one.distance_mse_m2
    moved_m = ground_distance_m(dataset.places, publication.places)
    found["displacement_m"] = float(moved_m.mean())
    found["moved under 100 m"] = float(np.mean(moved_m < TAU_M))
    if isinstance(publication.mechanism, DPRS):
        found["median radius_m"] = float(np.median(publication.mechanism.current_intervals.radii_m))
    return found


def best_guess_of(publication: Publication, targets: int, rng: np.random.Generator) -> dict[str, Any]:
    """How wrong the Bayes attacker is, who knows the mechanism and every address, but not who lives where."""
    dataset = publication.dataset
    attacker = BayesAttacker(
        mechanism=publication.mechanism,
        prior=prior_from_points(dataset.places, publication.mechanism.resolved_region, spread_m=0.0),
        tau_m=TAU_M,
    )
    count = min(targets, len(dataset.places))
    rows = rng.choice(len(dataset.places), size=count, replace=False)
    score = score_attacker(attacker, dataset.places, publication.places, targets=rows, leave_out=False)
    return {
        "attacker error_m": score.median.error_m.value,
        "attacker acc": score.best_disc.accuracy.value,
        "read off error_m": score.read_off.error_m.value,
    }
