"""What somebody wants of a defence: one thing at least, and then as much as can be had of the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nearveil.errors import UsageError
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.planning.measuring import Point
from nearveil.mechanisms.planar_laplace import check_hide_within

Kind = Literal["attacker-error", "recall", "hide-within"]

MOST_K = 100

# What is measured is aimed at a little beyond the wish, since the last measurement has fresh noise, and counts as
# wasteful where it lies far beyond.
_ERROR_MARGIN, _RECALL_MARGIN = 0.04, 0.004
_WASTEFUL_ERROR, _WASTEFUL_RECALL = 1.1, 0.015


@dataclass(frozen=True, slots=True)
class PlanWish:
    """One wish.

    Attributes
    ----------
    kind : str
        ``attacker-error``: the best attacker's mean error in metres is to be at least ``value``, with as much recall
        as possible. ``recall``: recall@k is to be at least ``value``, with the largest error of the attacker.
        ``hide-within``: the metric promise at a length of ``value`` metres for the people that are protected, with as
        much recall as possible.
    k : int
        How many people a list has.
    """

    kind: Kind
    value: float
    k: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MOST_K:
            raise UsageError(f"--k must be a whole number from 1 to {MOST_K}")
        if self.kind == "recall" and not 0 < self.value < 1:
            raise UsageError("--recall is a share: more than 0 and less than 1, such as 0.5")
        if self.kind == "attacker-error" and not 1 <= self.value < math.inf:
            raise UsageError("--attacker-error takes a length of at least 1 metre such as 300m or 0.5km")
        if self.kind == "hide-within":
            check_hide_within(self.value)

    def __str__(self) -> str:
        if self.kind == "attacker-error":
            return (
                f"the best attacker is wrong by at least {self.value:,.4g} m on average; "
                f"then as much recall@{self.k} as possible"
            )
        if self.kind == "recall":
            return f"recall@{self.k} of at least {self.value:g}; then the largest error of the best attacker"
        return (
            f"the metric promise at a length of {self.value:,.4g} m for the people of the file; "
            f"then as much recall@{self.k} as possible"
        )

    def met(self, point: Point) -> bool:
        """Whether a point has what was asked for, by its point estimate; a length is met by what promises it."""
        if self.kind == "attacker-error":
            return point.error_m.value >= self.value
        return self.kind == "hide-within" or point.recall.value >= self.value

    def can_be_promised(self, defence: Defence) -> bool:
        """Whether a defence can promise what was asked for to the very people that it is fitted on.

        A loss in proportion to the distance has no part that is paid at any distance, such as that of a fit.
        """
        return self.kind != "hide-within" or (defence.hide_within_m is not None and not defence.fit_loss)

    def wasteful(self, point: Point) -> bool:
        """Whether a point has far more than was asked for, which something else pays for."""
        if self.kind == "attacker-error":
            return point.error_m.value > _WASTEFUL_ERROR * self.value
        return self.kind == "recall" and point.recall.value > self.value + _WASTEFUL_RECALL

    def prize(self, point: Point) -> float:
        """What there should be as much as possible of, once the wish is met."""
        return point.error_m.value if self.kind == "recall" else point.recall.value

    def shortfall(self, point: Point) -> float:
        """How far a point is from the wish; 0 where it is met."""
        if self.met(point):
            return 0.0
        return abs(self.aim(0.0) - self.level(point))

    def level(self, point: Point) -> float:
        """What the wish is about, as a number that grows as a defence is turned up and is nearly straight in that."""
        return -point.recall.value if self.kind == "recall" else math.log(max(point.error_m.value, 1e-3))

    def aim(self, margins: float = 1.0) -> float:
        """The level to aim at: that of the wish, and so many margins on its safe side."""
        if self.kind == "recall":
            return -self.value - margins * _RECALL_MARGIN
        return math.log(self.value) + margins * _ERROR_MARGIN
