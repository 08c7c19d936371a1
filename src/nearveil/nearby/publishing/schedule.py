"""Schedule: when draws are published, and in which window they count. Time alone decides, never that somebody moved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from nearveil.errors import UsageError

_LONGEST = timedelta(days=36_525)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Epochs of one length, counted from 1970-01-01 UTC, and windows of so many epochs.

    A report that arrives in epoch e is published at the border to epoch e + 1, and counts in that epoch's window.

    Parameters
    ----------
    epoch : timedelta
        Time between two borders; whole seconds, at least one.
    window : timedelta
        How long a budget lasts; a whole number of epochs.

    Examples
    --------
    >>> schedule = Schedule(epoch=timedelta(hours=1), window=timedelta(days=30))
    >>> schedule.epochs_per_window
    720
    >>> schedule.epoch_at(7300.0), schedule.starts_at(2)
    (2, 7200.0)
    """

    epoch: timedelta = timedelta(hours=1)
    window: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.epoch <= _LONGEST or self.epoch.microseconds:
            raise UsageError("an epoch lasts a whole number of seconds, at least one; choose for instance 1h")
        if not self.epoch <= self.window <= _LONGEST or self.window % self.epoch:
            raise UsageError("a window lasts a whole number of epochs; choose for instance 30d with epochs of 1h")

    @property
    def epoch_s(self) -> float:
        """Length of an epoch in seconds."""
        return self.epoch.total_seconds()

    @property
    def epochs_per_window(self) -> int:
        """How many epochs a window has."""
        return self.window // self.epoch

    def epoch_at(self, unix_s: float) -> int:
        """Return the epoch in which a moment lies."""
        return int(unix_s // self.epoch_s)

    def starts_at(self, epoch: int) -> float:
        """Return the moment at which an epoch begins, in seconds since 1970."""
        return epoch * self.epoch_s

    def window_of(self, epoch: int) -> int:
        """Return the window of an epoch."""
        return epoch // self.epochs_per_window
