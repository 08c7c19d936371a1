"""What an audit found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nearveil.audit.claim import Claim
from nearveil.audit.pairs import Pair
from nearveil.audit.witness import Witness


class Verdict(StrEnum):
    """What the samples say about a claim."""

    CONSISTENT = "consistent"
    """No violation was found. That is no proof: the guarantee must come from a theorem or a certificate."""
    VIOLATED = "violated"
    """The loss exceeds the claim, with the stated confidence."""
    INCONCLUSIVE = "inconclusive"
    """Nothing could have been found: no pair is covered, or the samples are too few."""


@dataclass(frozen=True, slots=True)
class PairSummary:
    """What exploring made of a pair: the bound to expect there, or why it was left out."""

    pair: Pair
    claimed_loss: float | None
    estimated_loss: float | None
    remark: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.pair.to_dict(),
            "claimed_loss": self.claimed_loss,
            "estimated_loss": self.estimated_loss,
            "remark": self.remark,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditReport:
    """A verdict, and everything that led to it.

    Attributes
    ----------
    verdict : Verdict
        Consistent, violated or inconclusive.
    claim : Claim
        What was put to the test.
    confidence : float
        Probability that the bound holds.
    witness : Witness or None
        The pair and the event that were confirmed, with their counts; also where they break nothing.
    samples, seed : int
        Outputs drawn in all, and the seed to draw them again.
    attainable_loss : float
        The largest bound that so many samples can give.
    pairs : tuple of PairSummary
        Every pair that was given.
    seconds : float
        Time taken.
    """

    verdict: Verdict
    claim: Claim
    confidence: float
    witness: Witness | None
    samples: int
    seed: int
    attainable_loss: float
    pairs: tuple[PairSummary, ...]
    seconds: float

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, with the stated confidence, in the unit of the claim; 0 if nothing was found."""
        if self.witness is None:
            return 0.0
        return self.claim.epsilon_of(max(self.witness.bound, 0.0), self.witness.pair)

    @property
    def explanation(self) -> str:
        """The verdict in a few sentences."""
        if self.witness is None:
            return self._why_inconclusive()
        if self.verdict is Verdict.VIOLATED:
            return f"The claim is violated. {self.witness.explain()}"
        return (
            f"No violation was found: {self.claim.shown(self.epsilon_lower)} is shown, and {self.claim.amount} is "
            "claimed. This does not prove the claim."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the witness, which is a document of its own."""
        return {
            "verdict": str(self.verdict),
            "explanation": self.explanation,
            "claim": self.claim.to_dict(),
            "epsilon_lower": self.epsilon_lower,
            "epsilon_claimed": self.claim.epsilon,
            "unit": self.claim.unit,
            "delta": self.claim.delta,
            "confidence": self.confidence,
            "samples": self.samples,
            "seed": self.seed,
            "attainable_loss": self.attainable_loss if math.isfinite(self.attainable_loss) else None,
            "pair": None if self.witness is None else self.witness.pair.to_dict(),
            "pairs": [summary.to_dict() for summary in self.pairs],
            "seconds": round(self.seconds, 3),
        }

    def _why_inconclusive(self) -> str:
        losses = [summary.claimed_loss for summary in self.pairs if summary.claimed_loss is not None]
        if not losses:
            return (
                "None of the pairs is one that the claim speaks of, so nothing was tested; an interval claim needs the "
                "intervals, and a central one is tested by auditing the fit."
            )
        # The bound grows with the logarithm of the samples.
        times = math.exp(min(losses) - self.attainable_loss) if math.isfinite(self.attainable_loss) else math.inf
        many = f"at least {times:,.0f} times as many samples" if times < 1e6 else "a claim of less loss"
        return (
            f"Losses of {min(losses):.3g} and more are claimed, and so many samples can show at most "
            f"{self.attainable_loss:.3g}: nothing could have been found. Testing the claim needs {many}."
        )
