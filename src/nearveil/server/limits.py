"""Rate limits of platforms and people, as token buckets in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from nearveil.errors import UsageError
from nearveil.server.auth import Caller


class Limits:
    """Token buckets for platform keys and for people. Not thread-safe.

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

    def __repr__(self) -> str:
        return f"Limits({len(self._keys.full_at)} platform keys, {len(self._people.full_at)} people)"

    def spend(self, caller: Caller, cost: float = 1.0) -> float | None:
        """Take from a caller's bucket and return None; if it holds too little, return the seconds to wait."""
        buckets = self._people if caller.kind == "person" else self._keys
        return buckets.spend(caller.name, cost, self._clock()) if buckets.refill_s else None


class _Buckets:
    """Buckets of one kind of caller. Only the time at which a bucket will be full is kept."""

    __slots__ = ("_burst", "_most", "full_at", "refill_s")

    def __init__(self, per_s: float, burst: float, most: int) -> None:
        if not (0 <= per_s < math.inf and 1 <= burst < math.inf):
            raise UsageError("a limit is a number of questions of 0 (no limit) or more, with a burst of 1 or more")
        self.refill_s = 1 / per_s if per_s else 0.0
        self.full_at: dict[str, float] = {}
        self._burst, self._most = burst, most

    def spend(self, name: str, cost: float, now: float) -> float | None:
        refill_s, burst = self.refill_s, self._burst
        # A cost larger than the bucket takes all of it.
        full_at = max(self.full_at.get(name, now), now) + min(cost, burst) * refill_s
        wait_s = full_at - now - burst * refill_s
        # Less than this is rounding error of the clock.
        if wait_s > 1e-6 * refill_s:
            return wait_s
        if len(self.full_at) >= self._most and name not in self.full_at:
            self._make_room(now)
        self.full_at[name] = full_at
        return None

    def _make_room(self, now: float) -> None:
        """Forget full buckets, and if that is not enough, the fullest quarter."""
        kept = [item for item in self.full_at.items() if item[1] > now]
        if len(kept) > self._most * 3 // 4:
            kept = sorted(kept, key=lambda item: item[1])[len(kept) - self._most * 3 // 4 :]
        self.full_at = dict(kept)
