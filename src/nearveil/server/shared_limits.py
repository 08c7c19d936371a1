"""Limits that several processes share through Redis or Valkey: what callers have spent.

A request never waits for Redis. Each process has its own token buckets (`nearveil.server.limits`). Ten times a second
a thread adds what was spent here to the buckets in Redis, in one round trip, and takes back how full they are. So a
caller who asks several processes at once gets at most what each of them grants before it hears of the others: with P
processes a burst B, a rate r and exchanges every d seconds, in any t seconds no more than

    B + r t + (P - 1) (B + 2 r d)

requests, and no more than B + r t + 2 d times as many as they can send in a second. What was granted too much is owed,
and has to be waited for.

Redis holds keyed hashes (HMAC-SHA-256) of the names of keys and ids of people, each with a time: when a bucket is full.
The time is also when the entry expires. There is no id, no name and no location.
Libraries for rate limits count in windows of time and take a round trip for each caller; a token bucket in Redis is a
few lines of Lua.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from nearveil.errors import UsageError
from nearveil.server.limits import Asker, Limits
from nearveil.server.logs import log_event, log_exception

INTERVAL_S = 0.1
"""Time between two exchanges."""
LONGEST_BACK_OFF_S = 5.0
"""Longest time until Redis is tried again."""

_TIMEOUT_S = 1.0
_PURPOSE = b"nearveil shared limits\0"
_RECENT = "nearveil:recent"
_RECENT_S = 900
_MOST_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Spent:
    """What callers with one rate have spent: `refill_s` and `burst` of a bucket, and requests by hash."""

    refill_s: float
    burst: float
    by_hash: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class State:
    """What Redis knows.

    Attributes
    ----------
    full_in_s : list of float
        For each hash of each `Spent`, in order: the time until its bucket is full.
    recent : dict
        Seconds left by hash, of buckets that are empty; those that changed since `since`.
    at : int
        Time of Redis in microseconds, for the next `since`.
    """

    full_in_s: list[float]
    recent: dict[str, float]
    at: int


class SharedState(Protocol):
    """What processes have in common."""

    def exchange(self, spent: Sequence[Spent], since: int) -> State:
        """Add what was spent; return what all processes added.

        Raises `SharedStateError` if that is not possible now.
        """

    def close(self) -> None:
        """Close connections."""


class SharedStateError(Exception):
    """The shared state is out of reach; the cause is in `__cause__`."""


class SharedLimits:
    """Exchanges limits with other processes, in a thread.

    Parameters
    ----------
    state : SharedState
        Where they are shared.
    limits : Limits
        Of this process.
    key : bytes
        Secret that all processes have; ids are hashed with it.
    interval_s : float, optional
        Time between two exchanges.
    clock : callable, optional
        Seconds that never go back.
    """

    def __init__(
        self,
        state: SharedState,
        limits: Limits,
        key: bytes,
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state, self._limits, self._clock, self._interval_s = state, limits, clock, interval_s
        self._key = hmac.digest(key, _PURPOSE, hashlib.sha256)
        # Replaced as a whole, so that the event loop reads it without a lock.
        self._until: dict[str, float] = {}
        self._since = 0
        self._back_off_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nearveil-shared-limits", daemon=True)
        limits.share(self._full_in_s)

    def start(self) -> None:
        """Begin to exchange."""
        self._thread.start()

    def close(self) -> None:
        """Exchange once more, and stop."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._state.close()

    @property
    def is_away(self) -> bool:
        """Whether the last exchange failed: each process then has its own limits."""
        return self._back_off_s > 0

    def exchange(self) -> float:
        """Exchange once; return the time to wait until the next one, in seconds."""
        unsent = self._limits.take_unsent()
        askers = sorted(unsent, key=itemgetter(0))
        spent = [
            Spent(*self._limits.rate(kind), [(self._hash(*asker), unsent[asker]) for asker in some])
            for kind, some in groupby(askers, key=itemgetter(0))
        ]
        try:
            state = self._state.exchange(spent, self._since)
        except SharedStateError as error:
            return self._failed(error)
        for asker, full_in_s in zip(askers, state.full_in_s, strict=True):
            self._limits.lower(asker, full_in_s)
        self._since = state.at
        self._remember(state.recent)
        if self.is_away:
            log_event("shared limits are back")
        self._back_off_s = 0.0
        return self._interval_s

    def _failed(self, error: SharedStateError) -> float:
        # What was spent is not sent later: by then most of it is earned again.
        if not self.is_away:
            reason = type(error.__cause__ or error).__name__
            log_event("shared limits are away, each process has its own", level="warning", error=reason)
        # Redis may have been started again, with nothing in it and another clock.
        self._since = 0
        self._back_off_s = min(2 * self._back_off_s or self._interval_s, LONGEST_BACK_OFF_S)
        return self._back_off_s

    def _remember(self, recent: dict[str, float]) -> None:
        now = self._clock()
        if recent or any(until <= now for until in self._until.values()):
            kept = {name: until for name, until in self._until.items() if until > now}
            self._until = kept | {name: now + left_s for name, left_s in recent.items()}

    def _full_in_s(self, asker: Asker) -> float:
        # Mostly nobody is refused anywhere, and nothing has to be hashed.
        until = self._until
        return max(0.0, until.get(self._hash(*asker), 0.0) - self._clock()) if until else 0.0

    def _hash(self, kind: str, name: str) -> str:
        return "nearveil:" + hmac.digest(self._key, f"{kind}\0{name}".encode(), hashlib.sha256)[:16].hex()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.wait(wait_s):
            try:
                wait_s = self.exchange()
            except Exception as error:  # whatever it is, local limits must go on, and the thread too
                log_exception("shared limits failed", error)
                wait_s = LONGEST_BACK_OFF_S
        if not self.is_away:
            self.exchange()


# Redis. Times are those of its own clock, in microseconds, so that the clocks of processes need not agree.


_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function put(key, at)
  redis.call('SET', key, string.format('%.0f', at), 'PX', math.max(1, math.ceil((at - now) / 1000)))
end
local function announce(key)
  redis.call('ZADD', KEYS[1], now, key)
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
"""

# A bucket is full at the time in its key. One that holds less than one request is announced to all processes.
_SPEND = (
    _NOW
    + """
local refill, burst, full_in = tonumber(ARGV[2]), tonumber(ARGV[3]), {}
for i = 2, #KEYS do
  local full_at = math.max(tonumber(redis.call('GET', KEYS[i]) or now), now) + tonumber(ARGV[i + 2]) * refill
  put(KEYS[i], full_at)
  if full_at - now > (burst - 1) * refill then announce(KEYS[i]) end
  full_in[i - 1] = math.ceil(full_at - now)
end
return full_in
"""
)
_CHANGED = (
    _NOW
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1] * 1000000)
local changed = {now}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf')) do
  local at = redis.call('GET', key)
  if at then
    changed[#changed + 1] = key
    changed[#changed + 1] = math.ceil(tonumber(at) - now)
  end
end
return changed
"""
)


class RedisState:
    """The state in Redis or Valkey.

    Parameters
    ----------
    address : str
        ``redis://…``, ``rediss://…`` or ``unix://…``.
    """

    def __init__(self, address: str) -> None:
        import redis  # noqa: PLC0415 - slow to load, and only a few services share limits
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        self._errors = (redis.RedisError, OSError)
        self._client: Any = redis.Redis.from_url(
            address,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            # `SharedLimits` tries again.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def refuse_cluster(self) -> None:
        """Raise if this is a Redis Cluster, where a script may only use keys of one slot; if it is away, return."""
        try:
            is_cluster = self._client.info("cluster").get("cluster_enabled") == 1
        except self._errors:
            return
        if is_cluster:
            raise UsageError(
                "the Redis of --shared-limits is a Redis Cluster, whose scripts cannot use keys of several slots; name "
                "a Redis or Valkey that does not run in cluster mode"
            )

    def exchange(self, spent: Sequence[Spent], since: int) -> State:
        """Add and return, in one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        for keys, arguments in _spend_calls(spent):
            pipeline.eval(_SPEND, len(keys) + 1, _RECENT, *keys, _RECENT_S, *arguments)
        pipeline.eval(_CHANGED, 1, _RECENT, _RECENT_S, since)
        try:
            *answers, (at, *changed) = pipeline.execute()
        except self._errors as error:
            self._client.connection_pool.disconnect()
            raise SharedStateError from error
        full_in_s = [us / 1e6 for answer in answers if answer is not None for us in answer]
        recent = {key: left_us / 1e6 for key, left_us in zip(changed[::2], changed[1::2], strict=True)}
        return State(full_in_s, recent, at)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


_Call = tuple[list[str], list[float]]


def _spend_calls(spent: Sequence[Spent]) -> Iterator[_Call]:
    for each in spent:
        for some in _batches(each.by_hash):
            arguments = [each.refill_s * 1e6, each.burst, *(cost for _, cost in some)]
            yield [key for key, _ in some], arguments


def _batches(rows: Sequence[tuple[str, float]]) -> Iterator[Sequence[tuple[str, float]]]:
    for first in range(0, len(rows), _MOST_AT_ONCE):
        yield rows[first : first + _MOST_AT_ONCE]
