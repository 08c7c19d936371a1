"""What a service answers: a ranked list, a rounded distance, a band, or whether somebody is within a radius.

`Answers` is read from text such as ``distance:1km``, and makes the oracle of a simulated service that answers so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np

from nearveil.attacks.oracle import CountedBands, CountedDistance, CountedFilter, PersonOracle, Point, Radii
from nearveil.attacks.readings import UNITS_M
from nearveil.errors import UsageError

EXAMPLES = "list, distance:1km, distance:1mi, bands:500m, filter:1km, filter:5km-fixed, circle:2km"


class AnswerKind(StrEnum):
    """The kinds of answers."""

    LIST = "list"
    DISTANCE = "distance"
    BANDS = "bands"
    FILTER = "filter"
    CIRCLE = "circle"


ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "nearest": lambda value: math.floor(value + 0.5),
    "ceil": math.ceil,
}
"""How services round distances."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A kind of answer and its length.

    Attributes
    ----------
    kind : AnswerKind
        What is answered.
    number : float or None
        The length in its unit: the step of distances and bands, the step or the least of radii.
    unit : str
        Of the number.
    variant : str
        A rounding of `ROUNDINGS` for distances; ``fixed`` for a filter of one radius; else empty. A service without a
        stated rounding has any of them.
    """

    kind: AnswerKind = AnswerKind.LIST
    number: float | None = None
    unit: str = "m"
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read text such as ``distance:1km``, ``filter:5km-fixed`` or ``list``.

        Examples
        --------
        >>> Answers.parse("distance:1mi").step_m
        1609.344
        """
        match = re.fullmatch(r"\s*([a-z]+)(?::([0-9.]+)(m|km|mi|nmi|yd|ft)(?:-([a-z]+))?)?\s*", text)
        kinds = {kind.value for kind in AnswerKind}
        if match is None or match[1] not in kinds:
            raise UsageError(f"answers= cannot be {text!r}; it is one of {EXAMPLES}, with lengths of your choice")
        kind = AnswerKind(match[1])
        if (match[2] is None) != (kind is AnswerKind.LIST):
            raise UsageError(f"answers={kind} takes {'no' if kind is AnswerKind.LIST else 'a'} length; see {EXAMPLES}")
        if kind is AnswerKind.LIST:
            return cls()
        try:
            number = float(match[2])
        except ValueError:
            number = math.nan
        if not 1.0 <= number * UNITS_M[match[3]] <= 1e6:
            raise UsageError(f"the length of answers={kind} must be between 1 m and 1,000 km, such as 1km")
        variants = {AnswerKind.DISTANCE: set(ROUNDINGS), AnswerKind.FILTER: {"fixed"}}.get(kind, set())
        if match[4] is not None and match[4] not in variants:
            known = f"; it can be {', '.join(sorted(variants))}" if variants else ""
            raise UsageError(f"answers={kind} has no variant {match[4]!r}{known}")
        return cls(kind, number, match[3], match[4] or "")

    def __str__(self) -> str:
        if self.number is None:
            return str(self.kind)
        return f"{self.kind}:{self.number:g}{self.unit}" + (f"-{self.variant}" if self.variant else "")

    @property
    def is_list(self) -> bool:
        """Whether the service lists people."""
        return self.kind is AnswerKind.LIST

    @property
    def step_m(self) -> float:
        """The length in metres."""
        return (self.number or 0.0) * UNITS_M[self.unit]

    @property
    def radii(self) -> Radii:
        """Which radii a filter takes."""
        if self.kind is AnswerKind.CIRCLE:
            return Radii(least_m=self.step_m)
        return Radii(fixed_m=(self.step_m,)) if self.variant == "fixed" else Radii(step_m=self.step_m)

    def simulated(self, target: Point, *, most_queries: int, rng: np.random.Generator) -> PersonOracle:
        """Return a service that has a person at a place; without a stated rounding it has one by chance."""
        if self.kind is AnswerKind.DISTANCE:
            return self._simulated_distance(target, most_queries, rng)
        if self.kind is AnswerKind.BANDS:
            return CountedBands(
                lambda place: self._band(math.dist(place, target)), most_queries=most_queries, has_fixed_rule=True
            )
        if self.is_list:
            raise UsageError("a list is about everybody; open the service with its oracle")
        return CountedFilter(
            lambda place, radius_m: math.dist(place, target) <= radius_m,
            radii=self.radii,
            most_queries=most_queries,
            has_fixed_rule=True,
        )

    def _simulated_distance(self, target: Point, most_queries: int, rng: np.random.Generator) -> PersonOracle:
        chosen = self.variant or list(ROUNDINGS)[rng.integers(len(ROUNDINGS))]
        rounding, number = ROUNDINGS[chosen], self.number or 1.0
        return CountedDistance(
            lambda place: number * rounding(math.dist(place, target) / self.step_m),
            most_queries=most_queries,
            has_fixed_rule=True,
        )

    def _band(self, distance_m: float) -> tuple[float, float]:
        least_m = self.step_m * math.floor(distance_m / self.step_m)
        return least_m, least_m + self.step_m


LISTS = Answers()
"""Ranked lists."""
