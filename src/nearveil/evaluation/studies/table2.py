"""Table 2: the data sets in numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.study import Part, Scope
from nearveil.io.dataset_statistics import describe_dataset
from nearveil.io.datasets import Dataset


def _grid(scope: Scope) -> list[dict[str, Any]]:
    # Nothing is random here.
    return [{"dataset": name, "seed": scope.seed} for name in scope.datasets]


def measure(dataset: Dataset, *, seed: int) -> dict[str, Any]:
    """Describe a population."""
    del seed
    found = asdict(describe_dataset(dataset))
    del found["name"]
    return {"source": dataset.source} | found


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
    return {"table2": found.astype(object).where(found.notna(), None)}


PART = Part("table2", "Table 2: the data sets", _grid, measure, _tables)
