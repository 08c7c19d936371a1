"""Measure cells on all cores, keep each as it is finished, and measure none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.evaluation.cells.cell import NOBODY, Cell, Result
from nearveil.evaluation.cells.circumstances import circumstances_of
from nearveil.evaluation.cells.journal import CellJournal
from nearveil.evaluation.hypotheses import read_population
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.datasets import Dataset
from nearveil.region import named_region

SecondsDone = Callable[[float], None]
"""Called with about how many seconds of work were just finished."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    cell: Cell
    dataset: Dataset

    def do(self) -> dict[str, Any]:
        return self.cell.measure(read_population(self.dataset, self.cell.population))


def run_cells(
    cells: Iterable[Cell],
    datasets: Mapping[str, Dataset],
    journal: CellJournal,
    *,
    cores: int,
    progress: SecondsDone | None = None,
) -> dict[Cell, Result]:
    """Return the results of all cells; those that the journal has are not measured again."""
    datasets = {**datasets, NOBODY: Dataset(NOBODY, named_region("san-francisco"), np.empty((0, 2)))}
    circumstances = {name: circumstances_of(dataset) for name, dataset in datasets.items()}
    keys = {cell: cell.key(circumstances[cell.dataset]) for cell in cells}
    missing = [cell for cell, key in keys.items() if key not in journal]
    # Long ones first, so that no core is left alone with one at the end.
    missing.sort(key=lambda cell: -cell.seconds)
    if progress:
        progress(sum(cell.seconds for cell in keys.keys() - set(missing)))
    for together in (False, True):
        part = [cell for cell in missing if cell.alone != together]
        work = [_Work(cell, datasets[cell.dataset]) for cell in part]
        # Closed at once if a result cannot be kept, so that nobody waits for work in vain.
        with closing(map_in_processes(_Work.do, work, cores=cores if together else 1)) as finished:
            for index, result in finished:
                journal.add(keys[part[index]], result)
                if progress:
                    progress(part[index].seconds)
    return {cell: journal[key] for cell, key in keys.items()}
