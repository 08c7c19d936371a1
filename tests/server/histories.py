"""What people and attackers do, as acts of accounts in time: (moment, east, north, is it a question)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from nearveil.attacks.oracle import CountedOracle, Spot
from nearveil.nearby.index import Person
from nearveil.server.suspicion import Flag, Suspicion
from tests.server.clocks import Clock

Act = tuple[float, float, float, bool]
GPS_M = 20.0


class RecordedOracle:
    """An oracle that remembers every question and every move, in order."""

    def __init__(self, oracle: CountedOracle) -> None:
        self._oracle = oracle
        self.acts: list[tuple[Person | None, Spot | None]] = []

    @property
    def k(self) -> int:
        return self._oracle.k

    @property
    def colluders(self) -> tuple[Person, ...]:
        return self._oracle.colluders

    @property
    def queries(self) -> int:
        return self._oracle.queries

    def nearby(self, place: Spot) -> Sequence[Person]:
        self.acts.append((None, place))
        return self._oracle.nearby(place)

    def put(self, colluder: Person, place: Spot | None) -> None:
        self.acts.append((colluder, place))
        self._oracle.put(colluder, place)

    def histories(self, seconds_per_question: float, *, own_asker: bool) -> dict[Person, list[Act]]:
        """Histories of the accounts: the first colluder asks, or an account that does nothing else."""
        asker = "asker" if own_asker or not self.colluders else self.colluders[0]
        found: dict[Person, list[Act]] = defaultdict(list)
        now = 0.0
        for account, place in self.acts:
            if account is None and place is not None:
                found[asker].append((now, *place, True))
                now += seconds_per_question
            elif account is not None and place is not None:
                found[account].append((max(0.0, now - min(5.0, seconds_per_question / 2)), *place, False))
        return found


def first_flag(acts: Iterable[Act]) -> tuple[float, Flag] | None:
    """When one account is flagged first, and for what."""
    clock = Clock(0.0)
    suspicion = Suspicion(clock=clock)
    for now, x_m, y_m, _ in acts:
        clock.now = now
        flag = suspicion.note("somebody", x_m, y_m)
        if flag is not None:
            return now, flag
    return None


def journey(
    rng: np.random.Generator, *, speed_m_s: float, every_s: float, hours: float, leg_s: float, turn: float
) -> list[Act]:
    """Somebody who goes straight on for some time, turns by up to an angle, and asks and reports again and again."""
    acts: list[Act] = []
    x = y = 0.0
    heading, left_s, next_s = rng.uniform(0, 2 * math.pi), rng.exponential(leg_s), 0.0
    for now in np.arange(0, hours * 3600, 5.0).tolist():
        x, y, left_s = x + 5 * speed_m_s * math.cos(heading), y + 5 * speed_m_s * math.sin(heading), left_s - 5
        if left_s <= 0:
            heading, left_s = heading + rng.uniform(-turn, turn), rng.exponential(leg_s)
        if now >= next_s:
            next_s = now + every_s
            acts += [
                (now + later, *(np.array([x, y]) + rng.normal(0, GPS_M, 2)).tolist(), not later) for later in (0, 1)
            ]
    return acts
