"""An audit of a running service of one's own, through what everybody can reach of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy import stats

from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import Point
from nearveil.client.calls import ServiceError
from nearveil.client.http import Client
from nearveil.client.oracle import Attacker, Epochs, MadeUpAccounts, Patience, StartSearch, degrees_of, true_metres
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackSetup, set_up_attacks
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from nearveil.report.text_table import text_table
from nearveil.types import Progress

MOST_TARGETS = 1000


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """An account of one's own that is at the service already, and where it truly is, in degrees; never printed."""

    person: str
    latitude: float
    longitude: float

    def __repr__(self) -> str:
        return f"KnownTarget({self.person!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to try.

    Attributes
    ----------
    names : sequence of str
        Attacks.
    k : int
        How many people to ask for.
    accounts : sequence of int
        Accounts of the adaptive attack.
    targets : int
        How many targets to make up.
    known_target : KnownTarget, optional
        Attack this one instead.
    seed : int
        Of the places and directions; the service's own noise does not depend on it.
    """

    names: Sequence[str]
    k: int = 10
    accounts: Sequence[int] = (1,)
    targets: int = 20
    tau_m: float = 100.0
    known_target: KnownTarget | None = None
    most_queries: int = 1000
    patience: Patience = field(default_factory=Patience)
    longest_epoch_s: float = 10.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 100:
            raise UsageError("a service lists 1 to 100 people; choose k accordingly")
        if not 1 <= self.targets <= MOST_TARGETS:
            raise UsageError(f"an audit needs 1 to {MOST_TARGETS:,} targets; correct targets=")


# Results of an audit of a running service.


@dataclass(frozen=True, slots=True)
class ServiceAttempt:
    """Result of one attack, compared with the true location of the target."""

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
    """All attempts of one attack; none if no target could be attacked."""

    attack: str
    accounts: int
    tau_m: float
    attempts: tuple[ServiceAttempt, ...]

    @property
    def found(self) -> int:
        """Number of targets located to within tau."""
        return sum(attempt.error_m <= self.tau_m for attempt in self.attempts)

    @property
    def share_found(self) -> float:
        """Share of targets located to within tau."""
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
        """Share of the starts that are within tau of the target: the accuracy of a guess without questions."""
        return fmean(attempt.start_error_m <= self.tau_m for attempt in self.attempts)

    @property
    def refused(self) -> int:
        """Number of attacks with at least one refused question or move."""
        return sum(attempt.refusals > 0 for attempt in self.attempts)

    @property
    def stopped(self) -> int:
        """Number of attacks that ended because of refusals."""
        return sum(attempt.stopped for attempt in self.attempts)

    @property
    def first_refusal(self) -> float | None:
        """Median number of the first refused question; None if none was refused."""
        return _median_or_none([one.first_refusal for one in self.attempts if one.first_refusal is not None])

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        low, high = self.share_interval
        return {
            "attack": self.attack,
            "accounts": self.accounts,
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
    """Result of an audit of a service.

    Attributes
    ----------
    not_listed : int
        Number of targets that could not be attacked, because no location near them lists them.
    epochs : int
        Number of epochs that the audit advanced with the test hook.
    accounts : int
        Number of accounts that the audit created and removed.
    """

    rows: tuple[AttackAudit, ...]
    k: int
    tau_m: float
    targets: int
    not_listed: int
    epochs: int
    accounts: int

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "k": self.k,
            "tau_m": self.tau_m,
            "targets": self.targets,
            "not_listed": self.not_listed,
            "epochs_advanced": self.epochs,
            "accounts_removed": self.accounts,
            "attacks": [row.document() for row in self.rows],
        }


def _median_or_none(values: Sequence[float]) -> float | None:
    return median(values) if values else None


# An audit of one's own running service through its public interface.
#
# The audit creates its targets as well as its accounts. It knows their true locations and can measure errors without
# the location of any real person.


@dataclass(frozen=True, slots=True)
class _Target:
    person: str
    truth: Point


def check_platform_key(client: Client) -> None:
    """Raise if the service does not accept the platform key."""
    try:
        client.ledger()
    except ServiceError as error:
        if error.status not in (401, 403):
            raise
        raise UsageError(
            "the service does not accept this platform key, and only a service of your own can be audited; give a key "
            "that 'nearveil keys platform --scopes ask,report,people,metrics' made for it"
        ) from None


class Audit:
    """One audit.

    Parameters
    ----------
    client : Client
        With the platform key.
    region : Region
        Region of the service, or a part of it; targets are created in it.
    plan : AuditPlan
        Attacks to run.
    pause, clock : callable
        Waits the given number of seconds; returns seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        region: Region,
        plan: AuditPlan,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._region, self._plan, self._pause = client, region, plan, pause
        self._rng = np.random.default_rng(plan.seed)
        self._attack_setups = set_up_attacks(plan.names, region, accounts=plan.accounts, tau_m=plan.tau_m)
        self._epochs = Epochs(client, longest_wait_s=plan.longest_epoch_s, pause=pause, clock=clock)

    @property
    def attacks(self) -> int:
        """Largest number of attacks that the audit runs."""
        return len(self._attack_setups) * (1 if self._plan.known_target else self._plan.targets)

    def run(self, progress: Progress) -> ServiceAudit:
        """Attack and measure; all accounts are removed, also after an error."""
        check_platform_key(self._client)
        accounts = MadeUpAccounts(self._client, pause=self._pause)
        with accounts:
            targets = self._targets(accounts)
            starts = self._starts(accounts, targets)
            rows = tuple(
                self._attack_all(accounts, attack_setup, starts, progress) for attack_setup in self._attack_setups
            )
        if not starts:
            raise UsageError(
                "no location near a target lists it, because the service has too many people for lists of this length; "
                "raise k="
            )
        return ServiceAudit(
            rows=rows,
            k=self._plan.k,
            tau_m=self._plan.tau_m,
            targets=len(targets),
            not_listed=len(targets) - len(starts),
            epochs=self._epochs.advanced,
            accounts=accounts.removed,
        )

    # -- targets and starts ------------------------------------------------------------------------------------

    def _targets(self, accounts: MadeUpAccounts) -> list[_Target]:
        """Create targets and have them published, or return the known one."""
        known = self._plan.known_target
        if known is not None:
            return [_Target(known.person, true_metres(self._region, (known.latitude, known.longitude)))]
        places = synthetic_city(self._plan.targets, self._region, rng=self._plan.seed)
        people = accounts.create("target", len(places))
        receipts = [
            accounts.patiently(partial(self._client.report, person, latitude, longitude))
            for person, (latitude, longitude) in zip(people, places.tolist(), strict=True)
        ]
        waiting = [receipt for receipt in receipts if receipt.waits]
        if waiting:
            self._epochs.cross(waiting[-1].publishes_at)
        spots = self._region.to_metres(places)
        return [_Target(person, (float(x), float(y))) for person, (x, y) in zip(people, spots, strict=True)]

    def _starts(self, accounts: MadeUpAccounts, targets: list[_Target]) -> list[tuple[_Target, Point]]:
        def listing(spot: Point, k: int) -> list[str]:
            latitude, longitude = degrees_of(self._region, spot)
            return accounts.patiently(lambda: self._client.nearby(latitude, longitude, k=k))

        search = StartSearch(listing, k=self._plan.k, half_extent_m=self._region.half_extent_m, rng=self._rng)
        found = [(target, search.start_for(target.person, target.truth)) for target in targets]
        return [(target, start) for target, start in found if start is not None]

    # -- attacks -----------------------------------------------------------------------------------------------

    def _attack_all(
        self,
        accounts: MadeUpAccounts,
        attack_setup: AttackSetup,
        starts: list[tuple[_Target, Point]],
        progress: Progress,
    ) -> AttackAudit:
        attempts = []
        for target, start in starts:
            attempts.append(self._attack(accounts, attack_setup, target, start))
            progress(1)
        return AttackAudit(attack_setup.attack.name, attack_setup.accounts, self._plan.tau_m, tuple(attempts))

    def _attack(
        self, accounts: MadeUpAccounts, attack_setup: AttackSetup, target: _Target, start: Point
    ) -> ServiceAttempt:
        """Attack one target with accounts that have no history."""
        plan = self._plan
        attacker = Attacker(
            accounts, self._region, self._epochs,
            k=plan.k, accounts=attack_setup.accounts, patience=plan.patience, pause=self._pause,
        )  # fmt: skip
        result = attack_setup.attack.infer(attacker.oracle(most_queries=plan.most_queries), target.person, start)
        attacker.leave()
        # Without an estimate the guess is the start.
        guess = start if result.estimate is None else result.estimate
        throttle = attacker.throttle
        return ServiceAttempt(
            error_m=math.dist(self._into_region(guess), target.truth),
            start_error_m=math.dist(start, target.truth),
            questions=result.queries,
            seconds=result.seconds,
            outcome=result.outcome,
            refusals=throttle.refusals,
            waited_s=throttle.waited_s,
            first_refusal=throttle.first_at,
            stopped=throttle.stopped,
        )

    def _into_region(self, spot: Point) -> Point:
        """Clip a guess to the region, which is public."""
        (x, y), (width, height) = spot, self._region.half_extent_m
        return min(max(x, -width), width), min(max(y, -height), height)


# Text of the results.


_HEADERS = (
    "attack", "accounts", "attacked", "found", "95 % interval", "median error (m)", "mean error (m)", "questions",
    "refused", "first refused at", "stopped",
)  # fmt: skip


def audit_table(found: ServiceAudit) -> str:
    """Return a table with one row per attack."""
    return text_table(_HEADERS, [_cells(row) for row in found.rows])


def audit_notes(found: ServiceAudit) -> str:
    """Explain the columns, and say what the audit changed."""
    lines = [
        f"Lists of {found.k}.",
        f"found: share of targets located to within {found.tau_m:g} m. Without any question, guessing the start gives "
        f"{found.rows[0].starts_within:.3f}.",
        "refused: attacks with at least one refused question or move; first refused at: number of that question, as a "
        "median; stopped: attacks that ended because of refusals.",
    ]
    if found.not_listed:
        lines.append(
            f"{found.not_listed} of {found.targets} targets were not attacked, because no location near them lists "
            "them."
        )
    if found.epochs:
        lines.append(
            f"The test hook advanced the service by {found.epochs:,} epochs, which can begin a new budget window."
        )
    lines.append(f"All {found.accounts:,} accounts of the audit were removed.")
    return "\n".join(lines)


def _cells(row: AttackAudit) -> list[str]:
    low, high = row.share_interval
    return [
        row.attack,
        str(row.accounts),
        str(len(row.attempts)),
        f"{row.share_found:.3f}",
        f"{low:.3f} to {high:.3f}",
        _metres(row.median_error_m),
        _metres(row.mean_error_m),
        f"{row.mean_questions:.1f}",
        str(row.refused),
        "–" if row.first_refusal is None else f"{row.first_refusal:g}",
        str(row.stopped),
    ]


def _metres(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
