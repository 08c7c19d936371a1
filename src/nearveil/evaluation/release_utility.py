"""What the three releases of DPRS cost in utility, at equal intervals and epsilon.

The intervals of a run are fitted once, by the paper's private k-means with half of the paper's budget, and used by all
three. The release ``metric`` has a loss per metre; to stand beside the others it gets the noise whose loss between two
opposite points of the median disc is epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.evaluation.attack_score import Mean, mean_over_runs
from nearveil.evaluation.utility import measure_utility, query_points
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS, ReleaseName
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.intervals import Intervals
from nearveil.types import Progress

RELEASES: tuple[ReleaseName, ...] = ("paper", "interval", "metric")
KS = (10, 50)
EPSILONS = (1.0, 3.0, 5.0)
METHODS: tuple[FitMethod, ...] = ("pic", "private-grid")
QUERIES = 2_000


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """Recall of one release, by k, with 95 % intervals over runs; users protocol."""

    dataset: str
    method: FitMethod
    epsilon: float
    release: ReleaseName
    hide_within_m: float | None
    recall: dict[int, Mean]


def release_rows(
    dataset: Dataset,
    method: FitMethod,
    epsilon: float,
    *,
    runs: int,
    seed: int = 1,
    queries: int = QUERIES,
    progress: Progress | None = None,
) -> list[ReleaseRow]:
    """Return the rows of one population at one epsilon: a row for each release."""
    recall: dict[ReleaseName, dict[int, list[float]]] = {release: {k: [] for k in KS} for release in RELEASES}
    lengths_m: list[float] = []
    true_m = dataset.region.to_metres(dataset.places)
    for run in range(runs):
        fit_seed, release_seed, query_seed = np.random.SeedSequence([seed, run]).generate_state(3)
        intervals = _fit(dataset, method, epsilon, int(fit_seed))
        lengths_m.append(metric_length_m(intervals, epsilon))
        asked_m = query_points(true_m, dataset.region, "users", queries, np.random.default_rng(query_seed))
        for release in RELEASES:
            mechanism = released(release, intervals, epsilon, seed=int(release_seed))
            published_m = dataset.region.to_metres(mechanism.perturb(dataset.places))
            for k in KS:
                found = measure_utility(true_m, published_m, asked_m, protocol="users", k=k)
                recall[release][k].append(found.recall)
        if progress:
            progress(1)
    return [
        ReleaseRow(
            dataset.name,
            method,
            epsilon,
            release,
            float(np.mean(lengths_m)) if release == "metric" else None,
            {k: mean_over_runs(recall[release][k]) for k in KS},
        )
        for release in RELEASES
    ]


def metric_length_m(intervals: Intervals, epsilon: float) -> float:
    """Return the distance to hide within at which opposite points of the median disc lose epsilon."""
    # A loss of 2 for each such distance, and a disc is two radii across.
    return 4 * float(np.median(intervals.radii_m)) / epsilon


def released(release: ReleaseName, intervals: Intervals, epsilon: float, *, seed: int) -> DPRS:
    """Return the mechanism of a release with given intervals."""
    if release == "metric":
        return DPRS(release=release, hide_within_m=metric_length_m(intervals, epsilon), intervals=intervals, seed=seed)
    # How the intervals were found decides the paper's scales.
    method: FitMethod = "pic" if intervals.method == "pic" else "private-grid"
    return DPRS(release=release, epsilon=epsilon, fit_method=method, intervals=intervals, seed=seed)


def _fit(dataset: Dataset, method: FitMethod, epsilon: float, seed: int) -> Intervals:
    paper = DPRS(release="paper", epsilon=epsilon, fit_method=method, region=dataset.region, seed=seed)
    return paper.fit(dataset.places).intervals_


def release_table(rows: Sequence[ReleaseRow]) -> tuple[list[str], list[list[str]]]:
    """Return headers and cells: a line for each population, kind of intervals and epsilon."""
    headers = ["dataset", "intervals", "epsilon"]
    headers += [f"recall@{k} {release}" for k in KS for release in RELEASES]
    lines: dict[tuple[str, FitMethod, float], dict[ReleaseName, ReleaseRow]] = {}
    for row in rows:
        lines.setdefault((row.dataset, row.method, row.epsilon), {})[row.release] = row
    cells = [
        [
            dataset,
            method,
            f"{epsilon:g}",
            *(_recall(line[release].recall[k]) for k in KS for release in RELEASES),
            f"{line['metric'].hide_within_m:,.0f} m",
        ]
        for (dataset, method, epsilon), line in lines.items()
    ]
    return [*headers, "metric hides within"], cells


def _recall(mean: Mean) -> str:
    return f"{mean.value:.3f}" if mean.half_width is None else f"{mean.value:.3f} ± {mean.half_width:.3f}"
