"""Sampling in discs beside a C loop with the same keystream, and noise-and-resample."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measuring.machine import usable_cores
from benchmarks.measuring.people import in_disc
from benchmarks.measuring.results import Absent, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from benchmarks.peers.c_loop import REMEDY, CLoop, compiled_loop
from nearveil.evaluation.experiments.figure8 import noise_and_resample
from nearveil.mechanisms._disc_law import LAPLACE
from nearveil.mechanisms._disc_sampler import ConfinedNoise, sample_discs
from nearveil.mechanisms.base import chunk_slices, for_each_slice
from nearveil.randomness import NumberedRows, new_stream_key, secure_generator
from nearveil.types import FloatArray

LEAST_SHARE_OF_C = 0.75
CASES = ((0.02, 0.5), (1.0, 0.05))
US, C_LOOP, C_AES, C_UNIFORM = "Nearveil", "a C loop, same keystream", "C with AES of its own", "C, uniform proposals"
RESAMPLING = "noise and resample"

Sampler = Callable[[ConfinedNoise, NumberedRows], FloatArray]


def compare(effort: Effort) -> Iterator[Result]:
    """Compare flat noise and narrow noise, on one core and on all."""
    with compiled_loop() as loop:
        for radius, scale in CASES:
            if loop is not None:
                _check_same(loop, _task(radius, scale, 100_000))
            for cores in sorted({1, usable_cores()}):
                yield from _compare(effort, loop, radius, scale, cores)


def _compare(effort: Effort, loop: CLoop | None, radius: float, scale: float, cores: int) -> Iterator[Result]:
    what = f"sampling, R = {radius:g}, λ = {scale:g}, {'one core' if cores == 1 else f'{cores} cores'}"
    task = _task(radius, scale, effort.of(4_000_000, 500_000))
    contenders = [_contender(US, _ours, task, cores)]
    if loop is not None:
        contenders.append(_contender(C_LOOP, loop.sample, task, cores))
        if loop.has_aes:
            contenders.append(_contender(C_AES, loop.sample_with_own_aes, task, cores))
        if scale < radius and cores == 1:
            some = _first(task, 5_000)
            contenders.append(_contender(C_UNIFORM, _uniform(loop), some, cores))
    if cores == 1:
        contenders.append(_resampling(radius, scale, _first(task, effort.of(20_000, 2_000)).x))
    found = in_turns(contenders, effort.of(15, 3), effort.tell)
    if loop is None:
        yield Absent(what=what, peer=C_LOOP, remedy=REMEDY)
    for peer in (C_LOOP, C_AES, C_UNIFORM, RESAMPLING):
        if peer in found:
            limit = LEAST_SHARE_OF_C if peer == C_LOOP else None
            yield Beside(what=what, peer=peer, ours=found[US], theirs=found[peer], unit="point", least_speed=limit)


def _task(radius: float, scale: float, count: int) -> ConfinedNoise:
    disc, centres = np.zeros(count, dtype=np.int64), np.zeros((1, 2))
    return ConfinedNoise(LAPLACE, in_disc(radius, count), disc, centres, np.array([radius]), np.array([scale]))


def _first(task: ConfinedNoise, count: int) -> ConfinedNoise:
    return task._replace(x=task.x[:count], disc=task.disc[:count])


def _contender(name: str, sample: Sampler, task: ConfinedNoise, cores: int) -> Contender:
    """NoisyLocation for everybody in slices, as mechanisms do, each slice with its rows of one fresh key."""
    count = len(task.x)
    out = np.empty_like(task.x)

    def work() -> None:
        key = new_stream_key()

        def draw(part: slice) -> None:
            rows = NumberedRows(key, part.start, part.stop - part.start)
            out[part] = sample(task._replace(x=task.x[part], disc=task.disc[part]), rows)

        if cores > 1:
            for_each_slice(count, draw)
        else:
            for part in chunk_slices(count):
                draw(part)

    return Contender(name, work, count)


def _ours(task: ConfinedNoise, rows: NumberedRows) -> FloatArray:
    return sample_discs(*task, rows)


def _uniform(loop: CLoop) -> Sampler:
    return lambda task, rows: loop.sample(task, rows, always_uniform=True)


def _resampling(radius: float, scale: float, x: FloatArray) -> Contender:
    rng = secure_generator()

    def work() -> object:
        return noise_and_resample(x, centre=(0.0, 0.0), radius=radius, scale=scale, noise="laplace", rng=rng)

    return Contender(RESAMPLING, work, len(x))


def _check_same(loop: CLoop, task: ConfinedNoise) -> None:
    """Refuse to compare things that do not draw the same."""
    rows = NumberedRows(new_stream_key(), 7, len(task.x))
    ours = _ours(task, rows)
    others = [loop.sample(task, rows)]
    others += [loop.sample_with_own_aes(task, rows)] if loop.has_aes else []
    assert all(np.abs(ours - other).max() < 1e-12 for other in others), "the samplers do not draw the same"
