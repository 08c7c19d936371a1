"""The three releases of DPRS at equal intervals, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.utility import draw_queries, measure_utilities
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.centres import PAPER_CENTRES
from nearveil.mechanisms.dprs import DPRS, ReleaseName
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.intervals import Intervals

RELEASES: tuple[ReleaseName, ...] = ("paper", "interval", "metric")
KS = (10, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCell(Cell):
    """Recall of the three releases, users protocol, isotropic region.

    The intervals are fitted once, with half of epsilon, and used by all three; the other half is for the release, as
    the paper has it. The release ``metric`` has a loss per metre; to stand beside the others it gets the noise whose
    loss between two opposite points of the median disc is that half.
    """

    method: FitMethod
    epsilon: float
    queries: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Fit once, publish three times, and ask."""
        fit_seed, release_seed, query_seed = np.random.SeedSequence([self.seed, self.run]).generate_state(3)
        paper = DPRS(
            release="paper",
            epsilon=self.epsilon,
            fit_method=self.method,
            centres=PAPER_CENTRES,
            region=dataset.region.with_scaling("isotropic"),
            seed=int(fit_seed),
        )
        intervals = paper.fit(dataset.places).intervals_
        true_m = dataset.region.to_metres(dataset.places)
        asked = draw_queries(true_m, dataset.region, "users", self.queries, np.random.default_rng(query_seed))
        found: dict[str, Any] = {"metric hides within_m": metric_length_m(intervals, self.epsilon / 2)}
        for release in RELEASES:
            mechanism = released(release, intervals, self.epsilon, seed=int(release_seed))
            published_m = dataset.region.to_metres(mechanism.perturb(dataset.places))
            for one in measure_utilities(true_m, published_m, asked, ks=KS):
                found[f"{release} recall@{one.k}"] = one.recall
        return found

    @property
    def seconds(self) -> float:
        """Mostly the fit."""
        return 0.6


def metric_length_m(intervals: Intervals, epsilon: float) -> float:
    """Return the distance to hide within at which opposite points of the median disc lose epsilon."""
    # A loss of 2 for each such distance, and a disc is two radii across.
    return 4 * float(np.median(intervals.radii_m)) / epsilon


def released(release: ReleaseName, intervals: Intervals, epsilon: float, *, seed: int) -> DPRS:
    """Return the mechanism of a release with given intervals, half of epsilon being spent on them."""
    if release == "metric":
        length_m = metric_length_m(intervals, epsilon / 2)
        return DPRS(release=release, hide_within_m=length_m, intervals=intervals, seed=seed)
    # How the intervals were found decides the paper's scales.
    method: FitMethod = "pic" if intervals.method == "pic" else "private-grid"
    # The paper's release takes the whole budget and halves it itself.
    own = epsilon if release == "paper" else epsilon / 2
    return DPRS(release=release, epsilon=own, fit_method=method, intervals=intervals, seed=seed)
