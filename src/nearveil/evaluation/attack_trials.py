"""Attacks in numbers: many instances, spread over the machine's cores, the same whatever the number of cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nearveil.attacks.result import AttackResult, Trace
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import NearveilError
from nearveil.evaluation.attack_instances import Instance, draw_instances
from nearveil.evaluation.contenders import Contender
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

MOST_QUERIES = 1000
_INSTANCES_AT_ONCE = 10

_Numbered = Iterable[tuple[int, list[AttackResult]]]
_RunAll = Callable[[Sequence["Trial"]], _Numbered]


class WorkerError(NearveilError):
    """A process that made attacks is gone."""

    exit_code = 1


@dataclass(frozen=True, slots=True, eq=False)
class ServiceSetup:
    """A service as it answers: where it believes people to be, and what it does to an attacker's accounts."""

    region: Region
    served_m: FloatArray
    colluder_mechanism: Mechanism | None
    seed: int

    def open(self) -> SimulatedService:
        """Start the service."""
        return SimulatedService(self.region, self.served_m, colluder_mechanism=self.colluder_mechanism, rng=self.seed)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One attack against some people of one service."""

    setup: ServiceSetup
    contender: Contender
    k: int
    instances: tuple[Instance, ...]
    first_number: int = 0

    def run(self) -> list[AttackResult]:
        """Attack everybody in turn."""
        _warm_up(self.contender, self.setup.region)
        service = self.setup.open()
        return [self.run_one(number, service) for number in range(len(self.instances))]

    def run_one(self, number: int, service: SimulatedService) -> AttackResult:
        """Attack one of them; the noise of the attacker's accounts depends on the number alone."""
        instance, contender = self.instances[number], self.contender
        oracle = service.oracle(
            k=self.k,
            colluders=contender.colluders,
            most_queries=MOST_QUERIES,
            rng=self.setup.seed + 1 + self.first_number + number,
        )
        return contender.attack.infer(oracle, instance.target, instance.start)

    def parts(self) -> list[Trial]:
        """The same in parts that can be run apart."""
        return [
            replace(self, instances=self.instances[first : first + _INSTANCES_AT_ONCE], first_number=first)
            for first in range(0, len(self.instances), _INSTANCES_AT_ONCE)
        ]


def run_trials(trials: Sequence[Trial], *, cores: int, progress: Progress | None = None) -> list[list[AttackResult]]:
    """Run trials on several cores; results in the order of the trials, without their traces."""
    parts = [(number, part) for number, trial in enumerate(trials) for part in trial.parts()]
    found: dict[int, list[AttackResult]] = {}
    with _workers(min(cores, len(parts))) as run_all:
        for index, results in run_all([part for _, part in parts]):
            found[index] = results
            if progress:
                progress(len(results))
    ordered: list[list[AttackResult]] = [[] for _ in trials]
    for index, (number, _) in enumerate(parts):
        ordered[number] += found[index]
    return ordered


@cache
def _warm_up(contender: Contender, region: Region) -> None:
    """Attack somebody in a tiny town once per process: compiling is not a cost of the attack."""
    town = ServiceSetup(region, np.random.default_rng(1).normal(0, 300, (60, 2)), None, 1)
    service = town.open()
    instances = draw_instances(service, town.served_m, k=5, count=1, rng=np.random.default_rng(1))
    Trial(town, contender, 5, tuple(instances)).run_one(0, service)


def _run_without_trace(trial: Trial) -> list[AttackResult]:
    # Traces are large, and nobody draws hundreds of them.
    return [replace(result, trace=Trace()) for result in trial.run()]


@contextmanager
def _workers(cores: int) -> Iterator[_RunAll]:
    if cores <= 1:
        yield lambda trials: ((index, _run_without_trace(trial)) for index, trial in enumerate(trials))
        return
    # A process of its own for each core: the attacks are mostly Python. Fresh ones, as forking threads is unsafe.
    strangers = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker)
    try:
        yield lambda trials: _as_completed(pool, trials, cores)
    except BrokenProcessPool:
        raise WorkerError("a worker process was ended, perhaps for want of memory; try --cores 1") from None
    except BaseException:
        # Whoever is stopped does not wait for attacks that nobody will look at.
        for worker in set(multiprocessing.active_children()) - strangers:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _as_completed(
    pool: ProcessPoolExecutor, trials: Sequence[Trial], cores: int
) -> Iterator[tuple[int, list[AttackResult]]]:
    """Keep every core busy without holding all trials in flight at once."""
    waiting = iter(enumerate(trials))
    running: dict[Future[list[AttackResult]], int] = {}

    def start_more() -> None:
        while len(running) < 2 * cores and (following := next(waiting, None)) is not None:
            running[pool.submit(_run_without_trace, following[1])] = following[0]

    start_more()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
        start_more()
