"""What an attack returns: an estimate, what it cost, and a trace that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nearveil.attacks.oracle import Spot
from nearveil.nearby.index import Person
from nearveil.types import FloatArray


class Outcome(StrEnum):
    """How an attack ended."""

    FOUND = "found"
    NOT_LISTED = "the target is not listed from the start"
    LOST = "the target was lost from sight"
    CONTRADICTION = "the answers contradict each other"
    OUT_OF_QUERIES = "no more questions allowed"


@dataclass(frozen=True, slots=True)
class Circle:
    """The target lies on it, as far as the attacker knows."""

    centre: Spot
    radius_m: float


@dataclass(frozen=True, slots=True, eq=False)
class TraceStep:
    """One question: where it was asked, where the colluders stood, and what was known afterwards.

    Attributes
    ----------
    place : Spot
        Where the attacker asked from.
    rank : int or None
        The target's place in the list, from 1; None if it was not listed.
    colluders : tuple of Spot
        Where the attacker's accounts were put.
    colluder_ranks : tuple of int or None
        The accounts' places in the list, in the same order.
    cells : ndarray of shape (n, 3), optional
        Squares (x, y, half side) where the target can still be.
    """

    place: Spot
    rank: int | None
    colluders: tuple[Spot, ...] = ()
    colluder_ranks: tuple[int | None, ...] = ()
    cells: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The story of one attack."""

    steps: tuple[TraceStep, ...] = ()
    circles: tuple[Circle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackResult:
    """The end of one attack.

    Attributes
    ----------
    estimate : Spot or None
        Where the target is believed to be, in metres; None if nothing is believed.
    certified : bool
        Whether the answers leave no other possibility than within ``tau`` of the estimate.
    queries : int
        Questions asked.
    seconds : float
        Time the attacker computed and waited.
    others : mapping
        Everybody else located on the way.
    listed : mapping
        How often everybody else was listed.
    """

    attack: str
    outcome: Outcome
    estimate: Spot | None
    queries: int
    seconds: float
    certified: bool = False
    trace: Trace = field(default_factory=Trace)
    others: Mapping[Person, Spot] = field(default_factory=dict)
    listed: Mapping[Person, int] = field(default_factory=dict)
