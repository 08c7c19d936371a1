"""Table 3: what the paper's mechanisms leave of lists, and what ZO-LIA still finds; DPRS in each reading of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation import paper, paper_numbers
from nearveil.evaluation.studies.protected import (
    BASELINES,
    CENTERS,
    NEARVEIL,
    READINGS,
    REDRAWN,
    ask_and_attack,
    beside,
    disagreements,
    estimated,
    paper_region,
    seed_of,
)
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
_BY = ["dataset", "epsilon", "mechanism"]
_PLACE = {"dataset": "data set"}


def _grid(scope: Scope) -> list[dict[str, Any]]:
    size = {"instances": [scope.instances], "queries": [scope.queries]}
    ours = scope.grid(epsilon=scope.epsilons, mechanism=("DPRS", *BASELINES), reading=[NEARVEIL], **size)
    return ours + scope.grid(epsilon=scope.epsilons, mechanism=["DPRS"], reading=READINGS, **size)


def measure(
    dataset: Dataset, *, epsilon: float, mechanism: str, reading: str, seed: int, run: int, **size: int
) -> dict[str, Any]:
    """Publish everybody once, ask, and attack."""
    own: dict[str, Any] = {"mechanism": mechanism, "reading": reading}
    found = ask_and_attack(dataset, epsilon=epsilon, seed=seed, run=run, **size, **own)
    counts = (mechanism, reading) == ("DPRS", NEARVEIL)
    return found | ({"redrawn": redrawn_share(dataset, epsilon, seed_of(seed, run))} if counts else {})


def redrawn_share(dataset: Dataset, epsilon: float, seed: int) -> float:
    """Return the share of centers that the noise of the last round throws out of the region; Nearveil redraws them."""
    region, answers = paper_region(dataset.region), []
    scale = paper_scales(epsilon, delta=1e-5, queries=12 * QUERIES_PER_ROUND).fit_scale
    build_pic_intervals(
        dataset.places, region=region, scale=scale, centres=CENTERS, rng=seed,
        watch=lambda _, found: answers.append(found),
    )  # fmt: skip
    centers = answers[-1][:, :2] / np.maximum(answers[-1][:, 2:], 1.0)
    return float(np.any(np.abs(centers) > np.array(region.half_extent_square), axis=1).mean())


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    printed = paper_numbers.table3()
    printed = printed[printed.dataset.isin(runs.dataset) & printed.epsilon.isin(runs.epsilon)]
    everything = pd.concat([printed, runs], ignore_index=True)
    found = estimated(everything, [*_BY, "reading"], [*MEASURES, *_PER_QUERY, *_USERS])
    ours = found[found.reading == NEARVEIL]
    readings = found[found.mechanism == "DPRS"].sort_values(["dataset", "epsilon"], kind="stable")
    return {
        "table3": beside(found[~found.reading.isin(list(READINGS))], _BY, MEASURES, "reading"),
        "table3-readings": readings[["dataset", "epsilon", "reading", *MEASURES, *_PER_QUERY]].rename(
            columns=_PLACE | MEASURES | _PER_QUERY
        ),
        "table3-trends": trends(everything).rename(columns=_PLACE | MEASURES),
        "table3-users": ours[[*_BY, *_USERS]].rename(columns=_PLACE | _USERS),
    }


def trends(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how much more of each measure DPRS has at the largest epsilon than at the least: paired, by reading."""
    dprs = runs[runs.mechanism == "DPRS"]
    ends = {"first": dprs["epsilon"].max(), "second": dprs["epsilon"].min()}
    return differences(dprs, ["dataset", "reading"], list(MEASURES), of="epsilon", **ends)


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    found = estimated(runs[runs.mechanism == "DPRS"], [*_BY, "reading"], list(MEASURES))
    apart, compared = disagreements(found, _BY, list(MEASURES), "reading", (NEARVEIL, REDRAWN))
    scales = {"own": paper.scales_for(1.0), "plain": paper.scales_for(1.0, order=math.inf)}
    return {
        "disagreements": apart, "compared": compared,
        "least_redrawn": runs["redrawn"].min(), "most_redrawn": runs["redrawn"].max(),
        **{f"{name}_{part}": scale for name, both in scales.items() for part, scale in zip("cp", both, strict=True)},
    }  # fmt: skip


PART = Part("table3", "Table 3: the defenses, what they leave and what ZO-LIA finds", _grid, measure, _tables, _facts)
