"""The scene of one attack: what was asked and found, and the truth that the attacker did not know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import AttackResult, Circle, TraceStep
from nearveil.region import Region
from nearveil.types import FloatArray

_MOST_DOTS = 40_000


@dataclass(frozen=True)
class Scene:
    """One attack and what it was aimed at.

    Attributes
    ----------
    people_m : ndarray of shape (n, 2)
        Where people are, in metres from the region's centre.
    truth : Spot
        Where the target is.
    tau_m : float
        How near counts as found.
    published : Spot or None
        Where a protected service publishes the target.
    """

    result: AttackResult
    region: Region
    people_m: FloatArray
    truth: Spot
    tau_m: float
    published: Spot | None = None

    @property
    def seen(self) -> Spot:
        """Where the service believes the target to be."""
        return self.truth if self.published is None else self.published

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The questions in order."""
        return self.result.trace.steps

    @property
    def ends(self) -> list[Spot]:
        """The places that the last look is about."""
        return [spot for spot in (self.truth, self.published, self.result.estimate) if spot is not None]

    @cached_property
    def dots(self) -> FloatArray:
        """The people to draw: everybody, or in a crowd those around the target and a share of the others."""
        if len(self.people_m) <= _MOST_DOTS:
            return self.people_m
        order = np.argsort(np.hypot(*(self.people_m - np.array(self.seen)).T))
        near, far = order[: _MOST_DOTS // 2], order[_MOST_DOTS // 2 :]
        return self.people_m[np.append(near, far[:: math.ceil(len(far) / (_MOST_DOTS // 2))])]

    def boxes(self, cells: FloatArray) -> FloatArray:
        """West, south, east and north of cells within the region: what lies beyond it is not possible."""
        half = np.array(self.region.half_extent_m)
        west_south = np.clip(cells[:, :2] - cells[:, 2:], -half, half)
        return np.hstack([west_south, np.clip(cells[:, :2] + cells[:, 2:], -half, half)])

    def cells_after(self, number: int) -> FloatArray | None:
        """What was possible after so many questions, if the attack keeps count."""
        return next((step.cells for step in reversed(self.steps[:number]) if step.cells is not None), None)

    def circles_after(self, number: int) -> list[Circle]:
        """Circles known after so many questions: all colluders around their centre have been heard."""
        later = {step.place for step in self.steps[number:] if step.colluders}
        asked = {step.place for step in self.steps[:number]}
        return [circle for circle in self.result.trace.circles if circle.centre in asked - later]
