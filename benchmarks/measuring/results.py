"""What a comparison finds: Nearveil beside a peer, a number beside its limit, or a peer that is not there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.measuring.timing import Times
from benchmarks.measuring.words import amount, duration

MET, NOT_MET = "met", "NOT MET"


class Result(Protocol):
    """One line of the output."""

    @property
    def what(self) -> str:
        """What was measured."""

    @property
    def verdict(self) -> str | None:
        """Whether the limit is met; None where there is no limit."""

    def line(self) -> str:
        """Say it in a line."""

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Nearveil and a peer at the same work, in turns.

    Attributes
    ----------
    ours, theirs : Times
        For one unit.
    unit : str
        What is counted, in the singular.
    least_speed : float, optional
        The limit: at least so many times the peer's speed.
    most_time : float, optional
        The limit: at most so many times the peer's time.
    told_as_time : bool
        Whether to say how many times as long it takes, and not how many times as fast it is.
    """

    what: str
    peer: str
    ours: Times
    theirs: Times
    unit: str
    least_speed: float | None = None
    most_time: float | None = None
    told_as_time: bool = False

    @property
    def speed(self) -> float:
        """How many times as fast as the peer, the best of each."""
        return self.theirs.best / self.ours.best

    @property
    def median_speed(self) -> float:
        """The same from medians."""
        return self.theirs.median / self.ours.median

    @property
    def speed_limit(self) -> float | None:
        """The limit as a speed."""
        return 1 / self.most_time if self.most_time else self.least_speed

    @property
    def verdict(self) -> str | None:
        """Decided by the best of each."""
        limit = self.speed_limit
        return None if limit is None else _verdict(self.speed >= limit)

    def line(self) -> str:
        """Say it in a line."""
        each = f"{duration(self.ours.best)} and {duration(self.theirs.best)} a {self.unit}"
        if self.told_as_time:
            ratio = f"{amount(1 / self.speed)} times the time (medians {amount(1 / self.median_speed)})"
        else:
            ratio = f"{amount(self.speed)} times as fast (medians {amount(self.median_speed)})"
        limit = self.most_time if self.told_as_time else self.least_speed
        ratio += f"; limit {limit:g}" if limit else ""
        return _with_verdict(f"{self.what}, beside {self.peer}: {ratio}; {each}", self.verdict)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "kind": "beside",
            "what": self.what,
            "peer": self.peer,
            "unit": self.unit,
            "speed_ratio": {"best": self.speed, "median": self.median_speed},
            "limit": {"least_speed": self.least_speed, "most_time": self.most_time},
            "verdict": self.verdict,
            "nearveil_s_per_unit": _times(self.ours),
            "peer_s_per_unit": _times(self.theirs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A number, with a limit or without."""

    what: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def verdict(self) -> str | None:
        """Whether it is within its limit."""
        if self.least is None and self.most is None:
            return None
        return _verdict(
            (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)
        )

    def line(self) -> str:
        """Say it in a line."""
        limits = [f"at least {self.least:,g}"] if self.least is not None else []
        limits += [f"at most {self.most:,g}"] if self.most is not None else []
        said = f"{self.what}: {amount(self.value)} {self.unit}" + (f"; limit {' and '.join(limits)}" if limits else "")
        return _with_verdict(said, self.verdict)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "kind": "alone",
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "limit": {"least": self.least, "most": self.most},
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A peer that is not there, and what would bring it."""

    what: str
    peer: str
    remedy: str
    verdict: None = None

    def line(self) -> str:
        """Say it in a line."""
        return f"{self.what}, beside {self.peer}: not there: {self.remedy}"

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": "absent", "what": self.what, "peer": self.peer, "remedy": self.remedy}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is to be measured.

    Attributes
    ----------
    quick : bool
        Small sizes and few rounds: to see that it works, and what is about what.
    large : bool
        Also what takes minutes and gigabytes.
    tell : callable
        Takes what is being done, for whoever waits.
    """

    quick: bool = False
    large: bool = False
    tell: Callable[[str], None] = lambda _: None

    def of(self, full: int, quick: int) -> int:
        """Return the number for this effort."""
        return quick if self.quick else full

    def limit(self, limit: float | None) -> float | None:
        """Return a limit that is meant for the full size, and at no other."""
        return None if self.quick else limit


def _verdict(is_met: bool) -> str:
    return MET if is_met else NOT_MET


def _with_verdict(said: str, verdict: str | None) -> str:
    return f"{said}: {verdict}" if verdict else said


def _times(times: Times) -> dict[str, Any]:
    return {"best": times.best, "median": times.median, "rounds": list(times.seconds)}
