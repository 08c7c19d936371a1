"""Attacks are flagged before they end, and people are not, by what each account does itself."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack, Outcome
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.simulator import SimulatedService
from nearveil.attacks.unfolding import Unfolding
from nearveil.attacks.zo_lia import ZOLIA
from nearveil.region import Region
from nearveil.server.suspicion import (
    EPOCHS_REMEMBERED,
    HOLD_S,
    MANY_QUESTIONS,
    Flag,
    FrequentAsker,
    FrequentAskers,
    Suspicion,
)
from nearveil.types import FloatArray
from tests.server.clocks import Clock
from tests.server.histories import Act, RecordedOracle, first_flag, journey

MACHINE_S, SLOW_S = 0.02, 30.0
ATTACKS = ("gi-lia", "zo-lia", "adaptive", "unfolding")


@pytest.fixture(scope="module")
def recorded(san_francisco: Region, city: FloatArray) -> dict[str, list[RecordedOracle]]:
    """Each attack on the same targets of an unprotected city, where all of them succeed."""
    places, half_extent_m = san_francisco.to_metres(city), san_francisco.half_extent_m
    attacks: list[tuple[Attack, int]] = [
        (GILIA(), 1), (ZOLIA(), 1), (Adaptive(half_extent_m=half_extent_m), 1),
        (Unfolding(half_extent_m=half_extent_m), 0),
    ]  # fmt: skip
    service = SimulatedService(san_francisco, places, rng=1)
    rng = np.random.default_rng(3)
    found: dict[str, list[RecordedOracle]] = {name: [] for name in ATTACKS}
    for _ in range(6):
        start = places[rng.integers(len(places))] + rng.normal(0, 50, 2)
        target = int(np.argsort(np.hypot(*(places - start).T))[9])
        for attack, colluders in attacks:
            oracle = RecordedOracle(service.oracle(k=10, colluders=colluders))
            result = attack.infer(oracle, target, (float(start[0]), float(start[1])))
            assert result.outcome is Outcome.FOUND
            found[attack.name].append(oracle)
    return found


def is_flagged_in_time(oracle: RecordedOracle, seconds_per_question: float, *, own_asker: bool) -> bool:
    """Whether any of the attack's accounts is flagged before its last question."""
    last_s = (oracle.queries - 1) * seconds_per_question
    flags = map(first_flag, oracle.histories(seconds_per_question, own_asker=own_asker).values())
    return any(flag is not None and flag[0] < last_s for flag in flags)


@pytest.mark.parametrize("seconds_per_question", [MACHINE_S, SLOW_S])
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_flagged_before_it_ends(
    recorded: dict[str, list[RecordedOracle]], name: str, seconds_per_question: float
) -> None:
    flagged = [is_flagged_in_time(oracle, seconds_per_question, own_asker=False) for oracle in recorded[name]]
    # Slowly, and with few questions, about one in five of these two ends before it is noticed.
    may_end = name in {"adaptive", "unfolding"} and seconds_per_question == SLOW_S
    assert sum(flagged) >= (len(flagged) / 2 if may_end else len(flagged))


@pytest.mark.parametrize("name", ATTACKS)
def test_colluders_are_judged_by_their_own_moves(recorded: dict[str, list[RecordedOracle]], name: str) -> None:
    """Where another account asks, the moves of the colluders are enough at the speed of a machine."""
    for oracle in recorded[name]:
        assert is_flagged_in_time(oracle, MACHINE_S, own_asker=True)
        if name in ("gi-lia", "zo-lia"):
            assert is_flagged_in_time(oracle, SLOW_S, own_asker=True)


# -- people ------------------------------------------------------------------------------------------------------


def jumps(rng: np.random.Generator) -> list[Act]:
    """A phone that takes two places 700 m apart for each other."""
    return [(10.0 * i, 700.0 * (rng.random() < 0.5) + rng.normal(0, 20), 0.0, True) for i in range(60)]


def wrong_now_and_then(rng: np.random.Generator) -> list[Act]:
    """A phone that is 800 m off every quarter of an hour, each time in another direction."""
    acts: list[Act] = []
    for minute in range(240):
        far_m, angle = 800.0 * (minute % 15 == 7), rng.uniform(0, 2 * math.pi)
        acts += [(60.0 * minute + 20 * i, far_m * (i == 1) * math.cos(angle), far_m * (i == 1) * math.sin(angle), True)
                 for i in range(3)]  # fmt: skip
    return acts


def laps(rng: np.random.Generator) -> list[Act]:
    """A runner on a track of 400 m who asks every 30 seconds."""
    angles = [3.5 * 30 * i / 64 for i in range(120)]
    return [(30.0 * i, *(64 * np.array([math.cos(a), math.sin(a)]) + rng.normal(0, 10, 2)).tolist(), True)
            for i, a in enumerate(angles)]  # fmt: skip


def short_line(rng: np.random.Generator) -> list[Act]:
    """A bus that goes to and fro on a line of 1 km and asks every minute."""
    return [(60.0 * i, abs((8 * 60.0 * i + 1000) % 2000 - 1000) + rng.normal(0, 20), 0.0, True) for i in range(240)]


def stay(rng: np.random.Generator, every_s: float) -> list[Act]:
    return [(every_s * i, *rng.normal(0, 20, 2).tolist(), True) for i in range(30)]


PEOPLE: dict[str, Callable[[np.random.Generator], list[Act]]] = {
    "a pedestrian who asks every minute for 8 hours": lambda rng: journey(
        rng, speed_m_s=1.5, every_s=60, hours=8, leg_s=300, turn=math.pi
    ),
    "a pedestrian who asks every 10 seconds": lambda rng: journey(
        rng, speed_m_s=1.5, every_s=10, hours=2, leg_s=120, turn=math.pi
    ),
    "a cyclist who asks every 30 seconds": lambda rng: journey(
        rng, speed_m_s=6, every_s=30, hours=2, leg_s=60, turn=math.pi / 2
    ),
    "a taxi that asks every 30 seconds": lambda rng: journey(
        rng, speed_m_s=12, every_s=30, hours=4, leg_s=40, turn=math.pi / 2
    ),
    "a driver who asks every 2 minutes": lambda rng: journey(
        rng, speed_m_s=30, every_s=120, hours=8, leg_s=60, turn=math.pi
    ),
    "a train that asks every 2 minutes": lambda rng: journey(
        rng, speed_m_s=90, every_s=120, hours=6, leg_s=1200, turn=math.pi
    ),
    "30 questions at once": lambda rng: stay(rng, 0.02),
    "30 questions in a minute": lambda rng: stay(rng, 2),
    "30 questions in an hour": lambda rng: stay(rng, 120),
    "a phone that jumps": jumps,
    "a phone that is wrong now and then": wrong_now_and_then,
    "a runner on a track": laps,
    "a bus on a short line": short_line,
    "a flight without questions in between": lambda _rng: [
        (0.0, 0.0, 0.0, True), (60.0, 10.0, 0.0, True), (3500.0, 800_000.0, 0.0, True), (3560.0, 800_010.0, 0.0, True)
    ],
}  # fmt: skip


@pytest.mark.parametrize("who", PEOPLE)
def test_people_are_not_flagged(who: str) -> None:
    """Seeds are fixed. Thirty people of each kind."""
    for seed in range(30):
        assert first_flag(PEOPLE[who](np.random.default_rng(seed))) is None


def test_the_other_way_round_is_implausible() -> None:
    assert first_flag([(0.0, 0.0, 0.0, True), (600.0, 800_000.0, 0.0, False)]) == (600.0, Flag.IMPLAUSIBLE_TRAVEL)
    # One kilometre more or less may be the phone's error.
    assert first_flag([(0.0, 0.0, 0.0, True), (0.0, 999.0, 0.0, True)]) is None
    assert first_flag([(0.0, 0.0, 0.0, True), (10.0, 3990.0, 0.0, True)]) is None
    assert first_flag([(0.0, 0.0, 0.0, True), (10.0, 4010.0, 0.0, True)]) == (10.0, Flag.IMPLAUSIBLE_TRAVEL)


# -- memory ------------------------------------------------------------------------------------------------------


def test_people_are_judged_apart() -> None:
    suspicion = Suspicion(clock=Clock())
    assert suspicion.note("ann", 0.0, 0.0) is None
    assert suspicion.note("bob", 50_000.0, 0.0) is None
    assert suspicion.note("ann", 50_000.0, 0.0) is Flag.IMPLAUSIBLE_TRAVEL
    assert suspicion.note("bob", 50_000.0, 0.0) is None


def test_a_flag_holds_for_a_while_and_no_longer() -> None:
    clock = Clock()
    suspicion = Suspicion(clock=clock)
    suspicion.note("ann", 0.0, 0.0)
    assert suspicion.hold_left_s("ann") == 0
    assert suspicion.note("ann", 50_000.0, 0.0) is Flag.IMPLAUSIBLE_TRAVEL
    clock.pass_time(HOLD_S - 60)
    assert suspicion.note("ann", 50_000.0, 0.0) is Flag.IMPLAUSIBLE_TRAVEL
    assert suspicion.hold_left_s("ann") == pytest.approx(60)
    clock.pass_time(61)
    assert suspicion.note("ann", 50_000.0, 0.0) is None
    assert suspicion.hold_left_s("ann") == 0


def test_forgetting() -> None:
    clock = Clock()
    suspicion = Suspicion(clock=clock)
    suspicion.note("ann", 0.0, 0.0)
    suspicion.forget("ann")
    suspicion.forget("nobody")
    assert suspicion.note("ann", 2_000_000.0, 0.0) is None
    clock.pass_time(3500)
    suspicion.note("bob", 0.0, 0.0)
    clock.pass_time(101)
    # Within the hour this would be implausible.
    assert suspicion.note("ann", 0.0, 0.0) is None


def test_after_an_hour_nothing_is_left_in_memory() -> None:
    clock = Clock()
    suspicion = Suspicion(clock=clock)
    for number in range(100):
        suspicion.note(f"p{number}", 0.0, 0.0)
    clock.pass_time(3601)
    suspicion.note("ann", 0.0, 0.0)
    assert repr(suspicion) == "Suspicion(1 people)"
    for _ in range(100):
        clock.pass_time(1000)
        suspicion.note("ann", clock.now % 7919, 0.0)
    assert len(suspicion._trails["ann"]._places) <= 5


def test_memory_is_bounded_and_the_idle_go_first() -> None:
    clock = Clock()
    suspicion = Suspicion(most_people=40, clock=clock)
    for number in range(1000):
        clock.pass_time(0.1)
        suspicion.note("ann", 0.0, 0.0)
        suspicion.note(f"p{number}", 0.0, 0.0)
        assert len(suspicion._trails) <= 40
        assert "ann" in suspicion._trails
    assert suspicion.note("ann", 90_000.0, 0.0) is Flag.IMPLAUSIBLE_TRAVEL
    for step in range(1000):
        suspicion.note("ann", 5000.0 * (step % 3), 500.0 * step)
    trail = suspicion._trails["ann"]
    assert len(trail._places) + len(trail._hops) <= 64


def test_no_place_is_ever_shown() -> None:
    suspicion = Suspicion(clock=Clock())
    for place in (12345.5, 54321.5):
        suspicion.note("ann", place, place)
    for shown in (repr(suspicion), str(suspicion), repr(suspicion._trails)):
        assert "345" not in shown
        assert "321" not in shown


def test_nothing_is_remembered_for_longer_than_an_hour() -> None:
    """However often somebody acts, and also if nobody does."""
    clock = Clock()
    suspicion = Suspicion(clock=clock)
    for turn in range(4):
        suspicion.note("ann", 500.0 * (turn % 2), 0.0)
        clock.pass_time(1)
    for _ in range(12):
        suspicion.note("ann", 0.0, 0.0)
        clock.pass_time(600)
    trail = suspicion._trails["ann"]
    moments = [place[0] for place in trail._places] + [hop[0] for hop in trail._hops]
    assert min(moments) >= clock.now - 600 - 3600
    clock.pass_time(3601)
    suspicion.sweep()
    assert not suspicion._trails


# -- frequent askers: by numbers alone -------------------------------------------------------------------------


def test_who_asks_much_is_listed_when_the_epoch_has_ended() -> None:
    askers = FrequentAskers()
    askers.begin_epoch(7)
    for person, questions in (("eve", MANY_QUESTIONS + 1), ("mal", MANY_QUESTIONS), ("ann", MANY_QUESTIONS - 1)):
        for _ in range(questions):
            askers.count(person)
    # An epoch that is loaded again, because something was missed, has not ended.
    askers.begin_epoch(7)
    assert (askers.listed(), askers.epochs) == ([], 0)
    askers.begin_epoch(8)
    eve, mal = FrequentAsker("eve", 1, MANY_QUESTIONS + 1), FrequentAsker("mal", 1, MANY_QUESTIONS)
    assert askers.listed() == [eve, mal]
    # Epochs are counted apart: questions of two are not added up until somebody asks much in one.
    askers.count("ann")
    for _ in range(2 * MANY_QUESTIONS):
        askers.count("mal")
    askers.begin_epoch(9)
    assert askers.listed() == [FrequentAsker("mal", 2, 3 * MANY_QUESTIONS), eve]
    askers.forget("mal")
    assert askers.listed() == [eve]
    for epoch in range(10, 10 + EPOCHS_REMEMBERED):
        askers.begin_epoch(epoch)
    assert (askers.listed(), askers.epochs) == ([], EPOCHS_REMEMBERED)


def test_few_are_counted_at_once_and_who_asks_much_stays() -> None:
    askers = FrequentAskers(most_counted=100)
    askers.begin_epoch(1)
    for number in range(5000):
        askers.count("eve")
        askers.count(f"person-{number}")
    assert len(askers._counts) <= 100
    askers.begin_epoch(2)
    assert askers.listed() == [FrequentAsker("eve", 1, 5000)]
