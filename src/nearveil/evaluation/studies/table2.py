"""Table 2: the data sets in numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.dataset_statistics import describe_dataset
from nearveil.evaluation.study import Part, Scope
from nearveil.io.datasets import Dataset

_COLUMNS = {
    "dataset": "data set", "places": "locations", "locations": "locations, paper", "density_per_km2": "per km²",
    "density_paper": "per km², paper", "clark_evans": "Clark-Evans ratio",
    "dispersion_index_percent": "dispersion index, paper", "median_nearest_m": "nearest other (m), median",
}  # fmt: skip


def measure(dataset: Dataset, *, seed: int) -> dict[str, Any]:
    """Describe a population, in which nothing is random."""
    del seed
    return {"source": dataset.source} | describe_dataset(dataset)


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    paper = paper_numbers.table2().rename(columns={"density_per_km2": "density_paper"})
    paper["dispersion_index_percent"] = [f"{index:.2f} %" for index in paper["dispersion_index_percent"]]
    found = runs.merge(paper, on="dataset", how="left")[list(_COLUMNS)].rename(columns=_COLUMNS)
    return {"table2": found.astype(object).where(found.notna(), None)}


def _grid(scope: Scope) -> list[dict[str, Any]]:
    return [{"dataset": name, "seed": scope.seed} for name in scope.datasets]


PART = Part("table2", "Table 2: the data sets", _grid, measure, _tables)
