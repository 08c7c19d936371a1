"""What the lists really said: where the target came among the attacker's accounts, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nearveil.attacks.result import TraceStep

Bounds = tuple[float, float]
"""More than the first, less than the second distance away, in metres; 0 and infinity where nothing was said."""

_RIGHT_HERE_M = 1e-3


class Account(NamedTuple):
    """One of the attacker's accounts: how far from the place asked it was put, and its place in the list."""

    distance_m: float
    rank: int | None

    @property
    def is_sentinel(self) -> bool:
        """Whether it was put at the very place asked from, where it must come first if it is published there."""
        return self.distance_m < _RIGHT_HERE_M


def accounts_of(step: TraceStep) -> list[Account]:
    """The attacker's accounts, nearest first."""
    ranked = zip(step.colluders, step.colluder_ranks, strict=True)
    accounts = [Account(math.dist(step.place, spot), rank) for spot, rank in ranked]
    return sorted(accounts, key=lambda account: account.distance_m)


def bounds_of(accounts: Iterable[Account], rank: int | None) -> Bounds:
    """How far the target is, from its place in one list among the accounts. Contradictions are not mended."""
    low, high = 0.0, math.inf
    for account in accounts:
        if account.rank is None and rank is None:
            continue
        # Whoever is not listed is farther than everybody who is.
        if rank is None or (account.rank is not None and account.rank < rank):
            low = max(low, account.distance_m)
        else:
            high = min(high, account.distance_m)
    return low, high


def ring_after(steps: Sequence[TraceStep]) -> Bounds | None:
    """What is known of the distance from the last place, from all questions there; None if nothing is."""
    here = [bounds_of(accounts_of(step), step.rank) for step in steps if step.place == steps[-1].place]
    low, high = max(low for low, _ in here), min(high for _, high in here)
    return None if (low, high) == (0.0, math.inf) else (low, high)
