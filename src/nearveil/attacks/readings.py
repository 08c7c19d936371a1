"""What an answer about one user tells: a ring, the least and the greatest distance from the point asked from.

A service that says "2 km away" may mean kilometers or miles, and may have rounded down, up, or to the nearest. The
attacker is told none of this. So a reading keeps every rule that the answers so far leave possible, and an answer has
one ring for each of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.attacks.belief import Evidence
from nearveil.attacks.oracle import CountedBands, CountedDistance, CountedFilter, PersonOracle, Point
from nearveil.types import FloatArray

UNITS_M = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "yd": 0.9144, "ft": 0.3048}
"""Units of distance that services show."""

# Distances are not exact to the last digit: more slack forgives more, and makes rings wider.
_SLACK_M = 1e-3
# Answers are told apart to this part of their unit: less sees finer steps, and takes rounding errors for steps.
_DIGIT = 1e-6
# Steps to expect; others are found as well, but planned for only where answers show them.
_USUAL_STEPS = tuple(digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))
# Finer steps are planned for as if they were so long: one query tells enough of them, and to count them takes long.
_FINEST_PLANNED_M = 1.0
# So often must the greatest answer come before it may stand for everything beyond: fewer make rings wider for nothing.
_OFTEN = 3
# A service that takes any radius, or one only, and rounds before it compares, rounds to whole kilometers.
_ROUNDED_TO_M = 1000.0
# Distances are compared as they are, or rounded before: to the nearest, or down, with the chance of each. Rounding up
# is the same as not rounding. Chances plan queries; they rule nothing out.
_ROUNDED_FIRST = {0.0: 0.7, 0.5: 0.15, 1.0: 0.15}


@dataclass(frozen=True, slots=True)
class Query:
    """A point, and a radius where the service takes one."""

    point: Point
    radius_m: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """How a service may turn a distance into an answer: the answer changes by ``step`` every ``step_m`` meters.

    It changes first at ``first_edge`` steps: 1 if distances are rounded down, 0.5 to the nearest, 0 if rounded up.
    ``chance`` is how likely the rule is beside others, for planning only: a rule is out when no point fits it.
    """

    step_m: float
    first_edge: float
    step: float = 1.0
    chance: float = 1.0


class Reading(ABC):
    """Asks one oracle, and says what each rule that is still possible makes of the answers.

    An answer may change the ``rules``; those that are left out then have smaller rings. A reading ``is_exhaustive`` if
    every fixed rule that a service is likely to have is among them, so that a result is certain.
    """

    is_exhaustive = True

    def __init__(self, oracle: PersonOracle, before: Reading | None = None) -> None:
        self._oracle: Any = oracle
        self._asked: list[Query] = list(before._asked) if before else []
        self._answers: list[Any] = list(before._answers) if before else []
        self.rules = self._possible_rules()

    def ask(self, query: Query) -> str:
        """Ask, remember the answer, and return it as text."""
        answer, text = self._answer(query)
        self._asked.append(query)
        self._answers.append(answer)
        self.rules = self._possible_rules()
        return text

    def evidence(self) -> list[Evidence]:
        """All answers under all rules."""
        found = []
        for query, answer in zip(self._asked, self._answers, strict=True):
            low_m, high_m = np.array([self._ring(rule, query, answer) for rule in self.rules], dtype=np.float64).T
            share = self._oracle.tolerance
            found.append(Evidence(query.point, low_m * (1 - share) - _SLACK_M, high_m * (1 + share) + _SLACK_M))
        return found

    @property
    def has_told(self) -> bool:
        """Whether answers differ, where all that are alike fit some point."""
        return True

    def otherwise(self) -> Reading | None:
        """Return how else the answers may be read, when no rule explains them; None if there is no other way."""
        return None

    def rival(self) -> Reading | None:
        """Return another reading of the same answers that must agree before a result is believed, if there is one."""
        return None

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Radii that can be asked for, for an edge near a distance; None where the service takes no radius."""
        return (None,)

    def checks_from_nearer(self, rule: Rule, number: int) -> bool:
        """Whether a check is made from a little nearer than an edge, or from a little beyond it.

        A service that rounds up or down by chance gives itself away where a fixed rule rounds the farthest; so mostly
        there.
        """
        return (rule.first_edge >= 0.5) != (number % 3 == 2)

    def surely(self, edge_m: float, side: int) -> float:
        """Up to where a user is nearer than an edge (-1), or from where beyond (1), by the service's distances, too."""
        return float(edge_m * (1 + side * self._oracle.tolerance) + side * 2 * _SLACK_M)

    @abstractmethod
    def steps(self, radius_m: float | None) -> FloatArray:
        """For each rule how answers depend on distance: rows of first edge, step in meters, least, most, multiple.

        The answer is a multiple of the number of edges that are nearer, which counts as no less and no more than that.
        """

    @abstractmethod
    def _answer(self, query: Query) -> tuple[Any, str]:
        """Ask the oracle; return the answer, and the same as text."""

    @abstractmethod
    def _ring(self, rule: Rule, query: Query, answer: Any) -> tuple[float, float]:
        """Least and greatest distance under a rule, for a service that computes distances as the attacker does."""

    @abstractmethod
    def _possible_rules(self) -> tuple[Rule, ...]:
        """Rules by which the answers so far are possible."""


class DistanceReading(Reading):
    """A rounded distance: neither its unit, nor its steps, nor how it is rounded is known.

    The greatest answer may stand for everything beyond it ("10 and more"): that is supposed once it came ``often``.
    """

    def __init__(self, oracle: PersonOracle, before: DistanceReading | None = None, *, often: int = _OFTEN) -> None:
        self._often = often
        super().__init__(oracle, before)

    @property
    def asked_and_answered(self) -> tuple[FloatArray, FloatArray]:
        """Points, and the numbers that the service showed there."""
        return np.array([query.point for query in self._asked]), np.array(self._answers)

    def otherwise(self) -> Reading | None:
        """The greatest answer may have no end; or distances are rounded more coarsely, the farther away somebody is."""
        reading = DistanceReading if self._often > 1 else GradedDistanceReading
        return reading(self._oracle, self, often=1)

    def rival(self) -> Reading | None:
        """One step may explain answers of several steps, and puts the coarser ones into rings that are too narrow."""
        return GradedDistanceReading(self._oracle, self, often=self._often)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule."""
        del radius_m
        finest = min(rule.step for rule in self.rules)
        coarser = max(1.0, _FINEST_PLANNED_M / max(rule.step_m for rule in self.rules))
        return np.array([self._row(rule, rule.step_m * coarser, round(rule.step / finest)) for rule in self.rules])

    def _row(self, rule: Rule, step_m: float, multiple: int) -> tuple[float, ...]:
        most = self._last * rule.step_m / rule.step / step_m
        return rule.first_edge * step_m, step_m, float(0.0 not in self._answers), min(max(most, 1.0), 1e9), multiple

    def _answer(self, query: Query) -> tuple[Any, str]:
        answer = self._oracle.distance(query.point)
        return answer, f"{answer:g}"

    def _possible_rules(self) -> tuple[Rule, ...]:
        """Steps are the greatest one that explains all answers, and the greatest usual one, which comes next sooner.

        Rings of a finer step lie within those of a coarser one, so finer steps need not be kept.
        """
        if not self._answers:
            return _all_rules(("km", "mi"), {1.0: 1.0})
        divisor = math.gcd(*(round(answer / _DIGIT) for answer in self._answers)) * _DIGIT
        usual = [step for step in _USUAL_STEPS if _is_multiple(divisor, step)][-1:] if divisor else _USUAL_STEPS[-1:]
        is_usual = not divisor or (usual and _is_multiple(usual[0], divisor))
        chances = {} if is_usual else {divisor: 0.1}
        return _all_rules(UNITS_M, chances | dict.fromkeys(usual, 1.0))

    def _ring(self, rule: Rule, query: Query, answer: Any) -> tuple[float, float]:
        count = round(answer / rule.step)
        low = (count - 1 + rule.first_edge) * rule.step_m
        # Many services show 1 to everybody who is nearer.
        may_be_nearer = count == 1 and 0.0 not in self._answers
        return 0.0 if may_be_nearer else max(low, 0.0), math.inf if answer == self._last else low + rule.step_m

    @property
    def _last(self) -> float:
        """The answer that stands for everything beyond it, infinite if there is none."""
        greatest = max(self._answers, default=math.inf)
        return greatest if self._answers.count(greatest) >= self._often else math.inf


class GradedDistanceReading(DistanceReading):
    """A distance that is rounded the more coarsely, the farther away somebody is: 300 m, 1.2 km, 12 km.

    An answer is a multiple of its step, so its step is no coarser than the greatest usual one that divides it. And
    whoever is nearer is not rounded more coarsely. Steps that are not usual (300 m) would be read wrongly.
    """

    is_exhaustive = False

    otherwise, rival = Reading.otherwise, Reading.rival

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Not a radius that is asked for, but the distance to plan for, roughly: steps depend on it."""
        return (1.1 ** round(math.log(max(distance_m, 1.0), 1.1)),)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule, about as far away as that."""
        rows = []
        for rule in self.rules:
            unit_m = rule.step_m / rule.step
            # The step of the next answer that was seen farther away, or of the farthest.
            beyond = [seen for seen in self._step_of if seen >= (radius_m or 0.0) / unit_m]
            step = self._step_of[min(beyond) if beyond else max(self._step_of)]
            rows.append(self._row(rule, max(step * unit_m, _FINEST_PLANNED_M), 1))
        return np.array(rows)

    def _possible_rules(self) -> tuple[Rule, ...]:
        self._step_of: dict[float, float] = {}
        coarsest = _USUAL_STEPS[-1]
        for answer in sorted(set(self._answers), reverse=True):
            fitting = (step for step in _USUAL_STEPS if step <= coarsest and (not answer or _is_multiple(answer, step)))
            self._step_of[answer] = coarsest = max(fitting, default=_DIGIT)
        return _all_rules(UNITS_M, {coarsest: 1.0})

    def _ring(self, rule: Rule, query: Query, answer: Any) -> tuple[float, float]:
        step = self._step_of[answer]
        return super()._ring(Rule(rule.step_m / rule.step * step, rule.first_edge, step), query, answer)


def _all_rules(units: Iterable[str], chances: dict[float, float]) -> tuple[Rule, ...]:
    """Steps, with the chance of each, in all units, rounded down, to the nearest, and up."""
    steps = [(UNITS_M[unit], step, chance) for unit in units for step, chance in chances.items()]
    return tuple(Rule(unit_m * step, edge, step, chance) for unit_m, step, chance in steps for edge in (1.0, 0.5, 0.0))


def _is_multiple(value: float, step: float) -> bool:
    return round(value / step) >= 1 and abs(value / step - round(value / step)) < _DIGIT * max(1.0, value / step)


def _rounded_first(step_m: float) -> tuple[Rule, ...]:
    return tuple(Rule(step_m, first_edge, chance=chance) for first_edge, chance in _ROUNDED_FIRST.items())


def _one_edge(rules: Sequence[Rule], radius_m: float) -> FloatArray:
    return np.array([(radius_m + rule.first_edge * rule.step_m, 1e9, 0.0, 1.0, 1.0) for rule in rules])


class BandReading(Reading):
    """A band, with its edges. The service may round the distance before it looks for the band.

    Where bands that were not seen yet begin and end is a guess, for planning only: that all are as wide. Once one is
    seen that is not, each query is planned for one edge that was seen, as if it were the radius of a filter.
    """

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Edges near a distance, where bands differ in width."""
        widths = [high - low for low, high in self._answers]
        # Edges in whole meters or feet differ a little.
        if not widths or (max(widths) < math.inf and math.isclose(max(widths), min(widths), rel_tol=0.01)):
            return (None,)
        seen = {edge for band in self._answers for edge in band if 0 < edge < math.inf}
        return sorted(seen, key=lambda edge: abs(edge - distance_m))[:2] or (None,)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule: by bands of one width, or by one edge."""
        if radius_m is not None:
            return _one_edge(self.rules, radius_m)
        return np.array([((1 + rule.first_edge) * rule.step_m, rule.step_m, 0.0, 1e9, 1.0) for rule in self.rules])

    def _answer(self, query: Query) -> tuple[Any, str]:
        low, high = self._oracle.band(query.point)
        return (low, high), f"{low:g} m and more" if math.isinf(high) else f"{low:g} to {high:g} m"

    def _possible_rules(self) -> tuple[Rule, ...]:
        return _rounded_first(min((high - low for low, high in self._answers if high < math.inf), default=1000.0))

    def _ring(self, rule: Rule, query: Query, answer: Any) -> tuple[float, float]:
        low, high = answer
        # Infinite in the last band, which is then as wide as the others.
        moved = rule.first_edge * (high - low if high < math.inf else rule.step_m)
        return (low + moved if low > 0 else 0.0), high + moved


class FilterReading(Reading):
    """Yes or no: is the user within a radius. The service may round the distance before it compares."""

    @property
    def has_told(self) -> bool:
        """Whether there was a yes and a no."""
        return len(set(self._answers)) == 2

    def checks_from_nearer(self, rule: Rule, number: int) -> bool:
        """Whether to expect a yes.

        First the rarer answer, so that a service that always says the same does not pass. Then mostly yes: from most
        points, no is true for somebody who is elsewhere, too.
        """
        return 2 * sum(self._answers) <= len(self._answers) if number == 0 else number % 3 != 2

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Radii for an edge near a distance."""
        return tuple(self._oracle.radii.near(distance_m))

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule."""
        return _one_edge(self.rules, radius_m or 0.0)

    def _answer(self, query: Query) -> tuple[Any, str]:
        if query.radius_m is None:
            raise ValueError("a filter needs a radius")
        inside = self._oracle.within(query.point, query.radius_m)
        return inside, f"{'within' if inside else 'not within'} {query.radius_m:g} m"

    def _possible_rules(self) -> tuple[Rule, ...]:
        return _rounded_first(self._oracle.radii.step_m or _ROUNDED_TO_M)

    def _ring(self, rule: Rule, query: Query, answer: Any) -> tuple[float, float]:
        edge = (query.radius_m or 0.0) + rule.first_edge * rule.step_m
        return (0.0, edge) if answer else (edge, math.inf)


def reading_of(oracle: PersonOracle) -> Reading:
    """Return how to read an oracle, by what it can be asked."""
    readings = {CountedDistance: DistanceReading, CountedBands: BandReading, CountedFilter: FilterReading}
    for kind, reading in readings.items():
        if isinstance(oracle, kind):
            return reading(oracle)
    raise TypeError("an oracle about one user is a CountedDistance, CountedBands or CountedFilter")
