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
    attack_users,
    estimated,
    meet,
    paper_mechanism,
    paper_region,
    published,
    reference_published,
    seed_of,
    targets,
    utility,
)
from nearveil.evaluation.study import Part, Scope, differences, means
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.fit_pic import build_pic_intervals
from nearveil.privacy.accounting import QUERIES_PER_ROUND, paper_scales
from nearveil.types import FloatArray

K = 10
NEARVEIL, REDRAWN = "Nearveil: redrawn", "redrawn"
LITTLE_NOISE = "kept, noise of scale 1/epsilon"
READINGS: dict[str, dict[str, Any]] = {
    REDRAWN: {"outside": "redraw"},
    "kept": {"outside": "keep"},
    "clipped": {"outside": "clip"},
    "as printed": {"outside": "as printed"},
    LITTLE_NOISE: {"outside": "keep", "scale": "1/epsilon"},
    "redrawn, largest order": {"outside": "redraw", "order": math.inf},
}
"""What the paper leaves open about DPRS, as choices of the reference: centers that noise throws out of the region, the
scale of PIC's noise, and the order of the accounting."""

MEASURES = {
    "recall": "Recall", "ratio_pooled": "Ratio, pooled", "ratio": "Ratio, per query", "acc": "Acc",
    "dist_km": "Dist (km)",
}  # fmt: skip
_USERS = {
    "users_recall": "Recall", "users_ratio_pooled": "Ratio, pooled", "users_ratio": "Ratio, per query",
    "acc_published": "Acc, published accounts", "dist_km_published": "Dist (km), published accounts",
}  # fmt: skip
_BY = ["dataset", "epsilon", "mechanism", "reading"]
_PLACE = {"dataset": "data set"}


def _grid(scope: Scope) -> list[dict[str, Any]]:
    size = {"instances": [scope.instances], "queries": [scope.queries]}
    ours = scope.grid(epsilon=scope.epsilons, mechanism=("DPRS", *BASELINES), reading=[NEARVEIL], **size)
    return ours + scope.grid(epsilon=scope.epsilons, mechanism=["DPRS"], reading=READINGS, **size)


def measure(
    dataset: Dataset, *, epsilon: float, mechanism: str, reading: str, instances: int, queries: int, seed: int, run: int
) -> dict[str, Any]:
    """Publish everybody once, ask, and attack."""
    found: dict[str, Any] = {"instances": instances}
    own = None
    if reading == NEARVEIL:
        own, served_m = published(dataset, paper_mechanism(mechanism, epsilon, dataset.region, seed_of(seed, run)))
        if mechanism == "DPRS":
            found["redrawn"] = redrawn_share(dataset, epsilon, seed_of(seed, run))
    else:
        served_m = reference_published(dataset, epsilon, seed, run, **READINGS[reading])
    found |= utility(dataset, served_m, queries, seed, run, (K,))[0]
    found |= zo_lia(dataset, served_m, instances, seed, run)
    if own is None:
        return found
    with_published = zo_lia(dataset, served_m, instances, seed, run, own)
    return found | {f"{name}_published": value for name, value in with_published.items()}


def zo_lia(
    dataset: Dataset, served_m: FloatArray, instances: int, seed: int, run: int, through: Any = None
) -> dict[str, float]:
    """Return what ZO-LIA finds in lists over published locations."""
    chosen = targets(dataset, served_m, K, instances, seed, run)
    found = attack_users("zo-lia", dataset, served_m, chosen, k=K, seed=seed_of(seed, run), through=through)
    return {"acc": found["acc"], "dist_km": found["dist_m"] / 1000}


def redrawn_share(dataset: Dataset, epsilon: float, seed: int) -> float:
    """Return the share of centers that the noise of the last round throws out of the region; Nearveil redraws them."""
    region, answers = paper_region(dataset.region), []
    scale = paper_scales(epsilon, delta=1e-5, queries=12 * QUERIES_PER_ROUND).fit_scale
    build_pic_intervals(
        dataset.places,
        region=region,
        scale=scale,
        centres=CENTERS,
        rng=seed,
        watch=lambda _, found: answers.append(found),
    )
    centers = answers[-1][:, :2] / np.maximum(answers[-1][:, 2:], 1.0)
    return float(np.any(np.abs(centers) > np.array(region.half_extent_square), axis=1).mean())


def estimates(runs: pd.DataFrame, columns: list[str] | None = None) -> pd.DataFrame:
    """Return measures with intervals by data set, epsilon, mechanism and reading."""
    wanted = [name for name in columns or [*MEASURES, *_USERS] if name in runs]
    return estimated(runs, _BY, wanted, runs["reading"] == paper_numbers.AUTHORS)


def printed(dataset: str, epsilon: float, mechanism: str, column: str) -> float | None:
    """Return what the paper's Table 3 has there, if it does."""
    table = paper_numbers.table3()
    key = (dataset, epsilon, mechanism)
    return float(table[column][key]) if column in table and key in table.index else None


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found, dprs = estimates(runs), runs[runs.mechanism == "DPRS"]
    ours, theirs = (found[found.reading == name] for name in (NEARVEIL, paper_numbers.AUTHORS))
    theirs = theirs.assign(mechanism=theirs["mechanism"] + f", {paper_numbers.AUTHORS}")
    users = ours[[*_BY[:3], *_USERS]].rename(columns=_PLACE | _USERS)
    redrawn = means(dprs.dropna(subset="redrawn"), _BY[:2], ["redrawn"])
    return {
        "table3": _beside_the_paper(pd.concat([ours, theirs])),
        "table3-users": users,
        **{f"table3-{column.replace('_', '-')}": _by_reading(dprs, column) for column in MEASURES},
        "table3-redrawn": redrawn.rename(columns=_PLACE | {"redrawn": "share redrawn"}),
        "table3-orders": _orders(runs["epsilon"].unique().tolist()),
    }


def _beside_the_paper(found: pd.DataFrame) -> pd.DataFrame:
    table = found[_BY[:3]].rename(columns=_PLACE)
    for column, label in MEASURES.items():
        table[label] = found[column]
        if column in paper_numbers.table3():
            settings = zip(found.dataset, found.epsilon, found.mechanism, strict=True)
            table[f"{label}, paper"] = pd.Series([printed(*one, column) for one in settings], found.index, dtype=object)
    return table


def _by_reading(dprs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a row for the paper and for each reading, a column for each epsilon, and what epsilon changes, paired."""
    least, most = dprs["epsilon"].min(), dprs["epsilon"].max()
    own = estimates(dprs, [column])
    long = own[["dataset", "reading", "epsilon"]].assign(value=own[column], at=own["epsilon"])
    trend = trends(dprs, column).rename(columns={"difference": "value"}).assign(at=math.inf)
    paper_rows = []
    for dataset in dprs["dataset"].unique():
        each = {epsilon: printed(dataset, epsilon, "DPRS", column) for epsilon in dprs["epsilon"].unique()}
        values = {epsilon: value for epsilon, value in each.items() if value is not None}
        if len(values) == len(each):
            values[math.inf] = values[most] - values[least]
            paper_rows += [(dataset, "the paper", at, value) for at, value in values.items()]
    rows = pd.DataFrame(paper_rows, columns=["dataset", "reading", "at", "value"]).astype({"value": object})
    every = pd.concat([rows, long, trend])
    table = every.pivot(index=["dataset", "reading"], columns="at", values="value")
    readings = ["the paper", *dprs["reading"].unique()]
    places = [(dataset, reading) for dataset in dprs["dataset"].unique() for reading in readings]
    table = table.reindex([place for place in places if place in table.index])
    names = {at: f"epsilon = {at:g}" for at in table} | {math.inf: f"{most:g} minus {least:g}"}
    table = table.where(table.notna(), None).rename(columns=names).rename_axis(columns=None).reset_index()
    return table.rename(columns=_PLACE)


def trends(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return how much more of a measure DPRS has at the largest epsilon than at the least: paired, by reading."""
    dprs = runs[runs.mechanism == "DPRS"]
    ends = {"first": dprs["epsilon"].max(), "second": dprs["epsilon"].min()}
    return differences(dprs, ["dataset", "reading"], column, of="epsilon", **ends)


def _orders(epsilons: list[float]) -> pd.DataFrame:
    """Return scales of one total epsilon at several orders: the paper names none."""
    rows = []
    for epsilon in epsilons:
        least = paper.least_order(epsilon)
        for order in (least, 3 * least, math.inf):
            lambda_c, lambda_p = paper.scales_for(epsilon, order=order)
            rows.append({"epsilon": epsilon, "order": order, "lambda_c (PIC)": lambda_c, "lambda_p (RSM)": lambda_p})
    return pd.DataFrame(rows)


def disagreements(runs: pd.DataFrame, columns: tuple[str, ...] = ("recall", "ratio_pooled", "acc", "dist_km")) -> int:
    """Count settings and measures where the intervals of Nearveil and of the reference do not meet."""
    found = estimates(runs[runs.mechanism == "DPRS"], list(columns)).set_index(_BY)
    count = 0
    for key, row in found[found.index.get_level_values("reading") == NEARVEIL].iterrows():
        other = (*key[:3], REDRAWN)
        count += sum(other in found.index and not meet(row[name], found[name][other]) for name in columns)
    return count


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    dprs = runs[(runs.mechanism == "DPRS") & (runs.reading == NEARVEIL)]
    return {
        "disagreements": disagreements(runs),
        "compared": 4 * len(dprs.groupby(["dataset", "epsilon"])),
        "least_redrawn": dprs["redrawn"].min(),
        "most_redrawn": dprs["redrawn"].max(),
    }


PART = Part("table3", "Table 3: the defenses, what they leave and what ZO-LIA finds", _grid, measure, _tables, _facts)
