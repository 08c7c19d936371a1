"""Rate limits of platforms and people, as token buckets in memory.

A bucket is one process's. `nearveil.server.shared_limits` lets several processes know what was spent in each of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal

from nearveil.errors import UsageError
from nearveil.server.auth import Caller

Kind = Literal["platform", "person"]
Asker = tuple[Kind, str]
"""Whose bucket it is: a platform's by the name of its key, or a person's by their id."""


class Limits:
    """Token buckets for platform keys and for people.

    Parameters
    ----------
    key_per_s : float
        Questions per second of one platform key, with a burst of one second; 0 for no limit.
    person_per_minute, person_burst : float
        Questions per minute of one person, and the size of a burst; 0 per minute for no limit.
    most_buckets : int
        Largest number of callers of a kind that are remembered; those who asked least are forgotten first.
    clock : callable, optional
        Returns seconds since any fixed time.

    Examples
    --------
    >>> limits = Limits(person_per_minute=60, person_burst=2, clock=lambda: 0.0)
    >>> ann = Caller("person", "ann")
    >>> [limits.spend(ann) for _ in range(3)]
    [None, None, 1.0]
    """

    def __init__(
        self,
        *,
        key_per_s: float = 0.0,
        person_per_minute: float = 60.0,
        person_burst: float = 30.0,
        most_buckets: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = _Buckets(key_per_s, max(1.0, key_per_s), most_buckets)
        self._people = _Buckets(person_per_minute / 60, person_burst, most_buckets)
        self._clock = clock
        # What other processes spent is put in from another thread.
        self._lock = threading.Lock()
        self._full_elsewhere_in_s: Callable[[Asker], float] | None = None
        self._unsent: dict[Asker, float] = {}

    def __repr__(self) -> str:
        return f"Limits({len(self._keys.full_at)} platform keys, {len(self._people.full_at)} people)"

    def spend(self, caller: Caller, cost: float = 1.0) -> float | None:
        """Take from a caller's bucket and return None; if it holds too little, return the seconds to wait."""
        buckets = self._buckets(caller.kind)
        if not buckets.refill_s:
            return None
        asker, now, full_in_s = (caller.kind, caller.name), self._clock(), 0.0
        if self._full_elsewhere_in_s is not None:
            full_in_s = self._full_elsewhere_in_s(asker)
        with self._lock:
            if full_in_s:
                buckets.lower(caller.name, now + full_in_s, now)
            wait_s = buckets.spend(caller.name, cost, now)
            if wait_s is None and self._full_elsewhere_in_s is not None:
                self._unsent[asker] = self._unsent.get(asker, 0.0) + min(cost, buckets.burst)
        return wait_s

    def owe(self, caller: Caller, cost: float) -> None:
        """Take more from the bucket of a caller who was let in; what it does not hold delays the next request."""
        buckets = self._buckets(caller.kind)
        if not buckets.refill_s or cost <= 0:
            return
        with self._lock:
            buckets.owe(caller.name, cost, self._clock())
            if self._full_elsewhere_in_s is not None:
                asker = caller.kind, caller.name
                self._unsent[asker] = self._unsent.get(asker, 0.0) + cost

    # -- sharing with other processes --------------------------------------------------------------------------

    def share(self, full_elsewhere_in_s: Callable[[Asker], float]) -> None:
        """Count from now on what is spent here, and ask before each request when its bucket is full elsewhere."""
        self._full_elsewhere_in_s = full_elsewhere_in_s

    def rate(self, kind: Kind) -> tuple[float, float]:
        """Return the seconds in which one request is earned, 0 for no limit, and the size of a burst."""
        return self._buckets(kind).refill_s, self._buckets(kind).burst

    def take_unsent(self) -> dict[Asker, float]:
        """Return what each caller has spent here since the last call."""
        with self._lock:
            unsent, self._unsent = self._unsent, {}
        return unsent

    def lower(self, asker: Asker, full_in_s: float) -> None:
        """Let a bucket be full no sooner than this, because of what was spent in other processes."""
        buckets, now = self._buckets(asker[0]), self._clock()
        with self._lock:
            # What was spent here since `take_unsent` is not in it yet.
            spent_since_s = self._unsent.get(asker, 0.0) * buckets.refill_s
            buckets.lower(asker[1], now + full_in_s + spent_since_s, now)

    def _buckets(self, kind: Kind) -> _Buckets:
        return self._people if kind == "person" else self._keys


class _Buckets:
    """Buckets of one kind of caller. Only the time at which a bucket will be full is kept."""

    __slots__ = ("_most", "burst", "full_at", "refill_s")

    def __init__(self, per_s: float, burst: float, most: int) -> None:
        if not (0 <= per_s < math.inf and 1 <= burst < math.inf):
            raise UsageError("a limit is a number of questions of 0 (no limit) or more, with a burst of 1 or more")
        self.refill_s = 1 / per_s if per_s else 0.0
        self.full_at: dict[str, float] = {}
        self.burst, self._most = burst, most

    def spend(self, name: str, cost: float, now: float) -> float | None:
        refill_s, burst = self.refill_s, self.burst
        # A cost larger than the bucket takes all of it.
        full_at = max(self.full_at.get(name, now), now) + min(cost, burst) * refill_s
        wait_s = full_at - now - burst * refill_s
        # Less than this is rounding error of the clock.
        if wait_s > 1e-6 * refill_s:
            return wait_s
        self._put(name, full_at, now)
        return None

    def owe(self, name: str, cost: float, now: float) -> None:
        self._put(name, max(self.full_at.get(name, now), now) + cost * self.refill_s, now)

    def lower(self, name: str, full_at: float, now: float) -> None:
        """Take out of a bucket until it is full no sooner than this; it may owe more than it holds."""
        if full_at > self.full_at.get(name, now):
            self._put(name, full_at, now)

    def _put(self, name: str, full_at: float, now: float) -> None:
        if len(self.full_at) >= self._most and name not in self.full_at:
            self._make_room(now)
        self.full_at[name] = full_at

    def _make_room(self, now: float) -> None:
        """Forget full buckets, and if that is not enough, the fullest quarter."""
        kept = [item for item in self.full_at.items() if item[1] > now]
        if len(kept) > self._most * 3 // 4:
            kept = sorted(kept, key=lambda item: item[1])[len(kept) - self._most * 3 // 4 :]
        self.full_at = dict(kept)
