"""A clock that stands still until it is told to go on."""

from __future__ import annotations


class Clock:
    """Seconds since 1970, or since any moment."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
