"""Figure 8: how long it takes to move users into a disc, by RSM as the paper prints it and by noise and resample.

Noise and resample adds noise again and again until the result lies in the disc: the same law, in a time without a
bound. Both are those of the reference, in NumPy.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation import paper
from nearveil.evaluation.study import Part, Scope, generator, means
from nearveil.io.datasets import Dataset
from nearveil.mechanisms._disc_law import NOISE_CODES
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.privacy.accounting import Noise
from nearveil.randomness import numbered_rows
from nearveil.region import named_region

POINTS = 100
PAPER_MOST_MS = 40.0
RSM, RESAMPLING, OURS = "RSM", "noise and resample", "Nearveil's sampler"
FIXED_EPSILON, FIXED_RADIUS = 1.0, 0.5
NOBODY = "nobody"
_RADII, _QUICK_RADII = (0.2, 0.4, 0.5, 0.6, 0.8, 1.0), (0.3, 0.5, 1.0)
_EPSILONS, _QUICK_EPSILONS = (0.5, 2.0, 3.0, 4.0, 5.0), (5.0,)
_REPEATS = 3


def _grid(scope: Scope) -> list[dict[str, Any]]:
    radii, epsilons = (_QUICK_RADII, _QUICK_EPSILONS) if scope.quick else (_RADII, _EPSILONS)
    where = [(radius, FIXED_EPSILON) for radius in radii] + [(FIXED_RADIUS, epsilon) for epsilon in epsilons]
    return [
        {"dataset": NOBODY, "noise": noise, "radius": radius, "epsilon": epsilon, "seed": scope.seed, "run": run}
        for noise in ("laplace", "gaussian")
        for radius, epsilon in where
        for run in range(scope.runs)
    ]


def measure(
    _nobody: Dataset, *, noise: Noise, radius: float, epsilon: float, seed: int, run: int
) -> list[dict[str, Any]]:
    """Move 100 points of [-1, 1]² into a disc around the origin, at the paper's scale: the median time of three."""
    _, scale = paper.scales_for(epsilon, noise=noise)
    rng = generator(seed, run, 1)
    x, center = rng.uniform(-1, 1, (POINTS, 2)), np.zeros((POINTS, 2))
    scales = np.full(POINTS, scale / radius)
    samplers: dict[str, Callable[[], object]] = {
        RSM: lambda: paper.rsm(x, center, np.full(POINTS, radius), scale, rng, noise=noise),
        RESAMPLING: lambda: paper.noise_and_resample(x, center[0], radius, scale, rng, noise=noise),
        OURS: lambda: sample_disc(NOISE_CODES[noise], x / radius, scales, numbered_rows(POINTS, rng)),
    }
    return [{"sampler": name, "ms": _median_ms(work)} for name, work in samplers.items()]


def _median_ms(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return 1000 * statistics.median(found)


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    by = ["noise", "radius", "epsilon"]
    found = means(runs, [*by, "sampler"], ["ms"]).pivot(index=by, columns="sampler", values="ms")
    found = found[[RSM, RESAMPLING, OURS]].add_suffix(" (ms)").reset_index().rename(columns={"radius": "R"})
    return {"figure8": found.rename_axis(columns=None)}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    times = runs.pivot_table(index=["noise", "radius", "epsilon"], columns="sampler", values="ms")
    ratio = times[RESAMPLING] / times[RSM]
    return {"slowest_ms": times[RSM].max(), "least_ratio": ratio.min(), "most_ratio": ratio.max()}


def populations() -> Mapping[str, Dataset]:
    """Return nobody: no population is needed."""
    return {NOBODY: Dataset(NOBODY, named_region("san-francisco"), np.empty((0, 2)))}


PART = Part("figure8", "Figure 8: the time that sampling takes", _grid, measure, _tables, _facts, populations)
