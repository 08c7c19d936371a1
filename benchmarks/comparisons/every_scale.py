"""Sampling takes about as long at every scale, and for people far outside their disc."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.people import in_disc, on_ring
from benchmarks.measuring.results import Alone, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil.mechanisms._disc_law import GAUSSIAN, LAPLACE
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.randomness import NumberedRows, stream_key
from nearveil.types import FloatArray

RADII, SCALES = (0.01, 0.1, 0.3, 1.0), (0.02, 0.1, 0.5, 1.0, 4.0, 20.0)
DISTANCES, OUTSIDE_SCALES = (1.001, 1.5, 10.0, 300.0), (0.02, 0.1, 0.3, 0.99, 1.0, 20.0)
MOST_TIMES_BEST, LEAST_OUTSIDE_PER_S = 10.0, 100_000.0


def compare(effort: Effort) -> Iterator[Result]:
    """Find the slowest case of each noise, in the disc and outside."""
    # Small sizes take milliseconds, as do others' turns on the machine: only many rounds have an undisturbed one.
    count, rounds = effort.of(500_000, 50_000), effort.of(3, 9)
    for name, noise in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN)):
        inside = [
            _contender(noise, in_disc(radius, count), radius, scale, f"R = {radius:g}, scale {scale:g}")
            for radius in RADII
            for scale in SCALES
        ]
        best = {case: times.best for case, times in in_turns(inside, rounds, effort.tell).items()}
        slowest = max(best, key=best.__getitem__)
        yield Alone(
            what=f"{name} noise, slowest case ({slowest}) beside the quickest", unit="times the time",
            value=best[slowest] / min(best.values()), most=MOST_TIMES_BEST,
        )  # fmt: skip
        outside = [
            _contender(noise, distance * on_ring(count), 1.0, scale, f"{distance:g} R away, scale {scale:g}")
            for distance in DISTANCES
            for scale in OUTSIDE_SCALES
        ]
        best = {case: times.best for case, times in in_turns(outside, rounds, effort.tell).items()}
        slowest = max(best, key=best.__getitem__)
        yield Alone(
            what=f"{name} noise outside the disc, slowest case ({slowest})", value=1 / best[slowest], unit="points/s",
            least=LEAST_OUTSIDE_PER_S,
        )  # fmt: skip


def _contender(noise: int, x: FloatArray, radius: float, scale: float, case: str) -> Contender:
    unit, scales = x / radius, np.full(len(x), scale / radius)

    def work() -> object:
        return sample_disc(noise, unit, scales, NumberedRows(stream_key(), 0, len(x)))

    return Contender(case, work, len(x))
