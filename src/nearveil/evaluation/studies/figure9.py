"""Figure 9: recall and the error of distances against gamma, the radius as a share of the way to the next center."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nearveil.evaluation.studies.protected import paper_mechanism, published, seed_of, utility
from nearveil.evaluation.study import Part, Scope, differences, means
from nearveil.io.datasets import Dataset

PAPER_BEST = 0.5
_GAMMAS, _QUICK_GAMMAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), (0.2, 0.5, 0.8)
_EPSILON = 1.0
_COLUMNS = {
    "recall": "recall, uniform queries", "mse_km2": "distance MSE (km²), uniform queries",
    "users_recall": "recall, queries from users", "users_mse_km2": "distance MSE (km²), queries from users",
}  # fmt: skip


def _grid(scope: Scope) -> list[dict[str, Any]]:
    return scope.grid(gamma=_QUICK_GAMMAS if scope.quick else _GAMMAS, queries=[scope.queries])


def measure(dataset: Dataset, *, gamma: float, queries: int, seed: int, run: int) -> dict[str, Any]:
    """Publish everybody once, and ask."""
    dprs = paper_mechanism("DPRS", _EPSILON, dataset.region, seed_of(seed, run), gamma=gamma)
    return utility(dataset, published(dataset, dprs)[1], queries, seed, run)[0]


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = means(runs, ["dataset", "gamma"], list(_COLUMNS))
    return {"figure9": found.rename(columns={"dataset": "data set"} | _COLUMNS), "figure9-differences": against(runs)}


def against(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what every other gamma has more than the paper's 0.5, paired."""
    rows = []
    for gamma in sorted(set(runs.gamma) - {PAPER_BEST}):
        pairs = {"of": "gamma", "first": gamma, "second": PAPER_BEST}
        found = {column: differences(runs, ["dataset"], column, **pairs) for column in ("recall", "mse_km2")}
        for dataset, recall, mse in zip(
            found["recall"].dataset, found["recall"].difference, found["mse_km2"].difference, strict=True
        ):
            rows.append({"data set": dataset, "gamma": gamma, "recall": recall, "distance MSE (km²)": mse})
    return pd.DataFrame(rows)


PART = Part("figure9", "Figure 9: how large intervals should be", _grid, measure, _tables)
