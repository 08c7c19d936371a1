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
    estimated,
    meet,
    paper_region,
    seed_of,
    targets,
)
from nearveil.evaluation.study import Part, Scope
from nearveil.io.datasets import Dataset

KS = (10, 30, 50)
PAPER_ATTACKS = {"GI-LIA": "gi-lia", "ZO-LIA": "zo-lia"}
PRINTED, ROUGH = "ZO-LIA, printed learning rate", "GI-LIA, radius to 100 m"
ADAPTIVE_ACCOUNTS = (1, 4)
# The adaptive attack finds everybody and takes longest: more of it would tell no more.
_ADAPTIVE_SHARE = 0.4
_BY = ["source", "attack", "dataset", "k"]
_PLACE = {"dataset": "data set"}
_COLUMNS = {"dist_m": "Dist (m)", "acc": "Acc", "cost_s": "Cost (s)", "queries": "queries"}


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
        found = attack_with_reference(name, dataset, served_m, chosen, k=k, seed=seed, run=run, **choices)
        return {"label": attack} | found
    name = PAPER_ATTACKS.get(attack, attack)
    # The paper's attackers know that lists are exact.
    found = attack_users(
        name, dataset, served_m, chosen, k=k, accounts=accounts, seed=seed_of(seed, run), tells_exact=True
    )
    label = f"{attack_class(name).name}, {accounts} account{'s' if accounts > 1 else ''}"
    return {"label": attack if attack in PAPER_ATTACKS else label} | found


def estimates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return Dist, Acc, Cost and queries with intervals by source, attack, data set and k."""
    return estimated(runs.assign(attack=runs["label"]), _BY, list(_COLUMNS), runs["source"] == paper_numbers.AUTHORS)


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = estimates(runs)
    is_paper = found.attack.isin(list(PAPER_ATTACKS))
    sources = [
        one for one in ("paper", "Nearveil", "reference", paper_numbers.AUTHORS) if one in {"paper", *runs.source}
    ]
    printed = paper_numbers.table1().reset_index().rename(columns={"method": "attack"}).assign(source="paper")
    both = pd.concat([found[is_paper], printed[printed.dataset.isin(runs.dataset)].astype(object)])
    beside = both.pivot(index=_BY[1:], columns="source", values=list(_COLUMNS)).astype(object)
    wanted = [(name, source) for name in _COLUMNS for source in sources if name != "queries" or source == "Nearveil"]
    beside = beside.reindex(index=pd.MultiIndex.from_frame(found.loc[is_paper, _BY[1:]].drop_duplicates()))
    beside = beside.reindex(columns=pd.MultiIndex.from_tuples(wanted)).where(lambda cells: cells.notna(), None)
    beside = beside.reset_index().rename(columns=_COLUMNS | _PLACE, level=0)
    beside.columns = pd.MultiIndex.from_tuples([(group, name) if name else ("", group) for group, name in beside])
    others = found.loc[~is_paper, [*_BY[1:], *_COLUMNS]]
    return {"table1": beside, "table1-others": others.rename(columns=_COLUMNS | _PLACE)}


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
    found = estimates(runs).pivot(index=_BY[1:], columns="source", values="acc")[["Nearveil", "reference"]].dropna()
    return sum(not meet(ours, theirs) for ours, theirs in found.itertuples(index=False))


PART = Part("table1", "Table 1: the attacks on an open service", _grid, measure, _tables, _facts)
