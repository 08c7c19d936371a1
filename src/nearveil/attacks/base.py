"""Attack, the base class, and AttackResult: an estimate, its cost, and a trace that can be drawn."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    OUT_OF_QUERIES = "no more questions allowed"


@dataclass(frozen=True, slots=True)
class Circle:
    """The target lies on it, as far as the attacker knows."""

    centre: Point
    radius_m: float


@dataclass(frozen=True, slots=True, eq=False)
class TraceStep:
    """One question: where it was asked, where the accounts stood, and what was known afterwards.

    Attributes
    ----------
    place : Point
        Where the attacker asked from.
    rank : int or None
        The target's place in the list, from 1; None if it was not listed.
    accounts : tuple of Point
        Where the attacker's accounts were put.
    account_ranks : tuple of int or None
        The accounts' places in the list, in the same order.
    cells : ndarray of shape (n, 3), optional
        Squares (x, y, half side) where the target can still be.
    answer : str, optional
        What the service answered, where that is no list.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackResult:
    """The result of one attack.

    Attributes
    ----------
    estimate : Point or None
        Where the target is believed to be, in metres; None if nothing is believed.
    certified : bool
        Whether the answers prove that the target is within ``tau`` of the estimate.
    radius_m : float or None
        The service has the target within this distance of the estimate: surely where certified, otherwise in 95 % of
        cases; None where the attack states nothing.
    queries : int
        Questions asked.
    seconds : float
        Time the attacker computed and waited.
    others : mapping
        Other people located on the way.
    listed : mapping
        How often each other person was listed.
    """

    attack: str
    outcome: Outcome
    estimate: Point | None
    queries: int
    seconds: float
    certified: bool = False
    radius_m: float | None = None
    trace: Trace = field(default_factory=Trace)
    others: Mapping[Person, Point] = field(default_factory=dict)
    listed: Mapping[Person, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """A list, the place it was asked from, and where the attacker's accounts were."""

    place: Point
    accounts: Mapping[Person, Point]
    answer: Sequence[Person]


class Inquiry:
    """State of one attack: asks, records the questions, and knows the target."""

    def __init__(self, oracle: Oracle, target: Person) -> None:
        self.oracle = oracle
        self.target = target
        self.steps: list[TraceStep] = []
        self.history: list[Answered] = []
        self.listed: Counter[Person] = Counter()
        self.circles: list[Circle] = []
        self._account_spots: dict[Person, Point] = {}
        # Where moves of accounts show late: how often to ask in vain before an answer counts.
        self.waits = 0

    @property
    def accounts(self) -> tuple[Person, ...]:
        """The attacker's accounts."""
        return self.oracle.accounts

    def put(self, account: Person, place: Point | None) -> None:
        """Move an account, unless it is there already."""
        if self._account_spots.get(account) == place:
            return
        self.oracle.put(account, place)
        if place is None:
            self._account_spots.pop(account, None)
        else:
            self._account_spots[account] = place

    def withdraw_all(self) -> None:
        """Take all accounts off the map, so that they do not disturb the list."""
        for account in self.accounts:
            self.put(account, None)

    def ask(self, place: Point) -> Sequence[Person]:
        """Ask who is near a place, once the moves of accounts show."""
        for _ in range(self.waits):
            self._ask_once(place)
        return self._ask_once(place)

    def _ask_once(self, place: Point) -> Sequence[Person]:
        answer = self.oracle.nearby(place)
        self.history.append(Answered(place, dict(self._account_spots), answer))
        self.listed.update(person for person in answer if person != self.target and person not in self.accounts)
        self.steps.append(
            TraceStep(
                place,
                rank_of(answer, self.target),
                tuple(self._account_spots.values()),
                tuple(rank_of(answer, account) for account in self._account_spots),
            )
        )
        return answer

    def rank(self, place: Point) -> int | None:
        """The target's place in the list as seen from somewhere, from 1; None if it is not listed."""
        return rank_of(self.ask(place), self.target)

    def note_cells(self, cells: FloatArray) -> None:
        """Remember where the target can still be, with the last question."""
        self.steps[-1] = replace(self.steps[-1], cells=cells)


class Attack(ABC):
    """Finds one target. Subclasses are frozen values: their fields are the choices an attacker can make.

    Attributes
    ----------
    name : str
        What tables and the command line call it.
    accounts_needed : int
        How many accounts of its own it needs at least.
    takes_more_accounts : bool
        Whether it can use more accounts than it needs; then it is tried with each number that is asked for.
    label : str
        What reports call it, where that is not its name.
    seconds_each : float
        About how long it takes on a service in memory, for progress bars.
    """

    name: ClassVar[str]
    accounts_needed: ClassVar[int] = 1
    takes_more_accounts: ClassVar[bool] = False
    label: ClassVar[str] = ""
    seconds_each: ClassVar[float] = 0.01

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack set up for a region, to find people within ``tau_m`` metres with ``accounts`` accounts."""
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
            attack=self.name,
            outcome=found.outcome,
            estimate=found.estimate,
            certified=found.certified,
            radius_m=found.radius_m,
            queries=len(inquiry.steps),
            seconds=time.perf_counter() - started,
            trace=Trace(tuple(inquiry.steps), tuple(inquiry.circles)),
            others=found.others,
            listed=dict(inquiry.listed),
        )

    def locate(self, oracle: PersonOracle, start: Point | None = None) -> AttackResult:
        """Find the one person whom an oracle answers about; the person is rather near ``start``, if that is given."""
        del oracle, start
        raise UsageError(f"{self.name} needs ranked lists; use the adaptive attack on other answers")

    @classmethod
    def takes_other_answers(cls) -> bool:
        """Whether it can attack services that answer about one person."""
        return cls.locate is not Attack.locate

    @abstractmethod
    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        """Do the work; may raise OutOfQueriesError at any question."""


class Finding:
    """What an attack found, before questions and time are added."""

    def __init__(
        self,
        outcome: Outcome,
        estimate: Point | None = None,
        *,
        certified: bool = False,
        radius_m: float | None = None,
        others: dict[Person, Point] | None = None,
    ) -> None:
        self.outcome = outcome
        self.estimate = estimate
        self.certified = certified
        self.radius_m = radius_m
        self.others = others or {}


def rank_of(answer: Sequence[Person], person: Person) -> int | None:
    """Place of a person in a list, from 1; None if not listed."""
    try:
        return answer.index(person) + 1
    except ValueError:
        return None


def step_from(place: Point, angle: float, length_m: float) -> Point:
    """The place ``length_m`` metres away in a direction."""
    return place[0] + length_m * math.cos(angle), place[1] + length_m * math.sin(angle)


def inward_angle(place: Point) -> float:
    """Direction towards the region's centre, so that accounts stay inside the region."""
    return math.atan2(-place[1], -place[0]) if place != (0.0, 0.0) else 0.0
