"""The frontier: what mechanisms leave to users who ask, against what they leave to the best attacker.

With it, hiding among users against noise in meters: where lists are equally good, and where equally many are named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation.contenders import ALL, Contender, contender
from nearveil.evaluation.stats import Estimate, Mean
from nearveil.evaluation.study import Part, Scope
from nearveil.evaluation.tradeoff import Sizes, measure, together
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.plugins import code_digest
from nearveil.types import FloatArray

METERS = "planar-laplace"
_QUICK = (METERS, "among-published", "metric", "interval", "paper")
_MOST_RUNS = 2
_GENERATED = {DatasetName.GAUSSIAN.value, DatasetName.BETA.value}
_COMPARED_M = (300.0, 800.0)
# Nobody is hidden in a list that a quarter of all users is too few for.
_LEAST_TIMES = 4


def _grid(scope: Scope) -> list[dict[str, Any]]:
    """A few runs with many users each: users tell more than runs do."""
    runs = min(_MOST_RUNS, scope.runs)
    real = tuple(name for name in scope.datasets if name not in _GENERATED)
    once = replace(scope, datasets=real or scope.datasets, runs=1)
    rows = []
    for name in (*(_QUICK if scope.quick else ALL), *scope.mechanisms):
        one = contender(name)
        rows += once.grid(
            contender=[name],
            value=(one.values[1:-1] or one.values)[::2] if scope.quick else one.values,
            runs=[runs],
            queries=[scope.queries],
            targets=[-(-scope.runs * scope.instances // runs)],
            # Somebody else's class may change between calls.
            code=[code_digest(type(one.mechanism))],
        )
    return rows


def measure_setting(
    dataset: Dataset, *, contender: str, value: float, runs: int, queries: int, targets: int, code: str, seed: int,
    run: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure one setting in all of its runs; cells that do not change between them are calibrated once."""
    del code
    one = contender_of(contender)
    if one.swept == "hide_among" and value * _LEAST_TIMES > len(dataset.places):
        return []
    sizes = Sizes(queries=queries, targets=targets)
    return [
        {"run": number, **measure(one, value, dataset, seed=seed, run=number, sizes=sizes)}
        for number in range(run, run + runs)
    ]


contender_of = contender


# Curves, and what a contender has where its curve reaches a level.


_DRAWS = 400
_LEAST = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The points of a contender on one population: estimates by name, in the order of its parameter."""

    dataset: str
    contender: Contender
    values: list[float]
    points: list[dict[str, Estimate]]

    def drawn(self, name: str) -> FloatArray:
        """Return a row of the estimates, and rows of what they might have been, by their intervals."""
        if name == "value":
            return np.tile(self.values, (_DRAWS + 1, 1))
        noise = np.random.default_rng([len(name), *name.encode()]).normal(size=(_DRAWS, len(self.points)))
        ends = [(one[name].value, one[name].low or 0.0, one[name].high or 0.0) for one in self.points]
        middle, low, high = np.array(ends).T
        return np.maximum(np.vstack([middle, middle + noise * (high - low) / (2 * 1.96)]), _LEAST)

    def at(self, name: str, level: float | FloatArray, of: str) -> FloatArray:
        """Return one measure where another reaches a level, on lines between points; NaN where it does not."""
        x, y = np.log(self.drawn(name)), np.log(self.drawn(of))
        levels = np.broadcast_to(np.log(level), len(x))
        order = np.argsort(x, axis=1)
        x, y = np.take_along_axis(x, order, axis=1), np.take_along_axis(y, order, axis=1)
        return np.exp([np.interp(*row, left=math.nan, right=math.nan) for row in zip(levels, x, y, strict=True)])


def estimate(drawn: FloatArray) -> Mean | None:
    """Return the first of them with the spread of the others as a 95 % interval; None if it is not known."""
    known = drawn[1:][np.isfinite(drawn[1:])]
    return Mean(float(drawn[0]), 1.96 * float(known.std())) if np.isfinite(drawn[0]) and len(known) else None


def curves(runs: pd.DataFrame) -> list[Curve]:
    """Return a curve for each contender on each population."""
    found = []
    for (dataset, name), group in runs.groupby(["dataset", "contender"], sort=False):
        settings = {value: together(own.to_dict("records")) for value, own in group.groupby("value", sort=False)}
        found.append(Curve(str(dataset), contender(str(name)), list(settings), list(settings.values())))
    return found


# Tables.


_MEASURES = {
    "found": "found within 100 m", "named_sparsest": "named, sparsest tenth", "extra_m": "extra meters",
    "recall": "recall@10", "error_m": "attacker's error (m)", "named": "named",
}  # fmt: skip
_LEVELS = {"found": (0.5, 0.3, 0.2), "named_sparsest": (0.5, 0.3, 0.2, 0.1)}
_METERS, _AMONG, _TIMES = "meters", "among", "times"


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = curves(runs)
    settings = [
        {"data set": one.dataset, "mechanism": one.contender.label, "setting": one.contender.parameter(value)}
        | {label: point[name] for name, label in _MEASURES.items()}
        | {"guarantee": one.contender.promise}
        for one in found
        for value, point in zip(one.values, one.points, strict=True)
    ]
    equal = [
        {("", "data set"): one.dataset, ("", "mechanism"): one.contender.label}
        | {
            (f"extra meters where {_MEASURES[name]} is", f"{level:g}"): estimate(one.at(name, level, "extra_m"))
            for name, levels in _LEVELS.items()
            for level in levels
        }
        for one in found
    ]
    return {
        "frontier": pd.DataFrame(settings),
        "frontier-equal": pd.DataFrame(equal),
        "among-equal-lists": _beside(found, "recall", ("named", "named_sparsest", "extra_m")),
        "among-equal-naming": _beside(found, "named", ("recall", "extra_m")),
    }


def _comparisons(found: list[Curve]) -> list[tuple[Curve, int, Curve]]:
    """Return every number of meters that is compared, with every way to hide among users."""
    low, high = _COMPARED_M
    return [
        (meters, number, among)
        for meters in found
        for number, value in enumerate(meters.values)
        for among in found
        if meters.contender.name == METERS and low <= value <= high
        and among.contender.swept == "hide_among" and among.dataset == meters.dataset
    ]  # fmt: skip


def _beside(found: list[Curve], equal: str, names: tuple[str, ...]) -> pd.DataFrame:
    """Compare hiding among users with noise in meters where both have as much of one measure."""
    rows = []
    for meters, number, among in _comparisons(found):
        level = meters.drawn(equal)[:, number]
        users = among.at(equal, level, "value")[0]
        row: dict[tuple[str, str], Any] = {
            ("", "data set"): meters.dataset,
            ("", "noise (m)"): meters.values[number],
            ("", "cells"): among.contender.label.partition(", ")[2],
            ("", "among users"): round(users) if math.isfinite(users) else None,
            ("", _MEASURES[equal]): meters.points[number][equal],
        }
        for name in names:
            there = among.at(equal, level, name)
            row[_MEASURES[name], _METERS] = meters.points[number][name]
            row[_MEASURES[name], _AMONG] = estimate(there)
            row[_MEASURES[name], _TIMES] = estimate(there / meters.drawn(name)[:, number])
        rows.append(row)
    return pd.DataFrame(rows)


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    found = curves(runs)
    lists, naming = (_tables(runs)[f"among-equal-{of}"] for of in ("lists", "naming"))

    def span(table: pd.DataFrame, name: str) -> tuple[float, float] | None:
        known = [one.value for one in table.get((_MEASURES[name], _TIMES), ()) if isinstance(one, Mean)]
        return (min(known), max(known)) if known else None

    return {
        "runs": int(runs["runs"].max()),
        "targets": int(runs["targets"].max()),
        "named": int(runs["named_cases"].max()),
        "nearest_m": {one.dataset: one.points[0]["nearest_m"] for one in found},
        "sparsest_times": span(lists, "named_sparsest"),
        "named_times": span(lists, "named"),
        "extra_times": span(lists, "extra_m"),
        "recall_times": span(naming, "recall"),
        "extra_times_naming": span(naming, "extra_m"),
    }


PART = Part(
    "frontier", "The frontier: what users get, and what the best attacker gets", _grid, measure_setting, _tables, _facts
)
