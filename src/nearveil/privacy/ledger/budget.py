"""Budgets: what may be spent on one person in a window of time, and the refusal to overspend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from nearveil.errors import NearveilError, UsageError
from nearveil.privacy.accounting import LARGEST_ORDER, conversion_cost
from nearveil.privacy.guarantee import Notion
from nearveil.privacy.ledger.cost import (
    RENYI_RELATIVE_MARGIN,
    Cost,
    deltas_of_undescribed,
    renyi_cost,
    sequential_cost,
)
from nearveil.privacy.ledger.events import (
    Event,
    as_delta,
    as_epsilon,
    as_notion,
    as_utc,
    exact,
    exact_difference,
    exact_sum,
    float_at_most,
    written_down,
)


class OverspentError(NearveilError):
    """An event would cost somebody more than the budget allows; nothing was recorded.

    Attributes
    ----------
    people : tuple of str
        Whose budget does not allow it. The message does not name them, since messages end up in logs.
    left : Left
        What is left for the person who has least left.
    fits_from : datetime or None
        From when on the event would fit if nothing else were recorded; None if it never would.
    """

    exit_code = 5

    def __init__(
        self, event: Event, budget: Budget, *, people: tuple[str, ...], left: Left, fits_from: datetime | None
    ) -> None:
        self.people = people
        self.left = left
        self.fits_from = fits_from
        super().__init__(_refusal(event, budget, self))

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt_error, (str(self), self.people, self.left, self.fits_from))


def _rebuilt_error(text: str, people: tuple[str, ...], left: Left, fits_from: datetime | None) -> OverspentError:
    error = OverspentError.__new__(OverspentError, text)
    error.people, error.left, error.fits_from = people, left, fits_from
    return error


def _refusal(event: Event, budget: Budget, error: OverspentError) -> str:
    group = f" for {len(error.people):,} of {len(event.who):,} people" if len(event.who) > 1 else ""
    advice = "it is more than the whole budget, so ask for less"
    if error.fits_from is not None:
        advice = f"ask for less, or come back: it fits from {moment_text(error.fits_from)} on"
    return (
        f"the {event.kind} would overspend the {event.notion} budget{group}: {_amounts(event.epsilon, event.delta)} is "
        f"asked for, {_amounts(error.left.epsilon, error.left.delta)} of {_amounts(budget.epsilon, budget.delta)} is "
        f"left in {duration_text(budget.window)}; {advice}"
    )


def _amounts(epsilon: float, delta: float) -> str:
    return f"epsilon {written_down(epsilon)}" + (f" with delta {written_down(delta)}" if delta else "")


# Budgets: what may be spent on one person in a window of time.
#
# The promise of a budget is about the places of a window: whatever is published from them under its notion, then or
# later, costs the person at most epsilon. What is released of the same places under other notions comes on top. An
# event therefore counts at the moment of its places, and publishing the same draw again costs nothing, however much
# later.


LONGEST_WINDOW = timedelta(days=36525)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS = (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1)))


# Each loss is at most its epsilon times the steps in its own cells, so that the sum is bounded by the most steps.
_STEPS_OF_SEVERAL = ", counted by the largest number of steps between two places in the cells of any of these releases"


class Windows(StrEnum):
    """How the windows of a budget run."""

    SLIDING = "sliding"
    """Every stretch of time of the window's length, wherever it begins, is a window."""
    FIXED = "fixed"
    """Windows follow one another from a given start. Weaker: around a boundary, up to twice the budget can be spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What may still be spent under one notion: a pure event of this epsilon fits, and so does any smaller one."""

    notion: Notion
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be spent on one person under one notion in a window of time.

    Parameters
    ----------
    notion : Notion
        The account that the budget is for.
    epsilon : float
        Per metre for the metric notion, per step for the elastic one, per person for the others.
    window : timedelta
        Length of a window; at most 100 years. Two moments exactly this far apart are not in one window.
    delta : float
        Of all events of a window together.
    renyi_order : float, optional
        Compose by Rényi divergences of this order instead of adding epsilons: for many small losses under a notion
        other than metric and elastic, with a delta. An order near 1 + 2 ln(1 / delta) / epsilon lets most of them in.
        Settle it before the first event and never change it: an order chosen in view of what was published promises
        nothing.
    windows : Windows
        Sliding unless asked otherwise.
    start : datetime
        Where fixed windows begin, before and after; of no meaning for sliding ones.

    Examples
    --------
    >>> print(Budget(notion=Notion.LOCAL, epsilon=1.0, window=timedelta(days=1)).promise)
    What is released under the local notion of a person's places of any 1 day costs at most epsilon = 1 per person.
    """

    notion: Notion
    epsilon: float
    window: timedelta
    delta: float = 0.0
    renyi_order: float | None = None
    windows: Windows = Windows.SLIDING
    start: datetime = EPOCH

    def __post_init__(self) -> None:
        if not isinstance(self.window, timedelta) or not timedelta(0) < self.window <= LONGEST_WINDOW:
            raise UsageError("window must be a timedelta greater than 0 and of at most 100 years")
        checked = {
            "notion": as_notion(self.notion),
            "epsilon": as_epsilon(self.epsilon),
            "delta": as_delta(self.delta),
            "windows": _as_windows(self.windows),
            "start": as_utc(self.start),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.renyi_order is not None:
            object.__setattr__(self, "renyi_order", _as_order(self.renyi_order, self))

    @property
    def promise(self) -> str:
        """What the budget promises, in a plain sentence."""
        which = "any" if self.windows is Windows.SLIDING else "each"
        delta = f" and delta = {self.delta:g}" if self.delta else ""
        promise = (
            f"What is released under the {self.notion} notion of a person's places of {which} "
            f"{duration_text(self.window)} costs at most epsilon = {self.epsilon:g}{delta} {self.notion.unit}"
            + (f", by Rényi composition at order {self.renyi_order:g}" if self.renyi_order else "")
            + (_STEPS_OF_SEVERAL if self.notion is Notion.ELASTIC else "")
        )
        if self.windows is Windows.SLIDING:
            return f"{promise}."
        boundary = f"counted from {moment_text(self.start)}; a stretch across a boundary may cost twice that"
        return f"{promise}, {boundary}."

    def allows(self, events: Sequence[Event]) -> bool:
        """Tell whether the events of one window keep to the budget."""
        if self.renyi_order is not None:
            cost = self.cost(events)
            return cost.epsilon <= self.epsilon and cost.delta <= self.delta
        # Exact numbers are compared, so that no rounding can let an amount through.
        if exact_sum(event.epsilon for event in events) > exact(self.epsilon):
            return False
        return exact_sum(event.delta for event in events) <= exact(self.delta)

    def cost(self, events: Sequence[Event]) -> Cost:
        """Return what the events of one window take of the budget, by its own rule of composition."""
        if self.renyi_order is None:
            return sequential_cost(self.notion, events)
        return renyi_cost(self.notion, events, delta=self.delta, order=self.renyi_order)

    def left_beside(self, events: Sequence[Event]) -> Left:
        """Return what may still be spent in a window with these events."""
        cost = self.cost(events)
        if cost.delta > self.delta:
            return Left(notion=self.notion, epsilon=0.0, delta=0.0)
        if self.renyi_order is None:
            return Left(
                notion=self.notion,
                epsilon=_at_least_zero(self.epsilon, cost.epsilon),
                delta=_at_least_zero(self.delta, cost.delta),
            )
        # The first event pays for the step from Rényi to epsilon too, and each adds an error in the last digits.
        spent = max(cost.epsilon, conversion_cost(self.renyi_order, self.delta / 2))
        return Left(
            notion=self.notion,
            epsilon=_at_least_zero(self.epsilon, spent + 2 * RENYI_RELATIVE_MARGIN * self.epsilon),
            delta=float_at_most(exact_difference(exact(self.delta) / 2, deltas_of_undescribed(events))),
        )


def duration_text(duration: timedelta) -> str:
    """Write a duration in the largest unit that divides it.

    Examples
    --------
    >>> duration_text(timedelta(days=7)), duration_text(timedelta(hours=36))
    ('7 days', '36 hours')
    """
    for name, unit in _UNITS:
        if duration % unit == timedelta(0):
            return f"{duration // unit:,} {name}{'s' if duration // unit > 1 else ''}"
    return f"{duration.total_seconds():g} seconds"


def moment_text(moment: datetime) -> str:
    """Write a moment in UTC, never an earlier one than it is."""
    if moment.microsecond and moment < datetime.max.replace(microsecond=0, tzinfo=UTC):
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _at_least_zero(budget: float, spent: float) -> float:
    return max(0.0, float_at_most(exact_difference(exact(budget), exact(spent))))


def _as_windows(value: object) -> Windows:
    try:
        return Windows(value)  # type: ignore[arg-type]
    except ValueError:
        raise UsageError(f"windows must be one of {', '.join(Windows)}") from None


def _as_order(value: object, budget: Budget) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 < value <= LARGEST_ORDER:
        raise UsageError(f"renyi_order must be a number above 1 and of at most {LARGEST_ORDER:g}")
    if budget.notion.is_by_distance:
        raise UsageError(
            f"renyi_order must be left out for the {budget.notion} notion: a loss {budget.notion.unit} has no Rényi "
            "divergence"
        )
    if not budget.delta:
        raise UsageError("renyi_order needs a delta greater than 0; 1e-5 is a usual choice")
    if conversion_cost(float(value), budget.delta / 2) >= budget.epsilon:
        raise UsageError(
            "renyi_order leaves nothing of the budget: the step to epsilon alone costs as much; choose one near "
            f"{1 - 2 * math.log(budget.delta) / budget.epsilon:.3g}"
        )
    return float(value)
