"""Everything that can be reproduced, by name and in the order of the report."""

from __future__ import annotations

from nearveil.evaluation.parts import (
    ablation,
    figure8,
    figure9,
    figures4to7,
    frontier,
    guarantee,
    releases,
    table1,
    table2,
    table3,
)
from nearveil.evaluation.parts.scope import Experiment

_IN_ORDER = (
    *(
        Experiment(module.NAME, module.TITLE, module.cells, module.outcome)
        for module in (table1, table2, table3, guarantee, ablation, frontier, releases)
    ),
    *(sweep.experiment() for sweep in figures4to7.SWEEPS),
    *(Experiment(module.NAME, module.TITLE, module.cells, module.outcome) for module in (figure8, figure9)),
)

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _IN_ORDER}
