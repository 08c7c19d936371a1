"""What the parts of DPRS buy: RSM against a uniform point of the disc, private against random centers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nearveil.evaluation.studies.protected import LITTLE_NOISE, READINGS, K, ask
from nearveil.evaluation.study import Part, Scope, differences
from nearveil.io.datasets import Dataset

AS_PAPER = "as the paper"
VARIANTS: dict[str, dict[str, str]] = {
    AS_PAPER: {}, "uniform point": {"point": "uniform"}, "random centers": {"centers": "random"},
}  # fmt: skip
MEASURES = {
    "recall": "recall, uniform queries", "ratio_pooled": "ratio, pooled", "users_recall": "recall, queries from users",
}  # fmt: skip


def _grid(scope: Scope) -> list[dict[str, Any]]:
    ends = scope.epsilons[:: max(1, len(scope.epsilons) - 1)]
    readings = [name for name in READINGS if "order" not in name]
    return scope.grid(epsilon=ends, reading=readings, variant=VARIANTS, queries=[scope.queries])


def measure(dataset: Dataset, *, variant: str, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody with a part of DPRS replaced, and ask."""
    return ask(dataset, ks=[K], replaced=VARIANTS[variant], **settings)


def gains(runs: pd.DataFrame, variant: str, columns: tuple[str, ...] = tuple(MEASURES)) -> pd.DataFrame:
    """Return how much more the paper's part has than its replacement: paired, run by run."""
    return differences(runs, ["dataset", "epsilon", "reading"], columns, of="variant", first=AS_PAPER, second=variant)


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    names = {"ablation-rsm": "uniform point", "ablation-centers": "random centers"}
    labels = {"dataset": "data set"} | MEASURES
    return {name: gains(runs, variant).rename(columns=labels) for name, variant in names.items()}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    accounted, facts = runs[runs.reading != LITTLE_NOISE], dict[str, float]()
    for name, variant in (("rsm", "uniform point"), ("centers", "random centers")):
        values = [one.value for one in gains(accounted, variant)["recall"]]
        facts |= {f"{name}_least": min(values), f"{name}_most": max(values)}
    return facts


PART = Part("ablation", "Ablation: what RSM and private centers buy", _grid, measure, _tables, _facts)
