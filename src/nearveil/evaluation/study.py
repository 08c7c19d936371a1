"""An experiment is a grid of settings, and a function that measures one of them: a table with one row per run.

`measure` spreads the work over the machine's cores and keeps what is done in a folder, so that the same call takes up
where it was stopped. `means` and `differences` turn rows of runs into numbers with intervals.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.errors import UsageError
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import mean_over_runs, paired_difference, share_over_runs
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset
from nearveil.types import Progress

if TYPE_CHECKING:
    import pandas as pd

Settings = Mapping[str, Any]
"""What is measured in one run, by the names of the columns; ``dataset``, ``seed`` and ``run`` among them."""

Measure = Callable[..., Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""Called with a `Dataset` and the other settings by name; returns what it measured, in one row or several."""

TAU_M = 100.0
"""How near counts as found, in the paper and here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is measured.

    Attributes
    ----------
    datasets : tuple of str
        Names of populations.
    runs, instances, queries : int
        Runs with seeds of their own; users attacked and queries in each.
    quick : bool
        Fewer steps where a parameter is swept.
    mechanisms, attacks : tuple of str
        Others' classes to measure beside ours, as ``module:Class``: on the frontier, and in Table 1.
    """

    datasets: tuple[str, ...]
    runs: int = 5
    instances: int = 50
    queries: int = 2_000
    seed: int = 1
    quick: bool = False
    mechanisms: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.runs, self.instances, self.queries) < 1:
            raise UsageError("there must be at least one run, one instance and one query")

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The paper's epsilons, or two of them."""
        return (1.0, 5.0) if self.quick else (0.5, 1.0, 3.0, 5.0)

    def grid(self, **settings: Iterable[Any]) -> list[dict[str, Any]]:
        """Return every combination of settings, for every population and run.

        Examples
        --------
        >>> Scope(datasets=("beta",), runs=1).grid(k=(10, 30))
        [{'dataset': 'beta', 'k': 10, 'seed': 1, 'run': 0}, {'dataset': 'beta', 'k': 30, 'seed': 1, 'run': 0}]
        """
        rows: list[dict[str, Any]] = [{}]
        runs = {"seed": (self.seed,), "run": range(self.runs)}
        for name, values in ({"dataset": self.datasets} | settings | runs).items():
            rows = [row | {name: value} for row in rows for value in list(values)]
        return rows


@dataclass(frozen=True, slots=True)
class Part:
    """A table or figure of the paper, or an experiment beyond it.

    Attributes
    ----------
    grid : callable
        What to measure in a scope.
    measure : callable
        Measures one row of the grid; a function of a module.
    tables : callable
        Makes the tables that are read, by name, from the rows of all runs. Their cells are text, numbers, and
        estimates with intervals.
    facts : callable
        Makes the numbers that the sentences of its page need, from the same rows.
    populations : callable
        Makes the populations of its own that it needs besides those of the scope.
    """

    name: str
    title: str
    grid: Callable[[Scope], list[dict[str, Any]]]
    measure: Measure
    tables: Callable[[pd.DataFrame], dict[str, pd.DataFrame]]
    facts: Callable[[pd.DataFrame], dict[str, Any]] = lambda _runs: {}
    populations: Callable[[], Mapping[str, Dataset]] = dict


def generator(seed: int, run: int, stream: int) -> np.random.Generator:
    """Return the randomness of a run; streams of one run are independent, and the same for all that is compared."""
    return np.random.default_rng([seed, run, stream])


def measure(
    part: Part,
    scope: Scope,
    datasets: Mapping[str, Dataset],
    *,
    cores: int = 1,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure a part and return a row of settings and results for each run.

    Parameters
    ----------
    datasets : mapping
        The populations by name.
    folder : path, optional
        Where results are kept, so that nothing is measured twice by the same code.
    """
    grid = part.grid(scope)
    known = {**part.populations(), **datasets}
    kept = None if folder is None else folder / code_digest()
    if kept is not None:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = partial(_measure_row, part.measure, kept, {name: known[name] for name in {row["dataset"] for row in grid}})
    rows = in_parallel(work, grid, cores=cores, progress=progress)
    found = [row for several in rows for row in several]
    if not found:
        raise UsageError(f"there are too few users for {part.name}")
    return _frame(found)


def _measure_row(
    function: Measure, folder: Path | None, datasets: Mapping[str, Dataset], row: Settings
) -> list[dict[str, Any]]:
    """Measure a row of the grid, or read what it gave before; as JSON, which runs nobody's code when it is read."""
    dataset = datasets[row["dataset"]]
    kept = None if folder is None else folder / f"{_key(function, dataset, row)}.json"
    if kept is not None:
        # What cannot be read is measured again.
        with suppress(OSError, ValueError):
            return list(json.loads(kept.read_text(encoding="utf-8")))
    found = function(dataset, **{name: value for name, value in row.items() if name != "dataset"})
    several = [found] if isinstance(found, Mapping) else found
    text = json.dumps([{**row, **one} for one in several], default=lambda value: value.tolist())
    if kept is not None:
        with replacing(kept, force=True, private=True) as path:
            path.write_text(text, encoding="utf-8")
    return list(json.loads(text))


def _key(function: Measure, dataset: Dataset, row: Settings) -> str:
    what = repr((function.__module__, function.__qualname__, dataset.region, sorted(row.items())))
    return hashlib.sha256(what.encode() + dataset.places.tobytes()).hexdigest()


@cache
def code_digest() -> str:
    """Return a digest of Nearveil's own code: results of other code are not taken for those of this."""
    found = hashlib.sha256()
    for path in sorted(Path(str(resources.files("nearveil"))).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def means(
    runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str], *, shares: Sequence[str] = (), cases: str = ""
) -> pd.DataFrame:
    """Return the mean of columns over runs with its interval, in a row for each combination of ``by``.

    Those in ``shares`` are shares of cases: column ``cases`` says how many there are in a run, if that is known.
    """
    rows = []
    for key, group in runs.groupby(list(by), sort=False, dropna=False):
        row = dict(zip(by, key, strict=True))
        for name in columns:
            values, number = group[name], group[cases].iloc[0] if name in shares else math.nan
            if math.isnan(number):
                row[name] = mean_over_runs(values.tolist())
            else:
                row[name] = share_over_runs((values * number).tolist(), int(number))
        rows.append(row)
    return _frame(rows)


def differences(
    runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str], *, of: str, first: object, second: object
) -> pd.DataFrame:
    """Return how much more of each column the rows with ``of`` = ``first`` have than those with ``second``, in pairs.

    Runs are pairs: they share users, queries and seeds. What has no pair is left out.
    """
    rows = []
    for key, group in runs.groupby(list(by), sort=False, dropna=False):
        one, other = (group[group[of] == value].set_index("run") for value in (first, second))
        both = one.index.intersection(other.index)
        if len(both):
            gains = {name: paired_difference(one[name][both].tolist(), other[name][both].tolist()) for name in columns}
            rows.append(dict(zip(by, key, strict=True)) | gains)
    return _frame(rows, [*by, *columns])


def _frame(rows: Sequence[Settings], columns: Sequence[str] | None = None) -> pd.DataFrame:
    # Commands that make no tables do without it.
    from pandas import DataFrame  # noqa: PLC0415

    return DataFrame(rows, columns=columns)
