"""Nobody asks more often than allowed over any time, and everybody may after a rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.server.auth import Caller
from nearveil.server.limits import Limits
from tests.server.clocks import Clock

ANN, BOB, SHOP = Caller("person", "ann"), Caller("person", "bob"), Caller("platform", "shop")


def test_a_burst_and_then_one_a_second() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    assert [limits.spend(ANN) for _ in range(30)] == [None] * 30
    assert limits.spend(ANN) == pytest.approx(1.0)
    assert limits.spend(BOB) is None
    for _ in range(100):
        clock.pass_time(1.0)
        assert limits.spend(ANN) is None
        assert limits.spend(ANN) == pytest.approx(1.0)
    clock.pass_time(3600)
    assert [limits.spend(ANN) for _ in range(31)].count(None) == 30


def test_platforms_have_no_limit_unless_told() -> None:
    limits = Limits(clock=Clock())
    assert all(limits.spend(SHOP) is None for _ in range(10_000))
    limits = Limits(key_per_s=100, clock=Clock())
    assert [limits.spend(SHOP) for _ in range(101)].count(None) == 100
    # A person of the same name has a bucket of their own.
    assert limits.spend(Caller("person", "shop")) is None


def test_costs() -> None:
    clock = Clock()
    limits = Limits(person_per_minute=60, person_burst=10, clock=clock)
    assert limits.spend(ANN, 8) is None
    assert limits.spend(ANN, 4) == pytest.approx(2.0)
    clock.pass_time(2.0)
    assert limits.spend(ANN, 4) is None
    clock.pass_time(10.0)
    # More than a bucket ever holds: once it is full.
    assert limits.spend(ANN, 1000) is None
    assert limits.spend(ANN) is not None


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 3)), max_size=120))
def test_never_more_than_the_burst_and_the_rate_allow_and_waiting_helps(steps: list[tuple[float, float]]) -> None:
    clock = Clock(0.0)
    limits = Limits(person_per_minute=60, person_burst=5, clock=clock)
    spent = 0.0
    for pause_s, cost in steps:
        clock.pass_time(pause_s)
        wait_s = limits.spend(ANN, cost)
        if wait_s is not None:
            assert wait_s > 0
            clock.pass_time(wait_s)
            assert limits.spend(ANN, cost) is None
        spent += cost
        assert spent <= 5 + clock.now + 1e-3


def test_full_buckets_are_forgotten_first_and_memory_is_bounded() -> None:
    clock = Clock()
    limits = Limits(person_burst=3, most_buckets=100, clock=clock)
    while limits.spend(ANN) is None:
        pass
    for number in range(10_000):
        assert limits.spend(Caller("person", f"p{number}")) is None
    assert len(limits._people.full_at) <= 100
    # Whoever has spent most is remembered longest.
    assert limits.spend(ANN) is not None
    assert repr(limits) == f"Limits(0 platform keys, {len(limits._people.full_at)} people)"


@pytest.mark.parametrize("wrong", [{"key_per_s": -1}, {"person_burst": 0}, {"person_per_minute": float("nan")}])
def test_limits_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="limit"):
        Limits(**wrong)  # type: ignore[arg-type]
