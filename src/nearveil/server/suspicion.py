"""Suspicion: detects questions and moves of a person that look like an attack, from that person's history alone.

Two patterns of inference attacks are detected, at scales beyond the errors of a phone's location:

- *Hops back and forth*: three sharp turns, faster than people travel, among at least four locations. An account that
  alternately asks at one location and moves to another looks like this.
- *Zigzag*: a dozen locations in sequence, on a path many times longer than the distance between them, faster than on
  foot. An attacker who asks from all sides of a location looks like this.

An attack within the error of a phone's location cannot be told from a phone, and one that is slow or spread over many
accounts cannot be told from ordinary people. This is a second line of defence; the noise is the first. Trails are never
printed and never stored.

Processes that share limits (`nearveil.server.shared_limits`) share only that a person is flagged, and until when, by a
keyed hash of the id. Trails are true locations, which leave the memory of a process for nobody. So an attacker whose
questions are spread over several processes is seen later, by the questions that one of them gets.

Who is flagged is shown to nobody: somebody who asks in a person's name, and sees whether the person is flagged then,
learns how far away the person has asked. What operators see by name is how many questions somebody asked
(`FrequentAskers`), whatever the places.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

NOISE_M = 80.0
"""Shorter steps may be the error of a phone's location."""
WINDOW_S = 600.0
MEMORY_S = 3600.0

_SLACK_M = 1000.0
# Two simultaneous fixes of a phone with an error of 20 m are farther apart than this once in 500 times.
_HOP_M, _HOP_M_S = 100.0, 15.0
_HOP_WITHIN_S = 60.0
_SHARP = -0.2
_TURNS = 3
# A phone that confuses two locations hops too, but between two locations only.
_PLACES = 4
_ZIGZAGS = (12, 16)
_ZIGZAG_M_S, _ZIGZAG_RATIO = 5.0, 5.0

_Spot = tuple[float, float]
_Hop = tuple[float, float, float, _Spot, _Spot, bool]
"""Time, distance east and north, from where, to where, and whether it is a sharp turn after the previous hop."""
_Place = tuple[float, float, float, float]
"""Time of arrival, x, y, and distance from the previous location."""


class Flag(StrEnum):
    """Kinds of unusual behaviour."""

    IMPLAUSIBLE_TRAVEL = "implausible-travel"
    """Farther apart than anyone can travel in the time."""
    ATTACK_SIGNATURE = "attack-signature"
    """Back and forth between locations, or from all sides of one, as in attacks on a nearby service."""


class Trail:
    """One person's questions and moves of the last hour.

    Parameters
    ----------
    x_m, y_m, now
        Location and time of the first question or move.
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

    def add(self, x_m: float, y_m: float, now: float, fastest_m_s: float) -> tuple[bool, bool]:
        """Add a question or move; return whether the travel is implausible, and whether it looks like an attack."""
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
        """Forget what is too old to matter."""
        while self._places and self._places[0][0] < now - MEMORY_S:
            self._places.popleft()
        if not self._places:
            self._places.append((now, *self._last, 0.0))
        while self._hops and self._hops[0][0] < now - WINDOW_S:
            self._hops.popleft()

    def _hop(self, east: float, north: float, here: _Spot, now: float) -> bool:
        """Add a hop; return whether there are too many sharp turns."""
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
        """Return whether the path through the last locations is fast, and long for how close together they are."""
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
    """Return the number of locations that are farther than the noise from each other."""
    found: list[_Spot] = []
    for spot in spots:
        if all(math.dist(spot, other) > NOISE_M for other in found):
            found.append(spot)
    return len(found)


def trail_name(person: str, key: str | None = None) -> str:
    """Return whose trail a question belongs to: that of a person's token, or of a platform key that names the person.

    They are apart, because whether a question is unusual depends on where the ones before were asked. With one trail,
    whoever has some platform key would ask in a person's name and learn how far away the person has asked.
    """
    # Ids have no spaces.
    return person if key is None else f"{person} {key}"


HOLD_S = 600.0
"""Time that a person stays flagged."""


_SWEEP_EVERY_S = 300.0


class Suspicion:
    """Recent questions and moves of people, in memory only, of the last hour at most.

    Parameters
    ----------
    fastest_m_s : float
        Faster travel is implausible; one kilometre is allowed for errors of a phone.
    most_people : int
        Largest number of trails remembered; those that were inactive for longest are forgotten first.
    clock : callable, optional
        Returns seconds since any fixed time.

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
        # A person who is erased by another process is forgotten from another thread.
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"Suspicion({len(self._trails)} people)"

    def note(self, name: str, x_m: float, y_m: float) -> Flag | None:
        """Record a question for the trail of a name (`trail_name`); return what was unusual recently, if anything."""
        with self._changing:
            return self._note(name, x_m, y_m)

    def hold_left_s(self, name: str) -> float:
        """Return how long a trail stays flagged if nothing unusual happens again; 0 if it is not flagged."""
        trail = self._trails.get(name)
        return 0.0 if trail is None else max(0.0, trail.flagged_at + HOLD_S - self._clock())

    def forget(self, person: str) -> None:
        """Forget a person, whoever asked in their name."""
        with self._changing:
            for name in [name for name in self._trails if name.partition(" ")[0] == person]:
                del self._trails[name]

    def sweep(self) -> None:
        """Forget everybody who was inactive for an hour; must be called regularly, also without questions."""
        with self._changing:
            self._sweep(self._clock())

    def _note(self, name: str, x_m: float, y_m: float) -> Flag | None:
        now = self._clock()
        if now - self._swept_at > _SWEEP_EVERY_S:
            self._sweep(now)
        trail = self._trails.get(name)
        if trail is None or now - trail.seen_at > MEMORY_S:
            if trail is None and len(self._trails) >= self._most:
                self._make_room(now)
            self._trails[name] = Trail(x_m, y_m, now)
            return None
        implausible, attacks = trail.add(x_m, y_m, now, self._fastest_m_s)
        if attacks:
            trail.flag, trail.flagged_at = Flag.ATTACK_SIGNATURE, now
        elif implausible:
            trail.flag, trail.flagged_at = Flag.IMPLAUSIBLE_TRAVEL, now
        return trail.flag if now - trail.flagged_at <= HOLD_S else None

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        self._trails = {name: trail for name, trail in self._trails.items() if now - trail.seen_at <= MEMORY_S}

    def _make_room(self, now: float) -> None:
        self._sweep(now)
        if len(self._trails) > self._most * 3 // 4:
            by_age = sorted(self._trails.items(), key=lambda item: item[1].seen_at)
            self._trails = dict(by_age[len(by_age) - self._most * 3 // 4 :])


# FrequentAskers: who asked many questions, by their number alone.


MANY_QUESTIONS = 100
"""Somebody who asks so often within an epoch is listed. Attacks on one person may need fewer, those on many do not."""
EPOCHS_REMEMBERED = 24
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class FrequentAsker:
    """Somebody who asked many questions: in how many epochs, and how many in these epochs together."""

    person: str
    epochs: int
    questions: int


class FrequentAskers:
    """Counts questions, and remembers who asked many within an epoch that has ended; in memory only.

    No place goes into it: questions from outside the region count too. Who adds questions in somebody's name learns
    how many the person asked in that epoch, and nothing about where.

    Parameters
    ----------
    most_counted : int
        Largest number of people counted at once; those with the fewest questions are dropped, and begin anew.

    Examples
    --------
    >>> askers = FrequentAskers()
    >>> askers.begin_epoch(1)
    >>> for _ in range(120):
    ...     askers.count("eve")
    >>> askers.listed()
    []
    >>> askers.begin_epoch(2)
    >>> askers.listed()
    [FrequentAsker(person='eve', epochs=1, questions=120)]
    """

    def __init__(self, *, most_counted: int = _MOST_COUNTED) -> None:
        self._most = most_counted
        self._epoch: int | None = None
        self._counts: dict[str, int] = {}
        self._ended: deque[dict[str, int]] = deque(maxlen=EPOCHS_REMEMBERED)
        # Epochs end, and people are erased, in other threads than the one that counts.
        self._changing = threading.Lock()

    def __repr__(self) -> str:
        return f"FrequentAskers({len(self._ended)} epochs)"

    @property
    def epochs(self) -> int:
        """Number of ended epochs that the list is about."""
        return len(self._ended)

    def count(self, person: str) -> None:
        """Count a question of a person."""
        with self._changing:
            self._counts[person] = self._counts.get(person, 0) + 1
            if len(self._counts) > self._most:
                self._make_room()

    def begin_epoch(self, epoch: int) -> None:
        """Close the epoch before, unless this one has begun already."""
        with self._changing:
            if epoch == self._epoch:
                return
            if self._epoch is not None:
                self._ended.append({who: number for who, number in self._counts.items() if number >= MANY_QUESTIONS})
            self._epoch, self._counts = epoch, {}

    def listed(self) -> list[FrequentAsker]:
        """Return who asked many questions in an ended epoch, who asked most first."""
        with self._changing:
            ended = [dict(counts) for counts in self._ended]
        epochs = Counter(person for counts in ended for person in counts)
        questions = {person: sum(counts.get(person, 0) for counts in ended) for person in epochs}
        found = [FrequentAsker(person, epochs[person], number) for person, number in questions.items()]
        return sorted(found, key=lambda asker: (-asker.questions, asker.person))

    def forget(self, person: str) -> None:
        """Forget a person."""
        with self._changing:
            for counts in (self._counts, *self._ended):
                counts.pop(person, None)

    def _make_room(self) -> None:
        few = 1
        while len(self._counts) > self._most * 3 // 4:
            self._counts = {person: number for person, number in self._counts.items() if number > few}
            few *= 2
