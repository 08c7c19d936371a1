"""Attack, the base class, and AttackResult: an estimate, its cost, and a trace that can be drawn."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import ClassVar, Self

from nearveil.attacks.oracle import Oracle, OutOfQueriesError, PersonOracle, Point
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray


class Outcome(StrEnum):
    """How an attack ended."""

    FOUND = "found"
    NOT_LISTED = "the target is not listed from the start"
    NOBODY = "nobody is listed anywhere"
    LOST = "the target was lost from sight"
    CONTRADICTION = "the answers contradict each other"
    OUT_OF_QUERIES = "no more queries allowed"


@dataclass(frozen=True, slots=True)
class Circle:
    """The target lies on it, as far as the attacker knows."""

    centre: Point
    radius_m: float


@dataclass(frozen=True, slots=True, eq=False)
class TraceStep:
    """One query: the point it was made from, where the accounts were, and what was known afterwards.

    Ranks are positions in the list, from 1, or None if not listed. ``cells`` are squares (x, y, half side) where the
    target can still be, and ``answer`` is what the service answered, where that is no list.
    """

    place: Point
    rank: int | None
    accounts: tuple[Point, ...] = ()
    account_ranks: tuple[int | None, ...] = ()
    cells: FloatArray | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The steps of one attack."""

    steps: tuple[TraceStep, ...] = ()
    circles: tuple[Circle, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What an attack found.

    ``certified`` means that the answers prove the target within ``tau`` of the ``estimate``. The service has the target
    within ``radius_m`` of it: surely where certified, otherwise in 95 % of cases; None where the attack states nothing.
    ``others`` are other users located on the way.
    """

    outcome: Outcome
    estimate: Point | None = None
    certified: bool = False
    radius_m: float | None = None
    others: Mapping[Person, Point] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackResult(Finding):
    """What an attack found, how many queries it made, and the seconds that the attacker computed and waited."""

    attack: str
    queries: int
    seconds: float
    trace: Trace = field(default_factory=Trace)


@dataclass(frozen=True, slots=True)
class Answered:
    """A list, the point it was asked for from, and where the attacker's accounts were."""

    place: Point
    accounts: Mapping[Person, Point]
    answer: Sequence[Person]


class Inquiry:
    """State of one attack: asks, records the queries, and knows the target."""

    def __init__(self, oracle: Oracle, target: Person) -> None:
        self.oracle, self.target = oracle, target
        self.steps: list[TraceStep] = []
        self.history: list[Answered] = []
        self.circles: list[Circle] = []
        self._account_points: dict[Person, Point] = {}
        # Where moves of accounts show late: how often to ask in vain before an answer counts.
        self.waits = 0

    @property
    def accounts(self) -> tuple[Person, ...]:
        """The attacker's accounts."""
        return self.oracle.accounts

    def put(self, account: Person, point: Point | None) -> None:
        """Move an account, unless it is there already."""
        if self._account_points.get(account) == point:
            return
        self.oracle.put(account, point)
        self._account_points.pop(account, None)
        if point is not None:
            self._account_points[account] = point

    def withdraw_all(self) -> None:
        """Take all accounts off the map, so that they do not disturb the list."""
        for account in self.accounts:
            self.put(account, None)

    def ask(self, point: Point) -> Sequence[Person]:
        """Ask who is near a point, once the moves of accounts show."""
        answer: Sequence[Person] = ()
        for _ in range(self.waits + 1):
            answer, at = self.oracle.nearby(point), dict(self._account_points)
            ranks = tuple(rank_of(answer, account) for account in at)
            self.history.append(Answered(point, at, answer))
            self.steps.append(TraceStep(point, rank_of(answer, self.target), tuple(at.values()), ranks))
        return answer

    def rank(self, point: Point) -> int | None:
        """The target's rank in the list as seen from a point, from 1; None if it is not listed."""
        return rank_of(self.ask(point), self.target)

    def has_seen_others(self) -> bool:
        """Whether any list had a user who is neither the target nor an account."""
        own = {self.target, *self.accounts}
        return any(user not in own for one in self.history for user in one.answer)

    def note_cells(self, cells: FloatArray) -> None:
        """Remember where the target can still be, with the last query."""
        self.steps[-1] = replace(self.steps[-1], cells=cells)


class Attack(ABC):
    """Finds one target. Subclasses are frozen values: their fields are the choices an attacker can make.

    ``name`` is what tables and the command line call it, and ``accounts_needed`` how many accounts of its own it needs
    at least. If it ``takes_more_accounts``, it is tried with each number that is asked for.
    """

    name: ClassVar[str]
    accounts_needed: ClassVar[int] = 1
    takes_more_accounts: ClassVar[bool] = False

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack set up for a region, to find users within ``tau_m`` meters with ``accounts`` accounts."""
        del region, tau_m, accounts
        return cls()

    def infer(self, oracle: Oracle, target: Person, start: Point) -> AttackResult:
        """Find a target that is listed at ``start``, touching nothing but the oracle."""
        if len(oracle.accounts) < self.accounts_needed:
            raise UsageError(f"{self.name} needs at least {self.accounts_needed} accounts")
        inquiry = Inquiry(oracle, target)
        started = time.perf_counter()
        try:
            found = self._run(inquiry, start)
        except OutOfQueriesError:
            found = Finding(Outcome.OUT_OF_QUERIES)
        finally:
            inquiry.withdraw_all()
        return AttackResult(
            **{one.name: getattr(found, one.name) for one in fields(Finding)},
            attack=self.name, queries=len(inquiry.steps), seconds=time.perf_counter() - started,
            trace=Trace(tuple(inquiry.steps), tuple(inquiry.circles)),
        )  # fmt: skip

    def locate(self, oracle: PersonOracle, start: Point | None = None) -> AttackResult:
        """Find the one user whom an oracle answers about; the user is rather near ``start``, if that is given."""
        del oracle, start
        raise UsageError(f"{self.name} needs ranked lists; use the adaptive attack on other answers")

    @classmethod
    def takes_other_answers(cls) -> bool:
        """Whether it can attack services that answer about one user."""
        return cls.locate is not Attack.locate

    @abstractmethod
    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        """Do the work; may raise OutOfQueriesError at any query."""


def rank_of(answer: Sequence[Person], user: Person) -> int | None:
    """Rank of a user in a list, from 1; None if not listed."""
    return answer.index(user) + 1 if user in answer else None


def step_from(point: Point, angle: float, length_m: float) -> Point:
    """The point ``length_m`` meters away in a direction."""
    return point[0] + length_m * math.cos(angle), point[1] + length_m * math.sin(angle)


def inward_angle(point: Point) -> float:
    """Direction towards the region's center, so that accounts stay inside the region."""
    return math.atan2(-point[1], -point[0]) if point != (0.0, 0.0) else 0.0
