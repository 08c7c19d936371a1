"""The attack with a stolen platform key, or with people's stolen tokens, on a running service of one's own.

Whoever can report for a person guesses cells, and looks at everything that the service then shows. The audit makes up
people, lets the service publish them, and attacks them. What it finds is compared with the best guess from the
published places alone, which everybody can make: a service that tells nothing to who reports lets it find no more.

Where the service asks for the receipt of the last report, people's phones send it, and the attacker, who does not have
it, is refused.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from statistics import median
from typing import Any, TypeVar

import httpx
import numpy as np
from scipy import stats

from nearveil.attacks.oracle import Spot
from nearveil.client.audit import MOST_TARGETS, check_platform_key
from nearveil.client.calls import ServiceError, person_path, place_body
from nearveil.client.guessing import Belief, City, Rules, Victim
from nearveil.client.http import Client, region_of
from nearveil.client.oracle import Epochs, MadeUpAccounts, degrees_of
from nearveil.client.telltales import Telltales, answer_features, changes, flattened, metric_values
from nearveil.errors import UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing.protection import Cell
from nearveil.types import FloatArray, Progress

_POPULATION = 20_000
_THREADS = 16
_TOKEN_LASTS_S = 24 * 3600
_LEVEL = 0.01
_MOST_DWELL = 12
_SURE = 0.98
_OWN = 3 + 16
_MOST_EPOCHS_TO_SPEND = 400
_MOST_WINDOWS = 100
_MOST_EPOCHS_OF_A_WINDOW = 400
_GUESSES_IN_VAIN = 13
_EVENING_EPOCHS = 6
_RARE = 1e-3
_REFUSED = 409
_T = TypeVar("_T")
_S = TypeVar("_S")


class Stolen(StrEnum):
    """What the attacker has: a platform key, or the token of each person."""

    KEY = "key"
    TOKEN = "token"  # noqa: S105


class Strategy(StrEnum):
    """How the attacker guesses."""

    ANSWERS = "answers"
    """Many guesses within an epoch; reads answers, headers, exports, ledger and metrics."""
    PATIENT = "patient"
    """Reports each guess for as long as a place must last, and compares what is published. Phones are silent."""
    BESIDE_PHONES = "beside-phones"
    """The same while people's phones report in every epoch."""
    PHONES_RETURN = "phones-return"
    """Moves people away while their phones are silent. When these report again, reports a guess after them: a right one
    lets the person come back."""
    REVOKE = "revoke"
    """Revokes people's tokens, so that the next report needs no receipt, and is patient then. Needs a platform key that
    may also do so (the scope people)."""
    RECREATE = "recreate"
    """Erases people, creates them anew and reports a guess as their first place. Needs the same key."""

    def works_with(self, stolen: Stolen) -> bool:
        """Whether the attacker can do it."""
        return self not in (Strategy.REVOKE, Strategy.RECREATE) or stolen is Stolen.KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class StolenPlan:
    """What to try.

    Attributes
    ----------
    stolen : Stolen
        What the attacker has.
    strategies : sequence of Strategy
        Each is tried on people of its own.
    people : int
        How many people are made up for each strategy.
    answer_guesses, patient_guesses : int
        Guesses of a person within an epoch, and by patience in a window.
    windows : int
        For how many budget windows the patient go on. More than one needs a service with test hooks and short windows.
    days : int
        For how many days phones come and go: silent for as long as a place must last, then reporting in six epochs.
    controls : int
        Accounts of the attacker's own, to learn how the service answers right and wrong guesses.
    """

    stolen: Stolen = Stolen.KEY
    strategies: Sequence[Strategy] = tuple(Strategy)
    people: int = 200
    answer_guesses: int = 60
    patient_guesses: int = 80
    windows: int = 1
    days: int = 30
    controls: int = 20
    tau_m: float = 100.0
    longest_epoch_s: float = 10.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.people <= MOST_TARGETS:
            raise UsageError(f"an audit needs 1 to {MOST_TARGETS:,} targets (--targets)")
        if not 1 <= self.windows <= _MOST_WINDOWS:
            raise UsageError(f"patience lasts for 1 to {_MOST_WINDOWS} windows (--windows)")
        if self.windows > 1 and not {Strategy.PATIENT, Strategy.REVOKE} & set(self.strategies):
            raise UsageError("only the strategies patient and revoke go on for several windows; leave --windows out")
        unusable = [one for one in self.strategies if not one.works_with(self.stolen)]
        if unusable:
            raise UsageError(f"the strategy {unusable[0]} needs the platform key; leave it out, or use --stolen-key")
        if not self.strategies:
            raise UsageError(f"an audit needs a strategy (--strategy): {', '.join(Strategy)}")

    @property
    def steps(self) -> int:
        """How many steps of progress there are."""
        return len(self.strategies) * self.people


# Results.


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What one strategy found: for each person the error of the best guess without and with what the guesses told.

    Attributes
    ----------
    requests : tuple of int
        Guesses that were reported for each person.
    refused : int
        How many of all guesses were refused, because they do not bring the receipt of the phone's last report.
    epochs : int
        Epochs that passed meanwhile.
    told : tuple of str
        What differed between right and wrong guesses, as far as the attacker noticed.
    seconds_right, seconds_wrong : float or None
        Median time of the answers to right and wrong guesses of the attacker's own accounts; not used.
    found_by_window : tuple of int
        How many were found after each budget window, if it was more than one.
    """

    strategy: Strategy
    tau_m: float
    errors_before_m: tuple[float, ...]
    errors_after_m: tuple[float, ...]
    requests: tuple[int, ...]
    epochs: int
    refused: int = 0
    told: tuple[str, ...] = ()
    seconds_right: float | None = None
    seconds_wrong: float | None = None
    found_by_window: tuple[int, ...] = ()

    @property
    def found_before(self) -> int:
        """Number of people found from the published place alone."""
        return sum(error <= self.tau_m for error in self.errors_before_m)

    @property
    def found_after(self) -> int:
        """Number of people found with what the guesses told."""
        return sum(error <= self.tau_m for error in self.errors_after_m)

    @property
    def tells(self) -> bool:
        """Whether guesses found more people; of services that tell nothing, one in 100 seems to."""
        pairs = zip(self.errors_before_m, self.errors_after_m, strict=True)
        changed = Counter(
            after <= self.tau_m for before, after in pairs if (before <= self.tau_m) != (after <= self.tau_m)
        )
        if not changed:
            return False
        return bool(stats.binomtest(changed[True], changed.total(), alternative="greater").pvalue < _LEVEL)

    def interval(self, found: int) -> tuple[float, float]:
        """The 95 % interval of a share (Clopper and Pearson)."""
        interval = stats.binomtest(found, len(self.errors_before_m)).proportion_ci(0.95)
        return float(interval.low), float(interval.high)

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        people = len(self.errors_before_m)
        return {
            "strategy": str(self.strategy),
            "people": people,
            "found_from_published": self.found_before,
            "share_from_published": round(self.found_before / people, 4),
            "interval_from_published_95": [round(edge, 4) for edge in self.interval(self.found_before)],
            "found_with_guesses": self.found_after,
            "share_with_guesses": round(self.found_after / people, 4),
            "interval_with_guesses_95": [round(edge, 4) for edge in self.interval(self.found_after)],
            "median_error_from_published_m": round(median(self.errors_before_m), 1),
            "median_error_with_guesses_m": round(median(self.errors_after_m), 1),
            "reports_per_person": median(self.requests),
            "reports": sum(self.requests),
            "refused": self.refused,
            "epochs": self.epochs,
            "told": list(self.told),
            "median_seconds_right": self.seconds_right,
            "median_seconds_wrong": self.seconds_wrong,
            "found_by_window": list(self.found_by_window),
            "tells": self.tells,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StolenAudit:
    """Result of the attack with a stolen key or token.

    Attributes
    ----------
    asks_for_receipts : bool
        Whether the service takes only reports that bring the receipt of the person's last one.
    """

    stolen: Stolen
    rules: Rules
    rows: tuple[StrategyResult, ...]
    tau_m: float
    accounts: int
    asks_for_receipts: bool = False

    @property
    def tells(self) -> bool:
        """Whether any strategy found more than the published places give."""
        return any(row.tells for row in self.rows)

    def document(self) -> dict[str, Any]:
        """The same for machines."""
        rules = self.rules
        return {
            "stolen": str(self.stolen),
            "tau_m": self.tau_m,
            "noise_m": rules.noise_m,
            "new_places_per_window": rules.new_places,
            "dwell_epochs": rules.dwell_epochs,
            "known_places_return_when_spent": rules.returns_when_spent,
            "known_cells_attract": rules.known_cells_attract,
            "same_noise_when_created_anew": rules.same_noise_anew,
            "asks_for_receipts": self.asks_for_receipts,
            "strategies": [row.document() for row in self.rows],
            "verdict": "guesses tell" if self.tells else "not above what published places give",
            "accounts_removed": self.accounts,
        }


# The attack.


@dataclass(slots=True)
class _Person:
    person: str
    truth: Spot = field(repr=False)
    client: Client = field(repr=False)
    is_own: bool = False
    """Whether it is the attacker's own account, with the phone."""
    before_m: Spot | None = field(default=None, repr=False)
    guesses: int = 0
    refused: int = 0
    phone_receipt: str | None = field(default=None, repr=False)
    """What the phone sends with its next report, where the service asks for it."""
    guess_receipt: str | None = field(default=None, repr=False)
    """The same of the attacker: of the last guess that was taken."""


class StolenKeyAudit:
    """One audit with a stolen key or stolen tokens.

    Parameters
    ----------
    client : Client
        With the platform key, which makes up people. With `Stolen.TOKEN` the attack itself uses people's tokens only.
    plan : StolenPlan
        What to try.
    pause, clock : callable
        Waits the given number of seconds; returns seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        plan: StolenPlan,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._plan, self._pause = client, plan, pause
        self._epochs = Epochs(client, longest_wait_s=plan.longest_epoch_s, pause=pause, clock=clock)
        self._publishes_at: float | None = None
        self._crossed = 0

    def run(self, progress: Progress) -> StolenAudit:
        """Attack and measure; all accounts are removed, also after an error."""
        check_platform_key(self._client)
        self._region = region_of(self._client, None)
        rules = self._stated_rules()
        plan = self._plan
        count = len(plan.strategies) * plan.people
        places = synthetic_city(count + plan.controls + _OWN + _POPULATION, self._region, rng=plan.seed)
        homes_m = self._region.to_metres(places[: count + plan.controls + _OWN])
        self._city = City(self._region, rules.grid, self._region.to_metres(places[len(homes_m) :]))
        self._rng = np.random.default_rng(plan.seed)
        with MadeUpAccounts(self._client, pause=self._pause) as accounts, ThreadPoolExecutor(_THREADS) as pool:
            self._accounts, self._pool = accounts, pool
            self._asks_for_receipts = self._learn_about_receipts()
            self._rules = self._learn_rules(rules, homes_m[count + plan.controls :])
            controls = homes_m[count : count + plan.controls]
            parts = [homes_m[start : start + plan.people] for start in range(0, count, plan.people)]
            rows = [
                self._attack(strategy, part, controls, progress)
                for strategy, part in zip(plan.strategies, parts, strict=True)
            ]
        return StolenAudit(
            stolen=plan.stolen,
            rules=self._rules,
            rows=tuple(rows),
            tau_m=plan.tau_m,
            accounts=accounts.removed,
            asks_for_receipts=self._asks_for_receipts,
        )

    def _stated_rules(self) -> Rules:
        card = self._client.guarantee().document
        stated = card.get("guarantee")
        epsilon = stated.get("epsilon") if isinstance(stated, Mapping) else None
        in_metres = isinstance(stated, Mapping) and stated.get("unit") == "per metre"
        if card.get("protection") != "place" or not in_metres or not isinstance(epsilon, float) or epsilon <= 0:
            raise UsageError(
                "this attack is for services with noise in metres per place (--policy place, --noise); audit "
                "others without --stolen-key"
            )
        places = self._client.ledger().document.get("new_places_per_window")
        return Rules(noise_m=2 / epsilon, new_places=places if isinstance(places, int) else 1)

    # -- people ------------------------------------------------------------------------------------------------

    def _people(self, role: str, homes_m: FloatArray) -> list[_Person]:
        """Make up people and have them published."""
        ids = self._accounts.create(role, len(homes_m))
        people = [
            _Person(person, (float(x), float(y)), self._key_of(person), is_own=role == "own")
            for person, (x, y) in zip(ids, homes_m, strict=True)
        ]
        self._each(self._phone_reports, people)
        self._cross()
        for one, point in zip(people, self._each(self._published, people), strict=True):
            one.before_m = point
        return people

    def _key_of(self, person: str) -> Client:
        if self._plan.stolen is Stolen.KEY:
            return self._client
        issued = self._accounts.patiently(lambda: self._client.issue_token(person, expires_in_s=_TOKEN_LASTS_S))
        return self._client.with_key(issued.token)

    def _learn_about_receipts(self) -> bool:
        """Whether a second report is refused that does not bring the receipt of the first."""
        [person] = self._accounts.create("own")
        one = _Person(person, (0.0, 0.0), self._key_of(person))
        answers = [self._report(one, one.truth, None)[0] for _ in range(2)]
        return answers[-1].status_code == _REFUSED

    def _phone_reports(self, one: _Person, spot: Spot | None = None) -> None:
        """Report a person, from where they are unless told otherwise, as their phone does."""
        if self._asks_for_receipts and one.phone_receipt is None:
            one.phone_receipt = secrets.token_hex(12)
        answer, _ = self._report(one, spot or one.truth, one.phone_receipt)
        one.phone_receipt = self._receipt_of(answer)

    def _guess(self, one: _Person, spot: Spot) -> tuple[httpx.Response, float]:
        """Report in a person's name, without the receipt of their phone's last report; return answer and seconds."""
        answer, seconds = self._report(one, spot, one.guess_receipt)
        one.guesses += 1
        if answer.status_code == _REFUSED:
            one.refused += 1
        else:
            one.guess_receipt = self._receipt_of(answer)
        return answer, seconds

    def _receipt_of(self, answer: httpx.Response) -> str | None:
        return str(answer.json().get("receipt")) if self._asks_for_receipts else None

    def _report(self, one: _Person, spot: Spot, previous: str | None) -> tuple[httpx.Response, float]:
        body = place_body(*degrees_of(self._region, spot)) | ({} if previous is None else {"previous": previous})

        def send() -> tuple[httpx.Response, float]:
            begun = time.perf_counter()
            answer = one.client.answer("PUT", person_path(one.person, "/location"), json=body, also=[_REFUSED])
            return answer, time.perf_counter() - begun

        answer, seconds = self._accounts.patiently(send)
        at = answer.json().get("publishes_at")
        self._publishes_at = at if isinstance(at, float) else self._publishes_at
        return answer, seconds

    def _published(self, one: _Person) -> Spot | None:
        held = self._accounts.patiently(lambda: one.client.export(one.person)).get("published")
        return (float(held["x_m"]), float(held["y_m"])) if isinstance(held, Mapping) else None

    def _each(self, call: Callable[[_S], _T], people: Iterable[_S]) -> list[_T]:
        return list(self._pool.map(call, people))

    def _cross(self) -> None:
        self._epochs.cross(self._publishes_at)
        self._crossed += 1

    def _stay(
        self, people: Sequence[_Person], spots: Sequence[Spot], epochs: int, *, phones: Sequence[_Person] = ()
    ) -> list[Spot | None]:
        """Report the same places in some epochs, after the phones if any; return what is published then.

        The attacker has the phones of own accounts.
        """
        for _ in range(epochs):
            self._each(self._phone_reports, phones)
            self._each(
                lambda turn: (self._phone_reports if turn[0].is_own else self._guess)(*turn),
                zip(people, spots, strict=True),
            )
            self._cross()
        return self._each(self._published, people)

    # -- what the attacker's own accounts show -----------------------------------------------------------------

    def _learn_rules(self, stated: Rules, homes_m: FloatArray) -> Rules:
        """Learn how places come to count, and what known places do, as any account holder can."""
        wants = set(self._plan.strategies) - {Strategy.ANSWERS}
        if not wants:
            return stated
        first, second, third, *others = self._people("own", homes_m)
        dwell = self._learnt_dwell(first)
        if dwell is None:
            return stated
        centre_of, side_m = stated.grid.centre_of, stated.grid.side_m
        returns = False
        if stated.new_places * dwell <= _MOST_EPOCHS_TO_SPEND:
            for cell in self._city.far_cells(second.truth, stated.new_places):
                self._stay([second], [centre_of(cell)], dwell)
            returns = self._stay([second], [second.truth], dwell) == [second.before_m]
        # One such report may bring the point back by chance; all of them hardly ever do.
        self._stay(others, [centre_of(self._city.far_cells(one.truth, 1)[0]) for one in others], dwell)
        cells = [centre_of(stated.grid.cells_near(*one.truth)[0]) for one in others]
        beside = [(x_m + 0.6 * side_m if x_m < 0 else x_m - 0.6 * side_m, y_m) for x_m, y_m in cells]
        attracts = self._stay(others, beside, dwell) == [one.before_m for one in others]
        same = False
        if Strategy.RECREATE in wants:
            self._anew(third)
            same = self._stay([third], [third.truth], 1) == [third.before_m]
        return Rules(
            noise_m=stated.noise_m,
            new_places=stated.new_places,
            dwell_epochs=dwell,
            returns_when_spent=returns,
            known_cells_attract=attracts,
            same_noise_anew=same,
        )

    def _learnt_dwell(self, one: _Person) -> int | None:
        far = self._city.grid.centre_of(self._city.far_cells(one.truth, 1)[0])
        for epochs in range(1, _MOST_DWELL + 1):
            if self._stay([one], [far], 1) != [one.before_m]:
                return epochs
        return None

    def _anew(self, one: _Person) -> None:
        self._accounts.patiently(partial(self._client.delete_person, one.person))
        self._accounts.patiently(partial(self._client.create_person, one.person))

    # -- strategies --------------------------------------------------------------------------------------------

    def _attack(
        self, strategy: Strategy, homes_m: FloatArray, controls_m: FloatArray, progress: Progress
    ) -> StrategyResult:
        crossed = self._crossed
        people = [one for one in self._people("target", homes_m) if one.before_m is not None]
        if not people:
            raise UsageError("the service published none of the made-up people; is its budget of new places spent?")
        telltales = Telltales([])
        times: dict[bool, list[float]] = {True: [], False: []}
        beliefs: list[Belief]
        by_window: list[int] = []
        if strategy is Strategy.ANSWERS:
            telltales, times = self._telltales(controls_m)
            beliefs = [self._read_answers(one, telltales, progress) for one in people]
        elif strategy is Strategy.RECREATE:
            beliefs = self._recreate(people, progress)
        elif strategy is Strategy.PHONES_RETURN:
            beliefs = self._wait_for_phones(people, progress)
        else:
            if strategy is Strategy.REVOKE:
                self._each(lambda one: self._accounts.patiently(partial(one.client.revoke_tokens, one.person)), people)
            beside = strategy is Strategy.BESIDE_PHONES
            beliefs, by_window = self._be_patient(people, progress, beside_phones=beside)
        before = [self._belief(one) for one in people]
        result = StrategyResult(
            strategy,
            self._plan.tau_m,
            self._errors(people, before),
            self._errors(people, beliefs),
            tuple(one.guesses for one in people),
            self._crossed - crossed,
            sum(one.refused for one in people),
            telltales.names,
            seconds_right=round(median(times[True]), 6) if times[True] else None,
            seconds_wrong=round(median(times[False]), 6) if times[False] else None,
            found_by_window=tuple(by_window),
        )
        self._accounts.remove([one.person for one in people])
        return result

    def _belief(self, one: _Person) -> Belief:
        return Belief(self._city, one.before_m or (0.0, 0.0), self._rules.noise_m)

    def _errors(self, people: Sequence[_Person], beliefs: Sequence[Belief]) -> tuple[float, ...]:
        spots = [belief.best_guess(self._plan.tau_m)[0] for belief in beliefs]
        truths = [one.truth for one in people]
        return tuple(np.hypot(*(np.array(spots) - np.array(truths)).T).tolist())

    def _look(self, one: _Person) -> dict[str, Any]:
        """Everything that the stolen key or token shows of a person and of the service."""
        call = self._accounts.patiently
        found = {
            f"export {name}": value for name, value in flattened(call(lambda: one.client.export(one.person))).items()
        }
        if self._plan.stolen is Stolen.KEY:
            ledger = flattened(dict(call(one.client.ledger).document))
            found |= {f"ledger {name}": value for name, value in ledger.items()}
            # A key may not be allowed to read metrics.
            with suppress(ServiceError):
                found |= {f"metric {name}": value for name, value in metric_values(call(one.client.metrics)).items()}
        return found

    def _telltales(self, homes_m: FloatArray) -> tuple[Telltales, dict[bool, list[float]]]:
        """Report right and wrong places for one's own accounts, and learn what differs."""
        seen: list[tuple[bool, dict[str, str]]] = []
        times: dict[bool, list[float]] = {True: [], False: []}
        for one in self._people("control", homes_m):
            cells = self._city.far_cells(one.truth, 8)
            for cell, is_right in zip(cells, (self._rng.random(len(cells)) < 0.5).tolist(), strict=True):
                spot = one.truth if is_right else self._city.grid.centre_of(cell)
                features, seconds = self._observed(one, spot)
                seen.append((is_right, features))
                times[is_right].append(seconds)
        return Telltales(seen), times

    def _observed(self, one: _Person, spot: Spot) -> tuple[dict[str, str], float]:
        """Report a place far away, then a guess, and return what the guess changed, and the time of its answer."""
        self._guess(one, self._city.grid.centre_of(self._city.far_cells(spot, 1)[0]))
        before = self._look(one)
        answer, seconds = self._guess(one, spot)
        return {**answer_features(answer), **changes(before, self._look(one))}, seconds

    def _read_answers(self, one: _Person, telltales: Telltales, progress: Progress) -> Belief:
        """Guess within an epoch. A guess is right for the four cells that the reported place may count as in."""
        belief = self._belief(one)
        tried: set[Cell] = set()
        side_m = self._city.grid.side_m
        # Where nothing is known to tell, a few guesses are enough to see that.
        for _ in range(self._plan.answer_guesses if telltales.names else _GUESSES_IN_VAIN):
            block = next(one for one in belief.halving_blocks(len(tried) + 1) if one not in tried)
            tried.add(block)
            features, _ = self._observed(one, ((block[0] + 0.5) * side_m, (block[1] + 0.5) * side_m))
            belief.update(_block(block), *telltales.likelihood(features))
            if belief.weights.max() > _SURE:
                break
        progress(1)
        return belief

    def _be_patient(
        self, people: Sequence[_Person], progress: Progress, *, beside_phones: bool
    ) -> tuple[list[Belief], list[int]]:
        """Report one guess after the other, each for as long as a place must last, for everybody at once.

        Returns what is believed, and how many were found after each window if there are several.
        """
        rules, rng = self._rules, self._rng
        victims = [Victim(one.person, self._city, rules, one.before_m or (0.0, 0.0), rng) for one in people]
        windows = 1 if beside_phones or rules.dwell_epochs is None else self._plan.windows
        found: list[int] = []
        for number in range(windows):
            if windows > 1:
                # From the beginning of a window on, so that its budget is whole.
                self._begin_window()
                for victim in victims:
                    victim.begin_window()
            self._guess_for_a_window(people, victims, beside_phones=beside_phones)
            if windows > 1:
                errors_m = self._errors(people, [victim.belief for victim in victims])
                found.append(sum(error_m <= self._plan.tau_m for error_m in errors_m))
            progress((number + 1) * len(people) // windows - number * len(people) // windows)
        return [victim.belief for victim in victims], found

    def _guess_for_a_window(self, people: Sequence[_Person], victims: Sequence[Victim], *, beside_phones: bool) -> None:
        dwell = self._rules.dwell_epochs
        for _ in range(self._plan.patient_guesses + self._rules.new_places if dwell is not None else 0):
            chosen = [(one, victim, victim.choose()) for one, victim in zip(people, victims, strict=True)]
            active = [(one, victim, guess) for one, victim, guess in chosen if guess is not None]
            if not active:
                return
            for _ in range(dwell or 1):
                if beside_phones:
                    # The guess comes last in an epoch, where it does most harm.
                    self._each(self._phone_reports, people)
                self._each(lambda turn: self._guess(turn[0], turn[2].spot), active)
                self._cross()
            points = self._each(lambda turn: self._published(turn[0]), active)
            for (_, victim, guess), point in zip(active, points, strict=True):
                victim.observe(guess, point)

    def _begin_window(self) -> None:
        """Go to the beginning of the next budget window."""
        window = self._window()
        for _ in range(_MOST_EPOCHS_OF_A_WINDOW):
            self._cross()
            if self._window() != window:
                return
        raise UsageError(
            f"a budget window of the service lasts for more than {_MOST_EPOCHS_OF_A_WINDOW} epochs; attack a service "
            "for tests with a shorter one, such as --epoch 1h --window 4d"
        )

    def _window(self) -> Any:
        return self._accounts.patiently(self._client.ledger).document.get("window")

    def _wait_for_phones(self, people: Sequence[_Person], progress: Progress) -> list[Belief]:
        """Let a far place count while phones are silent, and see after which guesses people come back."""
        beliefs, dwell, side_m = [self._belief(one) for one in people], self._rules.dwell_epochs, self._city.grid.side_m
        far = [self._city.grid.centre_of(self._city.far_cells(one.truth, 1)[0]) for one in people]
        for _ in range(self._plan.days if dwell is not None else 0):
            points = self._stay(people, far, dwell or 1)
            away = [row for row, one in enumerate(people) if points[row] != one.before_m]
            if not away:
                # Nobody can be moved, so that nothing can be seen.
                break
            for _ in range(_EVENING_EPOCHS // (dwell or 1)):
                blocks = [beliefs[row].halving_blocks(1)[0] for row in away]
                # Where four cells meet: a report there may count as in each of them.
                spots = [((column + 0.5) * side_m, (line + 0.5) * side_m) for column, line in blocks]
                points = self._stay([people[row] for row in away], spots, dwell or 1, phones=people)
                back = [point == people[row].before_m for row, point in zip(away, points, strict=True)]
                for row, block, is_back in zip(away, blocks, back, strict=True):
                    beliefs[row].update(_block(block), *((1.0, _RARE) if is_back else (_RARE, 1.0)))
                away = [row for row, is_back in zip(away, back, strict=True) if not is_back]
        progress(len(people))
        return beliefs

    def _recreate(self, people: Sequence[_Person], progress: Progress) -> list[Belief]:
        """Make people anew with a guess as their first place: the right one brings their point back."""
        beliefs = [self._belief(one) for one in people]
        guesses = self._rules.new_places - 1 if self._rules.same_noise_anew else 0
        for _ in range(guesses):
            cells = [belief.likeliest_cells(1)[0] for belief in beliefs]
            self._each(self._anew, people)
            spots = [self._city.grid.centre_of(cell) for cell in cells]
            self._each(lambda turn: self._guess(*turn), zip(people, spots, strict=True))
            self._cross()
            for one, belief, cell, point in zip(
                people, beliefs, cells, self._each(self._published, people), strict=True
            ):
                if point is not None:
                    belief.update([cell], *((1.0, 1e-6) if point == one.before_m else (0.0, 1.0)))
        progress(len(people))
        return beliefs


def _block(first: Cell) -> list[Cell]:
    return [(first[0] + column, first[1] + row) for column in (0, 1) for row in (0, 1)]
