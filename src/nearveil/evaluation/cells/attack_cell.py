"""One attack on some people, of an open service or a protected one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, AttackRow
from nearveil.evaluation.attack_score import Attempt
from nearveil.evaluation.cells.cell import Cell, Result
from nearveil.evaluation.cells.fits import fitted
from nearveil.evaluation.contenders import Contender, contenders
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.protocols import ColluderProtocol
from nearveil.io.datasets import Dataset

_SECONDS = {"gi-lia": 0.004, "zo-lia": 0.004, "sandwich": 0.01, "adaptive": 0.2, "unfolding": 0.1}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCell(Cell):
    """One attack with so many accounts of its own against so many people."""

    attack: str
    accounts: int
    k: int
    instances: int
    defence: Defence | None = None
    colluders: ColluderProtocol = "exact"

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Attack everybody in turn; the result has every attempt, to be put together with those of other runs."""
        mechanism = None if self.defence is None else self.defence.build(dataset.region, self.run_seed)
        experiment = AttackExperiment(dataset, self._protocol, mechanism and fitted(mechanism, dataset))
        attempts = experiment.attempts(self.run, self._contender(dataset), self.k)
        return {"attempts": [astuple(attempt) for attempt in attempts]}

    def row(self, dataset: Dataset, results: Sequence[Result]) -> AttackRow:
        """Put the results of all runs together."""
        runs = [[Attempt(*values) for values in result["attempts"]] for result in results]
        # Nothing is published here, so the mechanism need not be fitted.
        mechanism = None if self.defence is None else self.defence.build(dataset.region, self.run_seed)
        return AttackExperiment(dataset, self._protocol, mechanism).row(self.k, self._contender(dataset), runs)

    @property
    def seconds(self) -> float:
        """Mostly the attacks."""
        return self.instances * _SECONDS[self.attack] + (0.0 if self.defence is None else 0.1)

    @property
    def _protocol(self) -> AttackProtocol:
        return AttackProtocol(
            runs=self.run + 1,
            instances=self.instances,
            seed=self.seed,
            published_colluders=self.colluders == "published",
        )

    def _contender(self, dataset: Dataset) -> Contender:
        accounts = [self.accounts] if self.attack == "adaptive" else []
        return contenders([self.attack], dataset.region, colluders=accounts, tau_m=AttackProtocol().tau_m)[0]
