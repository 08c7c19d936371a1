"""Figures 4 to 9: recall along the length of the list, the number of centers and the size of intervals; RSM's time.

Each is measured in Nearveil's reading of what becomes of centers outside the region, and coarsely in others.

For Figure 8, noise and resample adds noise again and again until the result lies in the disc: the same law, in a time
without a bound. It and RSM are those of the reference, in NumPy.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation import paper
from nearveil.evaluation.studies.protected import BASELINES, CENTERS, GAUSSIAN, KS, NEARVEIL, K, ask
from nearveil.evaluation.study import Part, Scope, differences, generator, means
from nearveil.io.datasets import Dataset
from nearveil.privacy.accounting import Noise
from nearveil.region import named_region

PAPER_GAMMA, PAPER_MOST_MS = 0.5, 40.0
POINTS, RSM, RESAMPLING = 100, "RSM", "noise and resample"
FIXED_EPSILON, FIXED_RADIUS, NOBODY = 1.0, 0.5, "nobody"
_NAMES = {
    "dataset": "data set", "recall": "recall, uniform queries", "mse_km2": "distance MSE (km²), uniform queries",
    "users_recall": "recall, queries from users", "users_mse_km2": "distance MSE (km²), queries from users",
}  # fmt: skip
_RECALLS, _FOUR = ("recall", "users_recall"), ("DPRS", *BASELINES)
_OTHERS = ("kept", "clipped", "as printed")


def measure(dataset: Dataset, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody once, and ask for lists of ten."""
    return ask(dataset, ks=[K], **settings)


def measure_lengths(dataset: Dataset, **settings: Any) -> list[dict[str, Any]]:
    """Publish everybody once, and ask for lists of every length."""
    return ask(dataset, ks=KS, **settings)


def _by_k(scope: Scope, readings: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    # Baselines have no readings.
    own = names if NEARVEIL in readings else ["DPRS"]
    return scope.grid(mechanism=own, reading=readings, epsilon=[3.0], centers=[CENTERS], queries=[scope.queries])


def _by_centers(scope: Scope, readings: Sequence[str], name: str) -> list[dict[str, Any]]:
    centers = (600, 1000) if scope.quick else (600, 700, 800, 900, 1000)
    size: dict[str, Any] = {"centers": centers, "queries": [scope.queries]}
    return scope.grid(mechanism=[name], reading=readings, epsilon=scope.epsilons, **size)


def _by_gamma(scope: Scope, readings: Sequence[str]) -> list[dict[str, Any]]:
    gammas = (0.2, 0.5, 0.8) if scope.quick else (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    return scope.grid(gamma=gammas, mechanism=["DPRS"], reading=readings, epsilon=[1.0], queries=[scope.queries])


def _in_readings(scope: Scope, grid: Callable[[Scope, Sequence[str]], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return grid(scope, [NEARVEIL]) + ([] if scope.quick else grid(replace(scope, quick=True), _OTHERS))


def against_half(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what every other gamma has more than the paper's 0.5, paired."""
    columns = ["recall", "mse_km2"]
    found = [
        differences(runs, ["dataset", "reading"], columns, of="gamma", first=gamma, second=PAPER_GAMMA).assign(
            gamma=gamma
        )
        for gamma in sorted({*runs.gamma} - {PAPER_GAMMA})
    ]
    return pd.concat(found)[["dataset", "reading", "gamma", *columns]]


def _tables(
    runs: pd.DataFrame, name: str, by: list[str], paired: Callable[[pd.DataFrame], pd.DataFrame] | None = None
) -> dict[str, pd.DataFrame]:
    columns = [*_NAMES][1:] if name == "figure9" else _RECALLS
    found = {name: means(runs[runs.reading == NEARVEIL], ["dataset", *by], columns)} | (
        {} if paired is None else {f"{name}-differences": paired(runs)}
    )
    return {each: table.rename(columns=_NAMES) for each, table in found.items()}


# Figure 8.


def _by_disc(scope: Scope) -> list[dict[str, Any]]:
    radii = (0.3, 0.5, 1.0) if scope.quick else (0.2, 0.4, 0.5, 0.6, 0.8, 1.0)
    epsilons = (5.0,) if scope.quick else (0.5, 2.0, 3.0, 4.0, 5.0)
    discs = [(radius, FIXED_EPSILON) for radius in radii] + [(FIXED_RADIUS, epsilon) for epsilon in epsilons]
    return [
        {"dataset": NOBODY, "noise": noise, "radius": radius, "epsilon": epsilon, "seed": scope.seed, "run": run}
        for noise in ("laplace", "gaussian") for radius, epsilon in discs for run in range(scope.runs)
    ]  # fmt: skip


def measure_time(
    _nobody: Dataset, *, noise: Noise, radius: float, epsilon: float, seed: int, run: int
) -> list[dict[str, Any]]:
    """Move 100 points of [-1, 1]² into a disc around the origin, at the paper's scale: the median time of three."""
    _, scale = paper.scales_for(epsilon, noise=noise)
    rng = generator(seed, run, 1)
    x, center = rng.uniform(-1, 1, (POINTS, 2)), np.zeros((POINTS, 2))
    samplers: dict[str, Callable[[], object]] = {
        RSM: lambda: paper.rsm(x, center, np.full(POINTS, radius), scale, rng, noise=noise),
        RESAMPLING: lambda: paper.noise_and_resample(x, center[0], radius, scale, rng, noise=noise),
    }
    # The first time of four warms up.
    times = {name: timeit.repeat(work, number=1, repeat=4)[1:] for name, work in samplers.items()}
    return [{"sampler": name, "ms": 1000 * statistics.median(three)} for name, three in times.items()]


def _times(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    by = ["noise", "radius", "epsilon"]
    found = means(runs, [*by, "sampler"], ["ms"]).pivot(index=by, columns="sampler", values="ms")
    found = found[[RSM, RESAMPLING]].add_suffix(" (ms)").reset_index().rename(columns={"radius": "R"})
    return {"figure8": found.rename_axis(columns=None)}


def time_facts(runs: pd.DataFrame) -> dict[str, Any]:
    """Return how long RSM takes at most, and how much longer noise and resample takes."""
    times = runs.pivot_table(index=["noise", "radius", "epsilon"], columns="sampler", values="ms")
    ratio = times[RESAMPLING] / times[RSM]
    return {"slowest_ms": times[RSM].max(), "least_ratio": ratio.min(), "most_ratio": ratio.max()}


def populations() -> Mapping[str, Dataset]:
    """Return nobody, for what needs no population."""
    return {NOBODY: Dataset(NOBODY, named_region("san-francisco"), np.empty((0, 2)))}


def _figure(number: int, title: str, grid: Any, by: list[str], paired: Any = None) -> Part:
    work = measure_lengths if "k" in by else measure
    name = f"figure{number}"
    tables = partial(_tables, name=name, by=by, paired=paired)
    return Part(name, f"Figure {number}: {title}", partial(_in_readings, grid=grid), work, tables)


_LIST, _MANY = "recall against the length of the list", "recall against the number of centers"
_STEPS, _FIVE = ["epsilon", "centers"], partial(_by_k, names=(*_FOUR, GAUSSIAN))
PARTS = {
    "figure4": _figure(4, _LIST, partial(_by_k, names=_FOUR), ["mechanism", "k"]),
    "figure5": _figure(5, _MANY, partial(_by_centers, name="DPRS"), _STEPS),
    "figure6": _figure(6, f"{_MANY}, Gaussian noise", partial(_by_centers, name=GAUSSIAN), _STEPS),
    "figure7": _figure(7, f"{_LIST}, with Gaussian noise", _FIVE, ["mechanism", "k"]),
    "figure8": Part("figure8", "Figure 8: the time that sampling takes", _by_disc, measure_time, _times, time_facts,
                    populations),
    "figure9": _figure(9, "how large intervals should be", _by_gamma, ["gamma"], against_half),
}  # fmt: skip
