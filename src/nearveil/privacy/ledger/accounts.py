"""Everybody's account, in memory: which events count in which windows.

An event counts at the moment of its places. An event that arrives late, dated before something that its person is
already charged with, counts at the newest moment of that person too: a date in the past finds no fresh budget, and the
windows in which it truly lies are checked as well. In a window that holds both moments it counts once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger.budget import Budget, Windows
from nearveil.privacy.ledger.events import Event


@dataclass(frozen=True, slots=True)
class Charge:
    """An event, at a moment at which it counts."""

    at: datetime
    event: Event


_AT = attrgetter("at")


class Accounts:
    """The charges of everybody."""

    def __init__(self) -> None:
        self._charges: dict[tuple[str, Notion], list[Charge]] = defaultdict(list)
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._newest: dict[str, datetime] = {}

    def add(self, event: Event) -> None:
        """Charge everybody in the event."""
        for person in event.who:
            for moment in self.moments(person, event.when):
                insort(self._charges[person, event.notion], Charge(moment, event), key=_AT)
            self._newest[person] = max(event.when, self._newest.get(person, event.when))
            self._events[person].append(event)

    def moments(self, person: str, when: datetime) -> tuple[datetime, ...]:
        """Return at which moments an event of this date counts for the person."""
        newest = self._newest.get(person, when)
        return (when,) if newest <= when else (when, newest)

    def history(self, person: str) -> tuple[Event, ...]:
        """Return the person's events in the order in which they were recorded."""
        return tuple(self._events.get(person, ()))

    def people(self) -> Iterator[str]:
        """Return everybody who was ever charged."""
        return iter(self._events)

    def in_window(self, person: str, moment: datetime, budget: Budget) -> list[Event]:
        """Return the events in the window that ends at the moment (sliding) or contains it (fixed)."""
        return _in_window(self._of(person, budget.notion), moment, budget)

    def windows_with(self, person: str, when: datetime, budget: Budget) -> Iterator[list[Event]]:
        """Return, for every window in which an event of this date would count, the events already in it."""
        charges = self._of(person, budget.notion)
        for moment in self.moments(person, when):
            for end in _ends_of_windows_with(charges, moment, budget):
                yield _in_window(charges, end, budget)

    def allows(self, person: str, event: Event, budget: Budget) -> bool:
        """Tell whether the event would fit in all the windows in which it would count."""
        return all(budget.allows([*events, event]) for events in self.windows_with(person, event.when, budget))

    def fits_from(self, person: str, event: Event, budget: Budget) -> datetime | None:
        """Return from when on the event would fit if nothing else were recorded; None if it never would."""
        if not budget.allows([event]):
            return None
        charges = self._of(person, budget.notion)
        newest = max(event.when, self._newest.get(person, event.when))
        candidates = [newest, *_ends_of_memory(charges, newest, budget)]
        # From the newest charge on a window only ever loses events, so that bisection finds the first that fits.
        index = bisect_left(
            candidates, True, key=lambda moment: budget.allows([*_in_window(charges, moment, budget), event])
        )
        return candidates[index] if index < len(candidates) else None

    def _of(self, person: str, notion: Notion) -> Sequence[Charge]:
        return self._charges.get((person, notion), ())


def _in_window(charges: Sequence[Charge], moment: datetime, budget: Budget) -> list[Event]:
    if budget.windows is Windows.SLIDING:
        # Differences of moments cannot overflow, as sums near the years 1 and 9999 would.
        first = bisect_right(charges, -budget.window, key=lambda charge: charge.at - moment)
        last = bisect_right(charges, moment, key=_AT)
    else:
        number = _number_of_window(moment, budget)
        first = bisect_left(charges, number, key=lambda charge: _number_of_window(charge.at, budget))
        last = bisect_right(charges, number, key=lambda charge: _number_of_window(charge.at, budget))
    return list({charge.event.draw_id: charge.event for charge in charges[first:last]}.values())


def _ends_of_windows_with(charges: Sequence[Charge], moment: datetime, budget: Budget) -> list[datetime]:
    """Return the ends of windows that together hold all that can lie in one window with the moment.

    Of sliding windows, those that end at the moment or at a later charge: any other holds no more than one of these.
    """
    if budget.windows is Windows.FIXED:
        return [moment]
    first = bisect_right(charges, moment, key=_AT)
    last = bisect_left(charges, budget.window, key=lambda charge: charge.at - moment)
    return list(dict.fromkeys([moment, *(charge.at for charge in charges[first:last])]))


def _ends_of_memory(charges: Sequence[Charge], newest: datetime, budget: Budget) -> list[datetime]:
    """Return the moments after ``newest`` at which a charge no longer counts, in order."""
    if budget.windows is Windows.FIXED:
        return _later(budget.start, (_number_of_window(newest, budget) + 1) * budget.window)
    first = bisect_right(charges, -budget.window, key=lambda charge: charge.at - newest)
    return [end for charge in charges[first:] for end in _later(charge.at, budget.window)]


def _later(moment: datetime, duration: timedelta) -> list[datetime]:
    """Return the one moment so much later, or none past the year 9999."""
    try:
        return [moment + duration]
    except OverflowError:
        return []


def _number_of_window(moment: datetime, budget: Budget) -> int:
    return (moment - budget.start) // budget.window
