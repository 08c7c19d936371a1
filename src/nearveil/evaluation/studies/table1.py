"""Table 1: how well attacks find users through the ranked lists of an open service."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from nearveil.attacks.registry import ATTACKS, attack_class, code_digest
from nearveil.evaluation import paper_numbers
from nearveil.evaluation.studies import protected
from nearveil.evaluation.study import Part, Scope
from nearveil.io.datasets import Dataset

KS = (10, 30, 50)
PAPER_ATTACKS = {"GI-LIA": "gi-lia", "ZO-LIA": "zo-lia"}
PRINTED, ROUGH, LONG = "ZO-LIA, printed learning rate", "radius to 100 m", "100 queries a radius"
RANK_K = "GI-LIA, colluder at rank k"
READINGS: dict[str, dict[str, Any]] = {
    f"{attack}, {name}": {"tolerance": tolerance}
    for name, tolerance in ((ROUGH, 100.0), (LONG, -1.0)) for attack in PAPER_ATTACKS
} | {RANK_K: {"radius": "rank k"}, PRINTED: {"step": "printed"}}  # fmt: skip
"""What the paper leaves open about its attacks, as choices of the reference."""
ADAPTIVE_ACCOUNTS = (1, 4)
# The adaptive attack finds everybody and takes longest: more of it would tell no more.
_ADAPTIVE_SHARE = 0.4
_BY = ["attack", "dataset", "k"]
_COLUMNS = {"dist_m": "Dist (m)", "acc": "Acc", "cost_s": "Cost (s)", "queries": "queries"}


def _grid(scope: Scope) -> list[dict[str, Any]]:
    def rows(source: str, attack: str, accounts: int = 1, instances: int = scope.instances) -> list[dict[str, Any]]:
        fixed = {"source": source, "attack": attack, "accounts": accounts, "instances": instances}
        return [row | fixed for row in scope.grid(k=KS)]

    found = [row for attack in PAPER_ATTACKS for source in ("Nearveil", "reference") for row in rows(source, attack)]
    found += [row for reading in READINGS for row in rows("reference", reading)]
    few = math.ceil(_ADAPTIVE_SHARE * scope.instances)
    for accounts in ADAPTIVE_ACCOUNTS:
        found += rows("Nearveil", ATTACKS["adaptive"].name, accounts, few)
    for name in scope.attacks:
        attack = attack_class(name)
        for accounts in ADAPTIVE_ACCOUNTS if attack.takes_more_accounts else (attack.accounts_needed,):
            # Your class may change between calls.
            found += [row | {"code": code_digest(attack)} for row in rows("yours", name, accounts)]
    return found


def measure(
    dataset: Dataset, *, source: str, attack: str, accounts: int, k: int, instances: int, seed: int, run: int,
    code: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Attack users of a service that has everybody at their true location."""
    served_m = dataset.region.to_metres(dataset.places)
    drawn = protected.targets(dataset, served_m, k, instances, seed, run)
    if source == "reference":
        choices = READINGS.get(attack, {})
        if attack == PRINTED:
            choices = choices | {"unit": protected.paper_region(dataset.region).metres_per_unit}
        name = attack.partition(",")[0]
        return {"label": attack} | protected.attack_with_reference(
            name, dataset, served_m, drawn, k=k, seed=seed, run=run, **choices
        )  # fmt: skip
    label, name = attack, PAPER_ATTACKS.get(attack, attack)
    if attack not in PAPER_ATTACKS:
        label = f"{attack_class(name).name}, {accounts} account{'s' if accounts > 1 else ''}"
    # The paper's attackers know that lists are exact.
    options: dict[str, Any] = {"accounts": accounts, "seed": protected.seed_of(seed, run), "tells_exact": True}
    return {"label": label} | protected.attack_users(name, dataset, served_m, drawn, k=k, **options)


def estimates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return Dist, Acc, Cost and queries with intervals by source, attack, data set and k."""
    return protected.estimated(runs.assign(attack=runs["label"]), ["source", *_BY], list(_COLUMNS))


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    printed = paper_numbers.table1()
    found = estimates(pd.concat([printed[printed.dataset.isin(runs.dataset)], runs], ignore_index=True))
    is_paper = found.attack.isin(list(PAPER_ATTACKS))
    # The reference asks as many queries, and nobody would use it for its speed.
    found.loc[is_paper & (found.source == "reference"), ["cost_s", "queries"]] = None
    others = found.loc[~is_paper, [*_BY, *_COLUMNS]].rename(columns=_COLUMNS | {"dataset": "data set"})
    return {"table1": protected.beside(found[is_paper], _BY, _COLUMNS, "source"), "table1-others": others}


def agreement(runs: pd.DataFrame) -> dict[str, int]:
    """Compare Acc and Dist of Nearveil's attacks with the reference's, on the same users of the same runs."""
    return protected.disagreements(runs, _BY, ["acc", "dist_m"], "source", ("Nearveil", "reference"))


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    found = runs.groupby(["source", "attack"])[["queries", "dist_m", "acc"]].mean()
    wanted = {"printed": ("reference", PRINTED), "rank_k": ("reference", RANK_K)}
    for name, attack in (("gi", "GI-LIA"), ("zo", "ZO-LIA")):
        wanted |= {name: ("Nearveil", attack), f"tuned_{name}": ("reference", attack)}
        wanted |= {
            f"{key}_{name}": ("reference", f"{attack}, {one}") for key, one in (("rough", ROUGH), ("long", LONG))
        }
    facts = {f"{name}_{column}": found[column][key] for name, key in wanted.items() for column in found}
    return facts | agreement(runs)


PART = Part("table1", "Table 1: the attacks on an open service", _grid, measure, _tables, _facts)
