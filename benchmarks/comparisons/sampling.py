"""Sampling in discs beside noise-and-resample, which draws the same law."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.people import in_disc
from benchmarks.measuring.results import Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil.evaluation.paper import noise_and_resample
from nearveil.mechanisms._disc_law import LAPLACE
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.randomness import NumberedRows, stream_key
from nearveil.types import FloatArray

CASES = ((0.02, 0.5), (1.0, 0.05))
US, RESAMPLING = "Nearveil", "noise and resample, in NumPy"


def compare(effort: Effort) -> Iterator[Result]:
    """Compare flat noise and narrow noise, on one core."""
    for radius, scale in CASES:
        contenders = [
            _ours(in_disc(radius, effort.of(1_000_000, 100_000)), radius, scale),
            _resampling(in_disc(radius, effort.of(20_000, 2_000)), radius, scale),
        ]
        found = in_turns(contenders, effort.of(15, 3), effort.tell)
        yield Beside(
            what=f"sampling, R = {radius:g}, λ = {scale:g}, one core", peer=RESAMPLING,
            ours=found[US], theirs=found[RESAMPLING], unit="point",
        )  # fmt: skip


def _ours(x: FloatArray, radius: float, scale: float) -> Contender:
    unit, scales = x / radius, np.full(len(x), scale / radius)

    def work() -> object:
        return sample_disc(LAPLACE, unit, scales, NumberedRows(stream_key(), 0, len(x)))

    return Contender(US, work, len(x))


def _resampling(x: FloatArray, radius: float, scale: float) -> Contender:
    rng = np.random.default_rng()

    def work() -> object:
        return noise_and_resample(x, np.zeros(2), radius, scale, rng)

    return Contender(RESAMPLING, work, len(x))
