"""What an audit of a running service found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from scipy import stats

from nearveil.attacks.result import Outcome


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attack beside the truth: how far its guess is from where the target truly is."""

    error_m: float
    start_error_m: float
    questions: int
    seconds: float
    outcome: Outcome
    refusals: int
    waited_s: float
    first_refusal: int | None
    stopped: bool


@dataclass(frozen=True, slots=True)
class AttackAudit:
    """All attempts of one attack, or none where no target could be attacked."""

    attack: str
    colluders: int
    tau_m: float
    attempts: tuple[Attempt, ...]

    @property
    def found(self) -> int:
        """Targets found within tau of where they truly are."""
        return sum(attempt.error_m <= self.tau_m for attempt in self.attempts)

    @property
    def share_found(self) -> float:
        """The same as a share."""
        return self.found / len(self.attempts)

    @property
    def share_interval(self) -> tuple[float, float]:
        """The 95 % interval of that share (Clopper and Pearson)."""
        interval = stats.binomtest(self.found, len(self.attempts)).proportion_ci(0.95)
        return float(interval.low), float(interval.high)

    @property
    def mean_error_m(self) -> float:
        """Mean error."""
        return fmean(attempt.error_m for attempt in self.attempts)

    @property
    def median_error_m(self) -> float:
        """Median error."""
        return median(attempt.error_m for attempt in self.attempts)

    @property
    def mean_questions(self) -> float:
        """Questions per attack."""
        return fmean(attempt.questions for attempt in self.attempts)

    @property
    def starts_within(self) -> float:
        """Share of the starts that are themselves within tau: what a guess without any question gives."""
        return fmean(attempt.start_error_m <= self.tau_m for attempt in self.attempts)

    @property
    def refused(self) -> int:
        """Attacks that the service refused at least one question or move."""
        return sum(attempt.refusals > 0 for attempt in self.attempts)

    @property
    def stopped(self) -> int:
        """Attacks that had to end for it."""
        return sum(attempt.stopped for attempt in self.attempts)

    @property
    def first_refusal(self) -> float | None:
        """Median of the questions at which the service refused first; None if it never did."""
        return _median_or_none([one.first_refusal for one in self.attempts if one.first_refusal is not None])

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        low, high = self.share_interval
        return {
            "attack": self.attack,
            "colluders": self.colluders,
            "attacked": len(self.attempts),
            "found": self.found,
            "acc": round(self.share_found, 4),
            "acc_interval_95": [round(low, 4), round(high, 4)],
            "median_error_m": round(self.median_error_m, 1),
            "mean_error_m": round(self.mean_error_m, 1),
            "starts_within": round(self.starts_within, 4),
            "questions": round(self.mean_questions, 2),
            "seconds": round(fmean(attempt.seconds for attempt in self.attempts), 3),
            "refused": self.refused,
            "refusals": sum(attempt.refusals for attempt in self.attempts),
            "first_refusal": self.first_refusal,
            "waited_s": round(sum(attempt.waited_s for attempt in self.attempts), 1),
            "stopped": self.stopped,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAudit:
    """What an audit found.

    Attributes
    ----------
    protection : str
        The service's own word for its policy; empty if it says none.
    not_listed : int
        Targets listed from no place near where they truly are, which could not be attacked.
    suspects : (int, int) or None
        What the service's metric of suspicions counted before and after; None if it was not to be read.
    epochs : int
        How many borders the audit made the service cross by the test hook.
    accounts : int
        How many accounts the audit made, all of which are removed.
    """

    protection: str
    rows: tuple[AttackAudit, ...]
    k: int
    tau_m: float
    targets: int
    not_listed: int
    suspects: tuple[int, int] | None
    epochs: int
    accounts: int

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "protection": self.protection,
            "k": self.k,
            "tau_m": self.tau_m,
            "targets": self.targets,
            "not_listed": self.not_listed,
            "suspects_before": None if self.suspects is None else self.suspects[0],
            "suspects_after": None if self.suspects is None else self.suspects[1],
            "epochs_advanced": self.epochs,
            "accounts_removed": self.accounts,
            "attacks": [row.document() for row in self.rows],
        }


def _median_or_none(values: Sequence[float]) -> float | None:
    return median(values) if values else None
