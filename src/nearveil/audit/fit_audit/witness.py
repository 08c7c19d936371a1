"""A witness against a fit: data with and without one person, an event, and its counts on fresh fits."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nearveil.audit.claim import Claim, claim_from_dict
from nearveil.audit.fit_audit.data_pairs import DataPair, data_from_dict
from nearveil.audit.fit_audit.fitting import Fit, KnowingFit, fit_both
from nearveil.audit.fit_audit.statistics import Event, event_from_dict
from nearveil.audit.sampling import RECHECK_STREAM, chosen_seed
from nearveil.audit.witness import Counts, bound_of, shared_confidence
from nearveil.errors import DataError
from nearveil.types import FloatArray

FORMAT = "nearveil-fit-witness"
FORMAT_VERSION = 1

_ROUND_OFF = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitWitness:
    """What was counted, on fits made after data and event were chosen.

    Attributes
    ----------
    claim : Claim
        What the fit is said to promise.
    data : DataPair
        Made-up people, with and without one of them.
    event : Event
        The outputs that were counted.
    speaks_for_person : bool
        Whether the event is likelier with the person (its hits are counted there), or without.
    events_counted : int
        How many events were counted, this one among them; they share the error (Bonferroni).
    """

    claim: Claim
    data: DataPair
    event: Event
    speaks_for_person: bool
    counts: Counts
    confidence: float
    seed: int
    events_counted: int = 1

    @property
    def bound(self) -> float:
        """Lower bound on the loss; -inf if the counts show nothing."""
        return bound_of(self.counts, self.claim, shared_confidence(self.confidence, self.events_counted))

    @property
    def violates(self) -> bool:
        """Whether the counts break the claim."""
        return self.bound > self.claim.epsilon * (1 + _ROUND_OFF) + _ROUND_OFF

    def explain(self) -> str:
        """Say in a sentence or two what was seen."""
        counts = self.counts
        sides = ("with", "without") if self.speaks_for_person else ("without", "with")
        times = (
            f"at least {math.exp(self.bound):,.3g} times as likely" if self.bound > 0 else "not shown to be likelier"
        )
        return (
            f"{len(self.data.without)} people, {sides[0]} and {sides[1]} one person {self.data.name}: outputs "
            f"{self.event.describe()} came {counts.hits:,} times of {counts.trials:,} {sides[0]} and "
            f"{counts.false_hits:,} times of {counts.false_trials:,} {sides[1]}. The claim allows "
            f"{math.exp(min(self.claim.epsilon, 700.0)):,.3g} times as likely; they are {times}."
        )

    def to_json(self) -> str:
        """Write the witness as one JSON document; `fit_witness_from_json` reads it back."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "explanation": self.explain(),
            "violates": self.violates,
            "claim": self.claim.to_dict(),
            "data": self.data.to_dict(),
            "event": self.event.to_dict(),
            "speaks_for_person": self.speaks_for_person,
            "counts": {name: getattr(self.counts, name) for name in Counts.__slots__},
            "confidence": self.confidence,
            "events_counted": self.events_counted,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "seed": self.seed,
        }
        return json.dumps(document, indent=1, allow_nan=False)


def fit_witness_from_json(text: str) -> FitWitness:
    """Read a witness that `FitWitness.to_json` wrote. Its bound is computed again from its counts."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT or document["version"] != FORMAT_VERSION:
            raise KeyError("format")
        return _from_document(document)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise DataError("this is no witness against a fit, or a damaged one; audit the fit again") from None


def _from_document(document: dict[str, Any]) -> FitWitness:
    confidence = float(document["confidence"])
    events_counted = int(document.get("events_counted", 1))
    if not (0 < confidence < 1 and events_counted >= 1):
        raise ValueError("confidence")
    return FitWitness(
        claim=claim_from_dict(document["claim"]),
        data=data_from_dict(document["data"]),
        event=event_from_dict(document["event"]),
        speaks_for_person=bool(document["speaks_for_person"]),
        counts=Counts(**{name: int(document["counts"][name]) for name in Counts.__slots__}),
        confidence=confidence,
        seed=int(document["seed"]),
        events_counted=events_counted,
    )


def recheck_fit(witness: FitWitness, fit: Fit | KnowingFit, *, fits: int, seed: int | None = None) -> FitWitness:
    """Count the same event again on fresh fits, half of them with the person; return the witness with the new counts.

    The fits draw from a stream that no audit uses. Nothing is chosen again, so the new bound holds with the witness's
    confidence, whatever the witness says.
    """
    seed = chosen_seed(seed)
    return count_events([replace(witness, events_counted=1)], fit, fits, seed, RECHECK_STREAM)[0]


def count_events(
    witnesses: Sequence[FitWitness], fit: Fit | KnowingFit, fits: int, seed: int, stream: int
) -> list[FitWitness]:
    """Return witnesses about the same data with what they count on so many fresh fits, half of them with the person."""
    each = max(fits // 2, 1)
    outputs = fit_both(fit, witnesses[0].data, each, seed, (stream,))
    return [replace(witness, counts=_counted(witness, outputs), seed=seed) for witness in witnesses]


def _counted(witness: FitWitness, outputs: tuple[FloatArray, FloatArray]) -> Counts:
    hits = [int(witness.event.happened(part).sum()) for part in outputs]
    likely, unlikely = hits if witness.speaks_for_person else hits[::-1]
    return Counts(hits=likely, trials=len(outputs[0]), false_hits=unlikely, false_trials=len(outputs[1]))
