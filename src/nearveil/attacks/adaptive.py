"""The adaptive attack: one belief, the query that tells most, and no claim before predicted answers came true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from nearveil.attacks.base import Attack, AttackResult, Finding, Inquiry
from nearveil.attacks.belief import Prior
from nearveil.attacks.disturbed import DisturbedSearch
from nearveil.attacks.list_search import PlainSearch
from nearveil.attacks.oracle import PersonOracle, Point
from nearveil.attacks.user_search import UserSearch
from nearveil.errors import UsageError
from nearveil.region import Region


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask the query whose answer is expected to tell most, until only one place is left.

    Nothing is certified before it was confirmed: asked from the estimate, the target is listed before accounts at 0.65
    tau from it on four sides, and the same accounts put right there are listed first. Answers that make no sense for a
    plain service are read again with errors of unknown size; then the result is an estimate with a radius.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The estimate is certified when everything possible lies within this distance of it.
    accounts : int
        How many accounts to use at most.
    most_queries : int
        Number of queries after which the best guess is returned.
    checks : int, optional
        With answers about one user: how many predicted answers must come true. By default one if the oracle says that
        it has a fixed rule, else eight. Nothing is certified about others, however many there are.
    """

    name: ClassVar[str] = "adaptive"
    takes_more_accounts: ClassVar[bool] = True

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    accounts: int = 1
    most_queries: int = 60
    checks: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance greater than 0")
        if self.accounts < 1:
            raise UsageError("the adaptive attack needs at least one account")
        if self.checks is not None and self.checks < 0:
            raise UsageError("the number of checks cannot be negative")

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region."""
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m, accounts=accounts)

    def locate(self, oracle: PersonOracle, start: Point | None = None) -> AttackResult:
        """Find the one user whom an oracle answers about, without accounts."""
        prior = Prior(self.half_extent_m, self.tau_m, start)
        return UserSearch(oracle, prior, most_queries=self.most_queries, checks=self.checks).run(self.name)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        has_exact_lists = bool(getattr(inquiry.oracle, "has_exact_lists", False))
        found = PlainSearch(self, inquiry, start, is_trusting=has_exact_lists).run()
        if found is not None:
            return found
        return DisturbedSearch(self, inquiry, start).run()
