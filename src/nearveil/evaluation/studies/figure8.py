"""Figure 8: how long it takes to move points into a disc, by the paper's sampler, by ours, and by noise and resample.

All are compiled. Noise and resample adds noise again and again until the result lies in the disc: the same law, in a
time without a bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nearveil.errors import UsageError
from nearveil.evaluation.study import Part, Scope, generator, means
from nearveil.io.datasets import Dataset
from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, NOISE_CODES, log_ratio
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.privacy.accounting import QUERIES_PER_ROUND, Noise, paper_scales
from nearveil.randomness import numbered_rows
from nearveil.region import named_region
from nearveil.types import FloatArray

POINTS, MOST_TRIES = 100, 10_000_000
PAPER_MOST_MS = 40.0
RSM, RESAMPLING, OURS = "RSM", "noise and resample", "Nearveil's sampler"
FIXED_EPSILON, FIXED_RADIUS = 1.0, 0.5
_RADII, _QUICK_RADII = tuple(number / 10 for number in range(1, 11)), (0.2, 0.5, 1.0)
_EPSILONS, _QUICK_EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 5.0)
_REPEATS = 9
_BY = ["noise", "radius", "epsilon", "sampler"]


def noise_and_resample(
    x: FloatArray, *, centre: tuple[float, float], radius: float, scale: float, noise: Noise,
    rng: np.random.Generator, most_tries: int = MOST_TRIES,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Return a point of the disc for every row of ``x``, and how many tries that took in all.

    Raises
    ------
    UsageError
        If a single row takes more than ``most_tries``.
    """
    drawn, tries = _resample(NOISE_CODES[noise], x, *centre, radius, scale, most_tries, rng)
    if np.isnan(drawn).any():
        raise UsageError(f"noise and resample gave up on a row after {most_tries:,} tries; use a larger scale or disc")
    return drawn, int(tries)


@kernel
def _resample(
    noise: int, x: FloatArray, center_x: float, center_y: float, radius: float, scale: float, most_tries: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:  # fmt: skip
    out = np.full(x.shape, np.nan)
    tries = 0
    for i in range(len(x)):
        for _ in range(most_tries):
            tries += 1
            if noise == LAPLACE:
                t1 = x[i, 0] + scale * (math.log1p(-rng.random()) - math.log1p(-rng.random()))
                t2 = x[i, 1] + scale * (math.log1p(-rng.random()) - math.log1p(-rng.random()))
            else:
                t1 = x[i, 0] + scale * rng.standard_normal()
                t2 = x[i, 1] + scale * rng.standard_normal()
            if (t1 - center_x) ** 2 + (t2 - center_y) ** 2 <= radius * radius:
                out[i, 0], out[i, 1] = t1, t2
                break
    return out, tries


@kernel
def uniform_route(noise: int, x1: float, x2: float, scale: float, rng: np.random.Generator) -> tuple[float, float]:
    """Propose uniformly on the unit disc, accept with f / M: the paper's Algorithm 2, with R kept in line 9."""
    while True:
        radius, angle = math.sqrt(rng.random()), 2.0 * math.pi * rng.random()
        t1, t2 = radius * math.cos(angle), radius * math.sin(angle)
        if np.log(rng.random()) <= log_ratio(noise, x1, x2, t1, t2, scale):
            return t1, t2


@kernel
def _rejection_sampling(noise: int, x: FloatArray, scale: float, rng: np.random.Generator) -> float:
    total = 0.0
    for i in range(len(x)):
        total += uniform_route(noise, x[i, 0], x[i, 1], scale, rng)[0]
    return total


def _grid(scope: Scope) -> list[dict[str, Any]]:
    radii, epsilons = (_QUICK_RADII, _QUICK_EPSILONS) if scope.quick else (_RADII, _EPSILONS)
    where = [(radius, FIXED_EPSILON) for radius in radii] + [(FIXED_RADIUS, one) for one in epsilons if one != 1.0]
    runs = {"seed": scope.seed, "dataset": "nobody"}
    return [
        {"noise": noise, "radius": radius, "epsilon": epsilon, "run": run} | runs
        for noise in ("laplace", "gaussian") for radius, epsilon in where for run in range(scope.runs)
    ]  # fmt: skip


def measure(
    _nobody: Dataset, *, noise: Noise, radius: float, epsilon: float, seed: int, run: int
) -> list[dict[str, Any]]:
    """Move 100 points of [-1, 1]² into a disc around the origin, at the paper's noise scale; the best of 9 times."""
    scale = paper_scales(epsilon, delta=1e-5, queries=12 * QUERIES_PER_ROUND, noise=noise).release_scale
    rng = generator(seed, run, 1)
    points = rng.uniform(-1, 1, (POINTS, 2))
    code, unit, scales = NOISE_CODES[noise], points / radius, np.full(POINTS, scale / radius)
    samplers: dict[str, Callable[[], object]] = {
        RSM: lambda: _rejection_sampling(code, unit, scale / radius, rng),
        RESAMPLING: lambda: noise_and_resample(
            points, centre=(0.0, 0.0), radius=radius, scale=scale, noise=noise, rng=rng
        ),
        OURS: lambda: sample_disc(code, unit, scales, numbered_rows(POINTS, rng)),
    }
    return [{"sampler": name, "ms": _best_ms(work)} for name, work in samplers.items()]


def _best_ms(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return 1000 * min(found)


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = means(runs, _BY, ["ms"]).pivot(index=_BY[:3], columns="sampler", values="ms").reset_index()
    found = found[[*_BY[:3], RSM, RESAMPLING, OURS]].rename(columns={"radius": "R"})
    return {"figure8": found.rename(columns={name: f"{name} (ms)" for name in (RSM, RESAMPLING, OURS)})}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    times = runs.pivot_table(index=["noise", "radius", "epsilon"], columns="sampler", values="ms")
    ratio = times[RESAMPLING] / times[RSM]
    return {"slowest_ms": times[RSM].max(), "least_ratio": ratio.min(), "most_ratio": ratio.max()}


def _populations() -> Mapping[str, Dataset]:
    return {"nobody": Dataset("nobody", named_region("san-francisco"), np.empty((0, 2)))}


PART = Part("figure8", "Figure 8: the time that sampling takes", _grid, measure, _tables, _facts, _populations)
