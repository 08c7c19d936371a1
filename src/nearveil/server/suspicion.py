"""Suspicion: what an asker does that people who look around do not, judged by their own history alone.

Two patterns of inference attacks are looked for, at scales beyond the errors of a phone's location:

- *Hops back and forth*: three sharp turns, faster than anybody turns, among at least four places. So looks an account
  that asks here and moves itself there in turn.
- *Zigzag*: a dozen places one after the other, on a way many times as long as they are apart, faster than on foot. So
  looks somebody who asks from all sides of a place.

An attack within the error of a phone's location looks like a phone, and one that is spread over enough accounts, or
slow enough, looks like people: this is a second line of defence, and the noise is the first. Trails are never printed
and never kept.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice

NOISE_M = 80.0
"""Shorter steps may be the error of a phone's location."""
WINDOW_S = 600.0
MEMORY_S = 3600.0

_SLACK_M = 1000.0
# Two fixes at once of a phone that is 20 m off are farther apart than this once in five hundred times.
_HOP_M, _HOP_M_S = 100.0, 15.0
_HOP_WITHIN_S = 60.0
_SHARP = -0.2
_TURNS = 3
# A phone that takes two places for each other hops too, but between two places.
_PLACES = 4
_ZIGZAGS = (12, 16)
_ZIGZAG_M_S, _ZIGZAG_RATIO = 5.0, 5.0

_Spot = tuple[float, float]
_Hop = tuple[float, float, float, _Spot, _Spot, bool]
"""Moment, way east and north, from where, to where, and whether it is a sharp turn after the hop before."""
_Place = tuple[float, float, float, float]
"""Moment of arrival, where, and how far from the place before."""


class Flag(StrEnum):
    """What somebody's recent questions and moves look like."""

    IMPLAUSIBLE_TRAVEL = "implausible-travel"
    """Farther apart than anybody travels in the time."""
    ATTACK_SIGNATURE = "attack-signature"
    """Back and forth between places, or from all sides of a place, as attacks on a nearby service do."""


class Trail:
    """One person's last hour, as far as it matters.

    Parameters
    ----------
    x_m, y_m, now
        The first act.
    """

    __slots__ = ("_hops", "_last", "_places", "flag", "flagged_at", "seen_at")

    def __init__(self, x_m: float, y_m: float, now: float) -> None:
        self._last = (x_m, y_m)
        self._hops: deque[_Hop] = deque(maxlen=8)
        self._places: deque[_Place] = deque([(now, x_m, y_m, 0.0)], maxlen=_ZIGZAGS[-1] + 1)
        self.seen_at = now
        self.flag: Flag | None = None
        self.flagged_at = -math.inf

    def __repr__(self) -> str:
        return f"Trail({len(self._places)} places)"

    def goes_on(self, x_m: float, y_m: float, now: float, fastest_m_s: float) -> tuple[bool, bool]:
        """Add an act; return whether nobody travels so fast, and whether it looks like an attack."""
        here = self._last
        east, north, gone_s = x_m - here[0], y_m - here[1], now - self.seen_at
        step_m = math.hypot(east, north)
        self._last, self.seen_at = (x_m, y_m), now
        implausible = step_m > _SLACK_M + fastest_m_s * gone_s
        attacks = False
        if step_m > _HOP_M + _HOP_M_S * gone_s and gone_s <= _HOP_WITHIN_S:
            attacks = self._hop(east, north, here, now)
        self._forget_before(now)
        _, x, y, _ = self._places[-1]
        leg_m = math.hypot(x_m - x, y_m - y)
        if leg_m > NOISE_M:
            self._places.append((now, x_m, y_m, leg_m))
            attacks = self._zigzags() or attacks
        return implausible, attacks

    def _forget_before(self, now: float) -> None:
        """Keep nothing for longer than it matters, however often somebody acts."""
        while self._places and self._places[0][0] < now - MEMORY_S:
            self._places.popleft()
        if not self._places:
            self._places.append((now, *self._last, 0.0))
        while self._hops and self._hops[0][0] < now - WINDOW_S:
            self._hops.popleft()

    def _hop(self, east: float, north: float, here: _Spot, now: float) -> bool:
        """Add a hop; whether there are too many sharp turns."""
        turned = False
        if self._hops:
            _, east_before, north_before, *_ = self._hops[-1]
            lengths = math.hypot(east, north) * math.hypot(east_before, north_before)
            turned = east * east_before + north * north_before < _SHARP * lengths
        self._hops.append((now, east, north, here, self._last, turned))
        recent = [hop for hop in self._hops if hop[0] > now - WINDOW_S]
        if sum(hop[5] for hop in recent) < _TURNS:
            return False
        spots = (spot for hop in recent for spot in (hop[3], hop[4]))
        return _different(spots) >= _PLACES

    def _zigzags(self) -> bool:
        """Whether the last places are close together for how long the way between them is, and how fast it was."""
        return any(self._zigzag(legs) for legs in _ZIGZAGS if len(self._places) > legs)

    def _zigzag(self, legs: int) -> bool:
        first, *rest = islice(self._places, len(self._places) - legs - 1, None)
        took_s = rest[-1][0] - first[0]
        way_m = sum(place[3] for place in rest)
        if took_s > WINDOW_S or way_m < _ZIGZAG_M_S * took_s:
            return False
        xs, ys = [place[1] for place in (first, *rest)], [place[2] for place in (first, *rest)]
        is_narrow = way_m > _ZIGZAG_RATIO * math.hypot(max(xs) - min(xs), max(ys) - min(ys))
        return is_narrow and _different(zip(xs, ys, strict=True)) >= _PLACES


def _different(spots: Iterable[_Spot]) -> int:
    """How many places are not within the noise of another."""
    found: list[_Spot] = []
    for spot in spots:
        if all(math.dist(spot, other) > NOISE_M for other in found):
            found.append(spot)
    return len(found)


HOLD_S = 600.0
"""So long somebody stays flagged."""


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
    >>> suspicion.note("ann", 0.0, 0.0)
    >>> suspicion.note("ann", 30_000.0, 0.0)
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

    def note(self, person: str, x_m: float, y_m: float) -> Flag | None:
        """Remember where somebody asked from, or reported to be; return what was unusual lately, if anything."""
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
