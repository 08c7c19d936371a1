"""How much is measured, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nearveil.errors import UsageError
from nearveil.evaluation.results import ExperimentResult
from nearveil.evaluation.runner import Cell, Result
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.io.datasets import Dataset

Results = Mapping[Cell, Result]

SHARE_NOTE = "Shares of people found have binomial 95 % intervals, in brackets."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """The populations, and how often and how finely things are measured.

    Attributes
    ----------
    datasets : mapping
        By name.
    runs : int
        Repetitions with seeds of their own.
    instances, queries, targets, named : int
        In each run: people attacked, queries asked, and people whom the Bayes attacker guesses; and in a quick look,
        whom it names.
    seed : int
        Fixed once for everything.
    quick : bool
        Fewer steps where a parameter is swept.
    mechanisms, attacks : tuple of str
        Somebody else's, measured beside ours: mechanisms on the frontier, attacks in Table 1. Names as in the
        registries, ``module:Class``.
    """

    datasets: Mapping[str, Dataset]
    runs: int = 5
    instances: int = 50
    queries: int = 2_000
    targets: int = 60
    named: int = 200
    seed: int = 1
    quick: bool = False
    mechanisms: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.runs, self.instances, self.queries) < 1 or self.targets < 2:
            raise UsageError("there must be at least one run and one instance")

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The paper's epsilons, or two of them."""
        return (1.0, 5.0) if self.quick else (0.5, 1.0, 3.0, 5.0)

    @property
    def description(self) -> str:
        """What every table says of its size."""
        plural = "run" if self.runs == 1 else "runs"
        interval = "; ± is half a 95 % interval over runs" if self.runs > 1 else ""
        return f"{self.runs} {plural}, seed {self.seed}{interval}"

    def each_run(self) -> range:
        """The runs by number."""
        return range(self.runs)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure: its name, its title, what must be measured for it, and what came out.

    ``generated`` gives populations of its own, besides those of the scope.
    """

    name: str
    title: str
    cells: Callable[[Scope], Sequence[Cell]]
    outcome: Callable[[Scope, Results], ExperimentResult]
    generated: Callable[[], Mapping[str, Dataset]] = dict


def mean_of(results: Results, cells: Iterable[Cell], name: str) -> Mean:
    """Return the mean over runs of one number."""
    return mean_over_runs([float(results[cell][name]) for cell in cells])


def share_of(results: Results, cells: Iterable[Cell], name: str, cases: int) -> Share:
    """Return the share over all runs, with ``cases`` cases in each."""
    return share_over_runs([float(results[cell][name]) * cases for cell in cells], cases)


def span(values: Sequence[float], form: str = ".3f") -> str:
    """Return the least and the largest as text."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def overlap(first: Mean, second: Mean) -> bool:
    """Whether two 95 % intervals have a point in common."""
    reach = (first.half_width or 0.0) + (second.half_width or 0.0)
    return abs(first.value - second.value) <= reach


def difference(results: Results, first: Iterable[Cell], second: Iterable[Cell], name: str) -> Mean:
    """Return the mean over runs of how much more the first has; runs are pairs, with the same people and queries."""
    return mean_over_runs(
        [float(results[a][name]) - float(results[b][name]) for a, b in zip(first, second, strict=True)]
    )
