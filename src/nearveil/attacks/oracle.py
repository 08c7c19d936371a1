"""Oracles, through which an attacker asks a nearby service; each counts queries, and is made of functions.

`Oracle` lists the users near a point. Each `PersonOracle` answers about one user: with a rounded distance, with a band,
or with whether the user is within a radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearveil.errors import NearveilError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

Point = tuple[float, float]
"""A point in meters east and north of the region's center."""


def point_of(row: FloatArray) -> Point:
    """Return a row of an array as a point."""
    return float(row[0]), float(row[1])


class OracleError(NearveilError):
    """A nearby service did not answer, or gave an impossible answer."""

    exit_code = 4


class OutOfQueriesError(OracleError):
    """The attacker has asked as often as it may."""


@runtime_checkable
class Oracle(Protocol):
    """Ask who is near a point, and put the attacker's own accounts anywhere."""

    @property
    def k(self) -> int:
        """How many users an answer lists at most."""

    @property
    def accounts(self) -> tuple[Person, ...]:
        """The attacker's own accounts."""

    @property
    def queries(self) -> int:
        """How many queries were made so far."""

    def nearby(self, point: Point, /) -> Sequence[Person]:
        """Ids of the users nearest to a point, nearest first, and nothing else."""

    def put(self, account: Person, point: Point | None, /) -> None:
        """Move one of the attacker's own accounts to a point, or take it off the map."""


@dataclass(frozen=True, slots=True)
class Radii:
    """The radii a filter takes: some fixed ones, or all multiples of ``step_m``, or all from ``least_m`` on."""

    fixed_m: tuple[float, ...] = ()
    least_m: float = 0.0
    step_m: float = 0.0

    def near(self, distance_m: float) -> tuple[float, ...]:
        """Return the allowed radii next to a distance."""
        if self.fixed_m:
            return tuple(sorted(self.fixed_m, key=lambda radius: abs(radius - distance_m))[:2])
        wanted = max(distance_m, self.least_m)
        if not self.step_m:
            return (wanted,)
        below = math.floor(wanted / self.step_m) * self.step_m
        return tuple(radius for radius in (below, below + self.step_m) if radius >= max(self.least_m, self.step_m))


class _Counted:
    """Counts queries, and stops at a limit. It holds no reference but the function it asks."""

    __slots__ = ("_ask", "_limit", "_queries")

    def __init__(self, ask: Callable[..., object], most_queries: int) -> None:
        self._ask, self._limit, self._queries = ask, most_queries, 0

    @property
    def queries(self) -> int:
        """How many queries were made so far."""
        return self._queries

    def _answer(self, *query: object) -> Any:
        if self._queries >= self._limit:
            raise OutOfQueriesError(f"the attack has asked {self._limit:,} times, which is its limit")
        self._queries += 1
        try:
            return self._ask(*query)
        except OSError as error:
            raise OracleError(f"the service did not answer ({type(error).__name__}); is it running?") from None


class CountedOracle(_Counted):
    """An `Oracle` made of two functions; an answer has at most k ids, none twice.

    ``has_exact_lists`` is for services that are known to list the k nearest in order of distance, with accounts where
    they were put. Attacks that certify take that as certain, so where it is wrong they certify falsely.
    """

    __slots__ = ("_put", "accounts", "has_exact_lists", "k")

    def __init__(
        self, ask: Callable[[Point], Sequence[Person]], put: Callable[[Person, Point | None], None], *, k: int,
        accounts: tuple[Person, ...], most_queries: int = 1000, has_exact_lists: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(ask, most_queries)
        self._put, self.k, self.accounts, self.has_exact_lists = put, k, accounts, has_exact_lists

    def nearby(self, point: Point) -> Sequence[Person]:
        """Ids of the users nearest to a point, nearest first."""
        try:
            answer = list[Person](self._answer(point))
            different = len(set(answer))
        except TypeError:
            raise OracleError("the service did not answer with a list of ids; is it a nearby service?") from None
        if len(answer) > self.k:
            told = f"listed {len(answer)} people where {self.k} were asked for"
            raise OracleError(f"the service {told}; is it a nearby service?")
        if different != len(answer):
            raise OracleError("the service listed somebody twice; is it a nearby service?")
        return answer

    def put(self, account: Person, point: Point | None) -> None:
        """Move an account, or take it off the map."""
        if account not in self.accounts:
            raise OracleError("an attacker can move its own accounts only")
        self._put(account, point)


class PersonOracle(_Counted):
    """Answers about one user, from ``source``, whose distances may differ from the attacker's by a share ``tolerance``.

    ``has_fixed_rule`` is for services that are known to answer by one rule. Nothing is certified about others.
    """

    __slots__ = ("_source", "has_fixed_rule", "tolerance")

    def __init__(
        self, ask: Callable[..., object], *, most_queries: int = 1000, tolerance: float = 0.0,
        source: str = "the service", has_fixed_rule: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(ask, most_queries)
        self._source, self.tolerance, self.has_fixed_rule = source, tolerance, has_fixed_rule

    def _checked(self, answer: Any, expected: str, is_right: bool) -> Any:
        if not is_right:
            # Without its content, which may be about a user.
            kind = "nothing (None)" if answer is None else f"another value of type {type(answer).__name__}"
            raise OracleError(f"{self._source} did not answer with {expected}, but with {kind}")
        return answer


class CountedDistance(PersonOracle):
    """Tells how far the user is: a number as the service shows it, in any unit, rounded somehow."""

    def distance(self, point: Point) -> float:
        """The distance from a point, as shown."""
        answer = self._answer(point)
        expected = "a distance, a number that is neither negative nor too large"
        return float(self._checked(answer, expected, _is_length(answer)))


class CountedBands(PersonOracle):
    """Tells in which band of distance the user is, such as "500 m to 1 km"; the last band may end at infinity."""

    def band(self, point: Point) -> tuple[float, float]:
        """The least and the greatest distance of the band, in meters."""
        answer = self._answer(point)
        is_pair = isinstance(answer, tuple | list) and len(answer) == 2 and _is_length(answer[0])
        is_band = is_pair and (_is_length(answer[1]) or answer[1] == math.inf) and answer[0] < answer[1]
        low, high = self._checked(answer, "a band, two distances with the lesser first", is_band)
        return float(low), float(high)


class CountedFilter(PersonOracle):
    """Tells whether the user is within a radius."""

    __slots__ = ("radii",)

    def __init__(self, ask: Callable[[Point, float], object], *, radii: Radii, **limits: Any) -> None:
        super().__init__(ask, **limits)
        self.radii = radii

    def within(self, point: Point, radius_m: float) -> bool:
        """Whether the user is within a radius of a point."""
        answer = self._answer(point, radius_m)
        return bool(self._checked(answer, "True or False", isinstance(answer, bool | np.bool_)))


def _is_length(value: Any) -> bool:
    """Whether a value is a number; True is none. Beyond 1e12, farther than around the Earth, digits are lost."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return value <= 1e12 and not value < 0
