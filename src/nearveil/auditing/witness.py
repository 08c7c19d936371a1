"""A witness: two places, an event and its counts, that anyone can check again on fresh samples."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from nearveil.auditing.bounds import loss_bounds
from nearveil.auditing.claims import Claim, claim_from_dict
from nearveil.auditing.events import OutputEvent, event_from_dict
from nearveil.auditing.pairs import Pair, pair_from_dict
from nearveil.auditing.subjects import BATCH, RECHECK_STREAM, Sampler, Subject, chosen_seed
from nearveil.errors import DataError, UsageError
from nearveil.types import FloatArray, Progress

FORMAT_VERSION = 1
_Counted = TypeVar("_Counted", bound="CountedEvent")


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an event came: under the place it speaks for (hits), and under the other (false hits)."""

    hits: int
    trials: int
    false_hits: int
    false_trials: int

    def __post_init__(self) -> None:
        if not (0 <= self.hits <= self.trials and 0 <= self.false_hits <= self.false_trials and self.trials > 0):
            raise ValueError("counts")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedEvent(ABC):
    """What was counted against a claim, on samples drawn after the event was chosen.

    Attributes
    ----------
    claim : Claim
        What is said to be promised.
    counts : Counts
        What was counted.
    confidence : float
        Probability that the bound holds.
    events_counted : int
        How many events were counted on the same samples, this one among them; they share the error (Bonferroni).
    seed : int
        The audit's seed.
    subject : dict
        How to find what was audited again, for the caller who wrote the witness; opaque here.
    """

    format: ClassVar[str]

    claim: Claim
    counts: Counts
    confidence: float
    seed: int
    events_counted: int = 1
    subject: dict[str, Any] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        """Lower bound on the loss; -inf if the counts show nothing."""
        counts, confidence = self.counts, shared_confidence(self.confidence, self.events_counted)
        return float(loss_bounds(*astuple(counts), delta=self.claim.delta, confidence=confidence))

    @property
    @abstractmethod
    def claimed_loss(self) -> float:
        """The largest loss claimed; infinite if the claim does not speak of what was counted."""

    @property
    def violates(self) -> bool:
        """Whether the counts break the claim."""
        return self.bound > self.claimed_loss

    @abstractmethod
    def explain(self) -> str:
        """Say in a sentence or two what was seen."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what was compared, and the event, as plain values for JSON."""

    def to_json(self) -> str:
        """Write the witness as one JSON document; `read_counted` reads it back."""
        document = {
            "format": self.format,
            "version": FORMAT_VERSION,
            "explanation": self.explain(),
            "violates": self.violates,
            "claim": self.claim.to_dict(),
            **self.about(),
            "counts": asdict(self.counts),
            "confidence": self.confidence,
            "events_counted": self.events_counted,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "claimed_loss": self.claimed_loss if math.isfinite(self.claimed_loss) else None,
            "seed": self.seed,
            "subject": self.subject,
        }
        return json.dumps(document, indent=1, allow_nan=False)


def read_counted(text: str, kind: type[_Counted], read: Callable[[dict[str, Any]], dict[str, Any]]) -> _Counted:
    """Read what `CountedEvent.to_json` wrote, with what ``read`` makes of the rest; a `ValueError` if it is none.

    Its bound is computed again from its counts.
    """
    try:
        document = json.loads(text)
        confidence, events_counted = float(document["confidence"]), int(document["events_counted"])
        if (document["format"], document["version"]) != (kind.format, FORMAT_VERSION):
            raise ValueError("format")
        if not (0 < confidence < 1 and events_counted >= 1 and isinstance(document["subject"], dict)):
            raise ValueError("confidence")
        return kind(
            claim=claim_from_dict(document["claim"]),
            counts=Counts(**{name: int(document["counts"][name]) for name in Counts.__slots__}),
            confidence=confidence,
            events_counted=events_counted,
            seed=int(document["seed"]),
            subject=document["subject"],
            **read(document),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError("witness") from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Witness(CountedEvent):
    """What was measured of a mechanism.

    Attributes
    ----------
    pair : Pair
        Two made-up places.
    event : OutputEvent
        The outputs that were counted, and the place they speak for.
    cells : str, optional
        Elastic claim: the digest of the cells that steps are counted between (`nearveil.Cells.digest`).
    """

    format = "nearveil-witness"

    pair: Pair
    event: OutputEvent
    cells: str | None = None

    @property
    def claimed_loss(self) -> float:
        """The largest loss claimed between the two places; infinite if the claim does not speak of them."""
        loss = self.claim.claimed_loss(self.pair)
        return math.inf if loss is None else loss

    def explain(self) -> str:
        """Say in a sentence or two what was seen."""
        event, counts, delta = self.event, self.counts, self.claim.delta
        other = "second" if event.direction == "first" else "first"
        never = "never" if counts.false_hits == 0 else f"{counts.false_hits:,} times"
        more = f", plus delta {delta:.3g}" if delta > 1e-12 else ""
        allowed = f"{_times(self.claimed_loss)} as likely{more}" if math.isfinite(self.claimed_loss) else "anything"
        shown = f"at least {_times(self.bound)} as likely" if self.bound > 0 else "not shown to be likelier at all"
        sentence = str(self.pair)
        return (
            f"{sentence[0].upper()}{sentence[1:]}: outputs {event.describe()}, came {counts.hits:,} times out "
            f"of {counts.trials:,} from the {event.direction} and {never} out of {counts.false_trials:,} from the "
            f"{other}. The claim allows {allowed}; they are {shown}."
        )

    def about(self) -> dict[str, Any]:
        """Return pair, event and cells as plain values for JSON."""
        return {"pair": self.pair.to_dict(), "event": self.event.to_dict(), "cells": self.cells}


def witness_from_json(text: str) -> Witness:
    """Read a witness that `Witness.to_json` wrote."""
    try:
        return read_counted(text, Witness, _about)
    except ValueError:
        raise DataError("this is not a witness file, or it is damaged; make one with 'nearveil audit'") from None


def _about(document: dict[str, Any]) -> dict[str, Any]:
    cells = document["cells"]
    if not (cells is None or isinstance(cells, str)):
        raise ValueError("cells")
    return {"pair": pair_from_dict(document["pair"]), "event": event_from_dict(document["event"]), "cells": cells}


def shared_confidence(confidence: float, events: int) -> float:
    """Return the confidence for each of several events with which all of their bounds hold together."""
    return 1 - (1 - confidence) / events


def _times(loss: float) -> str:
    return f"{math.exp(loss):,.3g} times" if loss < 50 else f"e^{loss:.3g} times"


# Counting events on fresh samples.


def count_events(
    sampler: Sampler, pair: Pair, events: Sequence[OutputEvent], per_place: int, stream: int
) -> list[Counts]:
    """Count events on fresh samples for both places, the same for all events, a batch at a time."""
    found = np.zeros((2, len(events)), dtype=np.int64)
    for side, place in enumerate((pair.first, pair.second)):
        for number, start in enumerate(range(0, per_place, BATCH)):
            outputs = sampler.draw(place, min(BATCH, per_place - start), (stream, side, number))
            found[side] += _hits(outputs, pair, events, sampler.subject)
    counted = []
    for event, (first, second) in zip(events, found.T.tolist(), strict=True):
        hits, false_hits = (first, second) if event.direction == "first" else (second, first)
        counted.append(Counts(hits=hits, trials=per_place, false_hits=false_hits, false_trials=per_place))
    return counted


def _hits(outputs: FloatArray, pair: Pair, events: Sequence[OutputEvent], subject: Subject) -> list[int]:
    """Count each event's hits; events of the same score have it computed once."""
    scores = {id(event.score): event.score for event in events}
    scored = {key: score.score(outputs, pair, subject) for key, score in scores.items()}
    return [int(event.reached(scored[id(event.score)]).sum()) for event in events]


def recheck(
    witness: Witness, subject: Subject, *, samples: int, seed: int | None = None, progress: Progress | None = None
) -> Witness:
    """Count the same event again on samples of its own, half of them for each place; return it with the new counts.

    The samples come from a stream that no audit uses, so that they are fresh even with the audit's own seed. The
    event is not chosen again, so the bound holds with the witness's confidence whatever the witness says.
    """
    if samples < 2:
        raise UsageError("a recheck needs samples for both places")
    seed = chosen_seed(seed)
    sampler = Sampler(subject, seed, progress)
    (counts,) = count_events(sampler, witness.pair, (witness.event,), samples // 2, RECHECK_STREAM)
    return replace(witness, counts=counts, events_counted=1, seed=seed)
