"""The numbers that the paper prints, to stand beside ours, and those of the authors' code, where somebody ran it.

Both are rows of runs, as our own measurements are. The paper's figures are pictures without numbers.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from pathlib import Path

import pandas as pd

from nearveil.errors import DataError

PAPER, AUTHORS = "the paper", "the authors' code"
"""Whose numbers they are; we did not run the authors' code."""

_METRICS = {"recall": "recall", "ratio": "ratio_pooled", "acc": "acc", "dist": "dist_km"}
_TABLE1 = ["method", "dataset", "k", "dist_m", "acc", "cost_s"]
_TABLE3 = ["dataset", "epsilon", "mechanism", "metric", "value"]
_KNOWN = {
    "method": ["GI-LIA", "ZO-LIA"], "mechanism": ["DPRS", "SRR", "Square", "Laplace", "2D Laplace"],
    "metric": [*_METRICS],
}  # fmt: skip
_MOST = {"k": math.inf, "dist_m": 60_000.0, "acc": 1.0, "cost_s": math.inf, "epsilon": math.inf, "value": math.nan}


@cache
def table1() -> pd.DataFrame:
    """Return Table 1: ``attack``, ``dataset``, ``k``, ``dist_m``, ``acc`` and ``cost_s``."""
    return _as_runs(_read("table1_attacks.csv"), PAPER)


@cache
def table2() -> pd.DataFrame:
    """Return Table 2 as it is printed."""
    return _read("table2_datasets.csv")


@cache
def table3() -> pd.DataFrame:
    """Return Table 3: ``dataset``, ``epsilon``, ``mechanism``, and its four measures."""
    return _as_runs(_read("table3_defence.csv"), PAPER)


def theirs(path: Path) -> dict[str, pd.DataFrame]:
    """Read what the authors' code gave, to be added to the runs of ``table1`` or ``table3``.

    A file has the columns ``method,dataset,k,dist_m,acc,cost_s`` for Table 1, or
    ``dataset,epsilon,mechanism,metric,value`` for Table 3, with the metrics recall, ratio, acc and dist (km). Further
    rows of one setting are further runs.
    """
    try:
        found = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from None
    name = next((name for name, wanted in (("table1", _TABLE1), ("table3", _TABLE3)) if {*wanted} <= {*found}), None)
    if name is None:
        raise DataError(f"{path} needs the columns {','.join(_TABLE1)}, or {','.join(_TABLE3)}")
    if not len(found):
        raise DataError(f"{path} has no rows")
    for column in [one for one in found if one in _KNOWN or one in _MOST]:
        values = found[column]
        if column in _KNOWN:
            good, wanted = values.isin(_KNOWN[column]), f"one of {', '.join(_KNOWN[column])}"
        else:
            # A share, unless it is Dist in km; ratios by published distances can be above 1.
            most = found["metric"].map({"dist": 60.0}).fillna(1.5) if column == "value" else _MOST[column]
            found[column] = pd.to_numeric(values, errors="coerce")
            good, wanted = found[column].between(0, most), "a number in its range (shares to 1, Dist in km or m)"
        if not good.all():
            line = int(good.to_numpy().argmin())
            raise DataError(f"{path}, line {line + 2}: {column} must be {wanted}, not {values.iloc[line]}")
    return {name: _as_runs(found, AUTHORS)}


def _as_runs(found: pd.DataFrame, whose: str) -> pd.DataFrame:
    """Return rows as ours are, without a number of instances."""
    if "method" in found:
        found = found[_TABLE1].rename(columns={"method": "attack"}).assign(source=whose)
        found = found.assign(label=found["attack"], run=found.groupby(["attack", "dataset", "k"]).cumcount())
    else:
        found = found.assign(mechanism=found["mechanism"].replace({"Laplace": "2D Laplace"}), reading=whose)
        found = found.assign(metric=found["metric"].map(_METRICS), run=found.groupby(_TABLE3[:4]).cumcount())
        index = ["dataset", "epsilon", "mechanism", "reading", "run"]
        found = found.pivot_table(index=index, columns="metric", values="value", sort=False).reset_index()
    return found.assign(instances=math.nan).rename_axis(columns=None)


def _read(name: str) -> pd.DataFrame:
    with resources.files(__package__).joinpath(name).open(encoding="utf-8") as file:
        return pd.read_csv(file)
