"""How long it takes to move 100 points into a disc: the paper's sampler, ours, and noise-and-resample."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.evaluation.cells.cell import Cell
from nearveil.io.datasets import Dataset
from nearveil.kernels import kernel
from nearveil.mechanisms.disc_sampler import NOISE_CODES, log_peak, sample_discs, uniform_route
from nearveil.mechanisms.noise_and_resample import noise_and_resample
from nearveil.privacy.accounting import QUERIES_PER_ROUND, Noise, paper_scales
from nearveil.types import FloatArray

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
        _, tries = noise_and_resample(
            points, centre=(0.0, 0.0), radius=self.radius, scale=lam, noise=self.noise, rng=rng
        )
        return {
            "RSM ms": _best_ms(lambda: _rejection_sampling(code, points / self.radius, lam / self.radius, rng)),
            "Nearveil ms": _best_ms(lambda: self._ours(points, lam, rng)),
            "noise and resample ms": _best_ms(
                lambda: noise_and_resample(
                    points, centre=(0.0, 0.0), radius=self.radius, scale=lam, noise=self.noise, rng=rng
                )
            ),
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
        sample_discs(
            NOISE_CODES[self.noise], points, np.zeros(len(points), dtype=np.int64), np.zeros((1, 2)),
            np.array([self.radius]), np.array([scale]), rng,
        )  # fmt: skip


def _best_ms(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return 1000 * min(found)


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
    needed = []
    for x1, x2 in x:
        gap = np.abs(t - [x1, x2])
        logs = -gap.sum(axis=1) / scale if noise == NOISE_CODES["laplace"] else -(gap**2).sum(axis=1) / (2 * scale**2)
        needed.append(1 / np.exp(logs - log_peak(noise, x1, x2, scale)).mean())
    return float(np.mean(needed))
