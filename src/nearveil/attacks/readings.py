"""What an answer about one person tells: a ring, the least and the greatest distance from the place asked.

A service that says "2 km away" may mean kilometres or miles, and may have rounded down, up, or to the nearest. The
attacker is told none of this. So a reading keeps every rule that the answers so far leave possible, and an answer has
one ring for each of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.belief import Evidence
from nearveil.attacks.oracle import BandOracle, DistanceOracle, FilterOracle, PersonOracle, Point
from nearveil.types import FloatArray

Bounds = tuple[float, float]
"""The least and the greatest distance, in metres."""

UNITS_M = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "yd": 0.9144, "ft": 0.3048}
"""Units of distance that services show."""

# Computed distances are not exact to the last digit.
_SLACK_M = 1e-3


@dataclass(frozen=True, slots=True)
class Query:
    """A place, and a radius where the service takes one."""

    point: Point
    radius_m: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """How a service may turn a distance into an answer.

    Attributes
    ----------
    step_m : float
        Answers change every so many metres.
    first_edge : float
        Where they change first, in steps: 1 if distances are rounded down, 0.5 to the nearest, 0 if rounded up.
    step : float
        The difference between two answers, in the service's own unit.
    chance : float
        How likely the rule is in relation to others, for planning only: a rule is out when no place fits it.
    """

    step_m: float
    first_edge: float
    step: float = 1.0
    chance: float = 1.0


class Reading(ABC):
    """Asks one oracle, and says what each rule that is still possible makes of the answers."""

    def __init__(self, oracle: PersonOracle) -> None:
        self._tolerance = oracle.tolerance
        self._asked: list[Query] = []

    @property
    def is_exhaustive(self) -> bool:
        """Whether every fixed rule that a service is likely to have is among the rules, so that a result is certain."""
        return True

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

    @property
    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Rules to be told apart. An answer may change them; those that are left out then have smaller rings."""

    @abstractmethod
    def ask(self, query: Query) -> str:
        """Ask, remember the answer, and return it as text."""

    @abstractmethod
    def exact_bounds(self, rule: Rule, number: int) -> Bounds:
        """The ring of one answer under a rule, for a service that computes distances as the attacker does."""

    @abstractmethod
    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Radii that can be asked for, for an edge near a distance; None where the service takes no radius."""

    def checks_from_nearer(self, rule: Rule, number: int) -> bool:
        """Whether a check is made from a little nearer than an edge, or from a little beyond it.

        A service that rounds up or down by chance gives itself away where a fixed rule rounds the farthest; so mostly
        there.
        """
        return (rule.first_edge >= 0.5) != (number % 3 == 2)

    @abstractmethod
    def steps(self, radius_m: float | None) -> FloatArray:
        """For each rule how answers depend on distance: rows of first edge, step in metres, least, most, multiple.

        The answer is a multiple of the number of edges that are nearer, which counts as no less and no more than that.
        """

    def evidence(self) -> list[Evidence]:
        """All answers under all rules."""
        found = []
        for number, query in enumerate(self._asked):
            low_m, high_m = np.array([self._bounds(rule, number) for rule in self.rules], dtype=np.float64).T
            found.append(Evidence(query.point, low_m, high_m))
        return found

    def _bounds(self, rule: Rule, number: int) -> Bounds:
        low, high = self.exact_bounds(rule, number)
        return low * (1 - self._tolerance) - _SLACK_M, high * (1 + self._tolerance) + _SLACK_M

    def surely_nearer(self, edge_m: float) -> float:
        """Up to which distance a person is nearer than an edge, also by the service's own distances."""
        return edge_m * (1 - self._tolerance) - 2 * _SLACK_M

    def surely_beyond(self, edge_m: float) -> float:
        """From which distance on a person is beyond an edge, also by the service's own distances."""
        return edge_m * (1 + self._tolerance) + 2 * _SLACK_M


# Rounded down, to the nearest, and up.
_ROUNDINGS = (1.0, 0.5, 0.0)
_USUAL_STEPS = tuple(digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))
_CHANCE_OF_OTHER_STEP = 0.1
# Answers are told apart to this part of their unit.
_DIGIT = 1e-6
_FINEST_PLANNED_M = 1.0
_OFTEN = 3
_ROUGHLY = 1.1


class DistanceReading(Reading):
    """A rounded distance: neither its unit, nor its steps, nor how it is rounded is known.

    The greatest answer may stand for everything beyond it ("10 and more"): that is supposed once it came ``often``.
    """

    def __init__(
        self,
        oracle: DistanceOracle,
        asked: Sequence[Query] = (),
        answers: Sequence[float] = (),
        *,
        often: int = _OFTEN,
    ) -> None:
        super().__init__(oracle)
        self._oracle, self._often = oracle, often
        self._asked, self._answers = list(asked), list(answers)
        self._steps = self._possible_steps() if answers else (1.0,)
        self._rules = self._all_rules(tuple(UNITS_M) if answers else ("km", "mi"))

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules to be told apart."""
        return self._rules

    def ask(self, query: Query) -> str:
        """Ask, and remember the answer."""
        answer = self._oracle.distance(query.point)
        self._asked.append(query)
        self._answers.append(answer)
        steps = self._possible_steps()
        if steps != self._steps or len(self._asked) == 1:
            self._steps = steps
            self._rules = self._all_rules(tuple(UNITS_M))
        return f"{answer:g}"

    @property
    def asked_and_answered(self) -> tuple[FloatArray, FloatArray]:
        """Places, and the numbers that the service showed there."""
        return np.array([query.point for query in self._asked]), np.array(self._answers)

    def otherwise(self) -> Reading | None:
        """The greatest answer may have no end; or distances are rounded more coarsely, the farther away somebody is."""
        reading = DistanceReading if self._often > 1 else GradedDistanceReading
        return reading(self._oracle, self._asked, self._answers, often=1)

    def rival(self) -> Reading | None:
        """One step may explain answers of several steps, and puts the coarser ones into rings that are too narrow."""
        return GradedDistanceReading(self._oracle, self._asked, self._answers, often=self._often)

    def _possible_steps(self) -> tuple[float, ...]:
        """The greatest step that explains all answers, and the greatest usual one.

        The true step divides the greatest common divisor of all answers. Rings of a finer step lie within those of a
        coarser one, so finer steps need not be kept for the bounds to hold; the usual one is a better guess of what
        comes next.
        """
        divisor = math.gcd(*(round(answer / _DIGIT) for answer in self._answers)) * _DIGIT
        if divisor == 0.0:
            return _USUAL_STEPS[-1:]
        usual = [step for step in _USUAL_STEPS if _is_multiple(divisor, step)][-1:]
        if usual and _is_multiple(usual[0], divisor):
            return tuple(usual)
        return (divisor, *usual)

    def _all_rules(self, units: Sequence[str]) -> tuple[Rule, ...]:
        return tuple(
            Rule(UNITS_M[unit] * step, first_edge, step, 1.0 if step in _USUAL_STEPS else _CHANCE_OF_OTHER_STEP)
            for unit in units
            for step in self._steps
            for first_edge in _ROUNDINGS
        )

    def exact_bounds(self, rule: Rule, number: int) -> Bounds:
        """The ring of one answer."""
        return self._ring(rule, number)

    def _ring(self, rule: Rule, number: int) -> Bounds:
        count = round(self._answers[number] / rule.step)
        low = (count - 1 + rule.first_edge) * rule.step_m
        # Many services show 1 to everybody who is nearer.
        may_be_nearer = count == 1 and not self._shows_zero
        high = math.inf if self._answers[number] == self._last else low + rule.step_m
        return (0.0 if may_be_nearer else max(low, 0.0)), high

    @property
    def _last(self) -> float:
        """The answer that stands for everything beyond it, infinite if there is none."""
        greatest = max(self._answers, default=math.inf)
        return greatest if self._answers.count(greatest) >= self._often else math.inf

    @property
    def _shows_zero(self) -> bool:
        return 0.0 in self._answers

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Radii for an edge near a distance."""
        del distance_m
        return (None,)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule."""
        del radius_m
        finest, least = min(rule.step for rule in self.rules), float(not self._shows_zero)
        # One query tells enough of finer steps, and to count them takes long.
        coarser = max(1.0, _FINEST_PLANNED_M / max(rule.step_m for rule in self.rules))
        return np.array([
            (
                rule.first_edge * rule.step_m * coarser,
                rule.step_m * coarser,
                least,
                max(min(self._last / rule.step / coarser, 1e9), 1.0),
                round(rule.step / finest),
            )
            for rule in self.rules
        ])  # fmt: skip


class GradedDistanceReading(DistanceReading):
    """A distance that is rounded the more coarsely, the farther away somebody is: 300 m, 1.2 km, 12 km.

    An answer is a multiple of its step, so its step is no coarser than the greatest usual one that divides it. And
    whoever is nearer is not rounded more coarsely. Steps that are not usual (300 m) would be read wrongly.
    """

    @property
    def is_exhaustive(self) -> bool:
        """Whether every rule that is likely is among the rules."""
        return False

    def otherwise(self) -> Reading | None:
        """There is no other way."""
        return None

    def rival(self) -> Reading | None:
        """There is no other way."""
        return None

    def _possible_steps(self) -> tuple[float, ...]:
        """The finest step so far; on the way, a step for each answer."""
        self._step_of: dict[float, float] = {}
        coarsest = _USUAL_STEPS[-1]
        for answer in sorted(set(self._answers), reverse=True):
            coarsest = max(
                (step for step in _USUAL_STEPS if step <= coarsest and (not answer or _is_multiple(answer, step))),
                default=_DIGIT,
            )
            self._step_of[answer] = coarsest
        return (coarsest,)

    def _step_near(self, answer: float) -> float:
        """The step to expect of an answer: that of the next one that was seen farther away, or of the farthest."""
        beyond = [seen for seen in self._step_of if seen >= answer]
        return self._step_of[min(beyond) if beyond else max(self._step_of)]

    def exact_bounds(self, rule: Rule, number: int) -> Bounds:
        """The ring of one answer."""
        step = self._step_of[self._answers[number]]
        return self._ring(Rule(rule.step_m / rule.step * step, rule.first_edge, step), number)

    def radii_near(self, distance_m: float) -> Sequence[float]:
        """Not a radius that is asked for, but the distance to plan for, roughly: steps depend on it."""
        return (_ROUGHLY ** round(math.log(max(distance_m, 1.0), _ROUGHLY)),)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule, about as far away as that."""
        rows = []
        for rule in self.rules:
            unit_m = rule.step_m / rule.step
            step = self._step_near((radius_m or 0.0) / unit_m)
            step_m = max(step * unit_m, _FINEST_PLANNED_M)
            last = max(min(self._last * unit_m / step_m, 1e9), 1.0)
            rows.append((rule.first_edge * step_m, step_m, float(not self._shows_zero), last, 1.0))
        return np.array(rows)


def _is_multiple(value: float, step: float) -> bool:
    return round(value / step) >= 1 and abs(value / step - round(value / step)) < 1e-6 * max(1.0, value / step)


# Distances are compared as they are, or rounded before: to the nearest, or down, with the chance of each. Rounding up
# is the same as not rounding.
_ROUNDED_FIRST = {0.0: 0.7, 0.5: 0.15, 1.0: 0.15}


def _rounded_first(step_m: float) -> tuple[Rule, ...]:
    return tuple(Rule(step_m, first_edge, chance=chance) for first_edge, chance in _ROUNDED_FIRST.items())


# Edges in whole metres or feet differ a little.
_SAME_WIDTH = 0.01


class BandReading(Reading):
    """A band, with its edges. The service may round the distance before it looks for the band.

    Where bands that were not seen yet begin and end is a guess, for planning only: that all are as wide. Once one is
    seen that is not, each query is planned for one edge that was seen, as if it were the radius of a filter.
    """

    def __init__(self, oracle: BandOracle) -> None:
        super().__init__(oracle)
        self._oracle = oracle
        self._answers: list[Bounds] = []

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules to be told apart."""
        widths = [high - low for low, high in self._answers if high < math.inf]
        return _rounded_first(min(widths, default=1000.0))

    def ask(self, query: Query) -> str:
        """Ask, and remember the answer."""
        low, high = self._oracle.band(query.point)
        self._asked.append(query)
        self._answers.append((low, high))
        return f"{low:g} m and more" if math.isinf(high) else f"{low:g} to {high:g} m"

    def exact_bounds(self, rule: Rule, number: int) -> Bounds:
        """The ring of one answer."""
        low, high = self._answers[number]
        # Infinite in the last band, which is then as wide as the others.
        moved = rule.first_edge * (high - low if high < math.inf else rule.step_m)
        return (low + moved if low > 0 else 0.0), high + moved

    def radii_near(self, distance_m: float) -> Sequence[float | None]:
        """Edges near a distance, where bands differ in width."""
        if self._are_even:
            return (None,)
        seen = {edge for band in self._answers for edge in band if 0 < edge < math.inf}
        return sorted(seen, key=lambda edge: abs(edge - distance_m))[:2] or (None,)

    @property
    def _are_even(self) -> bool:
        """Whether all bands that were seen are as wide."""
        widths = [high - low for low, high in self._answers]
        return not widths or max(widths) - min(widths) <= _SAME_WIDTH * min(widths)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule: by bands of one width, or by one edge."""
        if radius_m is not None:
            return np.array([(radius_m + rule.first_edge * rule.step_m, 1e9, 0.0, 1.0, 1.0) for rule in self.rules])
        return np.array([((1 + rule.first_edge) * rule.step_m, rule.step_m, 0.0, 1e9, 1.0) for rule in self.rules])


# A service that takes any radius, or one only, and rounds before it compares, rounds to whole kilometres.
_ROUNDED_TO_M = 1000.0


class FilterReading(Reading):
    """Yes or no: is the person within a radius. The service may round the distance before it compares."""

    def __init__(self, oracle: FilterOracle) -> None:
        super().__init__(oracle)
        self._oracle = oracle
        self._answers: list[bool] = []
        self._rules = _rounded_first(oracle.radii.step_m or _ROUNDED_TO_M)

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules to be told apart."""
        return self._rules

    def ask(self, query: Query) -> str:
        """Ask, and remember the answer."""
        if query.radius_m is None:
            raise ValueError("a filter needs a radius")
        inside = self._oracle.within(query.point, query.radius_m)
        self._asked.append(query)
        self._answers.append(inside)
        return f"{'within' if inside else 'not within'} {query.radius_m:g} m"

    def exact_bounds(self, rule: Rule, number: int) -> Bounds:
        """The ring of one answer."""
        radius = self._asked[number].radius_m or 0.0
        edge = radius + rule.first_edge * rule.step_m
        return (0.0, edge) if self._answers[number] else (edge, math.inf)

    @property
    def has_told(self) -> bool:
        """Whether there was a yes and a no."""
        return len(set(self._answers)) == 2

    def checks_from_nearer(self, rule: Rule, number: int) -> bool:
        """Whether to expect a yes.

        First the rarer answer, so that a service that always says the same does not pass. Then mostly yes: from most
        places, no is true for somebody who is elsewhere, too.
        """
        del rule
        return 2 * sum(self._answers) <= len(self._answers) if number == 0 else number % 3 != 2

    def radii_near(self, distance_m: float) -> Sequence[float]:
        """Radii for an edge near a distance."""
        return self._oracle.radii.near(distance_m)

    def steps(self, radius_m: float | None) -> FloatArray:
        """How answers depend on distance, for each rule."""
        return np.array(
            [((radius_m or 0.0) + rule.first_edge * rule.step_m, 1e9, 0.0, 1.0, 1.0) for rule in self.rules]
        )


def reading_of(oracle: PersonOracle) -> Reading:
    """Return how to read an oracle, by what it can be asked."""
    if isinstance(oracle, DistanceOracle):
        return DistanceReading(oracle)
    if isinstance(oracle, BandOracle):
        return BandReading(oracle)
    if isinstance(oracle, FilterOracle):
        return FilterReading(oracle)
    raise TypeError("an oracle about one person answers with a distance, a band, or whether they are within a radius")
