"""Time contenders fairly: in turns, several rounds, compiled code and caches warmed up."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnSeconds:
    """Returned by work that measures itself, in another process for example."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who does the work.

    Attributes
    ----------
    work : callable
        Does it once; returns `OwnSeconds` if the time to count is not that of the call.
    units : int
        How many points, questions or files that was: slow contenders may do fewer.
    warm_up : bool
        Whether the first time does not count.
    """

    name: str
    work: Callable[[], object]
    units: int = 1
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds for one unit, by round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """What the machine can do when nothing else disturbs it."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """What it mostly does."""
        return statistics.median(self.seconds)


def in_turns(
    contenders: Sequence[Contender], rounds: int, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Times]:
    """Let contenders work one after another, again and again: whatever slows the machine down slows all of them.

    Every other round goes backwards, so that nobody always follows the one who leaves the caches cold.
    """
    for contender in contenders:
        if contender.warm_up:
            tell(f"warming up: {contender.name}")
            contender.work()
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders[:: -1 if number % 2 else 1]:
            tell(f"round {number + 1} of {rounds}: {contender.name}")
            seconds[contender.name].append(_seconds(contender))
    return {name: Times(tuple(found)) for name, found in seconds.items()}


def _seconds(contender: Contender) -> float:
    started = time.perf_counter()
    done = contender.work()
    elapsed = time.perf_counter() - started
    return (done.seconds if isinstance(done, OwnSeconds) else elapsed) / contender.units
