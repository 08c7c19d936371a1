"""Recurring outputs: a finite set of outputs that come again and again, as from a pool of noise that is used twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Subject
from nearveil.types import FloatArray, IntArray

_MOST = 2_000
_SMOOTHING = 0.5
# Outputs are equal if they agree to so many decimals: the last digits depend on how an output was computed.
_DECIMALS = 6
# An odd number; products wrap around.
_MIX = np.int64(0x1E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class RecurringScore:
    """The smoothed log-ratio of how often an output came from either place while exploring; 0 for all others.

    Parameters
    ----------
    outputs : ndarray of shape (n, 2)
        The outputs that came.
    scores : ndarray of shape (n,)
        Their scores.
    """

    kind = "recurring"

    outputs: FloatArray
    scores: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair, subject
        known = _keys(self.outputs)
        order = np.argsort(known, kind="stable")
        keys = _keys(outputs)
        at = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
        found: FloatArray = np.where(known[at] == keys, self.scores[at], 0.0)
        return found

    def describe(self) -> str:
        """Say what the score is."""
        return f"{len(self.outputs):,} outputs that had come before, while exploring"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": self.kind, "outputs": self.outputs.tolist(), "scores": self.scores.tolist()}


def recurring_from_dict(document: dict[str, Any]) -> RecurringScore:
    """Read what `RecurringScore.to_dict` gave."""
    outputs, scores = (np.array(document[name], dtype=np.float64) for name in ("outputs", "scores"))
    if not (scores.ndim == 1 and len(scores) > 0 and outputs.shape == (len(scores), 2)):
        raise ValueError("recurring outputs")
    if not (np.isfinite(outputs).all() and np.isfinite(scores).all()):
        raise ValueError("recurring outputs")
    return RecurringScore(outputs, scores)


def learn_recurring(first: FloatArray, second: FloatArray) -> RecurringScore | None:
    """Return the outputs that came most often, with their scores; None if none came twice.

    Where some come twice, those that came once are worth knowing too: they belong to the same finite set.
    """
    pooled = np.vstack([first, second])
    _, representatives, own, times = np.unique(
        _keys(pooled), return_index=True, return_inverse=True, return_counts=True
    )
    if len(times) == len(pooled):
        return None
    counts = [np.bincount(side, minlength=len(times)) for side in (own[: len(first)], own[len(first) :])]
    shares = [(count + _SMOOTHING) / (len(side) + 1) for count, side in zip(counts, (first, second), strict=True)]
    most = np.argsort(-times, kind="stable")[:_MOST]
    outputs = np.round(pooled[representatives[most]], _DECIMALS)
    return RecurringScore(outputs, np.log(shares[0] / shares[1])[most])


def _keys(outputs: FloatArray) -> IntArray:
    """A number for each output that is the same for equal ones, and for different ones next to never."""
    whole: IntArray = np.round(outputs * 10.0**_DECIMALS).astype(np.int64)
    keys: IntArray = (whole[:, 0] * _MIX) ^ whole[:, 1]
    return keys
