from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearveil.privacy.ledger.budget import moment_text
from nearveil.privacy.ledger.ledger import PersonalAccounts

from nearveil.errors import UsageError
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Release, Windows

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW_HOURS = 6


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def release(hour: float, epsilon: float, draw_id: str = "new") -> Release:
    return Release(who=("ann",), when=at(hour), definition=PrivacyDefinition.METRIC, epsilon=epsilon, draw_id=draw_id)


def budget(windows: Windows, epsilon: float = 1.0) -> Budget:
    return Budget(
        definition=PrivacyDefinition.METRIC,
        epsilon=epsilon,
        window=timedelta(hours=WINDOW_HOURS),
        windows=windows,
        start=START,
    )


class NaiveAccount:
    """What the accounts are to do, written down without any cleverness: look at every window there is."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.charges: list[tuple[set[int], Fraction]] = []

    def hours_of(self, hour: int) -> set[int]:
        return {hour, max([hour, *(h for hours, _ in self.charges for h in hours)])}

    def spans(self) -> list[range]:
        if self.windows is Windows.FIXED:
            return [range(n * WINDOW_HOURS, (n + 1) * WINDOW_HOURS) for n in range(-2, 10)]
        return [range(first, first + WINDOW_HOURS) for first in range(-12, 60)]

    def most_with(self, hour: int, epsilon: Fraction) -> Fraction:
        charges = [*self.charges, (self.hours_of(hour), epsilon)]
        return max(sum((e for hours, e in charges if hours & set(span)), Fraction(0)) for span in self.spans())


# Few hours, so that windows meet, and some far away, so that dates come late.
steps = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 5, 6, 7, 11, 30]), st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.0])), max_size=15
)


@settings(max_examples=400)
@given(steps=steps, windows=st.sampled_from(Windows))
def test_recorded_in_any_order_no_window_is_ever_overspent(steps: list[tuple[int, float]], windows: Windows) -> None:
    """An event is taken if and only if every window still keeps to the budget with it."""
    accounts, naive, plan = PersonalAccounts(), NaiveAccount(windows), budget(windows)
    for number, (hour, epsilon) in enumerate(steps):
        event = release(hour, epsilon, str(number))
        fits = naive.most_with(hour, Fraction(repr(epsilon))) <= 1
        assert accounts.allows("ann", event, plan) == fits
        if fits:
            naive.charges.append((naive.hours_of(hour), Fraction(repr(epsilon))))
            accounts.add(event)


@given(steps=steps, windows=st.sampled_from(Windows), last=st.tuples(st.integers(0, 30), st.sampled_from([0.2, 1.0])))
def test_a_refused_event_fits_from_the_moment_that_is_named_and_not_before(
    steps: list[tuple[int, float]], windows: Windows, last: tuple[int, float]
) -> None:
    accounts, plan = PersonalAccounts(), budget(windows)
    for number, (hour, epsilon) in enumerate(steps):
        if accounts.allows("ann", release(hour, epsilon), plan):
            accounts.add(release(hour, epsilon, str(number)))
    fits_from = accounts.fits_from("ann", release(*last), plan)
    assert fits_from is not None
    from_hour = (fits_from - START) / timedelta(hours=1)
    for later in range(7):
        assert accounts.allows("ann", release(from_hour + later, last[1]), plan)
    newest = max([last[0], *((event.when - START) / timedelta(hours=1) for event in accounts.history("ann"))])
    assert from_hour >= newest
    assert from_hour == newest or not accounts.allows("ann", release(from_hour - 0.5, last[1]), plan)


def test_sliding_windows_end_after_exactly_their_length() -> None:
    accounts, plan = PersonalAccounts(), budget(Windows.SLIDING)
    accounts.add(release(0, 1.0, "first"))
    almost = at(WINDOW_HOURS) - timedelta(microseconds=1)
    assert [event.draw_id for event in accounts.in_window("ann", almost, plan)] == ["first"]
    assert accounts.in_window("ann", at(WINDOW_HOURS), plan) == []
    assert accounts.in_window("ann", at(-0.001), plan) == []
    assert not accounts.allows("ann", release(WINDOW_HOURS - 0.001, 0.1), plan)
    assert accounts.allows("ann", release(WINDOW_HOURS, 1.0), plan)


def test_around_a_fixed_border_twice_the_budget_fits_and_sliding_windows_refuse_it() -> None:
    for windows, fits in ((Windows.FIXED, True), (Windows.SLIDING, False)):
        accounts = PersonalAccounts()
        accounts.add(release(5.9, 1.0, "before"))
        assert accounts.allows("ann", release(6.0, 1.0), budget(windows)) is fits
    assert "twice" in budget(Windows.FIXED).promise
    assert "twice" not in budget(Windows.SLIDING).promise
    assert Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, window=timedelta(days=1)).windows is Windows.SLIDING


def test_a_date_in_the_past_finds_no_fresh_budget() -> None:
    accounts, plan = PersonalAccounts(), budget(Windows.SLIDING)
    accounts.add(release(100, 0.9, "now"))
    assert not accounts.allows("ann", release(0, 0.2), plan)
    assert accounts.allows("ann", release(0, 0.1), plan)
    accounts.add(release(0, 0.1, "late"))
    assert not accounts.allows("ann", release(50, 0.1), plan)
    assert not accounts.allows("ann", release(100, 0.1), plan)
    assert not accounts.allows("ann", release(1, 0.95), plan)
    # Counted once where both of its moments lie in one window.
    accounts, plan = PersonalAccounts(), budget(Windows.SLIDING)
    accounts.add(release(2, 0.5, "now"))
    accounts.add(release(1, 0.5, "late"))
    assert len(accounts.in_window("ann", at(2), plan)) == 2


def test_a_late_event_counts_in_the_past_where_it_belongs() -> None:
    accounts, plan = PersonalAccounts(), budget(Windows.SLIDING)
    accounts.add(release(3, 0.9, "then"))
    accounts.add(release(30, 0.1, "now"))
    # Of the windows with hour 1, one ends at hour 3; of those with hour 5, one ends there.
    for hour in (1, 5):
        assert accounts.allows("ann", release(hour, 0.1), plan)
        assert not accounts.allows("ann", release(hour, 0.2), plan)
    assert accounts.allows("ann", release(15, 0.9), plan)
    # Once recorded, it counts there as well.
    accounts.add(release(12, 0.5, "late"))
    assert not accounts.allows("ann", release(13, 0.6), plan)
    assert [event.draw_id for event in accounts.in_window("ann", at(13), plan)] == ["late"]
    assert [event.draw_id for event in accounts.in_window("ann", at(30), plan)] == ["now", "late"]


def test_the_ends_of_the_calendar_are_no_trouble() -> None:
    first = datetime.min.replace(tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC)
    for windows in Windows:
        accounts = PersonalAccounts()
        plan = Budget(definition=PrivacyDefinition.LOCAL, epsilon=1.0, window=timedelta(days=36525), windows=windows)
        for moment in (first, last):
            event = Release(
                who=("ann",), when=moment, definition=PrivacyDefinition.LOCAL, epsilon=1.0, draw_id=str(moment)
            )
            assert accounts.allows("ann", event, plan)
            accounts.add(event)
        again = Release(who=("ann",), when=last, definition=PrivacyDefinition.LOCAL, epsilon=1.0, draw_id="again")
        assert not accounts.allows("ann", again, plan)
        assert accounts.fits_from("ann", again, plan) is None
        assert moment_text(last).startswith("9999-12-31 23:59:59")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"window": timedelta(0)}, "window"),
        ({"window": timedelta(days=-1)}, "window"),
        ({"window": timedelta.max}, "window"),
        ({"window": 24}, "window"),
        ({"definition": "global"}, "definition"),
        ({"windows": "rolling"}, "windows"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(change: dict[str, Any], word: str) -> None:
    good = {"definition": PrivacyDefinition.LOCAL, "epsilon": 1.0, "window": timedelta(days=1)}
    with pytest.raises(UsageError, match=word):
        Budget(**{**good, **change})
