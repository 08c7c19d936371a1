"""Table 3, with DPRS in each reading of it; and an ablation of RSM and of private centers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation import paper, paper_numbers
from nearveil.evaluation.studies import protected
from nearveil.evaluation.studies.protected import BASELINES, CENTERS, NEARVEIL, READINGS, REDRAWN, K
from nearveil.evaluation.study import Part, Scope, differences
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.fit_pic import build_pic_intervals
from nearveil.privacy.accounting import QUERIES_PER_ROUND, paper_scales

MEASURES = {"recall": "Recall", "ratio_pooled": "Ratio, pooled", "acc": "Acc", "dist_km": "Dist (km)"}
_PER_QUERY = {"ratio": "Ratio, per query"}
_USERS = {
    "users_recall": "Recall", "users_ratio_pooled": "Ratio, pooled",
    "acc_published": "Acc, published accounts", "dist_km_published": "Dist (km), published accounts",
}  # fmt: skip
_BY, _PLACE = ["dataset", "epsilon", "mechanism"], {"dataset": "data set"}


def _grid(scope: Scope) -> list[dict[str, Any]]:
    size = {"instances": [scope.instances], "queries": [scope.queries]}
    ours = scope.grid(epsilon=scope.epsilons, mechanism=("DPRS", *BASELINES), reading=[NEARVEIL], **size)
    return ours + scope.grid(epsilon=scope.epsilons, mechanism=["DPRS"], reading=READINGS, **size)


def measure(
    dataset: Dataset, *, epsilon: float, mechanism: str, reading: str, seed: int, run: int, **size: int
) -> dict[str, Any]:
    """Publish everybody once, ask, and attack."""
    own: dict[str, Any] = {"mechanism": mechanism, "reading": reading}
    found = protected.ask_and_attack(dataset, epsilon=epsilon, seed=seed, run=run, **size, **own)
    if (mechanism, reading) == ("DPRS", NEARVEIL):
        found["redrawn"] = redrawn_share(dataset, epsilon, protected.seed_of(seed, run))
    return found


def redrawn_share(dataset: Dataset, epsilon: float, seed: int) -> float:
    """Return the share of centers that the noise of the last round throws out of the region; Nearveil redraws them."""
    region, answers = protected.paper_region(dataset.region), []
    scale = paper_scales(epsilon, delta=1e-5, queries=12 * QUERIES_PER_ROUND).fit_scale
    build_pic_intervals(
        dataset.places, region=region, scale=scale, centres=CENTERS, rng=seed,
        watch=lambda _, found: answers.append(found),
    )  # fmt: skip
    centers = answers[-1][:, :2] / np.maximum(answers[-1][:, 2:], 1.0)
    return float(np.any(np.abs(centers) > np.array(region.half_extent_square), axis=1).mean())


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    printed = paper_numbers.table3()
    order = list(dict.fromkeys([*printed.dataset, *runs.dataset]))
    printed = printed[printed.dataset.isin(runs.dataset) & printed.epsilon.isin(runs.epsilon)]
    everything = pd.concat([printed, runs], ignore_index=True)
    found = protected.estimated(everything, [*_BY, "reading"], [*MEASURES, *_PER_QUERY, *_USERS])
    in_order = partial(pd.DataFrame.sort_values, by="dataset", key=lambda names: names.map(order.index), kind="stable")
    readings = in_order(found[found.mechanism == "DPRS"].sort_values("epsilon", kind="stable"))
    tables = {
        "table3-readings": readings[["dataset", "epsilon", "reading", *MEASURES, *_PER_QUERY]],
        "table3-trends": in_order(trends(everything)),
        "table3-users": found.loc[found.reading == NEARVEIL, [*_BY, *_USERS]].rename(columns=_USERS),
    }
    beside = protected.beside(found[~found.reading.isin(list(READINGS))], _BY, MEASURES, "reading")
    names = _PLACE | MEASURES | _PER_QUERY
    return {"table3": beside} | {name: table.rename(columns=names) for name, table in tables.items()}


def trends(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how much more of each measure DPRS has at the largest epsilon than at the least: paired, by reading."""
    dprs = runs[runs.mechanism == "DPRS"]
    most, least = dprs["epsilon"].max(), dprs["epsilon"].min()
    return differences(dprs, ["dataset", "reading"], list(MEASURES), of="epsilon", first=most, second=least)


def agreement(runs: pd.DataFrame) -> dict[str, int]:
    """Compare DPRS of Nearveil with the reference's, which shares users, queries and starts run by run."""
    dprs = runs[runs.mechanism == "DPRS"]
    return protected.disagreements(dprs, _BY, list(MEASURES), "reading", (NEARVEIL, REDRAWN))


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    (own_c, own_p), (plain_c, plain_p) = paper.scales_for(1.0), paper.scales_for(1.0, order=math.inf)
    return agreement(runs) | {
        "least_redrawn": runs["redrawn"].min(), "most_redrawn": runs["redrawn"].max(),
        "baselines": runs[runs.mechanism.isin(BASELINES)]["recall"].mean(),
        "own_c": own_c, "own_p": own_p, "plain_c": plain_c, "plain_p": plain_p,
    }  # fmt: skip


# What the parts of DPRS buy.

AS_PAPER, UNIFORM_POINT, RANDOM_CENTERS = "as the paper", "uniform point", "random centers"
VARIANTS = {AS_PAPER: {}, UNIFORM_POINT: {"point": "uniform"}, RANDOM_CENTERS: {"centers": "random"}}
_BOUGHT = {
    "recall": "recall, uniform queries", "ratio_pooled": "ratio, pooled", "users_recall": "recall, queries from users",
}  # fmt: skip


def _ablation_grid(scope: Scope) -> list[dict[str, Any]]:
    ends = scope.epsilons[:: max(1, len(scope.epsilons) - 1)]
    readings = [name for name in READINGS if "order" not in name]
    return scope.grid(epsilon=ends, reading=readings, variant=VARIANTS, queries=[scope.queries])


def measure_without(dataset: Dataset, *, variant: str, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody with a part of DPRS replaced, and ask."""
    return protected.ask(dataset, ks=[K], replaced=VARIANTS[variant], **settings)


def gains(runs: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Return how much more the paper's part has than its replacement: paired, run by run."""
    by = ["dataset", "epsilon", "reading"]
    return differences(runs, by, list(_BOUGHT), of="variant", first=AS_PAPER, second=variant)


def _ablation_tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    names = {"ablation-rsm": UNIFORM_POINT, "ablation-centers": RANDOM_CENTERS}
    return {name: gains(runs, variant).rename(columns=_PLACE | _BOUGHT) for name, variant in names.items()}


PARTS = {
    "table3": Part("table3", "Table 3: the defenses, what they leave and what ZO-LIA finds", _grid, measure, _tables,
                   _facts),
    "ablation": Part("ablation", "Ablation: what RSM and private centers buy", _ablation_grid, measure_without,
                     _ablation_tables),
}  # fmt: skip
