"""What a service answers, as frozen values. None of them prints a place or a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Token:
    """A person's token and when it ends, as the service wrote it."""

    token: str = field(repr=False)
    expires_at: Any


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a report.

    Attributes
    ----------
    status : str
        "pending", "same place", "budget spent" or "published".
    receipt : str
        Names the draw that holds for the person now.
    publishes_at : float or None
        When it is published, in seconds since 1970.
    """

    status: str
    receipt: str = ""
    publishes_at: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it is published at the next border only."""
        return self.status == "pending"

    @property
    def is_spent(self) -> bool:
        """Whether the person has no new place left in this window."""
        return self.status == "budget spent"


@dataclass(frozen=True, slots=True, eq=False)
class Card:
    """The service's guarantee: in words, and everything the service says about it."""

    text: str
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """The ledger's state: the epoch, and everything the service says about it."""

    epoch: int | None
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class IntervalsInUse:
    """Which intervals a service uses: everything the service says about them."""

    fingerprint: str | None
    document: Mapping[str, Any] = field(repr=False)
