"""Figures 4 to 7: recall along the length of the list (4 and 7) or the number of centers (5 and 6)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd

from nearveil.evaluation.studies.protected import BASELINES, CENTERS, KS, paper_mechanism, published, seed_of, utility
from nearveil.evaluation.study import Part, Scope, differences, means
from nearveil.io.datasets import Dataset
from nearveil.privacy.accounting import Noise

EPSILON_BY_K = 3.0
GAUSSIAN = "DPRS, Gaussian"
_CENTERS, _QUICK_CENTERS = (600, 700, 800, 900, 1000), (600, 1000)


def _grid_by_k(*names: str) -> Any:
    def grid(scope: Scope) -> list[dict[str, Any]]:
        return scope.grid(mechanism=names, epsilon=[EPSILON_BY_K], centers=[CENTERS], queries=[scope.queries])

    return grid


def _grid_by_centers(name: str) -> Any:
    def grid(scope: Scope) -> list[dict[str, Any]]:
        centers = _QUICK_CENTERS if scope.quick else _CENTERS
        return scope.grid(mechanism=[name], epsilon=scope.epsilons, centers=centers, queries=[scope.queries])

    return grid


def measure(
    dataset: Dataset, *, mechanism: str, epsilon: float, centers: int, queries: int, seed: int, run: int
) -> list[dict[str, Any]]:
    """Publish everybody once, and ask for lists of every length."""
    noise: Noise = "gaussian" if mechanism == GAUSSIAN else "laplace"
    own = paper_mechanism(
        mechanism.partition(",")[0], epsilon, dataset.region, seed_of(seed, run), noise=noise, centers=centers
    )
    ks = [k for k in KS if k < len(dataset.places) - 1]
    return utility(dataset, published(dataset, own)[1], queries, seed, run, ks)


def _tables_by_k(name: str) -> Any:
    def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
        return {name: _table(runs, ["mechanism", "k"], {"mechanism": "mechanism", "k": "k"})}

    return tables


def _tables_by_centers(name: str) -> Any:
    def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
        ten = runs[runs.k == 10]
        labels = {"epsilon": "epsilon", "centers": "centers"}
        return {name: _table(ten, list(labels), labels), f"{name}-differences": gains(runs)}

    return tables


def _table(runs: pd.DataFrame, by: list[str], labels: dict[str, str]) -> pd.DataFrame:
    found = means(runs, ["dataset", *by], ["recall", "users_recall"])
    names = {"recall": "recall, uniform queries", "users_recall": "recall, queries from users"}
    return found.rename(columns={"dataset": "data set"} | names | labels)


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how much recall@10 changes from the fewest centers to the most, and from the least epsilon to the most."""
    ten = runs[runs.k == 10]
    fewest, most = ten.centers.min(), ten.centers.max()
    low, high = ten.epsilon.min(), ten.epsilon.max()
    steps = (("centers", "epsilon", most, fewest), ("epsilon", "centers", high, low))
    found = []
    for of, at, first, second in steps:
        step = differences(ten, ["dataset", at], "recall", of=of, first=first, second=second)
        change, where = f"{of}: {first:g} minus {second:g}", [f"{at} = {value:g}" for value in step[at]]
        found.append(pd.DataFrame({"data set": step.dataset, "change": change, "at": where, "recall": step.difference}))
    return pd.concat(found, ignore_index=True)


def steps_by_k(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return how much more recall DPRS has from each k to the next, paired."""
    own = runs[runs.mechanism == name]
    ks = sorted(own.k.unique())
    return pd.concat(
        [
            differences(own, ["dataset"], "recall", of="k", first=more, second=less).assign(k=more)
            for less, more in pairwise(ks)
        ]
    )


def margins(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return how much more recall DPRS has than each of the paper's baselines, paired."""
    found = [
        differences(runs, ["dataset", "k"], "recall", of="mechanism", first=name, second=other).assign(over=other)
        for other in BASELINES
    ]
    return pd.concat(found)


def _part(number: int, of: str, grid: Any, tables: Any) -> Part:
    name = f"figure{number}"
    return Part(name, f"Figure {number}: recall against the {of}", grid, measure, tables(name))


_FOUR = ("DPRS", *BASELINES)
PARTS = {
    "figure4": _part(4, "length of the list", _grid_by_k(*_FOUR), _tables_by_k),
    "figure5": _part(5, "number of centers", _grid_by_centers("DPRS"), _tables_by_centers),
    "figure6": _part(6, "number of centers, Gaussian noise", _grid_by_centers(GAUSSIAN), _tables_by_centers),
    "figure7": _part(7, "length of the list, with Gaussian noise", _grid_by_k(*_FOUR, GAUSSIAN), _tables_by_k),
}
