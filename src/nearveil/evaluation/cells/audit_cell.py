"""One audit: whether what a defence claims is true, as far as its outputs show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nearveil.audit.auditor import audit
from nearveil.audit.claim import own_claim, paper_claim
from nearveil.audit.pair_choice import mechanism_pairs
from nearveil.audit.subject import MechanismSubject
from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.fits import fitted
from nearveil.evaluation.defences import Defence
from nearveil.io.datasets import Dataset

ClaimName = Literal["paper", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCell(Cell):
    """An audit of the paper's claim or of Nearveil's own, on intervals fitted to the population."""

    defence: Defence
    claim: ClaimName
    samples: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Look for two places between which more is lost than is claimed."""
        mechanism = fitted(self.defence.build(dataset.region, self.run_seed), dataset)
        claim = (paper_claim if self.claim == "paper" else own_claim)(mechanism.guarantee)
        subject, pairs = MechanismSubject(mechanism), mechanism_pairs(mechanism, claim)
        report = audit(subject, claim, pairs, samples=self.samples, seed=self.run_seed)
        witness = report.witness
        return {
            "verdict": str(report.verdict),
            "claimed": claim.epsilon,
            "delta": claim.delta,
            "at least": report.epsilon_lower,
            "confidence": report.confidence,
            "unit": claim.unit,
            "pair": "" if witness is None else str(witness.pair),
            "hits": 0.0 if witness is None else witness.counts.hits / witness.counts.trials,
            "false hits": 0.0 if witness is None else witness.counts.false_hits / witness.counts.false_trials,
        }

    @property
    def seconds(self) -> float:
        """By the number of samples."""
        return 0.5 + 2.5e-6 * self.samples
