"""The dial of a family: the one parameter that its members differ in, turned so that more hides more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nearveil.evaluation.defences import Defence
from nearveil.evaluation.parts.families import Family
from nearveil.mechanisms.centres import PAPER_CENTRES, PEOPLE_PER_CENTRE
from nearveil.region import Region

Swept = Literal["hide_within_m", "epsilon", "centres"]

_LEAST_LENGTH_M = 1.0
# Below, noise is as good as uniform in the disc; above, next to nothing is hidden.
_EPSILONS = (0.1, 50.0)
_LEAST_CENTRES = 4


@dataclass(frozen=True, slots=True)
class Dial:
    """A parameter of a defence on a logarithmic scale.

    Attributes
    ----------
    swept : str
        Its name.
    least, most : float
        Values that make sense.
    """

    swept: Swept
    least: float
    most: float

    @property
    def ends(self) -> tuple[float, float]:
        """How far it can be turned down and up."""
        return min(self._turn(self.least), self._turn(self.most)), max(self._turn(self.least), self._turn(self.most))

    def read(self, defence: Defence) -> float:
        """How far it is turned up: a longer length, a smaller epsilon, fewer centres."""
        value = getattr(defence, self.swept)
        return self._turn(float(value))

    def turned(self, defence: Defence, turn: float) -> Defence:
        """Return the defence with the dial turned so far, at a value of three digits, such as a person would write."""
        low, high = self.ends
        value = math.exp(self._sign * min(max(turn, low), high))
        if self.swept == "centres":
            return replace(defence, centres=round(value))
        value = min(max(_three_digits(value), self.least), self.most)
        return (
            replace(defence, hide_within_m=value) if self.swept == "hide_within_m" else replace(defence, epsilon=value)
        )

    @property
    def _sign(self) -> float:
        return 1.0 if self.swept == "hide_within_m" else -1.0

    def _turn(self, value: float) -> float:
        return self._sign * math.log(value)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def dial_of(family: Family, region: Region, people: int) -> Dial:
    """Return the dial of a family whose members were fitted to a population."""
    first, last = family.members[0], family.members[-1]
    if first.hide_within_m is not None:
        return Dial("hide_within_m", _LEAST_LENGTH_M, _three_digits(2 * region.radius_m))
    if first.epsilon != last.epsilon:
        return Dial("epsilon", *_EPSILONS)
    return Dial("centres", _LEAST_CENTRES, people // PEOPLE_PER_CENTRE)


def fitted_to(families: Sequence[Family], people: int) -> tuple[list[Family], list[str]]:
    """Return the families that so many people are enough for, and a sentence on each that was left out."""
    kept, left_out = [], []
    most = people // PEOPLE_PER_CENTRE
    for family in families:
        members = tuple(_with_fewer_centres(family, most))
        if len(members) >= 2:
            kept.append(replace(family, members=members))
        else:
            left_out.append(
                f"{family.label}: {people:,} people are too few to fit intervals on, at {PEOPLE_PER_CENTRE} for each"
            )
    return kept, left_out


def _with_fewer_centres(family: Family, most: int) -> list[Defence]:
    if family.members[0].kind != "dprs":
        return list(family.members)
    if most < 2 * _LEAST_CENTRES:
        return []
    if len({member.centres for member in family.members}) > 1:
        return [member for member in family.members if member.centres <= most]
    return [replace(member, centres=min(PAPER_CENTRES, most)) for member in family.members]
