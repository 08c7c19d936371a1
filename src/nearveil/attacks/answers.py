"""What a service answers: a ranked list, a rounded distance, a band, or whether somebody is within a radius.

`Answers` is read from text such as ``distance:1km``, and makes the oracle of a simulated service that answers so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from nearveil.attacks.oracle import CountedBands, CountedDistance, CountedFilter, PersonOracle, Point, Radii
from nearveil.attacks.readings import UNITS_M
from nearveil.errors import UsageError

EXAMPLES = "list, distance:1km, distance:1mi, bands:500m, filter:1km, filter:5km-fixed, circle:2km"

ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "nearest": lambda value: math.floor(value + 0.5),
    "ceil": math.ceil,
}
"""How services round distances."""

_VARIANTS = {"list": [], "distance": sorted(ROUNDINGS), "bands": [], "filter": ["fixed"], "circle": []}


@dataclass(frozen=True, slots=True)
class Answers:
    """A kind of answer and its length.

    Attributes
    ----------
    kind : str
        ``list``, ``distance``, ``bands``, ``filter`` or ``circle``.
    number, unit
        The length: the step of distances and bands, the step or the least of radii.
    variant : str
        A rounding of `ROUNDINGS` for distances; ``fixed`` for a filter of one radius; else empty. A service without a
        stated rounding has any of them.
    """

    kind: str = "list"
    number: float = 0.0
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
        match = re.fullmatch(rf"([a-z]+)(?::([0-9.]+)({'|'.join(UNITS_M)})(?:-([a-z]+))?)?", text.strip())
        if match is None or match[1] not in _VARIANTS:
            raise UsageError(f"answers= cannot be {text!r}; it is one of {EXAMPLES}, with lengths of your choice")
        kind, number, unit, variant = match.groups()
        if (number is None) != (kind == "list"):
            raise UsageError(f"answers={kind} takes {'no' if kind == 'list' else 'a'} length; see {EXAMPLES}")
        if kind == "list":
            return cls()
        if number.count(".") > 1 or number == "." or not 1.0 <= float(number) * UNITS_M[unit] <= 1e6:
            raise UsageError(f"the length of answers={kind} must be between 1 m and 1,000 km, such as 1km")
        if variant and variant not in _VARIANTS[kind]:
            known = f"; it can be {', '.join(_VARIANTS[kind])}" if _VARIANTS[kind] else ""
            raise UsageError(f"answers={kind} has no variant {variant!r}{known}")
        return cls(kind, float(number), unit, variant or "")

    def __str__(self) -> str:
        length = "" if self.is_list else f":{self.number:g}{self.unit}"
        return self.kind + length + (f"-{self.variant}" if self.variant else "")

    @property
    def is_list(self) -> bool:
        """Whether the service lists users."""
        return self.kind == "list"

    @property
    def step_m(self) -> float:
        """The length in meters."""
        return self.number * UNITS_M[self.unit]

    def simulated(self, target: Point, *, most_queries: int, rng: np.random.Generator) -> PersonOracle:
        """Return a service that has a user at a point; without a stated rounding it has one by chance."""
        step_m = self.step_m
        if self.is_list:
            raise UsageError("a list is about everybody; open the service with its oracle")
        if self.kind == "distance":
            rounded = ROUNDINGS[self.variant or list(ROUNDINGS)[rng.integers(len(ROUNDINGS))]]
            return CountedDistance(
                lambda point: self.number * rounded(math.dist(point, target) / step_m),
                most_queries=most_queries, has_fixed_rule=True,
            )  # fmt: skip
        if self.kind == "bands":

            def band(point: Point) -> tuple[float, float]:
                least_m = step_m * math.floor(math.dist(point, target) / step_m)
                return least_m, least_m + step_m

            return CountedBands(band, most_queries=most_queries, has_fixed_rule=True)
        if self.kind == "circle":
            radii = Radii(least_m=step_m)
        else:
            radii = Radii(fixed_m=(step_m,)) if self.variant else Radii(step_m=step_m)
        return CountedFilter(
            lambda point, radius_m: math.dist(point, target) <= radius_m,
            radii=radii, most_queries=most_queries, has_fixed_rule=True,
        )  # fmt: skip


LISTS = Answers()
"""Ranked lists."""
