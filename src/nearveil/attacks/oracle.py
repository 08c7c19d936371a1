"""Oracles: the interfaces through which an attacker asks a nearby service.

`Oracle` lists the people near a place. The others answer about one person: with a rounded distance, with a band, or
with whether the person is within a radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from nearveil.errors import NearveilError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

Point = tuple[float, float]
"""A place in metres east and north of the region's centre."""


def point_of(point: FloatArray) -> Point:
    """Return a row of an array as a spot."""
    return float(point[0]), float(point[1])


class OracleError(NearveilError):
    """A nearby service did not answer, or gave an impossible answer."""

    exit_code = 4


class OutOfQueriesError(OracleError):
    """The attacker has asked as often as it may."""


@runtime_checkable
class Oracle(Protocol):
    """Ask who is near a place, and put the attacker's own accounts anywhere.

    The simulator and the client of a running service both implement it, so that every attack runs on both.
    """

    @property
    def k(self) -> int:
        """How many people an answer lists at most."""

    @property
    def accounts(self) -> tuple[Person, ...]:
        """The attacker's own accounts."""

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""

    def nearby(self, place: Point) -> Sequence[Person]:
        """Ids of the people nearest to a place, nearest first, and nothing else."""

    def put(self, account: Person, place: Point | None) -> None:
        """Move one of the attacker's own accounts to a place, or take it off the map."""


class CountedOracle:
    """An oracle made of two functions: it holds no other reference, counts, and stops at a limit.

    Answers are checked to be what a nearby service can answer: at most k ids, none twice. ``has_exact_lists`` is for
    services that are known to list the k nearest in order of distance, with accounts where they were put, and nothing
    done to that. Attacks that certify then take every bound as certain, so a wrong belief makes false certificates.
    """

    __slots__ = ("_accounts", "_ask", "_k", "_limit", "_put", "_queries", "has_exact_lists")

    def __init__(
        self,
        ask: Callable[[Point], Sequence[Person]],
        put: Callable[[Person, Point | None], None],
        *,
        k: int,
        accounts: tuple[Person, ...],
        most_queries: int = 1000,
        has_exact_lists: bool = False,
    ) -> None:
        self._ask, self._put, self.has_exact_lists = ask, put, has_exact_lists
        self._k, self._accounts, self._limit = k, accounts, most_queries
        self._queries = 0

    @property
    def k(self) -> int:
        """How many people an answer lists at most."""
        return self._k

    @property
    def accounts(self) -> tuple[Person, ...]:
        """The attacker's own accounts."""
        return self._accounts

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""
        return self._queries

    def nearby(self, place: Point) -> Sequence[Person]:
        """Ids of the people nearest to a place, nearest first."""
        if self._queries >= self._limit:
            raise OutOfQueriesError(f"the attack has asked {self._limit:,} times, which is its limit")
        self._queries += 1
        try:
            answer = list(self._ask(place))
            different = len(set(answer))
        except OSError as error:
            raise OracleError(f"the service did not answer ({type(error).__name__}); is it running?") from None
        except TypeError:
            raise OracleError("the service did not answer with a list of ids; is it a nearby service?") from None
        if len(answer) > self._k:
            raise OracleError(
                f"the service listed {len(answer)} people where {self._k} were asked for; is it a nearby service?"
            )
        if different != len(answer):
            raise OracleError("the service listed somebody twice; is it a nearby service?")
        return answer

    def put(self, account: Person, place: Point | None) -> None:
        """Move an account, or take it off the map."""
        if account not in self._accounts:
            raise OracleError("an attacker can move its own accounts only")
        self._put(account, place)


# Services that answer about one person.


class PersonOracle(Protocol):
    """What all oracles about one person have."""

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""

    @property
    def tolerance(self) -> float:
        """By what share the service's distances may differ from the attacker's: 0 in a simulation."""


@runtime_checkable
class DistanceOracle(PersonOracle, Protocol):
    """Ask how far the person is. The answer is a number as the service shows it: in any unit, rounded somehow."""

    def distance(self, place: Point) -> float:
        """The distance from a place, as shown."""


@runtime_checkable
class BandOracle(PersonOracle, Protocol):
    """Ask in which band of distance the person is, such as "500 m to 1 km"."""

    def band(self, place: Point) -> tuple[float, float]:
        """The least and the greatest distance of the band, in metres; the last band has no end (infinity)."""


@runtime_checkable
class FilterOracle(PersonOracle, Protocol):
    """Ask whether the person is within a radius."""

    @property
    def radii(self) -> Radii:
        """Which radii the service takes."""

    def within(self, place: Point, radius_m: float) -> bool:
        """Whether the person is within a radius of a place."""


@dataclass(frozen=True, slots=True)
class Radii:
    """The radii a filter takes: some fixed ones, or all multiples of a step, or all from a least one on.

    Attributes
    ----------
    fixed_m : tuple of float
        Only these; empty if there is a choice.
    least_m : float
        No smaller ones.
    step_m : float
        Multiples of this; 0 if any length will do.
    """

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


MOST_QUESTIONS = 1000


class _Counted:
    """Counts questions about one person, and stops at a limit. It holds no reference but the function it asks.

    ``has_fixed_rule`` is for services that are known to answer by one rule, as in a simulation. Nothing is certified
    about others.
    """

    __slots__ = ("_ask", "_limit", "_queries", "_source", "_tolerance", "has_fixed_rule")

    def __init__(
        self,
        ask: Callable[..., object],
        *,
        most_queries: int = MOST_QUESTIONS,
        tolerance: float = 0.0,
        source: str = "the service",
        has_fixed_rule: bool = False,
    ) -> None:
        self._ask, self._limit, self._tolerance, self._source = ask, most_queries, tolerance, source
        self._queries, self.has_fixed_rule = 0, has_fixed_rule

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""
        return self._queries

    @property
    def tolerance(self) -> float:
        """By what share the service's distances may differ from the attacker's."""
        return self._tolerance

    def _answer(self, *question: object) -> object:
        if self._queries >= self._limit:
            raise OutOfQueriesError(f"the attack has asked {self._limit:,} times, which is its limit")
        self._queries += 1
        try:
            return self._ask(*question)
        except OSError as error:
            raise OracleError(f"the service did not answer ({type(error).__name__}); is it running?") from None


class CountedDistance(_Counted):
    """A `DistanceOracle` made of one function."""

    def distance(self, place: Point) -> float:
        """The distance from a place, as shown."""
        answer = self._answer(place)
        if not _is_length(answer):
            raise OracleError(
                f"{self._source} did not answer with a distance, a number of 0 or more, but with {_kind(answer)}"
            )
        return float(answer)


class CountedBands(_Counted):
    """A `BandOracle` made of one function."""

    def band(self, place: Point) -> tuple[float, float]:
        """The least and the greatest distance of the band, in metres."""
        answer = self._answer(place)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise OracleError(
                f"{self._source} did not answer with a band, least and greatest distance, but with {_kind(answer)}"
            )
        low, high = answer
        if not _is_length(low) or not (_is_length(high) or high == math.inf) or not low < high:
            raise OracleError(
                f"{self._source} answered with a band whose edges are not two distances, the lesser first"
            )
        return float(low), float(high)


class CountedFilter(_Counted):
    """A `FilterOracle` made of one function."""

    __slots__ = ("_radii",)

    def __init__(
        self,
        ask: Callable[[Point, float], object],
        *,
        radii: Radii,
        most_queries: int = MOST_QUESTIONS,
        tolerance: float = 0.0,
        source: str = "the service",
        has_fixed_rule: bool = False,
    ) -> None:
        super().__init__(
            ask, most_queries=most_queries, tolerance=tolerance, source=source, has_fixed_rule=has_fixed_rule
        )
        self._radii = radii

    @property
    def radii(self) -> Radii:
        """Which radii the service takes."""
        return self._radii

    def within(self, place: Point, radius_m: float) -> bool:
        """Whether the person is within a radius of a place."""
        answer = self._answer(place, radius_m)
        if not isinstance(answer, bool | np.bool_):
            raise OracleError(f"{self._source} did not answer with True or False, but with {_kind(answer)}")
        return bool(answer)


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number; NumPy's numbers are numbers too, True is not."""
    return type(value) is not bool and isinstance(value, Real)


# Farther than around the Earth in any unit; beyond it numbers are no longer told apart.
_MOST_LENGTH = 1e12


def _is_length(value: object) -> TypeGuard[float]:
    return _is_number(value) and 0 <= value <= _MOST_LENGTH


def _kind(answer: object) -> str:
    """What an answer is, without its content, which may be about a person."""
    if answer is None:
        return "nothing (None)"
    if isinstance(answer, str):
        return "text"
    if _is_number(answer):
        return "a number" if _is_length(answer) else "a number that is negative, too large or not a number"
    return f"a value of type {type(answer).__name__}"
