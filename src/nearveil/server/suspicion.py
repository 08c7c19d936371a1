"""Suspicion: what an asker does that people who look around do not, judged by their own history alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nearveil.server.trails import MEMORY_S, Flag, Trail

HOLD_S = 600.0
"""So long somebody stays flagged."""

__all__ = ["HOLD_S", "Flag", "Suspicion"]

_SWEEP_EVERY_S = 300.0


class Suspicion:
    """Recent questions and moves of people, in memory only, of the last hour at most.

    Parameters
    ----------
    fastest_m_s : float
        Travel faster than this, beyond one kilometre that a phone may be wrong by, is implausible.
    most_people : int
        At most so many people are remembered; those who did nothing for longest are forgotten first.
    clock : callable, optional
        Seconds, from any moment on.

    Examples
    --------
    >>> suspicion = Suspicion(clock=lambda: 0.0)
    >>> suspicion.note_question("ann", 0.0, 0.0)
    >>> suspicion.note_question("ann", 30_000.0, 0.0)
    <Flag.IMPLAUSIBLE_TRAVEL: 'implausible-travel'>
    """

    def __init__(
        self,
        *,
        fastest_m_s: float = 300.0,
        most_people: int = 50_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fastest_m_s, self._most, self._clock = fastest_m_s, most_people, clock
        self._trails: dict[str, Trail] = {}
        self._swept_at = clock()
        # Who is erased by another process is forgotten from another thread.
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"Suspicion({len(self._trails)} people)"

    def note_question(self, person: str, x_m: float, y_m: float) -> Flag | None:
        """Remember a question asked from a place; return what was unusual lately, if anything."""
        with self._changing:
            return self._note(person, x_m, y_m)

    def note_move(self, person: str, x_m: float, y_m: float) -> Flag | None:
        """Remember that somebody reported a place of their own; return what was unusual lately, if anything."""
        with self._changing:
            return self._note(person, x_m, y_m)

    def hold_left_s(self, person: str) -> float:
        """Return how long somebody stays flagged if nothing unusual happens any more; 0 if they are not."""
        trail = self._trails.get(person)
        return 0.0 if trail is None else max(0.0, trail.flagged_at + HOLD_S - self._clock())

    def forget(self, person: str) -> None:
        """Forget all about somebody."""
        with self._changing:
            self._trails.pop(person, None)

    def sweep(self) -> None:
        """Forget everybody who did nothing for an hour; to be called from time to time, also when nobody asks."""
        with self._changing:
            self._sweep(self._clock())

    def _note(self, person: str, x_m: float, y_m: float) -> Flag | None:
        now = self._clock()
        if now - self._swept_at > _SWEEP_EVERY_S:
            self._sweep(now)
        trail = self._trails.get(person)
        if trail is None or now - trail.seen_at > MEMORY_S:
            if trail is None and len(self._trails) >= self._most:
                self._make_room(now)
            self._trails[person] = Trail(x_m, y_m, now)
            return None
        implausible, attacks = trail.goes_on(x_m, y_m, now, self._fastest_m_s)
        if attacks:
            trail.flag, trail.flagged_at = Flag.ATTACK_SIGNATURE, now
        elif implausible:
            trail.flag, trail.flagged_at = Flag.IMPLAUSIBLE_TRAVEL, now
        return trail.flag if now - trail.flagged_at <= HOLD_S else None

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        self._trails = {person: trail for person, trail in self._trails.items() if now - trail.seen_at <= MEMORY_S}

    def _make_room(self, now: float) -> None:
        self._sweep(now)
        if len(self._trails) > self._most * 3 // 4:
            by_age = sorted(self._trails.items(), key=lambda item: item[1].seen_at)
            self._trails = dict(by_age[len(by_age) - self._most * 3 // 4 :])
