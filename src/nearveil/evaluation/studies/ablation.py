"""What the parts of DPRS buy: RSM against a uniform point of the disc, private against random centers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nearveil.evaluation.studies.protected import reference_published, utility
from nearveil.evaluation.studies.table3 import LITTLE_NOISE, READINGS, zo_lia
from nearveil.evaluation.study import Part, Scope, differences, means
from nearveil.io.datasets import Dataset

AS_PAPER = "as the paper"
VARIANTS: dict[str, dict[str, str]] = {
    AS_PAPER: {},
    "uniform point": {"point": "uniform"},
    "random centers": {"centers": "random"},
}
MEASURES = {
    "recall": "recall, uniform queries",
    "ratio_pooled": "ratio, pooled",
    "users_recall": "recall, queries from users",
    "dist_km": "Dist (km)",
}
_READINGS = [name for name in READINGS if "order" not in name]


def _grid(scope: Scope) -> list[dict[str, Any]]:
    size = {"instances": [scope.instances], "queries": [scope.queries]}
    return scope.grid(
        epsilon=scope.epsilons[:: max(1, len(scope.epsilons) - 1)], reading=_READINGS, variant=VARIANTS, **size
    )


def measure(
    dataset: Dataset, *, epsilon: float, reading: str, variant: str, instances: int, queries: int, seed: int, run: int
) -> dict[str, Any]:
    """Publish everybody with a part of DPRS replaced, ask, and attack."""
    served_m = reference_published(dataset, epsilon, seed, run, **READINGS[reading], **VARIANTS[variant])
    return utility(dataset, served_m, queries, seed, run)[0] | zo_lia(dataset, served_m, instances, seed, run)


def gains(runs: pd.DataFrame, variant: str, columns: tuple[str, ...] = tuple(MEASURES)) -> pd.DataFrame:
    """Return how much more the paper's part has than its replacement: paired, run by run."""
    by = ["dataset", "epsilon", "reading"]
    found = [
        differences(runs, by, column, of="variant", first=AS_PAPER, second=variant).rename(
            columns={"difference": column}
        )
        for column in columns
    ]
    joined = found[0]
    for more in found[1:]:
        joined = joined.merge(more, on=by)
    return joined


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    names = {"dataset": "data set"} | MEASURES
    levels = means(runs, ["dataset", "epsilon", "reading", "variant"], list(MEASURES))
    return {
        "ablation-rsm": gains(runs, "uniform point").rename(columns=names),
        "ablation-centers": gains(runs, "random centers").rename(columns=names),
        "ablation": levels.rename(columns=names),
    }


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    accounted = runs[runs.reading != LITTLE_NOISE]
    facts: dict[str, Any] = {}
    for name, variant in (("rsm", "uniform point"), ("centers", "random centers")):
        values = [one.value for one in gains(accounted, variant, ("recall",))["recall"]]
        facts |= {f"{name}_least": min(values), f"{name}_most": max(values)}
    return facts


PART = Part("ablation", "Ablation: what RSM and private centers buy", _grid, measure, _tables, _facts)
