"""Everything that can be reproduced, by name and in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.outcome import Outcome
from nearveil.evaluation.parts import (
    ablation,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure9,
    frontier,
    guarantee,
    releases,
    table1,
    table2,
    table3,
)
from nearveil.evaluation.parts.scope import Results, Scope


class Part(Protocol):
    """A module of this folder."""

    NAME: str
    TITLE: str

    def cells(self, scope: Scope, /) -> Sequence[Cell]:
        """Say what must be measured."""

    def outcome(self, scope: Scope, results: Results, /) -> Outcome:
        """Say what came out."""


_MODULES: tuple[Part, ...] = (
    table1,
    table2,
    table3,
    guarantee,
    ablation,
    frontier,
    releases,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure9,
)

PARTS: dict[str, Part] = {part.NAME: part for part in _MODULES}
