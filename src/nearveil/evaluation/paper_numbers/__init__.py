"""The numbers that the paper prints, to stand beside ours, and those of the authors' code, where somebody ran it.

The paper's figures are pictures without numbers.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import pandas as pd

from nearveil.errors import DataError

AUTHORS = "the authors' code"
"""What tables call results that the authors' code gave, which we did not run."""

_METRICS = {"recall": "recall", "ratio": "ratio_pooled", "acc": "acc", "dist": "dist_km"}
_LABELS = {"Laplace": "2D Laplace"}
_TABLE1 = ["method", "dataset", "k", "dist_m", "acc", "cost_s"]
_TABLE3 = ["dataset", "epsilon", "mechanism", "metric", "value"]


@cache
def table1() -> pd.DataFrame:
    """Return Table 1 by attack, data set and k: ``dist_m``, ``acc`` and ``cost_s``."""
    return _read("table1_attacks.csv").set_index(["method", "dataset", "k"])


@cache
def table2() -> pd.DataFrame:
    """Return Table 2 by data set."""
    return _read("table2_datasets.csv").set_index("dataset")


@cache
def table3() -> pd.DataFrame:
    """Return Table 3 by data set, epsilon and mechanism: ``recall``, ``ratio_pooled``, ``acc`` and ``dist_km``."""
    return _wide(_read("table3_defence.csv"), _TABLE3[:3])


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
    for name, columns in (("table1", _TABLE1), ("table3", _TABLE3)):
        if set(columns) <= set(found.columns):
            return {name: _as_runs(path, found[columns], name)}
    raise DataError(f"{path} needs the columns {','.join(_TABLE1)}, or {','.join(_TABLE3)}")


def _as_runs(path: Path, found: pd.DataFrame, name: str) -> pd.DataFrame:
    numbers = ["k", "dist_m", "acc", "cost_s"] if name == "table1" else ["epsilon", "value"]
    for column in numbers:
        values = pd.to_numeric(found[column], errors="coerce")
        if values.isna().any():
            line = int(values.isna().to_numpy().argmax()) + 2
            raise DataError(f"{path}, line {line}: {column} must be a number, not {found[column].iloc[line - 2]!r}")
        found = found.assign(**{column: values})
    if not len(found):
        raise DataError(f"{path} has no rows")
    if name == "table1":
        found = found.assign(source=AUTHORS, attack=found["method"], label=found["method"]).drop(columns="method")
        return found.assign(run=found.groupby(["attack", "dataset", "k"]).cumcount(), instances=1)
    unknown = sorted(set(found["metric"]) - set(_METRICS))
    if unknown:
        raise DataError(f"{path}: there is no metric {unknown[0]!r}; use {', '.join(_METRICS)}")
    found = found.assign(run=found.groupby(_TABLE3[:4]).cumcount())
    wide = _wide(found, [*_TABLE3[:3], "run"]).reset_index()
    return wide.assign(reading=AUTHORS, instances=1)


def _wide(long: pd.DataFrame, index: Sequence[str]) -> pd.DataFrame:
    named = long.assign(metric=long["metric"].map(_METRICS), mechanism=long["mechanism"].replace(_LABELS))
    found: pd.DataFrame = named.pivot_table(index=list(index), columns="metric", values="value")
    return found


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(resources.files(__package__).joinpath(name).read_text(encoding="utf-8")))
