"""Figure 8: how long sampling takes, by the paper's sampler, by ours, and by noise and resample.

Noise and resample adds noise, again and again, until the result lies in the disc. The law is that of
`nearveil.mechanisms._disc_sampler`; the time it takes has no bound, which is what the comparison is about.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.experiments.scope import Results, Scope, mean_of, span
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, exact
from nearveil.evaluation.runner import NOBODY, Cell
from nearveil.evaluation.stats import Mean
from nearveil.io.datasets import Dataset
from nearveil.kernels import kernel
from nearveil.mechanisms._disc_law import LAPLACE, NOISE_CODES, log_ratio
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.privacy.accounting import QUERIES_PER_ROUND, Noise, paper_scales
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray

MOST_TRIES = 10_000_000


def noise_and_resample(
    x: FloatArray,
    *,
    centre: tuple[float, float],
    radius: float,
    scale: float,
    noise: Noise,
    rng: np.random.Generator,
    most_tries: int = MOST_TRIES,
) -> tuple[FloatArray, int]:
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
    noise: int,
    x: FloatArray,
    centre_x: float,
    centre_y: float,
    radius: float,
    scale: float,
    most_tries: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
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
            if (t1 - centre_x) ** 2 + (t2 - centre_y) ** 2 <= radius * radius:
                out[i, 0], out[i, 1] = t1, t2
                break
    return out, tries


# How long it takes to move 100 points into a disc: the paper's sampler, ours, and noise-and-resample.


POINTS = 100
_ROUNDS, _REPEATS = 12, 9
_PROPOSALS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingCell(Cell):
    """Seconds and tries for 100 points of [-1, 1]², moved into a disc around the origin, at the paper's noise scale."""

    noise: Noise
    radius: float
    epsilon: float

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Take the best of several repeats, after one to warm up."""
        del dataset
        scale = paper_scales(self.epsilon, delta=1e-5, queries=QUERIES_PER_ROUND * _ROUNDS, noise=self.noise)
        points = self.rng(1).uniform(-1, 1, (POINTS, 2))
        code, lam = NOISE_CODES[self.noise], scale.release_scale
        rng = self.rng(2)
        resample = partial(
            noise_and_resample, points, centre=(0.0, 0.0), radius=self.radius, scale=lam, noise=self.noise, rng=rng
        )
        _, tries = resample()
        return {
            "RSM ms": _best_ms(lambda: _rejection_sampling(code, points / self.radius, lam / self.radius, rng)),
            "Nearveil ms": _best_ms(lambda: self._ours(points, lam, rng)),
            "noise and resample ms": _best_ms(resample),
            "RSM tries": _tries(code, points / self.radius, lam / self.radius, rng),
            "noise and resample tries": tries / POINTS,
        }

    @property
    def seconds(self) -> float:
        """Quick, but for noise-and-resample on small discs."""
        return 0.3

    @property
    def alone(self) -> bool:
        """It measures time."""
        return True

    def _ours(self, points: FloatArray, scale: float, rng: np.random.Generator) -> None:
        scales = np.full(len(points), scale / self.radius)
        sample_disc(NOISE_CODES[self.noise], points / self.radius, scales, numbered_rows(len(points), rng))


def _best_ms(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return 1000 * min(found)


@kernel
def uniform_route(noise: int, x1: float, x2: float, scale: float, rng: np.random.Generator) -> tuple[float, float]:
    """Propose uniformly on the unit disc, accept with f / M: the paper's Algorithm 2 (its R kept fixed)."""
    while True:
        radius, angle = math.sqrt(rng.random()), 2.0 * math.pi * rng.random()
        t1, t2 = radius * math.cos(angle), radius * math.sin(angle)
        if np.log(rng.random()) <= log_ratio(noise, x1, x2, t1, t2, scale):
            return t1, t2


@kernel
def _rejection_sampling(noise: int, x: FloatArray, scale: float, rng: np.random.Generator) -> float:
    total = 0.0
    for i in range(len(x)):
        t1, _ = uniform_route(noise, x[i, 0], x[i, 1], scale, rng)
        total += t1
    return total


def _tries(noise: int, x: FloatArray, scale: float, rng: np.random.Generator) -> float:
    """How many uniform proposals the paper's sampler needs for a point, on average: one over its acceptance."""
    radius, angle = np.sqrt(rng.random(_PROPOSALS)), 2 * math.pi * rng.random(_PROPOSALS)
    t = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    needed = [1 / np.mean([math.exp(log_ratio(noise, x1, x2, t1, t2, scale)) for t1, t2 in t]) for x1, x2 in x]
    return float(np.mean(needed))


# Figure 8: how long sampling takes, by radius and by epsilon.


NAME = "figure8"
TITLE = "Figure 8: the time sampling takes"

RADII = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
FIXED_EPSILON, FIXED_RADIUS = 1.0, 0.5
PAPER_MOST_MS = 40.0
NOISES: tuple[Noise, ...] = ("laplace", "gaussian")
SAMPLERS = {"RSM": "RSM", "noise and resample": "noise and resample", "Nearveil": "Nearveil's sampler"}


def cells(scope: Scope) -> list[SamplingCell]:
    """By radius at epsilon = 1, and by epsilon at R = 0.5."""
    return [
        cell for noise in NOISES for radius, epsilon in _places(scope) for cell in _cells(scope, noise, radius, epsilon)
    ]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Put the samplers side by side."""
    times = {
        (noise, radius, epsilon, name): mean_of(results, _cells(scope, noise, radius, epsilon), name)
        for noise in NOISES
        for radius, epsilon in _places(scope)
        for name in (*(f"{sampler} ms" for sampler in SAMPLERS), "RSM tries", "noise and resample tries")
    }
    columns = (
        Column("noise"), Column("R", form="g"), Column("epsilon", form="g"),
        *(Column(f"{label} (ms)", "time for 100 points") for label in SAMPLERS.values()),
        Column("RSM", "tries per point", ".2f"), Column("noise and resample", "tries per point", ",.0f"),
        Column("paper: RSM below (ms)", "paper", "g"),
    )  # fmt: skip
    rows = tuple(
        (
            noise, radius, epsilon,
            *(times[noise, radius, epsilon, f"{sampler} ms"] for sampler in SAMPLERS),
            times[noise, radius, epsilon, "RSM tries"], times[noise, radius, epsilon, "noise and resample tries"],
            PAPER_MOST_MS,
        )
        for noise in NOISES
        for radius, epsilon in _places(scope)
    )  # fmt: skip
    protocol = (
        f"{POINTS} points uniform in [-1, 1]² moved into a disc of radius R around the origin; noise scales of the "
        f"paper's accounting; best of 9 repeats on one core, {scope.description}. Times vary from machine to machine."
    )
    table = Table(NAME, "Time to move 100 points into a disc, and tries for each point.", columns, rows, protocol)
    ratios = [
        times[noise, *place, "noise and resample ms"].value / times[noise, *place, "RSM ms"].value
        for noise in NOISES
        for place in _places(scope)
    ]
    slowest = max(times[noise, *place, "RSM ms"].value for noise in NOISES for place in _places(scope))
    remarks = (
        f"RSM takes at most {slowest:.3f} ms for 100 points (compiled code; the paper: below {PAPER_MOST_MS:g} ms).",
        f"Noise and resample takes {span(ratios, '.1f')} times as long as RSM; the paper says much longer, in every "
        "setting.",
    )
    question = "The paper: RSM stays below 40 ms, and noise-and-resample takes much longer."
    return ExperimentResult(NAME, TITLE, question, (table,), (_chart(scope, times),), remarks)


def _places(scope: Scope) -> list[tuple[float, float]]:
    by_radius = [(radius, FIXED_EPSILON) for radius in _radii(scope)]
    return by_radius + [(FIXED_RADIUS, epsilon) for epsilon in _epsilons(scope) if epsilon != FIXED_EPSILON]


def _radii(scope: Scope) -> tuple[float, ...]:
    return (0.2, FIXED_RADIUS, 1.0) if scope.quick else RADII


def _epsilons(scope: Scope) -> tuple[float, ...]:
    return (FIXED_EPSILON, 5.0) if scope.quick else EPSILONS


def _cells(scope: Scope, noise: Noise, radius: float, epsilon: float) -> list[SamplingCell]:
    return [
        SamplingCell(dataset=NOBODY, seed=scope.seed, run=run, noise=noise, radius=radius, epsilon=epsilon)
        for run in scope.each_run()
    ]


def _chart(scope: Scope, times: dict[tuple[Noise, float, float, str], Mean]) -> Chart:
    panels = []
    for noise in NOISES:
        for x_label, places in (
            (f"radius R (epsilon = {FIXED_EPSILON:g})", [(radius, FIXED_EPSILON) for radius in _radii(scope)]),
            (f"epsilon (R = {FIXED_RADIUS:g})", [(FIXED_RADIUS, epsilon) for epsilon in _epsilons(scope)]),
        ):
            by_radius = x_label.startswith("radius")
            x = tuple(exact(radius if by_radius else epsilon) for radius, epsilon in places)
            series = [
                Series(label, x, tuple(times[noise, radius, epsilon, f"{sampler} ms"] for radius, epsilon in places))
                for sampler, label in SAMPLERS.items()
            ]
            ends = (x[0], x[-1])
            series.append(Series("the paper: RSM below", ends, (exact(PAPER_MOST_MS),) * 2))
            title = f"{noise.capitalize()} noise"
            panels.append(Panel(title, x_label, "ms for 100 points", tuple(series), log_y=True))
    description = (
        "Time to move 100 points into a disc, against its radius and against epsilon, for both kinds of noise."
    )
    return Chart(NAME, "Time to move 100 points into a disc", tuple(panels), 2, description)
