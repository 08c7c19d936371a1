"""Rows of Table 3: one defence on one population, utility and attack together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.attack_score import Mean
from nearveil.evaluation.cells.attack_cell import AttackCell
from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.paper_numbers import PaperDefence, paper_table3
from nearveil.evaluation.parts.scope import Results, Scope, mean_of
from nearveil.evaluation.protocols import ColluderProtocol

K = 10

_PAPER_NAMES = {"DPRS": "DPRS", "SRR": "SRR", "Square": "Square", "2D Laplace": "Laplace"}
_COLLUDERS: tuple[ColluderProtocol, ...] = ("exact", "published")


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table, with the cells that it is measured by, run by run."""

    dataset: str
    defence: Defence
    utility: tuple[UtilityCell, ...]
    attacks: dict[ColluderProtocol, tuple[AttackCell, ...]]

    def cells(self) -> Iterator[Cell]:
        """All of them."""
        yield from self.utility
        for line in self.attacks.values():
            yield from line


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table, measured."""

    dataset: str
    defence: Defence
    recall: Mean
    ratio: Mean
    users_recall: Mean
    users_ratio: Mean
    attack: dict[ColluderProtocol, AttackRow]
    paper: PaperDefence | None

    def dist_km(self, colluders: ColluderProtocol) -> Mean:
        """Mean error in kilometres, the unit of the paper's table."""
        dist_m = self.attack[colluders].score.dist_m
        return Mean(dist_m.value / 1000, None if dist_m.half_width is None else dist_m.half_width / 1000)


def measure_line(scope: Scope, results: Results, line: Line) -> Measured:
    """Put the runs of one row together."""
    attack = {
        colluders: found[0].row(scope.datasets[line.dataset], [results[cell] for cell in found])
        for colluders, found in line.attacks.items()
    }
    name = _PAPER_NAMES.get(line.defence.label, "")
    paper = paper_table3().get((line.dataset, line.defence.epsilon or 0.0, name))
    return Measured(
        line.dataset,
        line.defence,
        mean_of(results, line.utility, f"uniform recall@{K}"),
        mean_of(results, line.utility, f"uniform ratio@{K}"),
        mean_of(results, line.utility, f"users recall@{K}"),
        mean_of(results, line.utility, f"users ratio@{K}"),
        attack,
        paper if line.defence.region == "paper" else None,
    )


def line_of(scope: Scope, dataset: str, defence: Defence) -> Line:
    """Return one row to be measured."""
    utility = tuple(
        UtilityCell(dataset=dataset, seed=scope.seed, run=run, defence=defence, queries=scope.queries)
        for run in scope.each_run()
    )
    attacks = {colluders: _attack_cells(scope, dataset, defence, colluders) for colluders in _COLLUDERS}
    return Line(dataset, defence, utility, attacks)


def _attack_cells(scope: Scope, dataset: str, defence: Defence, colluders: ColluderProtocol) -> tuple[AttackCell, ...]:
    return tuple(
        AttackCell(
            dataset=dataset,
            seed=scope.seed,
            run=run,
            defence=defence,
            attack="zo-lia",
            accounts=1,
            k=K,
            instances=scope.instances,
            colluders=colluders,
        )
        for run in scope.each_run()
    )
