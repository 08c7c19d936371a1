"""What one run of a defence is worth to those who ask who is near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.publication import publish, utility_of
from nearveil.evaluation.defences import Defence
from nearveil.io.datasets import Dataset

_QUERY_STREAM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityCell(Cell):
    """Recall, ratio and distance error for every k, under both query protocols."""

    defence: Defence
    queries: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Protect everybody once, and ask."""
        return utility_of(publish(dataset, self.defence, self.run_seed), self.queries, self.rng(_QUERY_STREAM))

    @property
    def seconds(self) -> float:
        """Asking takes most of it, and the fit, where no other cell has made it yet."""
        return 0.2 if self.defence.kind == "dprs" else 0.1
