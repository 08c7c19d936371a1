"""Cells are measured once, on as many cores as there are, and kept as they are finished."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nearveil.evaluation import workers
from nearveil.evaluation.cells import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.runner import NOBODY, Cell, CellJournal, open_journal, run_cells
from nearveil.io.datasets import Dataset
from tests.evaluation.towns import tiny_town


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCell(Cell):
    """Leaves a file for each time it is measured."""

    folder: str
    number: int
    is_alone: bool = False
    fails: bool = False

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        if self.fails:
            raise ValueError("as it was told to")
        with (Path(self.folder) / f"{self.number}").open("a") as file:
            file.write("x")
        return {"people": len(dataset.places), "pid": os.getpid()}

    @property
    def seconds(self) -> float:
        return 1.5 + self.number

    @property
    def alone(self) -> bool:
        return self.is_alone


TOWN = tiny_town("town", users=120)
TOWNS = {"town": TOWN}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[CellJournal]:
    with open_journal(tmp_path / "cells.jsonl") as journal:
        yield journal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "counts"
    folder.mkdir()
    return folder


def counted(folder: Path, number: int, **more: Any) -> CountedCell:
    return CountedCell(**{"dataset": "town", "seed": 1, "run": 0, "folder": str(folder), "number": number, **more})


def counts(folder: Path) -> dict[str, int]:
    return {path.name: len(path.read_text()) for path in folder.iterdir()}


def test_nothing_is_measured_twice(folder: Path, journal: CellJournal) -> None:
    cells = [counted(folder, number) for number in (1, 2, 2, 1)]
    first = run_cells(cells, TOWNS, journal, cores=1)
    again = run_cells([*cells, counted(folder, 3)], TOWNS, journal, cores=1)
    assert counts(folder) == {"1": 1, "2": 1, "3": 1}
    assert first.items() <= again.items()
    assert again[counted(folder, 3)]["people"] == 120


def test_other_people_under_the_same_name_are_measured_anew(folder: Path, journal: CellJournal) -> None:
    run_cells([counted(folder, 1)], TOWNS, journal, cores=1)
    found = run_cells([counted(folder, 1)], {"town": tiny_town("town", users=121)}, journal, cores=1)
    assert found[counted(folder, 1)]["people"] == 121
    assert counts(folder) == {"1": 2}


def test_long_ones_first(folder: Path, journal: CellJournal) -> None:
    told: list[float] = []
    run_cells([counted(folder, number) for number in (1, 5, 3)], TOWNS, journal, cores=1, progress=told.append)
    assert told == [0, 6.5, 4.5, 2.5]


def test_progress_sums_to_the_total_also_where_work_was_kept(folder: Path, journal: CellJournal) -> None:
    cells = [counted(folder, number) for number in range(4)]
    run_cells(cells[:2], TOWNS, journal, cores=1)
    told: list[float] = []
    run_cells(cells, TOWNS, journal, cores=1, progress=told.append)
    assert told[0] == pytest.approx(sum(cell.seconds for cell in cells[:2]))
    assert sum(told) == pytest.approx(sum(cell.seconds for cell in cells))


def test_two_cores_give_what_one_gives_and_some_cells_run_here_alone(folder: Path, tmp_path: Path) -> None:
    defences = (
        Defence(label="DPRS", mechanism="dprs", epsilon=1.0, centres=20),
        Defence(label="2D Laplace", mechanism="planar-laplace", epsilon=50.0),
    )
    utility = [
        UtilityCell(dataset="town", seed=1, run=run, defence=defence, queries=30)
        for run in range(2)
        for defence in defences
    ]
    alone, other = [counted(folder, number, is_alone=True) for number in (2, 1)], counted(folder, 9)
    told: list[float] = []
    found = []
    for cores in (1, 2):
        with open_journal(tmp_path / f"{cores}.jsonl") as journal:
            found.append(run_cells([*utility, other, *alone], TOWNS, journal, cores=cores, progress=told.append))
    one, two = ([str(results[cell]) for cell in utility] for results in found)
    assert one == two
    assert len(set(one)) == len(utility)
    assert {found[1][cell]["pid"] for cell in alone} == {os.getpid()}
    assert found[1][other]["pid"] != os.getpid()
    # Nothing was done yet, then those that are alone, then the rest.
    assert told[:3] == told[8:11] == [0, *(cell.seconds for cell in alone)]


def test_a_cell_may_need_nobody(folder: Path, journal: CellJournal) -> None:
    cell = counted(folder, 1, dataset=NOBODY)
    assert run_cells([cell], {}, journal, cores=1)[cell]["people"] == 0


@pytest.mark.parametrize("cores", [1, 2])
def test_what_was_finished_before_an_error_is_kept(
    folder: Path, tmp_path: Path, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell that fails is the shortest, so it comes last.

    In threads, which start at once: that an error comes out of a process as well is tested with the workers.
    """
    monkeypatch.setattr(workers, "ProcessPoolExecutor", lambda number, **_: ThreadPoolExecutor(number))
    cells = [counted(folder, number) for number in range(1, 7)]
    with (
        open_journal(tmp_path / "cells.jsonl") as journal,
        pytest.raises(ValueError, match="as it was told"),
    ):
        run_cells([counted(folder, 0, fails=True), *cells], TOWNS, journal, cores=cores)
    kept = len((tmp_path / "cells.jsonl").read_bytes().splitlines())
    # With two cores at most four are on their way when the seventh is begun.
    assert kept == 6 if cores == 1 else kept >= 2
    before = sum(counts(folder).values())
    with open_journal(tmp_path / "cells.jsonl") as journal:
        run_cells(cells, TOWNS, journal, cores=1)
    assert sum(counts(folder).values()) == before + 6 - kept
