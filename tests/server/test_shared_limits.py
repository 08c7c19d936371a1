"""What processes with a shared state grant together, on a clock that only the tests move."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from nearveil.server.auth import Caller
from nearveil.server.limits import Limits
from nearveil.server.shared_limits import (
    SharedLimits,
    SharedStateError,
    Spent,
    State,
)
from tests.server.clocks import Clock

ANN, BOB, SHOP = Caller("person", "ann"), Caller("person", "bob"), Caller("platform", "shop")
KEY = b"0" * 32
INTERVAL_S = 0.1
BURST, PER_S = 30.0, 1.0


class MadeUpState:
    """The shared state as Redis has it, by a made-up clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until: dict[str, float] = {}
        self._changed: dict[str, float] = {}
        self.fails = False
        self.calls = 0

    def exchange(self, spent: Sequence[Spent], since: int) -> State:
        self.calls += 1
        if self.fails:
            raise SharedStateError from ConnectionError("away")
        now, full_in_s = self._clock(), []
        for each in spent:
            for name, cost in each.by_hash:
                self.until[name] = max(self.until.get(name, now), now) + cost * each.refill_s
                full_in_s.append(self.until[name] - now)
                if full_in_s[-1] > (each.burst - 1) * each.refill_s:
                    self._changed[name] = now
        recent = {name: self.until[name] - now for name, at in self._changed.items() if at * 1e6 >= since}
        return State(full_in_s, {name: left for name, left in recent.items() if left > 0}, math.floor(now * 1e6))

    def close(self) -> None:
        pass


class Processes:
    """Processes that exchange one after the other, each once in an interval."""

    def __init__(self, count: int, *, is_shared: bool = True, **limits: float) -> None:
        self.clock = Clock(0.0)
        self.state = MadeUpState(self.clock)
        self.limits = [Limits(clock=self.clock, **limits) for _ in range(count)]  # type: ignore[arg-type]
        self.shared = [SharedLimits(self.state, each, KEY, clock=self.clock) for each in self.limits if is_shared]

    def ask(self, seconds: float, asks: Callable[[int], None], steps: int = 10) -> None:
        """Let each process be asked at each step; ``steps`` of them make an interval."""
        for step in range(round(seconds / INTERVAL_S) * steps):
            for process in range(len(self.limits)):
                asks(process)
                if self.shared and step % steps == process % steps:
                    self.shared[process].exchange()
            self.clock.pass_time(INTERVAL_S / steps)


def most(processes: int, seconds: float) -> float:
    """The bound that the documentation states."""
    return BURST + PER_S * seconds + (processes - 1) * (BURST + 2 * PER_S * INTERVAL_S)


def greedy(processes: Processes, granted: list[float]) -> Callable[[int], None]:
    """Ask until refused, whenever there is a chance to; note when each request was granted."""

    def ask(process: int) -> None:
        while processes.limits[process].spend(ANN) is None:
            granted.append(processes.clock())

    return ask


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_caller_who_asks_all_processes_at_once_gets_little_more_than_from_one(count: int) -> None:
    together, granted = Processes(count), list[float]()
    together.ask(200, greedy(together, granted))
    for seconds in (1, 60):
        starts = [0.0, 5.0, 100.0, 130.0]
        assert all(sum(at <= each < at + seconds for each in granted) <= most(count, seconds) + 1 for at in starts)
    # What was granted too much at first is waited for: in the long run nobody gains.
    assert len(granted) == pytest.approx(BURST + 200 * PER_S, abs=2)


def test_a_caller_at_a_slow_pace_sends_no_more_too_much_than_in_two_intervals() -> None:
    """Ten requests a second, now here, now there: one is told of what the other granted within two intervals."""
    together, granted, turn = Processes(2), list[bool](), [0]

    def ask_by_turns(process: int) -> None:
        turn[0] += 1
        if turn[0] % 20 < 2 and process == (turn[0] // 20) % 2:
            granted.append(together.limits[process].spend(ANN) is None)

    together.ask(60, ask_by_turns)
    assert BURST + 59 <= sum(granted) <= BURST + 60 * PER_S + 2 * INTERVAL_S * 10 + 1


def test_a_caller_within_the_limit_is_never_refused_wherever_they_ask() -> None:
    together, waits, asked = Processes(3), list[float | None](), [0]

    def ask_by_turns(process: int) -> None:
        if process == asked[0] % 3 and together.clock() >= asked[0] * 1.05:
            waits.append(together.limits[process].spend(BOB))
            asked[0] += 1

    together.ask(300, ask_by_turns)
    assert len(waits) > 280
    assert set(waits) == {None}


def test_a_process_that_never_saw_a_caller_knows_that_their_bucket_is_empty() -> None:
    together = Processes(2)
    here, there = together.limits
    assert [here.spend(ANN) for _ in range(31)].count(None) == 30
    together.shared[0].exchange()
    together.shared[1].exchange()
    assert there.spend(ANN) == pytest.approx(1.0)
    assert there.spend(BOB) is None
    # A person and a key of one name have a bucket each, here as there.
    assert there.spend(Caller("platform", "ann")) is None
    together.clock.pass_time(5)
    assert [there.spend(ANN) for _ in range(6)].count(None) == 5


def test_a_process_hears_what_was_spent_elsewhere_of_a_caller_who_asks_it_too() -> None:
    together = Processes(2)
    here, there = together.limits
    assert [here.spend(ANN) for _ in range(20)] == [None] * 20
    together.shared[0].exchange()
    assert there.spend(ANN) is None
    together.shared[1].exchange()
    assert [there.spend(ANN) for _ in range(10)].count(None) == 9


def test_what_is_spent_during_an_exchange_is_not_forgotten() -> None:
    """The answer of Redis is from before; it must not fill a bucket up again."""
    limits = Limits(clock=Clock())
    limits.share(lambda _: 0.0)
    assert [limits.spend(ANN) for _ in range(5)] == [None] * 5
    assert limits.take_unsent() == {("person", "ann"): 5.0}
    assert [limits.spend(ANN) for _ in range(4)] == [None] * 4
    # Ten were spent elsewhere.
    limits.lower(("person", "ann"), 15.0)
    assert [limits.spend(ANN) for _ in range(12)].count(None) == 30 - 15 - 4
    assert limits.take_unsent() == {("person", "ann"): 15.0}


def test_platform_keys_are_shared_too_and_tokens_of_a_person_are_one_caller() -> None:
    together = Processes(2, key_per_s=100.0)
    here, there = together.limits
    assert [here.spend(SHOP) for _ in range(101)].count(None) == 100
    assert [here.spend(Caller("person", "ann", mark)) for mark in range(31)].count(None) == 30
    for shared in together.shared:
        shared.exchange()
    assert there.spend(SHOP) == pytest.approx(0.01)
    assert there.spend(Caller("person", "ann", 77)) is not None


def test_what_is_shared_names_nobody() -> None:
    together = Processes(1, key_per_s=10.0)
    other = SharedLimits(together.state, Limits(clock=together.clock), b"1" * 32, clock=together.clock)
    for caller in (ANN, SHOP):
        together.limits[0].spend(caller)
    together.shared[0].exchange()
    assert len(together.state.until) == 2
    assert not any(name in key for key in together.state.until for name in ("ann", "shop", "person"))
    # Whoever has another key can neither find nor join it.
    other.exchange()
    assert other._full_in_s(("person", "ann")) == 0.0
