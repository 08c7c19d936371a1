"""An audit of a running service of one's own, through what everybody can reach of it.

It makes up its targets as well as its colluders: their places are known to the audit alone, so that errors are measured
against the truth without anybody's place being known.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.client.accounts import Accounts
from nearveil.client.audit_plan import AuditPlan
from nearveil.client.audit_result import AttackAudit, Attempt, ServiceAudit
from nearveil.client.borders import Borders
from nearveil.client.errors import ServiceError
from nearveil.client.http import Client
from nearveil.client.oracle import Attacker, degrees_of
from nearveil.client.starts import StartSearch
from nearveil.errors import UsageError
from nearveil.evaluation.contenders import Contender, contenders
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from nearveil.types import Progress

_SUSPECTS = re.compile(r"^nearveil_suspects_total(?:\{[^}]*\})?\s+([0-9.eE+]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Target:
    person: str
    truth: Spot


def check_platform_key(client: Client) -> None:
    """Refuse to go on without a platform's key that this very service accepts."""
    try:
        client.ledger()
    except ServiceError as error:
        if error.status not in (401, 403):
            raise
        raise UsageError(
            "the service does not accept this as a platform's key of its own; only a service of your own can be "
            "audited: give a key that 'nearveil keys' made for it"
        ) from None


class Audit:
    """One audit.

    Parameters
    ----------
    client : Client
        With the platform's key.
    region : Region
        The service's, or a part of it: targets are made up in it.
    plan : AuditPlan
        What to try.
    pause, clock : callable
        Wait so many seconds; seconds since 1970.
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
        self._fighters = contenders(plan.names, region, colluders=plan.colluders, tau_m=plan.tau_m)
        self._borders = Borders(client, longest_wait_s=plan.longest_border_s, pause=pause, clock=clock)

    @property
    def attacks(self) -> int:
        """How many attacks it will make at most."""
        return len(self._fighters) * (1 if self._plan.known_target else self._plan.targets)

    def run(self, progress: Progress) -> ServiceAudit:
        """Attack, measure, and remove every account again, whatever happens."""
        check_platform_key(self._client)
        before = self._suspects()
        accounts = Accounts(self._client, pause=self._pause)
        with accounts:
            targets = self._targets(accounts)
            starts = self._starts(accounts, targets)
            rows = tuple(self._attack_all(accounts, fighter, starts, progress) for fighter in self._fighters)
            after = self._suspects()
        if not starts:
            raise UsageError(
                "no target is listed from any place near its own: the service has too many people for lists of this "
                "length; raise --k"
            )
        return ServiceAudit(
            protection=self._protection(),
            rows=rows,
            k=self._plan.k,
            tau_m=self._plan.tau_m,
            targets=len(targets),
            not_listed=len(targets) - len(starts),
            suspects=None if before is None or after is None else (before, after),
            epochs=self._borders.advanced,
            accounts=accounts.removed,
        )

    # -- targets and starts ------------------------------------------------------------------------------------

    def _targets(self, accounts: Accounts) -> list[_Target]:
        """Make targets up and have them published, or take the one that is known."""
        known = self._plan.known_target
        if known is not None:
            place_m = self._region.to_metres(self._region.check([[known.latitude, known.longitude]]))[0]
            return [_Target(known.person, (float(place_m[0]), float(place_m[1])))]
        places = synthetic_city(self._plan.targets, self._region, rng=self._plan.seed)
        people = accounts.create("target", len(places))
        receipts = [
            accounts.patiently(partial(self._client.report, person, latitude, longitude))
            for person, (latitude, longitude) in zip(people, places.tolist(), strict=True)
        ]
        waiting = [receipt for receipt in receipts if receipt.waits]
        if waiting:
            self._borders.cross(waiting[-1].publishes_at)
        spots = self._region.to_metres(places)
        return [_Target(person, (float(x), float(y))) for person, (x, y) in zip(people, spots, strict=True)]

    def _starts(self, accounts: Accounts, targets: list[_Target]) -> list[tuple[_Target, Spot]]:
        def listing(spot: Spot, k: int) -> list[str]:
            latitude, longitude = degrees_of(self._region, spot)
            return accounts.patiently(lambda: self._client.nearby(latitude, longitude, k=k))

        search = StartSearch(listing, k=self._plan.k, half_extent_m=self._region.half_extent_m, rng=self._rng)
        found = [(target, search.start_for(target.person, target.truth)) for target in targets]
        return [(target, start) for target, start in found if start is not None]

    # -- attacks -----------------------------------------------------------------------------------------------

    def _attack_all(
        self, accounts: Accounts, fighter: Contender, starts: list[tuple[_Target, Spot]], progress: Progress
    ) -> AttackAudit:
        attempts = []
        for target, start in starts:
            attempts.append(self._attack(accounts, fighter, target, start))
            progress(1)
        return AttackAudit(fighter.attack.name, fighter.colluders, self._plan.tau_m, tuple(attempts))

    def _attack(self, accounts: Accounts, fighter: Contender, target: _Target, start: Spot) -> Attempt:
        """Attack one target with accounts that have no history."""
        plan = self._plan
        attacker = Attacker(
            accounts, self._region, self._borders,
            k=plan.k, colluders=fighter.colluders, askers=plan.askers, patience=plan.patience, pause=self._pause,
        )  # fmt: skip
        result = fighter.attack.infer(attacker.oracle(most_queries=plan.most_queries), target.person, start)
        attacker.leave()
        # Who believes nothing stays with where it began.
        guess = start if result.estimate is None else result.estimate
        throttle = attacker.throttle
        return Attempt(
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

    def _into_region(self, spot: Spot) -> Spot:
        """The region is public: nobody believes a target to be outside."""
        (x, y), (width, height) = spot, self._region.half_extent_m
        return min(max(x, -width), width), min(max(y, -height), height)

    # -- the service's own words -------------------------------------------------------------------------------

    def _suspects(self) -> int | None:
        """What the service's metric of suspicions counts; None where the metrics are not to be read."""
        try:
            return round(sum(float(value) for value in _SUSPECTS.findall(self._client.metrics())))
        except ServiceError:
            return None

    def _protection(self) -> str:
        word = self._client.guarantee().document.get("protection")
        return word if isinstance(word, str) else ""
