"""The refusal to overspend."""

from __future__ import annotations

from datetime import datetime

from nearveil.errors import NearveilError
from nearveil.privacy.ledger.amounts import written_down
from nearveil.privacy.ledger.budget import Budget, Left, duration_text, moment_text
from nearveil.privacy.ledger.events import Event


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
