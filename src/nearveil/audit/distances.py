"""Scores by the distances of an output to either place. They need no learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Subject
from nearveil.types import FloatArray

_LEAST = 1e-9
# Very near: a small share of the distance between the places, and a few metres at most.
_NEAR_SHARE, _NEAR_M = 0.003, 3.0


@dataclass(frozen=True, slots=True)
class DistanceScore:
    """How much nearer an output is to the first place than to the second, as a share of the distance between them.

    It is 1 on the ray that starts in the first place and leads away from the second. For planar Laplace noise of any
    scale it is proportional to the log-ratio of the densities.
    """

    kind = "distance"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        from_first, from_second, apart = _distances(outputs, pair, subject)
        return (from_second - from_first) / apart

    def describe(self) -> str:
        """Say what the score is."""
        return "how much nearer they are to the one than to the other"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True, slots=True)
class NearnessScore:
    """For an output very near to either place, the log-ratio of its distances to both; 0 for all others.

    Noise that is skipped now and then puts outputs on the place itself, or as near as rounding lets them be.
    """

    kind = "nearness"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the nearer to the first place."""
        from_first, from_second, apart = _distances(outputs, pair, subject)
        ratio = np.log(np.maximum(from_second, _LEAST * apart) / np.maximum(from_first, _LEAST * apart))
        reach = apart * min(_NEAR_SHARE, _NEAR_M / max(pair.distance_m, _LEAST))
        near: FloatArray = np.where(np.minimum(from_first, from_second) <= reach, ratio, 0.0)
        return near

    def describe(self) -> str:
        """Say what the score is."""
        return "their being almost at the place itself"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kind": self.kind}


def _distances(outputs: FloatArray, pair: Pair, subject: Subject) -> tuple[FloatArray, FloatArray, float]:
    first, second = subject.in_outputs(pair.first), subject.in_outputs(pair.second)
    apart = max(float(np.hypot(*(first - second))), _LEAST)
    return np.hypot(*(outputs - first).T), np.hypot(*(outputs - second).T), apart
