"""Oracle: the interface through which an attacker asks a nearby service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from nearveil.errors import NearveilError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

Spot = tuple[float, float]
"""A place in metres east and north of the region's centre."""


def spot_of(point: FloatArray) -> Spot:
    """Return a row of an array as a spot."""
    return float(point[0]), float(point[1])


class OracleError(NearveilError):
    """A nearby service did not answer, or gave an impossible answer."""

    exit_code = 4


class OutOfQueriesError(OracleError):
    """The attacker has asked as often as it may."""


class Oracle(Protocol):
    """Ask who is near a place, and put the attacker's own accounts anywhere.

    The simulator and the client of a running service both implement it, so that every attack runs on both.
    """

    @property
    def k(self) -> int:
        """How many people an answer lists at most."""

    @property
    def colluders(self) -> tuple[Person, ...]:
        """The attacker's own accounts."""

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""

    def nearby(self, place: Spot) -> Sequence[Person]:
        """Ids of the people nearest to a place, nearest first, and nothing else."""

    def put(self, colluder: Person, place: Spot | None) -> None:
        """Move one of the attacker's own accounts to a place, or take it off the map."""


class CountedOracle:
    """An oracle made of two functions: it holds no other reference, counts, and stops at a limit.

    Answers are checked to be what a nearby service can answer: at most k ids, none twice.
    """

    __slots__ = ("_ask", "_colluders", "_k", "_limit", "_put", "_queries")

    def __init__(
        self,
        ask: Callable[[Spot], Sequence[Person]],
        put: Callable[[Person, Spot | None], None],
        *,
        k: int,
        colluders: tuple[Person, ...],
        most_queries: int = 1000,
    ) -> None:
        self._ask, self._put = ask, put
        self._k, self._colluders, self._limit = k, colluders, most_queries
        self._queries = 0

    @property
    def k(self) -> int:
        """How many people an answer lists at most."""
        return self._k

    @property
    def colluders(self) -> tuple[Person, ...]:
        """The attacker's own accounts."""
        return self._colluders

    @property
    def queries(self) -> int:
        """How many questions were asked so far."""
        return self._queries

    def nearby(self, place: Spot) -> Sequence[Person]:
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

    def put(self, colluder: Person, place: Spot | None) -> None:
        """Move a colluder, or take it off the map."""
        if colluder not in self._colluders:
            raise OracleError("an attacker can move its own accounts only")
        self._put(colluder, place)
