"""Table 1: how well attacks find users through the ranked lists of an open service."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from nearveil.attacks.registry import ATTACKS, attack_class
from nearveil.evaluation import paper_numbers
from nearveil.evaluation.studies.protected import (
    attack_users,
    attack_with_reference,
    paper_region,
    seed_of,
    targets,
    without_gaps,
)
from nearveil.evaluation.study import Part, Scope, means, shares
from nearveil.io.datasets import Dataset

KS = (10, 30, 50)
PAPER_ATTACKS = {"GI-LIA": "gi-lia", "ZO-LIA": "zo-lia"}
PRINTED, ROUGH = "ZO-LIA, printed learning rate", "GI-LIA, radius to 100 m"
ADAPTIVE_ACCOUNTS = (1, 4)
# The adaptive attack finds everybody and takes longest: more of it would tell no more.
_ADAPTIVE_SHARE = 0.4
_BY = ["source", "attack", "dataset", "k"]


def _grid(scope: Scope) -> list[dict[str, Any]]:
    def rows(source: str, attack: str, accounts: int = 1, instances: int = scope.instances) -> list[dict[str, Any]]:
        fixed: dict[str, list[Any]] = {
            "source": [source],
            "attack": [attack],
            "accounts": [accounts],
            "instances": [instances],
        }
        return scope.grid(k=KS, **fixed)

    found = [row for attack in PAPER_ATTACKS for source in ("Nearveil", "reference") for row in rows(source, attack)]
    found += rows("reference", PRINTED) + rows("reference", ROUGH)
    few = math.ceil(_ADAPTIVE_SHARE * scope.instances)
    for accounts in ADAPTIVE_ACCOUNTS:
        found += rows("Nearveil", ATTACKS["adaptive"].name, accounts, few)
    for name in scope.attacks:
        attack = attack_class(name)
        for accounts in ADAPTIVE_ACCOUNTS if attack.takes_more_colluders else (attack.colluders_needed,):
            found += rows("yours", name, accounts)
    return found


def measure(
    dataset: Dataset, *, source: str, attack: str, accounts: int, k: int, instances: int, seed: int, run: int
) -> dict[str, Any]:
    """Attack users of a service that has everybody at their true location."""
    served_m = dataset.region.to_metres(dataset.places)
    chosen = targets(dataset, served_m, k, instances, seed, run)
    if source == "reference":
        choices: dict[str, Any] = {"tolerance": 100.0} if attack == ROUGH else {}
        if attack == PRINTED:
            choices = {"step": "printed", "unit": paper_region(dataset.region).metres_per_unit}
        name = attack.partition(",")[0]
        return attack_with_reference(name, dataset, served_m, chosen, k=k, seed=seed, run=run, **choices)
    # The paper's attackers know that lists are exact.
    return attack_users(
        PAPER_ATTACKS.get(attack, attack), dataset, served_m, chosen, k=k, accounts=accounts, seed=seed_of(seed, run),
        tells_exact=True,
    )  # fmt: skip


def _label(source: str, attack: str, accounts: float) -> str:
    if attack.startswith(tuple(PAPER_ATTACKS)):
        return attack
    return f"{attack}, {accounts:.0f} account{'s' if accounts > 1 else ''}"


def estimates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return Dist, Acc, Cost and queries with intervals by source, attack, data set and k."""
    runs = runs.assign(attack=[_label(*row) for row in zip(runs.source, runs.attack, runs.accounts, strict=True)])
    found = means(runs, _BY, ["dist_m", "cost_s", "queries"])
    # Shares have binomial intervals where we have every attack; another's CSV has shares alone.
    known = runs["source"] != paper_numbers.AUTHORS
    acc = [shares(runs[known], _BY, ["acc"], "instances")]
    if not known.all():
        acc.append(means(runs[~known], _BY, ["acc"]))
    return without_gaps(found.merge(pd.concat(acc), on=_BY))


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = estimates(runs)
    own = found.set_index(_BY)
    printed = paper_numbers.table1()
    sources = [source for source in ("Nearveil", "reference", paper_numbers.AUTHORS) if source in set(found.source)]
    beside = []
    for key in found.loc[found.attack.isin(list(PAPER_ATTACKS)), _BY[1:]].drop_duplicates().itertuples(index=False):
        row: dict[str, Any] = {"attack": key.attack, "data set": key.dataset, "k": key.k}
        paper = printed.loc[tuple(key)] if tuple(key) in printed.index else {}
        for name, column in (("Dist (m)", "dist_m"), ("Acc", "acc"), ("Cost (s)", "cost_s"), ("queries", "queries")):
            if column != "queries":
                row[f"{name}, paper"] = paper.get(column)
            for source in sources if column != "queries" else ("Nearveil",):
                row[f"{name}, {source}"] = own[column].get((source, *key))
        beside.append(row)
    others = found[~found.attack.isin(list(PAPER_ATTACKS))]
    names = {"dataset": "data set", "dist_m": "Dist (m)", "acc": "Acc", "queries": "queries", "cost_s": "Cost (s)"}
    columns = ["attack", "dataset", "k", "dist_m", "acc", "queries", "cost_s"]
    return {"table1": pd.DataFrame(beside), "table1-others": others[columns].rename(columns=names)}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    found = runs.groupby(["source", "attack"])[["queries", "dist_m", "acc"]].mean()
    return {
        "gi_queries": found["queries"]["Nearveil", "GI-LIA"],
        "zo_queries": found["queries"]["Nearveil", "ZO-LIA"],
        "gi_dist": found["dist_m"]["Nearveil", "GI-LIA"],
        "rough_dist": found["dist_m"]["reference", ROUGH],
        "printed_acc": found["acc"]["reference", PRINTED],
        "tuned_acc": found["acc"]["reference", "ZO-LIA"],
        "disagreements": disagreements(runs),
        "compared": len(runs[runs.attack.isin(list(PAPER_ATTACKS))].groupby(["attack", "dataset", "k"])),
    }


def disagreements(runs: pd.DataFrame) -> int:
    """Count attacks, data sets and k where the intervals of Acc by Nearveil and by the reference do not meet."""
    found = estimates(runs).set_index(_BY)["acc"]
    return sum(
        not (one.low <= found[("reference", *key)].high and found[("reference", *key)].low <= one.high)
        for (source, *key), one in found.items()
        if source == "Nearveil" and ("reference", *key) in found.index
    )


PART = Part("table1", "Table 1: the attacks on an open service", _grid, measure, _tables, _facts)
