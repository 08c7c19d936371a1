import os
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nearveil.privacy.ledger.events import event_to_bytes
from nearveil.privacy.ledger.journal import Journal

from nearveil.errors import DataError, NearveilError, UsageError
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Event, Fit, Ledger, Left, OverspentError, Release, Rule

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BUDGETS = (
    Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, window=DAY),
    Budget(definition=PrivacyDefinition.METRIC, epsilon=0.01, delta=1e-9, window=DAY),
    Budget(definition=PrivacyDefinition.CENTRAL, epsilon=1.0, delta=1e-5, window=7 * DAY),
)

Open = Callable[[], Ledger]


def release(draw_id: str, epsilon: float = 0.1, who: tuple[str, ...] = ("ann",), **more: Any) -> Release:
    values = {"when": NOON, "definition": PrivacyDefinition.LOCAL, **more}
    return Release(who=who, epsilon=epsilon, draw_id=draw_id, **values)


@pytest.fixture
def open_ledger(tmp_path: Path) -> Open:
    return lambda: Ledger(tmp_path / "ledger", BUDGETS)


def test_a_draw_published_again_is_one_release(open_ledger: Open) -> None:
    ledger = open_ledger()
    first = ledger.record(release("monday", 0.7))
    size = ledger.path.stat().st_size
    again = ledger.record(release("monday", 0.7, when=NOON + 3 * DAY))
    assert (first.repeated, again.repeated) == (False, True)
    assert again.event.when == NOON
    assert ledger.path.stat().st_size == size
    assert ledger.spent("ann", PrivacyDefinition.LOCAL, NOON).epsilon == 0.7
    assert ledger.spent("ann", PrivacyDefinition.LOCAL, NOON + 3 * DAY).epsilon == 0
    assert open_ledger().record(release("monday", 0.7)).repeated


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.2},
        {"delta": 1e-9},
        {"who": ("bob",)},
        {"who": ("ann", "bob")},
        {"definition": PrivacyDefinition.METRIC},
        {"noise": (LaplaceAnswers(1, 20.0),)},
    ],
)
def test_one_name_for_two_draws_is_refused(open_ledger: Open, change: dict[str, Any]) -> None:
    ledger = open_ledger()
    ledger.record(release("d1"))
    for used in (ledger, open_ledger()):
        with pytest.raises(UsageError, match="other content"):
            used.record(release(**{"draw_id": "d1", **change}))
    with pytest.raises(UsageError, match="other content"):
        ledger.record(Fit(who=("ann",), when=NOON, definition=PrivacyDefinition.LOCAL, epsilon=0.1, draw_id="d1"))
    assert len(open_ledger().history("ann")) == 1


def test_overspending_is_refused_and_says_what_to_do(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.7))
    before = ledger.path.read_bytes()
    with pytest.raises(OverspentError) as refused:
        ledger.record(release("d2", 0.4, when=NOON + timedelta(hours=1)))
    error = refused.value
    assert ledger.path.read_bytes() == before
    assert error.exit_code == 5
    assert isinstance(error, NearveilError)
    assert error.left == Left(definition=PrivacyDefinition.LOCAL, epsilon=0.3, delta=0.0)
    assert error.fits_from == NOON + DAY
    assert error.people == ("ann",)
    assert str(error) == (
        "the release would overspend the local budget: epsilon 0.4 is asked for, epsilon 0.3 of epsilon 1 is left in "
        "1 day; ask for less, or come back: it fits from 2026-01-02 12:00:00 UTC on"
    )
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.people, copy.left, copy.fits_from) == (
        str(error),
        error.people,
        error.left,
        error.fits_from,
    )
    assert not ledger.record(release("d2", 0.4, when=NOON + DAY)).repeated
    assert not ledger.record(release("d3", 0.3, when=NOON + timedelta(hours=1))).repeated


def test_more_than_the_whole_budget_never_fits(open_ledger: Open) -> None:
    with pytest.raises(OverspentError, match="more than the whole budget") as refused:
        open_ledger().record(release("d1", 1.1))
    assert refused.value.fits_from is None


def test_delta_is_a_budget_too(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.001, definition=PrivacyDefinition.METRIC, delta=9e-10))
    with pytest.raises(OverspentError, match=r"with delta 1e-10 of epsilon 0\.01 with delta 1e-09"):
        ledger.record(release("d2", 0.001, definition=PrivacyDefinition.METRIC, delta=2e-10))
    ledger.record(release("d2", 0.001, definition=PrivacyDefinition.METRIC, delta=1e-10))
    assert ledger.spent("ann", PrivacyDefinition.METRIC, NOON).delta == 1e-9


def test_a_group_is_charged_whole_or_not_at_all(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.9, who=("bob",)))
    with pytest.raises(OverspentError, match="for 1 of 3 people") as refused:
        ledger.record(release("d2", 0.2, who=("ann", "bob", "cem")))
    assert refused.value.people == ("bob",)
    assert "bob" not in str(refused.value)
    for used in (ledger, open_ledger()):
        assert [used.spent(person, PrivacyDefinition.LOCAL, NOON).epsilon for person in ("ann", "bob", "cem")] == [
            0,
            0.9,
            0,
        ]
    ledger.record(release("d3", 0.1, who=("ann", "bob", "cem")))
    assert [ledger.left(person, PrivacyDefinition.LOCAL, NOON).epsilon for person in ("ann", "bob", "cem")] == [
        0.9,
        0,
        0.9,
    ]


def test_a_refused_group_is_told_of_the_person_with_least_left_and_the_last_to_afford_it(open_ledger: Open) -> None:
    ledger = open_ledger()
    spent = {"ann": (0.9, 0), "bob": (0.95, 1), "cem": (0.85, 2), "dan": (0.9, 0)}
    for person, (epsilon, hour) in spent.items():
        ledger.record(release(f"of {person}", epsilon, who=(person,), when=NOON + timedelta(hours=hour)))
    with pytest.raises(OverspentError, match="for 4 of 5 people") as refused:
        ledger.record(release("all", 0.2, who=(*spent, "eve"), when=NOON + timedelta(hours=3)))
    assert refused.value.left.epsilon == 0.05
    assert refused.value.fits_from == NOON + DAY + timedelta(hours=2)


def test_people_do_not_pay_for_each_other(open_ledger: Open) -> None:
    ledger = open_ledger()
    for person in ("ann", "bob", "cem"):
        ledger.record(release(f"of {person}", 1.0, who=(person,)))
    assert ledger.total(PrivacyDefinition.LOCAL).epsilon == 1.0


def test_definitions_have_accounts_of_their_own(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 1.0))
    ledger.record(release("d2", 0.01, definition=PrivacyDefinition.METRIC))
    ledger.record(Fit(who=("ann",), when=NOON, definition=PrivacyDefinition.CENTRAL, epsilon=0.5, draw_id="d3"))
    spent = {
        definition: ledger.spent("ann", definition, NOON)
        for definition in (PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC, PrivacyDefinition.CENTRAL)
    }
    assert [cost.epsilon for cost in spent.values()] == [1.0, 0.01, 0.5]
    assert spent[PrivacyDefinition.METRIC].unit == "per meter"
    assert spent[PrivacyDefinition.CENTRAL].of_replacing_a_place().epsilon == 1.0
    with pytest.raises(UsageError, match="no budget for the interval privacy definition"):
        ledger.record(release("d4", 0.1, definition=PrivacyDefinition.INTERVAL))
    with pytest.raises(UsageError, match="no budget"):
        ledger.spent("ann", PrivacyDefinition.INTERVAL, NOON)
    assert [event.draw_id for event in ledger.history("ann")] == ["d1", "d2", "d3"]
    assert [ledger.total(definition).epsilon for definition in spent] == [1.0, 0.01, 0.5]


def small_fit(number: int) -> Fit:
    return Fit(
        who=("ann", "bob"),
        when=NOON + number * timedelta(hours=1),
        definition=PrivacyDefinition.CENTRAL,
        epsilon=0.5,
        draw_id=str(number),
        noise=(LaplaceAnswers(36, 72.0),),
    )


@pytest.mark.parametrize(("renyi_order", "affordable"), [(None, 2), (24.0, 7)])
def test_many_small_losses_cost_less_than_their_sum_at_a_fixed_order(
    tmp_path: Path, renyi_order: float | None, affordable: int
) -> None:
    budget = Budget(
        definition=PrivacyDefinition.CENTRAL, epsilon=1.0, delta=1e-5, window=7 * DAY, renyi_order=renyi_order
    )
    ledger = Ledger(tmp_path / "ledger", [budget])
    accepted = 0
    with pytest.raises(OverspentError):
        for number in range(20):
            ledger.record(small_fit(number))
            accepted = number + 1
    assert accepted == affordable
    cost = ledger.spent("bob", PrivacyDefinition.CENTRAL, NOON + DAY)
    assert cost == budget.cost([small_fit(number) for number in range(affordable)])
    assert cost.rule is (Rule.SEQUENTIAL if renyi_order is None else Rule.RENYI)
    assert cost.epsilon <= 1.0
    # Over all time there is no window that a filter has kept to.
    assert ledger.total(PrivacyDefinition.CENTRAL).epsilon == 0.5 * affordable


LEDGER_OF_0_1 = (
    "nearveil-ledger 1\n"
    '178 cebf7bd722166c8fdc95ce77a599022d {"kind":"fit","draw_id":"fit 0","when":"2026-01-01T12:00:00+00:00",'
    '"definition":"central","epsilon":0.5,"delta":0.0,"noise":[{"law":"laplace","count":36,"scale":72.0}],"who":["ann"]}\n'
    '178 51b9021e7c67c2d261497f2d78ba965e {"kind":"fit","draw_id":"fit 1","when":"2026-01-01T13:00:00+00:00",'
    '"definition":"central","epsilon":0.5,"delta":0.0,"noise":[{"law":"laplace","count":36,"scale":72.0}],"who":["ann"]}\n'
    '178 ce1ac5ad0d4218c1465413b1900b0b14 {"kind":"fit","draw_id":"fit 2","when":"2026-01-01T14:00:00+00:00",'
    '"definition":"central","epsilon":0.5,"delta":0.0,"noise":[{"law":"laplace","count":36,"scale":72.0}],"who":["ann"]}\n'
)


def test_a_ledger_that_was_composed_by_another_rule_is_read_and_nothing_more_fits(open_ledger: Open) -> None:
    """Written when the better of both rules was taken, which let 1.5 into a budget of 1."""
    (path := open_ledger().path).write_text(LEDGER_OF_0_1)
    ledger = Ledger(path, BUDGETS)
    assert ledger.spent("ann", PrivacyDefinition.CENTRAL, NOON + DAY).epsilon == 1.5
    assert ledger.left("ann", PrivacyDefinition.CENTRAL, NOON + DAY).epsilon == 0.0
    more = Fit(who=("ann",), when=NOON + DAY, definition=PrivacyDefinition.CENTRAL, epsilon=0.5, draw_id="fit 3")
    with pytest.raises(OverspentError) as refused:
        ledger.record(more)
    # When two of the three have left the window.
    assert refused.value.fits_from == NOON + 7 * DAY + timedelta(hours=1)
    assert path.read_text() == LEDGER_OF_0_1


def test_what_is_left_is_also_said_of_the_past(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.4))
    ledger.record(release("d2", 0.9, when=NOON + 2 * DAY))
    assert ledger.left("ann", PrivacyDefinition.LOCAL, NOON + 2 * DAY).epsilon == 0.1
    assert ledger.left("ann", PrivacyDefinition.LOCAL, NOON).epsilon == 0.1
    assert ledger.left("ann", PrivacyDefinition.LOCAL, NOON + 3 * DAY).epsilon == 1.0
    assert ledger.left("bob", PrivacyDefinition.LOCAL, NOON).epsilon == 1.0


def test_a_date_in_the_future_is_refused_unless_there_is_no_clock(tmp_path: Path) -> None:
    now = NOON
    ledger = Ledger(tmp_path / "ledger", BUDGETS, clock=lambda: now)
    ledger.record(release("d1", when=NOON + timedelta(seconds=59)))
    with pytest.raises(UsageError, match="future"):
        ledger.record(release("d2", when=NOON + timedelta(seconds=61)))
    now = NOON + DAY
    ledger.record(release("d2", when=NOON + timedelta(seconds=61)))
    Ledger(tmp_path / "ledger", BUDGETS, clock=None).record(release("d3", when=NOON + 365_000 * DAY))
    with pytest.raises(UsageError, match="future"):
        Ledger(tmp_path / "other", BUDGETS).record(release("d3", when=NOON + 365_000 * DAY))


def test_what_is_no_event_and_what_are_no_budgets_is_refused(open_ledger: Open, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an event"):
        open_ledger().record("release")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="two budgets"):
        Ledger(tmp_path / "ledger", [BUDGETS[0], BUDGETS[0]])
    with pytest.raises(UsageError, match="Budget objects"):
        Ledger(tmp_path / "ledger", [1.0])  # type: ignore[list-item]
    for name in ("", None):
        with pytest.raises(UsageError, match="person id"):
            open_ledger().spent(name, PrivacyDefinition.LOCAL, NOON)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="time zone"):
        open_ledger().left("ann", PrivacyDefinition.LOCAL, NOON.replace(tzinfo=None))


def test_two_ledgers_on_one_file_share_one_budget(open_ledger: Open) -> None:
    first, second = open_ledger(), open_ledger()
    first.record(release("d1", 0.6))
    with pytest.raises(OverspentError):
        second.record(release("d2", 0.6))
    second.record(release("d3", 0.4))
    assert first.left("ann", PrivacyDefinition.LOCAL, NOON).epsilon == 0
    assert second.record(release("d1", 0.6)).repeated


def test_threads_share_one_budget(open_ledger: Open) -> None:
    ledger = open_ledger()
    outcomes: list[bool] = []

    def spend(worker: int) -> None:
        for number in range(10):
            try:
                ledger.record(release(f"{worker}.{number}", 0.05))
            except OverspentError:
                outcomes.append(False)
            else:
                outcomes.append(True)

    workers = [threading.Thread(target=spend, args=(worker,)) for worker in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (outcomes.count(True), outcomes.count(False)) == (20, 40)
    assert len(open_ledger().history("ann")) == 20


def _as_recorded(path: Path, events: list[Event]) -> bytes:
    ledger = Ledger(path, BUDGETS)
    for event in events:
        ledger.record(event)
    return path.read_bytes()


@pytest.mark.usefixtures("no_disk")
def test_killed_at_any_byte_nothing_is_lost_or_spent_twice(tmp_path: Path) -> None:
    """Every prefix of the file is what a killed writer may leave; all draws are then recorded once more."""
    events: list[Event] = [
        release("d1", 0.5),
        Fit(who=("ann", "bob"), when=NOON, definition=PrivacyDefinition.CENTRAL, epsilon=1.0, draw_id="d2"),
        release("d3", 0.5, delta=0.0, who=("ann", "žofie \n\U0001f600")),
    ]
    whole = _as_recorded(tmp_path / "whole", events)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "cut"
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        complete = max(0, sum(end <= length for end in ends) - 1)
        ledger = Ledger(path, BUDGETS)
        assert [ledger.record(event).repeated for event in events] == [n < complete for n in range(len(events))], length
        assert path.read_bytes() == whole, length
        assert ledger.history("ann") == tuple(events)


@pytest.mark.parametrize("name", ["pwrite", "fsync"])
def test_an_interruption_leaves_memory_and_disk_in_agreement(
    open_ledger: Open, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.3))
    original = getattr(os, name)

    def interrupted(*arguments: Any) -> None:
        original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(release("d2", 0.3))
    # The record was complete when the interruption came, so it counts, once.
    assert ledger.spent("ann", PrivacyDefinition.LOCAL, NOON).epsilon == 0.6
    assert ledger.record(release("d2", 0.3)).repeated
    assert open_ledger().spent("ann", PrivacyDefinition.LOCAL, NOON).epsilon == 0.6


def test_a_draw_that_stands_there_twice_is_refused(open_ledger: Open) -> None:
    ledger = open_ledger()
    journal = Journal(ledger.path)
    for _ in range(2):
        with journal.locked() as descriptor:
            journal.read_new(descriptor)
            journal.append(descriptor, event_to_bytes(release("d1")))
    for _ in range(2):
        with pytest.raises(DataError, match="twice"):
            ledger.history("ann")
    with pytest.raises(DataError, match="twice"):
        open_ledger()


def test_a_damaged_ledger_stays_refused(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.record(release("d1", 0.3))
    with ledger.path.open("ab") as stream:
        stream.write(b"2 00000000000000000000000000000000 {}\n")
    for _ in range(2):
        with pytest.raises(DataError, match="damaged"):
            ledger.record(release("d2", 0.3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob"]),
            st.sampled_from([PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC]),
            st.sampled_from([0.002, 0.25, 0.5]),
            st.integers(0, 5),
        ),
        max_size=15,
    )
)
@pytest.mark.usefixtures("no_disk")
def test_opened_again_a_ledger_says_the_same(
    tmp_path: Path, steps: list[tuple[str, PrivacyDefinition, float, int]]
) -> None:
    path = tmp_path / "again"
    path.unlink(missing_ok=True)
    ledger = Ledger(path, BUDGETS)
    accepted = 0
    for number, (person, definition, epsilon, day) in enumerate(steps):
        try:
            ledger.record(release(str(number), epsilon, who=(person,), definition=definition, when=NOON + day * DAY))
            accepted += 1
        except OverspentError:
            pass
    again = Ledger(path, BUDGETS)
    assert len(again.history("ann")) + len(again.history("bob")) == accepted
    for person in ("ann", "bob"):
        assert again.history(person) == ledger.history(person)
        for definition in (PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC):
            for day in range(7):
                moment = NOON + day * DAY
                assert again.spent(person, definition, moment) == ledger.spent(person, definition, moment)
                assert again.left(person, definition, moment) == ledger.left(person, definition, moment)
                assert again.spent(person, definition, moment).epsilon <= again.budget(definition).epsilon
