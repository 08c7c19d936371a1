"""The ledger: what each person has lost, on disk, and the refusal of what would cost more than the budget.

`PersonalAccounts` is the same in memory.

An event counts at the moment of its places. An event that arrives late, dated before something that its person is
already charged with, counts at the newest moment of that person too: a date in the past finds no fresh budget, and the
windows in which it truly lies are checked as well. In a window that holds both moments it counts once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path

from nearveil.errors import DataError, UsageError
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger.budget import Budget, Left, OverspentError, Windows
from nearveil.privacy.ledger.cost import Cost, parallel_cost, sequential_cost
from nearveil.privacy.ledger.events import (
    Event,
    as_notion,
    as_utc,
    check_event,
    check_id,
    event_from_bytes,
    event_to_bytes,
)
from nearveil.privacy.ledger.journal import Journal


@dataclass(frozen=True, slots=True)
class Charge:
    """An event, at a moment at which it counts."""

    at: datetime
    event: Event


_AT = attrgetter("at")


class PersonalAccounts:
    """The charges of all people."""

    def __init__(self) -> None:
        self._charges: dict[tuple[str, Notion], list[Charge]] = defaultdict(list)
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._newest: dict[str, datetime] = {}

    def add(self, event: Event) -> None:
        """Charge every person in the event."""
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
    """Return the moment later by ``duration``, or none past the year 9999."""
    try:
        return [moment + duration]
    except OverflowError:
        return []


def _number_of_window(moment: datetime, budget: Budget) -> int:
    return (moment - budget.start) // budget.window


# The ledger: what happened to whom, kept on disk, and refused where it would cost more than was promised.


CLOCK_TOLERANCE = timedelta(minutes=1)
"""By how much the clocks of two machines may differ."""


def utc_now() -> datetime:
    """Return the time of the system's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an event: as it stands in the ledger, and whether it stood there before."""

    event: Event
    repeated: bool


class Ledger:
    """Everybody's events on disk, and the budgets they must keep to.

    Recording checks and appends in one step, for all people of the event or for none. It may be used by several threads
    and processes at once. What is not recorded must not be published: record first, publish then, and after a crash
    record the same draw again before publishing it.

    Parameters
    ----------
    path : Path or str
        The file; made if it does not exist. It holds ids and amounts, never a place.
    budgets : iterable of Budget
        At most one for each notion. An event under a notion without a budget is refused.
    clock : callable, optional
        Says what time it is; an event dated later is refused, since a date in the future would find a fresh budget.
        None if the caller's dates are not those of the world, as in a simulation.

    Notes
    -----
    The first date of a person is taken at its word, and so is the order of dates that only ever move on. An event that
    is dated back is charged in the past and in the present (see `accounts`).
    """

    def __init__(
        self, path: Path | str, budgets: Iterable[Budget], *, clock: Callable[[], datetime] | None = utc_now
    ) -> None:
        self._budgets = _by_notion(budgets)
        self._clock = clock
        self._journal = Journal(Path(path))
        self._start_over()
        with self._up_to_date():
            pass

    @property
    def path(self) -> Path:
        """The file that holds the ledger."""
        return self._journal.path

    def budget(self, notion: Notion) -> Budget:
        """Return the budget of a notion, or say that there is none."""
        try:
            return self._budgets[as_notion(notion)]
        except KeyError:
            raise UsageError(f"the ledger has no budget for the {notion} notion; state one first") from None

    def record(self, event: Event) -> Recorded:
        """Put an event on record, if everybody in it can afford it; return when it is on disk.

        Raises
        ------
        OverspentError
            If somebody cannot afford it. Nothing was recorded, and nothing may be published.
        UsageError
            If it is not an event, the draw is on record with other content, or the notion has no budget.
        """
        return self.record_all([event])[0]

    def record_all(self, events: Iterable[Event]) -> list[Recorded]:
        """Put several events of different notions on record, if everybody can afford all of them; else none.

        Notions have accounts of their own, so events of different notions can be judged one by one.
        """
        asked = [check_event(event) for event in events]
        if len({event.notion for event in asked}) < len(asked):
            raise UsageError("events of one notion must be recorded one after another, each beside those before it")
        with self._up_to_date() as descriptor:
            known = [self._on_record(event) for event in asked]
            fresh = [event for event, before in zip(asked, known, strict=True) if before is None]
            for event in fresh:
                self._check_clock(event)
                self._check_budgets(event)
            for event in fresh:
                self._journal.append(descriptor, event_to_bytes(event))
                self._take_in(event)
        return [
            Recorded(event if before is None else before, repeated=before is not None)
            for event, before in zip(asked, known, strict=True)
        ]

    def _on_record(self, event: Event) -> Event | None:
        known = self._draws.get(event.draw_id)
        if known is not None and not known.is_same_draw(event):
            raise UsageError("this draw_id is on record with other content; give each draw a name of its own")
        return known

    def spent(self, person: str, notion: Notion, at: datetime) -> Cost:
        """Return what a person has lost in the window that ends at a moment, or in the fixed one that contains it.

        Of a budget with a ``renyi_order`` it says how much is used up. Where amounts were chosen in view of what was
        published, the whole budget is what is promised.
        """
        budget = self.budget(notion)
        with self._up_to_date():
            return budget.cost(self._accounts.in_window(check_id(person, "a person id"), as_utc(at), budget))

    def left(self, person: str, notion: Notion, at: datetime) -> Left:
        """Return what an event dated at a moment may still cost a person."""
        budget = self.budget(notion)
        with self._up_to_date():
            windows = self._accounts.windows_with(check_id(person, "a person id"), as_utc(at), budget)
            return _least([budget.left_beside(events) for events in windows])

    def total(self, notion: Notion) -> Cost:
        """Return the most that any one person has lost, over all time.

        Epsilons are added, whatever the budget's rule: a Rényi filter speaks of a window that it has kept to.
        """
        own = self.budget(notion).notion
        with self._up_to_date():
            histories = [self._accounts.history(person) for person in self._accounts.people()]
        costs = (sequential_cost(own, [event for event in events if event.notion is own]) for events in histories)
        return parallel_cost(own, costs)

    def history(self, person: str) -> tuple[Event, ...]:
        """Return a person's events in the order in which they were recorded."""
        with self._up_to_date():
            return self._accounts.history(check_id(person, "a person id"))

    @contextmanager
    def _up_to_date(self) -> Iterator[int]:
        """Hold the file, which also keeps other threads out, and know all that is in it."""
        with self._journal.locked() as descriptor:
            try:
                for payload in self._journal.read_new(descriptor):
                    self._take_in(event_from_bytes(payload))
                yield descriptor
            except (UsageError, OverspentError):
                raise  # These come before anything has changed.
            except BaseException:
                # Interrupted halfway, what is in memory may be short of what is on disk: read it all again.
                self._start_over()
                raise

    def _start_over(self) -> None:
        self._journal.start_over()
        self._accounts = PersonalAccounts()
        self._draws: dict[str, Event] = {}

    def _take_in(self, event: Event) -> None:
        if event.draw_id in self._draws:
            raise DataError(f"the ledger {self.path} holds a draw twice; restore it from a backup")
        self._draws[event.draw_id] = event
        self._accounts.add(event)

    def _check_clock(self, event: Event) -> None:
        if self._clock is not None and event.when - as_utc(self._clock()) > CLOCK_TOLERANCE:
            raise UsageError("the event is dated in the future; record it when it happens, or set the clock right")

    def _check_budgets(self, event: Event) -> None:
        budget = self.budget(event.notion)
        people = tuple(person for person in event.who if not self._accounts.allows(person, event, budget))
        if not people:
            return
        # Of people with one history one stands for all; a refused fit would otherwise hold the file for long.
        some = {tuple(map(id, self._accounts.history(person))): person for person in people}.values()
        left = [
            budget.left_beside(events)
            for person in some
            for events in self._accounts.windows_with(person, event.when, budget)
        ]
        moments = [self._accounts.fits_from(person, event, budget) for person in some]
        known = [moment for moment in moments if moment is not None]
        fits_from = max(known) if len(known) == len(moments) else None
        raise OverspentError(event, budget, people=people, left=_least(left), fits_from=fits_from)


def _by_notion(budgets: Iterable[Budget]) -> dict[Notion, Budget]:
    found: dict[Notion, Budget] = {}
    for budget in budgets:
        if not isinstance(budget, Budget):
            raise UsageError("budgets must be Budget objects, at most one for each notion")
        if budget.notion in found:
            raise UsageError(f"there are two budgets for the {budget.notion} notion; state one")
        found[budget.notion] = budget
    return found


def _least(amounts: list[Left]) -> Left:
    epsilon = min(amount.epsilon for amount in amounts)
    return Left(notion=amounts[0].notion, epsilon=epsilon, delta=min(amount.delta for amount in amounts))
