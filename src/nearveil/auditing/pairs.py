"""Pairs of made-up places whose outputs are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.auditing.subjects import Place
from nearveil.sphere import great_circle_m


@dataclass(frozen=True, slots=True)
class Pair:
    """Two made-up places.

    Parameters
    ----------
    first, second : tuple
        Latitude and longitude in degrees.
    kind : str
        Where they lie, to follow "two places 60 m apart,".
    same_interval : bool, optional
        Whether they share an interval; None where intervals are unknown.
    steps : float, optional
        Number of steps between their cells, 0 if they share one; None where cells are unknown.
    """

    first: Place
    second: Place
    kind: str
    same_interval: bool | None = None
    steps: float | None = None

    @property
    def distance_m(self) -> float:
        """Great-circle distance, in metres."""
        return float(great_circle_m(np.array(self.first), np.array(self.second)))

    def __str__(self) -> str:
        distance = self.distance_m
        apart = f"{distance:,.0f} m" if distance < 10_000 else f"{distance / 1000:,.1f} km"
        away = apart if distance > 0.5 else "less than a metre"
        steps = "" if self.steps is None else f" and {self.steps:.3g} step{'' if self.steps == 1 else 's'}"
        return f"two places {away}{steps} apart, {self.kind}"

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as plain values for JSON."""
        return {
            "first": list(self.first),
            "second": list(self.second),
            "kind": self.kind,
            "same_interval": self.same_interval,
            "distance_m": self.distance_m,
            "steps": self.steps,
        }


def pair_from_dict(document: dict[str, Any]) -> Pair:
    """Read a pair that `Pair.to_dict` gave."""
    first, second = (tuple(float(degrees) for degrees in document[end]) for end in ("first", "second"))
    if len(first) != 2 or len(second) != 2:
        raise ValueError("a place is a latitude and a longitude")
    steps = document["steps"]
    if steps is not None and not (math.isfinite(steps) and steps >= 0):
        raise ValueError("steps")
    ends = (first[0], first[1]), (second[0], second[1])
    return Pair(*ends, str(document["kind"]), document["same_interval"], None if steps is None else float(steps))
