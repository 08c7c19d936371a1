"""What one run of a defence is worth to those who ask, and to the best attacker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.publication import best_guess_of, publish, utility_of
from nearveil.evaluation.defences import Defence
from nearveil.io.datasets import Dataset

_QUERY_STREAM, _TARGET_STREAM = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierCell(Cell):
    """Utility for every k, and the Bayes attacker's mean error and Acc over some targets."""

    defence: Defence
    queries: int
    targets: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Protect everybody once, ask, and guess."""
        publication = publish(dataset, self.defence, self.run_seed)
        return utility_of(publication, self.queries, self.rng(_QUERY_STREAM)) | best_guess_of(
            publication, self.targets, self.rng(_TARGET_STREAM)
        )

    @property
    def seconds(self) -> float:
        """Guessing takes most of it; a density per axis, with its edges, takes longest."""
        each = {"dprs": 0.018, "axis-laplace": 0.06}.get(self.defence.kind, 0.008)
        return 0.3 + each * self.targets
