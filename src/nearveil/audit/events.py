"""Events: yes-or-no questions about an output, to be counted under both places of a pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from nearveil.audit.classifier import classifier_from_dict, learn_classifier
from nearveil.audit.distances import DistanceScore, NearnessScore
from nearveil.audit.histogram import histogram_from_dict, learn_histogram
from nearveil.audit.low_digits import learn_low_digits, low_digits_from_dict
from nearveil.audit.pairs import Pair
from nearveil.audit.recurring import learn_recurring, recurring_from_dict
from nearveil.audit.subject import AuditError, Subject
from nearveil.types import BoolArray, FloatArray

Direction = Literal["first", "second"]
DIRECTIONS: tuple[Direction, ...] = ("first", "second")

TELL_TALES = ("nearness", "low-digits", "recurring")
"""Kinds of scores that are 0 for nearly all outputs of sound noise, so that a few hits are not mere luck."""

UNLEARNED = ("density", "distance", "nearness")
"""Kinds of scores that learn nothing from outputs."""

# A log-ratio beyond this is "only one of the two places can give this output"; JSON has no infinity.
_CERTAIN = 1000.0


class Score(Protocol):
    """A number for each output: the larger, the more it speaks for the first place."""

    @property
    def kind(self) -> str:
        """The name of the score in JSON."""

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output."""

    def describe(self) -> str:
        """Say what the score is, in words that follow "as judged by"."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""


@dataclass(frozen=True, slots=True)
class DensityScore:
    """The log-ratio of the mechanism's own densities. If they are wrong the event is a poor one, but no false one."""

    kind: ClassVar[str] = "density"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output; one that both densities deny says nothing."""
        ratio = subject.log_ratio(pair.first, pair.second, outputs)
        if ratio is None:
            raise AuditError("the witness needs the mechanism's density, and this mechanism has none; audit it afresh")
        return np.clip(np.nan_to_num(ratio, nan=0.0, posinf=_CERTAIN, neginf=-_CERTAIN), -_CERTAIN, _CERTAIN)

    def describe(self) -> str:
        """Say what the score is."""
        return "the mechanism's own density"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """An output scores at or above a threshold, for the place that the event speaks for.

    Parameters
    ----------
    score : Score
        How outputs are scored.
    threshold : float
        In units of the score; of its negative where the event speaks for the second place.
    direction : {"first", "second"}
        The place under which the event is the likelier one.
    """

    score: Score
    threshold: float
    direction: Direction

    def hits(self, outputs: FloatArray, pair: Pair, subject: Subject) -> BoolArray:
        """Whether the event occurs, for each output."""
        return self.reached(self.score.score(outputs, pair, subject))

    def reached(self, scores: FloatArray) -> BoolArray:
        """Whether the event occurs, for each output's score."""
        reached: BoolArray = (scores if self.direction == "first" else -scores) >= self.threshold
        return reached

    def describe(self) -> str:
        """Say which outputs are meant, in words that follow "outputs"."""
        other = "second" if self.direction == "first" else "first"
        if self.score.kind == "density" and self.threshold > _CERTAIN - 1:
            return f"that the {other} cannot give, by the mechanism's own density"
        return f"that speak for the {self.direction} and not the {other}, as judged by {self.score.describe()}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"score": self.score.to_dict(), "threshold": self.threshold, "direction": self.direction}


def event_from_dict(document: dict[str, Any]) -> Event:
    """Read what `Event.to_dict` gave."""
    direction = document["direction"]
    if direction not in DIRECTIONS or not np.isfinite(document["threshold"]):
        raise ValueError("event")
    return Event(_score_from_dict(document["score"]), float(document["threshold"]), direction)


_READERS: dict[str, Callable[[dict[str, Any]], Score]] = {
    DensityScore.kind: lambda _: DensityScore(),
    DistanceScore.kind: lambda _: DistanceScore(),
    NearnessScore.kind: lambda _: NearnessScore(),
    "classifier": classifier_from_dict,
    "histogram": histogram_from_dict,
    "low-digits": low_digits_from_dict,
    "recurring": recurring_from_dict,
}


def _score_from_dict(document: dict[str, Any]) -> Score:
    read = _READERS.get(document["kind"])
    if read is None:
        raise ValueError("an event of an unknown kind")
    return read(document)


def learn_scores(first: FloatArray, second: FloatArray, pair: Pair, subject: Subject) -> list[Score]:
    """Learn from outputs of both places how to tell them apart.

    The others are tried also where a density is known: a density that does not belong to the draws must not blind
    the audit. The classifier is for subjects without one.
    """
    known = subject.log_ratio(pair.first, pair.second, first[:1]) is not None
    scores: list[Score] = [
        DensityScore() if known else learn_classifier(first, second, pair, subject),
        learn_histogram(first, second),
        DistanceScore(),
    ]
    recurring = learn_recurring(first, second)
    return [
        *scores,
        NearnessScore(),
        *learn_low_digits(first, second, subject),
        *([] if recurring is None else [recurring]),
    ]
