"""What an audit of a running service is to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nearveil.client.oracle import Patience
from nearveil.errors import UsageError

MOST_TARGETS = 1000


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """An account of one's own that is at the service already, and where it truly is, in degrees; never printed."""

    person: str
    latitude: float
    longitude: float

    def __repr__(self) -> str:
        return f"KnownTarget({self.person!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to try.

    Attributes
    ----------
    names : sequence of str
        Attacks.
    k : int
        How many people to ask for.
    colluders : sequence of int
        Accounts of the adaptive attack.
    askers : int
        Over how many accounts an attack spreads its questions.
    targets : int
        How many targets to make up.
    known_target : KnownTarget, optional
        Attack this one instead.
    seed : int
        Of the places and directions; the service's own noise does not depend on it.
    """

    names: Sequence[str]
    k: int = 10
    colluders: Sequence[int] = (1,)
    askers: int = 1
    targets: int = 20
    tau_m: float = 100.0
    known_target: KnownTarget | None = None
    most_queries: int = 1000
    patience: Patience = field(default_factory=Patience)
    longest_border_s: float = 10.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 100:
            raise UsageError("a service lists 1 to 100 people; choose k accordingly")
        if not 1 <= self.targets <= MOST_TARGETS or self.askers < 1:
            raise UsageError(f"an audit needs 1 to {MOST_TARGETS:,} targets, and at least one account that asks")
