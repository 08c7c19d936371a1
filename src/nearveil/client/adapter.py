"""An auditor's own service behind a Python file with a few functions: the attack asks through them.

The file defines one kind of answers, about a test account of the auditor's::

    distance(latitude, longitude)           # as the service shows it: 2, whether it means 2 km or 2 miles
    band(latitude, longitude)               # (500, 1000): least and greatest distance in metres
    within(latitude, longitude, radius_m)   # True or False
    nearby(latitude, longitude)             # ids, nearest first; with accounts and move(), see below

For lists ``accounts`` names the attacker's accounts, one or several, and ``move(account, latitude, longitude)`` moves
one of them, or takes it off the map (None, None). The attack uses all of them.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nearveil.attacks.answers import AnswerKind, Answers
from nearveil.attacks.base import AttackResult
from nearveil.attacks.oracle import (
    CountedBands,
    CountedDistance,
    CountedFilter,
    CountedOracle,
    OracleError,
    OutOfQueriesError,
    PersonOracle,
    Point,
)
from nearveil.client.oracle import StartSearch, degrees_of, true_metres
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.evaluation.attack_experiment import AttackSetup, set_up_attacks
from nearveil.nearby.index import Person
from nearveil.plugins import module_of_file
from nearveil.region import Region

FUNCTION_OF = {
    AnswerKind.LIST: "nearby",
    AnswerKind.DISTANCE: "distance",
    AnswerKind.BANDS: "band",
    AnswerKind.FILTER: "within",
    AnswerKind.CIRCLE: "within",
}
"""Which function gives which answers."""

_ANSWERS_BY = {
    "nearby": "list",
    "distance": "distance",
    "band": "bands",
    "within": "filter:1km, filter:5km-fixed or circle:2km",
}
_ARGUMENTS_OF = {
    "nearby": "latitude, longitude",
    "distance": "latitude, longitude",
    "band": "latitude, longitude",
    "within": "latitude, longitude, radius_m",
    "move": "account, latitude, longitude",
}

# Distances on a sphere, as many services compute them, differ by up to 0.35 % from those on the ellipsoid.
TOLERANCE = 0.005
MOST_QUESTIONS = 200
LONGEST_CALL_S = 60.0
LONGEST_ATTACK_S = 1800.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the attack waits for one call and in all, in seconds."""

    call_s: float = LONGEST_CALL_S
    attack_s: float = LONGEST_ATTACK_S


class Adapter:
    """The functions of a file, called with a time limit and named in every error.

    Parameters
    ----------
    path : Path
        The file.
    region : Region
        Where the test account is, and where questions are asked from.
    patience : Patience
        A call that takes longer is an error; an attack that takes longer ends with what it knows.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        path: Path,
        region: Region,
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._region, self._patience, self._clock = path, region, patience or Patience(), clock
        try:
            with _printing_to_stderr():
                self._module = module_of_file(path)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"the adapter {path.name} cannot be loaded: {type(error).__name__}: {error}") from None
        self._started = clock()
        self._answered = 0
        self.failure: str | None = None
        """Why the attack ended early, if a call failed after others had been answered."""

    def has(self, name: str) -> bool:
        """Whether the file defines a function."""
        return callable(getattr(self._module, name, None))

    def answers(self, text: str | None) -> Answers:
        """Return which answers to attack: those that are asked for, or those of the only function there is."""
        defined = [name for name in dict.fromkeys(FUNCTION_OF.values()) if self.has(name)]
        if not defined:
            raise UsageError(f"{self._path.name} defines none of {', '.join(dict.fromkeys(FUNCTION_OF.values()))}")
        if text is None:
            if len(defined) > 1 or defined == ["within"]:
                functions = " and ".join(f"{name}()" for name in defined)
                choices = ", ".join(_ANSWERS_BY[name] for name in defined)
                raise UsageError(f"{self._path.name} defines {functions}; say what to attack with answers=: {choices}")
            return Answers(next(kind for kind, name in FUNCTION_OF.items() if name == defined[0]))
        answers = self._parsed(text)
        if not self.has(FUNCTION_OF[answers.kind]):
            raise UsageError(f"answers={text} needs a function {FUNCTION_OF[answers.kind]} in {self._path.name}")
        return answers

    def _parsed(self, text: str) -> Answers:
        if text in (AnswerKind.DISTANCE, AnswerKind.BANDS):
            return Answers(AnswerKind(text))
        answers = Answers.parse(text)
        if answers.kind in (AnswerKind.DISTANCE, AnswerKind.BANDS):
            raise UsageError(f"the attack finds out the steps of a service itself; write answers={answers.kind}")
        return answers

    # -- oracles -----------------------------------------------------------------------------------------------

    def person_oracle(self, answers: Answers) -> PersonOracle:
        """Open the service to an attack on the test account."""
        name = FUNCTION_OF[answers.kind]
        limits: dict[str, Any] = {
            "most_queries": MOST_QUESTIONS, "tolerance": TOLERANCE, "source": self._called(name),
            # Whoever runs the service knows; nobody else does.
            "has_fixed_rule": getattr(self._module, "fixed_rule", False) is True,
        }  # fmt: skip

        def ask(place: Point, *more: float) -> object:
            self._check_time()
            return self._call(name, *degrees_of(self._region, place), *more)

        if answers.kind is AnswerKind.DISTANCE:
            return CountedDistance(ask, **limits)
        if answers.kind is AnswerKind.BANDS:
            return CountedBands(ask, **limits)
        return CountedFilter(ask, radii=answers.radii, **limits)

    def list_oracle(self, k: int) -> CountedOracle:
        """Open the service to an attack through lists of at most k."""

        def ask(place: Point) -> Sequence[Person]:
            return self.listed(place)[:k]

        def put(account: Person, place: Point | None) -> None:
            self._call("move", account, *((None, None) if place is None else degrees_of(self._region, place)))

        return CountedOracle(ask, put, k=k, accounts=self.accounts, most_queries=MOST_QUESTIONS)

    def listed(self, place: Point) -> list[str]:
        """Ids of the people near a place, as text."""
        self._check_time()
        answer = self._call("nearby", *degrees_of(self._region, place))
        ids_only = isinstance(answer, list | tuple) and all(isinstance(one, str | int) for one in answer)
        if not ids_only or len(set(map(str, answer))) < len(answer):
            raise OracleError(f"{self._called('nearby')} must return a list of ids, nearest first and none twice")
        return [str(one) for one in answer]

    @property
    def accounts(self) -> tuple[str, ...]:
        """The auditor's own accounts, which `move` moves."""
        accounts = getattr(self._module, "accounts", ())
        if not isinstance(accounts, list | tuple) or not all(isinstance(one, str) for one in accounts):
            raise UsageError(f"accounts in {self._path.name} must be a list of your own accounts, ids as text")
        if len(set(accounts)) < len(accounts):
            raise UsageError(f"accounts in {self._path.name} names one account twice; name each once")
        if accounts and not self.has("move"):
            raise UsageError(f"{self._path.name} names accounts but has no function move to move them")
        return tuple(accounts)

    # -- calls -------------------------------------------------------------------------------------------------

    def _called(self, name: str) -> str:
        return f"{name}() in {self._path.name}"

    def _check_time(self) -> None:
        if self._clock() - self._started > self._patience.attack_s:
            raise OutOfQueriesError(f"the attack has taken {self._patience.attack_s:g} s, which is its limit")

    def _call(self, name: str, *values: object) -> Any:
        """Call a function in a thread of its own, which cannot keep the command from ending."""
        function = getattr(self._module, name)
        self._check_arguments(name, function, values)
        answers: list[object] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                answers.append(function(*values))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, daemon=True)
        with _printing_to_stderr():
            thread.start()
            thread.join(self._patience.call_s)
        if thread.is_alive():
            self._fail(f"{self._called(name)} did not return within {self._patience.call_s:g} s")
        if errors and isinstance(errors[0], OutOfQueriesError):
            raise errors[0]
        if errors:
            self._fail(f"{self._called(name)} raised {_why(errors[0])}")
        self._answered += name != "move"
        return answers[0]

    def _check_arguments(self, name: str, function: Callable[..., object], values: Sequence[object]) -> None:
        try:
            inspect.signature(function).bind(*values)
        except ValueError:
            # Some functions do not tell what they take.
            return
        except TypeError:
            raise OracleError(f"{self._called(name)} must take ({_ARGUMENTS_OF[name]})") from None

    def _fail(self, why: str) -> NoReturn:
        """Refuse, or end the attack with what it learned from the answers before."""
        if self._answered == 0:
            raise OracleError(why)
        self.failure = why
        raise OutOfQueriesError(why)


def _why(error: BaseException) -> str:
    """What an error is and what to do about it, without its text, which may have a location in it."""
    kind = type(error).__name__
    if not isinstance(error, OSError):
        return f"{kind}; call it by itself to see why"
    # As urllib and requests have it.
    status = getattr(error, "code", getattr(getattr(error, "response", None), "status_code", None))
    if status == _TOO_MANY_REQUESTS:
        return (
            f"{kind} with status {status}: the service takes no more questions; let it raise "
            "nearveil.attacks.OutOfQueriesError then, so that the attack ends with what it knows"
        )
    return f"{kind} with status {status}" if isinstance(status, int) else f"{kind}; is the service running?"


_TOO_MANY_REQUESTS = 429


def _printing_to_stderr() -> contextlib.AbstractContextManager[object]:
    """Standard output is for the result, which may be JSON: what an adapter prints goes beside it."""
    return contextlib.redirect_stdout(sys.stderr)


# The attack.


def attack_adapter(
    adapter: Adapter,
    answers: Answers,
    region: Region,
    *,
    truth: tuple[float, float],
    target: str | None = None,
    method: str = "adaptive",
    tau_m: float = 100.0,
    seed: int = 1,
) -> AttackOutcome:
    """Attack one's own service through an adapter, and put the result beside the truth."""
    true_m = true_metres(region, truth)
    if not answers.is_list:
        (setup,) = set_up_attacks([method], region, accounts=[1], tau_m=tau_m, answers=answers)
        result = setup.attack.locate(adapter.person_oracle(answers))
    else:
        result = _attack_lists(adapter, region, true_m, target, method, tau_m, seed)
    return AttackOutcome(
        result=result, region=region, tau_m=tau_m, truth=true_m, title=f"{result.attack} on a service of one's own"
    )


def _attack_lists(
    adapter: Adapter, region: Region, truth_m: Point, target: str | None, method: str, tau_m: float, seed: int
) -> AttackResult:
    if target is None:
        raise UsageError("a list has many people; name your test account with target=ID")
    if target in adapter.accounts:
        raise UsageError("target= is one of the accounts that the attack moves; name another test account")
    k = len(adapter.listed(truth_m))
    oracle = adapter.list_oracle(max(k, 1))
    setup = _list_setup(method, region, len(oracle.accounts), tau_m)
    search = StartSearch(
        lambda place, most: adapter.listed(place)[:most],
        k=max(k, 1),
        half_extent_m=region.half_extent_m,
        rng=np.random.default_rng(seed),
    )
    try:
        start = search.start_for(target, truth_m)
    except OutOfQueriesError:
        if adapter.failure:
            raise OracleError(adapter.failure) from None
        raise OracleError(
            "nearby() took too long or refused further questions before a place was found that lists the test account"
        ) from None
    if start is None:
        raise UsageError("nearby() lists the test account from no place near truth=; check target= and truth=")
    return setup.attack.infer(oracle, target, start)


def _list_setup(method: str, region: Region, accounts: int, tau_m: float) -> AttackSetup:
    (setup,) = set_up_attacks([method], region, accounts=[max(accounts, 1)], tau_m=tau_m)
    if accounts < setup.attack.accounts_needed:
        raise UsageError(
            f"{setup.attack.name} needs accounts of your own: name them in the adapter (accounts = [...]) and define "
            "move(), or use method=unfolding"
        )
    return replace(setup, accounts=accounts)
