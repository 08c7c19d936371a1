"""Table 2: the data sets in numbers, and how near the centers of intervals are to users."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.study import Part, Scope
from nearveil.io.dataset_statistics import describe_dataset
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import FitMethod, build_public_intervals
from nearveil.mechanisms.intervals import PAPER_CENTRES, Intervals


def intervals_of(dataset: Dataset, method: FitMethod, seed: int) -> Intervals:
    """Return the intervals that DPRS finds with half of epsilon = 1, in a region whose axes are scaled alike."""
    region = dataset.region.with_scaling("isotropic")
    dprs = DPRS(release="paper", epsilon=1.0, fit_method=method, centres=PAPER_CENTRES, region=region, seed=seed).fit(
        dataset.places
    )
    return dprs.intervals_


def _grid(scope: Scope) -> list[dict[str, Any]]:
    # Nothing is random but the intervals.
    return [{"dataset": name, "seed": scope.seed} for name in scope.datasets]


def measure(dataset: Dataset, *, seed: int) -> dict[str, Any]:
    """Describe a population, and how near the centers of intervals are to its users."""
    found = asdict(describe_dataset(dataset))
    del found["name"]
    own = {
        "private k-means": intervals_of(dataset, "pic", seed),
        "private grid": intervals_of(dataset, "private-grid", seed),
    }
    region = dataset.region.with_scaling("isotropic")
    own["random points"] = build_public_intervals(region=region, centres=PAPER_CENTRES, rng=seed)
    return {"source": dataset.source, **found} | {
        f"median_to_center_m, {name}": _median_distance_m(dataset, one) for name, one in own.items()
    }


def _median_distance_m(dataset: Dataset, intervals: Intervals) -> float:
    region = intervals.region
    centers_m = region.to_metres(region.clip(region.from_square(np.asarray(intervals.centres))))
    return float(np.median(cKDTree(centers_m).query(region.to_metres(dataset.places))[0]))


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    paper = paper_numbers.table2().reindex(runs.dataset).reset_index(drop=True)
    found = pd.DataFrame(
        {
            "data set": runs.dataset,
            "locations": runs.places,
            "locations, paper": paper.locations,
            "per km²": runs.density_per_km2,
            "per km², paper": paper.density_per_km2,
            "Clark-Evans ratio": runs.clark_evans,
            "dispersion index, paper": paper.dispersion_index_percent,
            "nearest other (m), median": runs.median_nearest_m,
            "1 km² cells in use": runs.occupied_share,
            "variance to mean": runs.variance_to_mean,
            "Gini": runs.gini,
        }
    )
    names = [name for name in runs.columns if name.startswith("median_to_center_m")]
    centers = runs[["dataset", *names]].rename(columns=lambda name: name.rpartition(", ")[2])
    return {
        "table2": found.astype(object).where(found.notna(), None),
        "table2-centers": centers.rename(columns={"dataset": "data set"}),
    }


PART = Part("table2", "Table 2: the data sets", _grid, measure, _tables)
