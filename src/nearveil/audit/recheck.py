"""Checking a witness again, on samples of its own."""

from __future__ import annotations

from dataclasses import dataclass

from nearveil.audit.counting import count_events
from nearveil.audit.sampling import RECHECK_STREAM, Sampler, chosen_seed
from nearveil.audit.subject import Subject
from nearveil.audit.witness import Counts, Witness, bound_of, explain_counts
from nearveil.errors import UsageError
from nearveil.types import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """What fresh samples say about a witness."""

    stands: bool
    counts: Counts
    bound: float
    claimed_loss: float
    confidence: float
    seed: int
    explanation: str


def recheck(
    witness: Witness, subject: Subject, *, samples: int, seed: int | None = None, progress: Progress | None = None
) -> Recheck:
    """Count the same event again, on samples of its own, half of them for each place.

    The samples come from a stream that no audit uses, so that they are fresh even with the audit's own seed. The
    event is not chosen again, so the bound holds with the witness's confidence whatever the witness says.
    """
    if samples < 2:
        raise UsageError("a recheck needs samples for both places")
    seed = chosen_seed(seed)
    sampler = Sampler(subject, seed, progress)
    (counts,) = count_events(sampler, witness.pair, (witness.event,), samples // 2, RECHECK_STREAM)
    bound = bound_of(counts, witness.claim, witness.confidence)
    return Recheck(
        stands=bound > witness.claimed_loss,
        counts=counts,
        bound=bound,
        claimed_loss=witness.claimed_loss,
        confidence=witness.confidence,
        seed=seed,
        explanation=explain_counts(witness.pair, witness.event, counts, witness.claim, witness.claimed_loss, bound),
    )
