"""Rows of Table 3: one defence on one population, utility and attack together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.attack_score import Mean, mean_over_runs
from nearveil.evaluation.cells.attack_cell import AttackCell
from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.utility_cell import UtilityCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.hypotheses import Population
from nearveil.evaluation.paper_numbers import PaperDefence, paper_table3
from nearveil.evaluation.parts.scope import Results, Scope
from nearveil.evaluation.protocols import ColluderProtocol

K = 10

_PAPER_NAMES = {"DPRS": "DPRS", "SRR": "SRR", "Square": "Square", "2D Laplace": "Laplace"}
_COLLUDERS: tuple[ColluderProtocol, ...] = ("exact", "published")


@dataclass(frozen=True, slots=True)
class Reading:
    """How the paper is read: as it says, or by a hypothesis of ours, with the length of the list and the people."""

    words: str = "as stated"
    k: int = K
    population: Population = "stated"

    @property
    def is_hypothesis(self) -> bool:
        """Whether the paper does not say so."""
        return self != AS_STATED


AS_STATED = Reading()


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table, with the cells that it is measured by, run by run."""

    dataset: str
    defence: Defence
    reading: Reading
    utility: tuple[UtilityCell, ...]
    attacks: dict[ColluderProtocol, tuple[AttackCell, ...]]

    def cells(self) -> Iterator[Cell]:
        """All of them."""
        yield from self.utility
        for line in self.attacks.values():
            yield from line

    @property
    def paper(self) -> PaperDefence | None:
        """What the paper prints there."""
        name = _PAPER_NAMES.get(self.defence.label, "")
        found = paper_table3().get((self.dataset, self.defence.epsilon or 0.0, name))
        return found if self.defence.region == "paper" else None


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table, or the mean of several, measured.

    Attributes
    ----------
    ratio, pooled_ratio : Mean
        Distance ratio: the mean of the queries' own, and that of sums over all queries.
    """

    dataset: str
    defence: Defence
    reading: Reading
    recall: Mean
    ratio: Mean
    pooled_ratio: Mean
    users_recall: Mean
    users_ratio: Mean
    users_pooled_ratio: Mean
    attack: dict[ColluderProtocol, AttackRow]
    paper: PaperDefence | None

    def dist_km(self, colluders: ColluderProtocol) -> Mean:
        """Mean error in kilometres, the unit of the paper's table."""
        dist_m = self.attack[colluders].score.dist_m
        return Mean(dist_m.value / 1000, None if dist_m.half_width is None else dist_m.half_width / 1000)


def measure_line(scope: Scope, results: Results, line: Line) -> Measured:
    """Put the runs of one row together."""
    return measure_lines(scope, results, [line])


def measure_lines(scope: Scope, results: Results, lines: Sequence[Line]) -> Measured:
    """Put the runs of several rows together that differ in epsilon only: means over both."""
    first = lines[0]

    def mean(name: str) -> Mean:
        values = [[float(results[cell][f"{name}@{first.reading.k}"]) for cell in line.utility] for line in lines]
        return mean_over_runs([float(value) for value in np.mean(values, axis=0)])

    attack = {}
    for colluders, found in first.attacks.items():
        runs = zip(*(line.attacks[colluders] for line in lines), strict=True)
        attempts = [{"attempts": [one for cell in run for one in results[cell]["attempts"]]} for run in runs]
        attack[colluders] = found[0].row(scope.datasets[first.dataset], attempts)
    papers = [line.paper for line in lines if line.paper is not None]
    return Measured(
        first.dataset,
        first.defence,
        first.reading,
        mean("uniform recall"),
        mean("uniform ratio"),
        mean("uniform pooled ratio"),
        mean("users recall"),
        mean("users ratio"),
        mean("users pooled ratio"),
        attack,
        PaperDefence(*np.mean(papers, axis=0).tolist()) if papers else None,
    )


def line_of(scope: Scope, dataset: str, defence: Defence, reading: Reading = AS_STATED) -> Line:
    """Return one row to be measured; a hypothesis meets the attack of the paper's protocol alone."""
    utility = tuple(
        UtilityCell(
            dataset=dataset,
            seed=scope.seed,
            run=run,
            population=reading.population,
            defence=defence,
            queries=scope.queries,
        )
        for run in scope.each_run()
    )
    colluders = _COLLUDERS[:1] if reading.is_hypothesis else _COLLUDERS
    attacks = {each: _attack_cells(scope, dataset, defence, reading, each) for each in colluders}
    return Line(dataset, defence, reading, utility, attacks)


def _attack_cells(
    scope: Scope, dataset: str, defence: Defence, reading: Reading, colluders: ColluderProtocol
) -> tuple[AttackCell, ...]:
    return tuple(
        AttackCell(
            dataset=dataset,
            seed=scope.seed,
            run=run,
            population=reading.population,
            defence=defence,
            attack="zo-lia",
            accounts=1,
            k=reading.k,
            instances=scope.instances,
            colluders=colluders,
        )
        for run in scope.each_run()
    )
