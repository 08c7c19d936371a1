"""One point of a growth curve."""

from dataclasses import dataclass
from typing import Any

from benchmarks.measuring.timing import Times
from benchmarks.measuring.words import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """How long something takes with so many people.

    Attributes
    ----------
    series : str
        What is done.
    per : str
        ``everybody``, or what a single one of is timed.
    """

    series: str
    people: int
    times: Times
    per: str = "everybody"
    verdict: None = None

    @property
    def what(self) -> str:
        """What was measured."""
        return f"{self.series}, {self.people:,} people"

    def line(self) -> str:
        """Say it in a line."""
        per = "" if self.per == "everybody" else f" a {self.per}"
        return f"{self.what}: {duration(self.times.best)}{per}"

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "kind": "grown",
            "what": self.series,
            "people": self.people,
            "per": self.per,
            "seconds": {"best": self.times.best, "median": self.times.median, "rounds": list(self.times.seconds)},
        }
