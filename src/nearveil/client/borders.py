"""Borders: how an audit gets its accounts published, by the test hook or by waiting for short epochs."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearveil.client.errors import ServiceError
from nearveil.client.http import Client

# After a border the service builds the next index aside; questions are answered from the last one until then.
_AFTER_BORDER_S = 1.0


class NoBorderError(ServiceError):
    """What was reported is published too late for an audit."""


class Borders:
    """The way to the next epoch.

    Parameters
    ----------
    client : Client
        With the platform's key.
    longest_wait_s : float
        How long to wait for a border that comes by itself.
    pause, clock : callable
        Wait so many seconds; seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        *,
        longest_wait_s: float = 10.0,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._longest_wait_s = client, longest_wait_s
        self._pause, self._clock = pause, clock
        self._has_hook = True
        self.advanced = 0

    def cross(self, publishes_at: float | None) -> None:
        """Go on when the next border has been crossed."""
        if self._has_hook and self._advance():
            self.advanced += 1
            return
        wait_s = None if publishes_at is None else max(0.0, publishes_at - self._clock())
        if wait_s is None or wait_s > self._longest_wait_s:
            raise NoBorderError(_no_border(wait_s))
        self._pause(wait_s + _AFTER_BORDER_S)

    def _advance(self) -> bool:
        try:
            self._client.advance_epoch()
        except ServiceError as error:
            if error.status != 404:
                raise
            self._has_hook = False
        return self._has_hook


def _no_border(wait_s: float | None) -> str:
    when = "" if wait_s is None else f", which is in {wait_s / 60:,.0f} minutes" if wait_s >= 60 else " in time"
    return (
        f"the service publishes the audit's accounts at its next border only{when}; audit a copy of it that has test "
        "hooks (--test-hooks) or epochs of a few seconds"
    )
