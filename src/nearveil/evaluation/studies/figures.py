"""Figures 4 to 7 and 9: recall along the length of the list, the number of centers, and the size of intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from nearveil.evaluation.studies.protected import BASELINES, CENTERS, GAUSSIAN, KS, K, ask
from nearveil.evaluation.study import Part, Scope, differences, means
from nearveil.io.datasets import Dataset

PAPER_GAMMA = 0.5
_GAMMAS, _QUICK_GAMMAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), (0.2, 0.5, 0.8)
_CENTERS, _QUICK_CENTERS = (600, 700, 800, 900, 1000), (600, 1000)
_NAMES = {
    "dataset": "data set", "recall": "recall, uniform queries", "mse_km2": "distance MSE (km²), uniform queries",
    "users_recall": "recall, queries from users", "users_mse_km2": "distance MSE (km²), queries from users",
}  # fmt: skip
_RECALLS = ("recall", "users_recall")


def measure_lengths(dataset: Dataset, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody once, and ask for lists of every length."""
    return ask(dataset, ks=KS, **settings)


def measure(dataset: Dataset, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody once, and ask for lists of ten."""
    return ask(dataset, ks=[K], **settings)


def _by_k(*names: str) -> Callable[[Scope], list[dict[str, Any]]]:
    return lambda scope: scope.grid(mechanism=names, epsilon=[3.0], centers=[CENTERS], queries=[scope.queries])


def _by_centers(name: str) -> Callable[[Scope], list[dict[str, Any]]]:
    return lambda scope: scope.grid(
        mechanism=[name], epsilon=scope.epsilons, centers=_QUICK_CENTERS if scope.quick else _CENTERS,
        queries=[scope.queries],
    )  # fmt: skip


def _by_gamma(scope: Scope) -> list[dict[str, Any]]:
    return scope.grid(gamma=_QUICK_GAMMAS if scope.quick else _GAMMAS, epsilon=[1.0], queries=[scope.queries])


def gains(runs: pd.DataFrame, of: str, at: Sequence[str] = (), columns: Sequence[str] = ("recall",)) -> pd.DataFrame:
    """Return what columns gain from the least value of a setting to the most: paired, by data set and ``at``."""
    ends = {"first": runs[of].max(), "second": runs[of].min()}
    found = differences(runs, ["dataset", *at], columns, of=of, **ends)
    return found.assign(change=f"{of}: {ends['first']:g} minus {ends['second']:g}")


def against_half(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what every other gamma has more than the paper's 0.5, paired."""
    others = sorted({*runs.gamma} - {PAPER_GAMMA})
    pair: dict[str, Any] = {"of": "gamma", "second": PAPER_GAMMA}
    found = [
        differences(runs, ["dataset"], ["recall", "mse_km2"], first=one, **pair).assign(gamma=one) for one in others
    ]
    return pd.concat(found)[["dataset", "gamma", "recall", "mse_km2"]]


def _tables(
    name: str, by: list[str], columns: Iterable[str], paired: Callable[[pd.DataFrame], pd.DataFrame] | None = None
) -> Callable[[pd.DataFrame], dict[str, pd.DataFrame]]:
    def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
        levels = means(runs, ["dataset", *by], list(columns)).rename(columns=_NAMES)
        return {name: levels} | ({} if paired is None else {f"{name}-differences": paired(runs).rename(columns=_NAMES)})

    return tables


def _steps(runs: pd.DataFrame) -> pd.DataFrame:
    steps = []
    for of, at in (("centers", "epsilon"), ("epsilon", "centers")):
        step = gains(runs, of, [at])
        steps.append(step.assign(at=[f"{at} = {value:g}" for value in step[at]]))
    return pd.concat(steps)[["dataset", "change", "at", "recall"]]


def _figure(number: int, title: str, grid: Any, by: list[str], paired: Any = None) -> Part:
    name, along_k = f"figure{number}", "k" in by
    columns = tuple(_NAMES)[1:] if number == 9 else _RECALLS
    return Part(
        name,
        f"Figure {number}: {title}",
        grid,
        measure_lengths if along_k else measure,
        _tables(name, by, columns, paired),
    )


_FOUR, _LIST, _MANY = (
    ("DPRS", *BASELINES),
    "recall against the length of the list",
    "recall against the number of centers",
)
PARTS = {
    part.name: part
    for part in (
        _figure(4, _LIST, _by_k(*_FOUR), ["mechanism", "k"]),
        _figure(5, _MANY, _by_centers("DPRS"), ["epsilon", "centers"], _steps),
        _figure(6, f"{_MANY}, Gaussian noise", _by_centers(GAUSSIAN), ["epsilon", "centers"], _steps),
        _figure(7, f"{_LIST}, with Gaussian noise", _by_k(*_FOUR, GAUSSIAN), ["mechanism", "k"]),
        _figure(9, "how large intervals should be", _by_gamma, ["gamma"], against_half),
    )
}
