"""The frontier: what mechanisms leave to users who ask, against what they leave to the best attacker.

With it, hiding among users against noise in meters, where lists are equally good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nearveil.attacks.registry import code_digest
from nearveil.evaluation.contenders import ALL, Contender, contender
from nearveil.evaluation.stats import Estimate, Mean
from nearveil.evaluation.study import Part, Scope
from nearveil.evaluation.tradeoff import Sizes, measure, together
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.types import FloatArray

METERS = "planar-laplace"
_QUICK = (METERS, "among-published", "metric", "interval", "paper")
_GENERATED = {DatasetName.GAUSSIAN.value, DatasetName.BETA.value}
# Users tell more than runs do: a few runs with many users each.
_MOST_RUNS = 2


def _grid(scope: Scope) -> list[dict[str, Any]]:
    runs, rows = min(_MOST_RUNS, scope.runs), []
    real = tuple(name for name in scope.datasets if name not in _GENERATED)
    targets = -(-scope.runs * scope.instances // runs)
    once = replace(scope, datasets=real or scope.datasets, runs=1)
    for name in (*(_QUICK if scope.quick else ALL), *scope.mechanisms):
        one = contender(name)
        values = (one.values[1:-1] or one.values)[::2] if scope.quick else one.values
        # Somebody else's class may change between calls.
        settings = {"contender": [name], "value": values, "code": [code_digest(type(one.mechanism))]}
        sizes = {"queries": [scope.queries], "targets": [targets], "named_most": [2_000 if scope.quick else 5_000]}
        rows += once.grid(**settings, runs=[runs], **sizes)
    return rows


def measure_setting(dataset: Dataset, **setting: Any) -> list[dict[str, Any]]:
    """Measure a setting in all of its runs; cells that do not change between them are calibrated once."""
    one, value, seed = contender(setting["contender"]), setting["value"], setting["seed"]
    if not one.suits(value, len(dataset.places)):
        return []
    sizes = Sizes(setting["queries"], setting["targets"], setting["named_most"])
    named = {"mechanism": one.label, "setting": one.parameter(value)}
    return [
        {"run": run, **named, **measure(one, value, dataset, seed=seed, run=run, sizes=sizes)}
        for run in range(setting["runs"])
    ]


# Curves: what a contender has where another of its measures reaches a level.


_DRAWS = 400
_LEAST, _SURELY = 1e-6, 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The points of a contender on one population: the values of its parameter, and estimates by name at each."""

    dataset: str
    contender: Contender
    values: list[float]
    points: list[dict[str, Estimate]]

    def drawn(self, name: str) -> FloatArray:
        """Return a row of the estimates, and rows of what they might have been, by their intervals."""
        if name == "value":
            return np.tile(self.values, (_DRAWS + 1, 1))
        ends = [(one[name].value, one[name].low or 0.0, one[name].high or 0.0) for one in self.points]
        middle, low, high = np.array(ends).T
        rng = np.random.default_rng(list(f"{self.dataset} {self.contender.name} {name}".encode()))
        noise = rng.normal(size=(_DRAWS, len(ends))) * (high - low) / (2 * 1.96)
        return np.maximum(np.vstack([middle, middle + noise]), _LEAST)

    def at(self, name: str, levels: FloatArray, of: str) -> FloatArray:
        """Return one measure where another has these levels, on lines between points; NaN beyond the ends."""
        x, y = np.log(self.drawn(name)), np.log(self.drawn(of))
        order = np.argsort(x, axis=1)
        rows = zip(np.log(levels), np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1), strict=True)
        return np.exp([np.interp(*row, left=math.nan, right=math.nan) for row in rows])


def curves(runs: pd.DataFrame) -> list[Curve]:
    """Return a curve for each contender on each population."""
    found = []
    for (dataset, name), group in runs.groupby(["dataset", "contender"], sort=False):
        points = {value: together(own.to_dict("records")) for value, own in group.groupby("value", sort=False)}
        found.append(Curve(str(dataset), contender(str(name)), list(points), list(points.values())))
    return found


def _estimate(drawn: FloatArray) -> Mean | None:
    """Return the first with the spread of the others as a 95 % interval; None where curves may not reach."""
    surely = np.isfinite(drawn[0]) and np.isfinite(drawn).mean() >= _SURELY
    return Mean(float(drawn[0]), 1.96 * float(np.nanstd(drawn[1:]))) if surely else None


# Tables.


_NAMES = {
    "found": "found within 100 m", "named_sparsest": "named, sparsest tenth", "extra_m": "extra meters",
    "listed_m": "users listed (m)", "recall": "recall@10", "error_m": "attacker's error (m)", "named": "named",
}  # fmt: skip
_COMPARED_M = (300.0, 800.0)
_USUAL_M, _TIMES = 500.0, "times"


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found, settings = curves(runs), []
    for one in found:
        for value, point in zip(one.values, one.points, strict=True):
            measured = {label: point[name] for name, label in _NAMES.items()}
            whose = {
                "data set": one.dataset,
                "mechanism": one.contender.label,
                "setting": one.contender.parameter(value),
            }
            settings.append({**whose, **measured, "guarantee": one.contender.promise})
    return {"frontier": pd.DataFrame(settings), "among-equal-lists": _beside(found)}


def _beside(found: list[Curve]) -> pd.DataFrame:
    """Compare hiding among users with noise in meters where both have the same recall."""
    meters = {one.dataset: one for one in found if one.contender.name == METERS}
    rows = []
    for among in [one for one in found if one.contender.swept == "hide_among" and one.dataset in meters]:
        beside = meters[among.dataset]
        for number, length_m in enumerate(beside.values):
            if not _COMPARED_M[0] <= length_m <= _COMPARED_M[1]:
                continue
            levels = beside.drawn("recall")[:, number]
            cells, users = among.contender.label.removeprefix("among, "), _estimate(among.at("recall", levels, "value"))
            head = {"data set": among.dataset, "cells": cells, "noise (m)": length_m, "users": users}
            row = {("", label): value for label, value in head.items()}
            for name in ("named", "named_sparsest", "extra_m"):
                there = among.at("recall", levels, name)
                row[_NAMES[name], "noise"] = beside.points[number][name]
                row[_NAMES[name], "among"] = _estimate(there)
                row[_NAMES[name], _TIMES] = _estimate(there / beside.drawn(name)[:, number])
            rows.append(row)
    return pd.DataFrame(rows)


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {name: int(runs[name].max()) for name in ("runs", "queries", "targets", "named_most")}
    found["noise"] = []
    for one in curves(runs):
        if one.contender.name == METERS:
            usual = int(np.argmin(np.abs(np.array(one.values) - _USUAL_M)))
            found["noise"].append({"dataset": one.dataset, "noise_m": one.values[usual], **one.points[usual]})
    # From the least to the most, over populations, lengths and cells.
    table = _tables(runs)["among-equal-lists"]
    for name, label in _NAMES.items():
        known = [one.value for one in table.get((label, _TIMES), ()) if one is not None]
        found[f"lists_{name}"] = (min(known), max(known)) if known else None
    return found


_TITLE = "The frontier: what users get, and what the best attacker gets"
PART = Part("frontier", _TITLE, _grid, measure_setting, _tables, _facts)
