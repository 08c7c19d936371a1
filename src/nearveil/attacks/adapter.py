"""An adapter: a few Python functions through which an attack asks a service of your own about a test account.

A file, or any object, defines one of these::

    distance(latitude, longitude)           # the number that the service shows: 3 for "3 km away"
    band(latitude, longitude)               # (500, 1000): least and greatest distance in meters
    within(latitude, longitude, radius_m)   # True or False
    nearby(latitude, longitude)             # ids, in the order of the list

and, if they apply, these constants::

    radii_m = [1000, 5000]    # within() takes only these radii; range(2000, 50_000, 100) is fine too
    accounts = ["mine-1"]     # accounts of your own, for lists; move(account, latitude, longitude) moves one of them,
                              # or takes it off the map (None, None)
    fixed_rule = True         # the service always rounds in the same way, so that the attack may certify its result
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from urllib.error import URLError
from uuid import UUID

import numpy as np

from nearveil.attacks.base import Attack, AttackResult, Outcome, rank_of, step_from
from nearveil.attacks.oracle import (
    CountedBands,
    CountedDistance,
    CountedFilter,
    CountedOracle,
    OracleError,
    OutOfQueriesError,
    PersonOracle,
    Point,
    Radii,
    point_of,
)
from nearveil.attacks.registry import ATTACKS, attack_class
from nearveil.errors import NearveilError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.nearby.index import Person
from nearveil.plugins import module_of_file
from nearveil.region import Region, as_region

ANSWERS_OF = {"distance": "distance", "band": "bands", "within": "filter", "nearby": "list"}
"""The functions of which an adapter has one, and what each answers with."""
_ARGUMENTS_OF = {"within": "latitude, longitude, radius_m", "move": "account, latitude, longitude"}

# Distances on a sphere, as many services compute them, differ by up to 0.35 % from those on the ellipsoid.
_TOLERANCE = 0.005
MOST_QUERIES = 200
_LONGEST_CALL_S = 60.0
_TOO_MANY_REQUESTS = 429
_LARGEST_RADIUS_M = 1e6
# Lists that are shorter end for want of users.
_SHORTEST_FULL_LIST, _MOST_LISTED = 5, 5000


class NotListedError(UsageError):
    """No list near the truth shows the user."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdapterResult:
    """The result of an attack through an adapter, and where the user truly is, in meters."""

    result: AttackResult
    region: Region
    truth_m: Point = field(repr=False)

    @property
    def error_m(self) -> float | None:
        """Distance from the estimate to the true location; None without an estimate."""
        estimate = self.result.estimate
        return None if estimate is None else math.dist(estimate, self.truth_m)


def adapter(service: object) -> Adapter:
    """Return the adapter in a Python file, or made of any object that has its functions.

    Examples
    --------
    >>> class App:
    ...     def distance(self, latitude, longitude):
    ...         return round(math.hypot(latitude - 52.49, (longitude - 13.42) * 0.61) * 111.2)
    >>> found = adapter(App()).attack((52.49, 13.42))
    >>> found.error_m < 100, found.result.queries < 30
    (True, True)
    """
    if not isinstance(service, str | Path):
        return Adapter(service, type(service).__name__)
    path = Path(service)
    module, error = _result_of(module_of_file, (path,), _LONGEST_CALL_S)
    if isinstance(error, UsageError):
        raise error from None
    if error is not None:
        raise UsageError(f"{path.name} cannot be loaded: {_reason(error, path.name)}") from None
    return Adapter(module, path.name)


class Adapter:
    """Functions that ask a service, called with a time limit and named in every error.

    ``service`` has the functions, such as a module; errors call it ``name``. A call that takes longer than ``call_s``
    seconds is an error; None if calls have time limits of their own.
    """

    def __init__(self, service: object, name: str, *, call_s: float | None = _LONGEST_CALL_S) -> None:
        self._service, self._name, self._call_s = service, name, call_s
        defined = [each for each in ANSWERS_OF if callable(getattr(service, each, None))]
        if len(defined) != 1:
            has = f"{' and '.join(defined)}; keep" if defined else f"none of {', '.join(ANSWERS_OF)}; define"
            raise UsageError(f"{name} defines {has} one of these functions, which is then asked")
        self._function = defined[0]
        self.answers = ANSWERS_OF[self._function]
        self.accounts, self._radii = self._checked_accounts(), self._checked_radii()
        self.failure: str | None = None
        """Which call ended the last attack early."""

    def attack(
        self, truth: tuple[float, float], *, user: str | None = None, region: Region | str | None = None,
        method: str | None = None, tau_m: float = 100.0, seed: int = 1,
        on_query: Callable[[int], None] = lambda _: None, on_kind: Callable[[str], None] = lambda _: None,
    ) -> AdapterResult:  # fmt: skip
        """Attack a test account that is truly at ``truth``, which the attack does not see.

        Parameters
        ----------
        truth : (float, float)
            Latitude and longitude of the test account; the result is compared with it.
        user : str, optional
            The id of the test account in lists.
        region : Region or str, optional
            The attack asks from here; by default a box around the truth, anywhere in which the truth may be.
        method : str, optional
            An attack, by default the one that suits the answers.
        on_query, on_kind : callable
            Called with 1 after each query; called once with a sentence about what the service answers.
        """
        if not (abs(truth[0]) <= 90 and abs(truth[1]) <= 180):
            raise UsageError("truth= is a latitude from -90 to 90 and a longitude from -180 to 180; correct it")
        rng = np.random.default_rng(seed)
        half_m = max(_HALF_BOX_M, 3 * min(self._radii.fixed_m, default=0.0))
        box = box_around(truth, rng, half_m) if region is None else as_region(region)
        if not box.contains([truth])[0]:
            raise UsageError(f"truth= is outside the region {box}; give latitude first, then longitude, in degrees")
        truth_m = point_of(box.to_metres([truth])[0])
        self._box, self._on_query, self._on_kind = box, on_query, on_kind
        self._answered, self.failure = 0, None
        attack = self._attack_by(method, tau_m)
        search = partial(find_start, truth_m=truth_m, region=box, rng=rng)
        start: Point | None
        if self._function == "nearby":
            result, start = self._attack_lists(attack, user, search)
        elif user is not None:
            raise UsageError(f"{self._called} is about one test account already; do not name a user")
        else:
            start = self._start_within(search)
            result = attack.locate(self._person_oracle(), start)
        if result.outcome is not Outcome.FOUND and start is not None and math.dist(start, truth_m) <= tau_m:
            # Such an estimate is near because the start was.
            result = replace(result, estimate=None, radius_m=None)
        return AdapterResult(result=result, region=box, truth_m=truth_m)

    def _attack_by(self, method: str | None, tau_m: float) -> Attack:
        """Return the attack of that name; without accounts the one that needs none, in place of the adaptive one."""
        kind = attack_class(method or "adaptive")
        if self._function == "nearby" and not self.accounts and kind.accounts_needed:
            needs_none = [each for each in ATTACKS.values() if not each.accounts_needed]
            if kind is not ATTACKS["adaptive"] or not needs_none:
                raise UsageError(f"{kind.name} needs accounts: name yours in {self._name} (accounts) and define move()")
            kind = needs_none[0]
        return kind.for_region(self._box, tau_m=tau_m, accounts=max(len(self.accounts), 1))

    # -- answers about one user ----------------------------------------------------------------------------------------

    def _person_oracle(self) -> PersonOracle:
        limits: dict[str, Any] = {
            "most_queries": MOST_QUERIES, "tolerance": _TOLERANCE, "source": self._called,
            # Only the operator of the service can know that.
            "has_fixed_rule": getattr(self._service, "fixed_rule", False) is True,
        }  # fmt: skip

        def ask(point: Point, *more: float) -> object:
            answer = self._call(self._function, *location_of(self._box, point), *more)
            if self._function == "distance" and isinstance(answer, str):
                raise OracleError(f'{self._called} returned text; return what it says, such as 3 for "3 km away"')
            if self._answered == 1:
                self._on_kind(self._kind(answer))
            return answer

        if self._function == "distance":
            return CountedDistance(ask, **limits)
        if self._function == "band":
            return CountedBands(ask, **limits)
        return CountedFilter(ask, radii=self._radii, **limits)

    def _kind(self, answer: object) -> str:
        """Say what kind of answer the first one is."""
        is_whole = isinstance(answer, Integral) or (isinstance(answer, float) and answer.is_integer())
        radii_m = self._radii.fixed_m
        one_of = f" of {radii_m[0]:,g} m" if len(radii_m) == 1 else f", one of {len(radii_m):,}" if radii_m else ""
        kinds = {
            "distance": "a distance" + ", in whole numbers as it seems" * is_whole,
            "band": "a band of distances",
            "within": f"yes or no, within a radius{one_of}",
            "nearby": f"{answer}; accounts to move: {len(self.accounts)}",
        }
        return f"Your service answers with {kinds[self._function]}."

    def _start_within(self, search: Callable[..., Point | None]) -> Point | None:
        """Return a location within a radius of the user, if radii are too short to find one by chance."""
        oracle, radius_m = self._person_oracle(), max(self._radii.fixed_m, default=math.inf)
        if not isinstance(oracle, CountedFilter) or radius_m > min(self._box.half_extent_m) / 5:
            return None
        return self._start(search, lambda point: ["user"] if oracle.within(point, radius_m) else [], "user", 1)

    def _start(
        self, search: Callable[..., Point | None], listing: Callable[[Point], Sequence[str]], user: str, k: int
    ) -> Point:
        try:
            start = search(listing, user, k=k)
        except OutOfQueriesError as error:
            reason = self.failure or error
            raise OracleError(f"{reason}; no location was found by then from which the user is shown") from None
        if start is None:
            raise NotListedError(f"{self._called} shows the test account from no location near it; check both")
        return start

    # -- lists ---------------------------------------------------------------------------------------------------------

    def _attack_lists(
        self, attack: Attack, user: str | None, search: Callable[..., Point | None]
    ) -> tuple[AttackResult, Point]:
        if user is None:
            raise UsageError("a list has many users: say which id is that of your test account")
        if user in self.accounts:
            raise UsageError("the test account is one of the accounts that the attack moves; name another one")
        lengths = set[int]()

        def listing(point: Point) -> list[str]:
            listed = self._listed(point, "long_list" if hasattr(self._service, "long_list") else "nearby")
            lengths.add(len(listed))
            return listed

        # Known of services that are searched by longer lists.
        k = getattr(self._service, "list_length", None)
        start = self._start(search, listing, user, k or _MOST_LISTED)
        low, high = min(lengths), max(lengths)
        self._on_kind(self._kind(f"lists of {low:,} ids" if low == high else f"lists of {low:,} to {high:,} ids"))
        # Lists of one length are the k nearest; others end for another reason, and none of them is full.
        k = k or (high if low == high >= _SHORTEST_FULL_LIST else _MOST_LISTED)
        oracle = CountedOracle(
            lambda point: self._listed(point)[:k], self._put, k=k, accounts=tuple(self.accounts),
            most_queries=MOST_QUERIES,
        )  # fmt: skip
        return attack.infer(oracle, user, start), start

    def _put(self, account: Person, point: Point | None) -> None:
        location, failure = (None, None) if point is None else location_of(self._box, point), self.failure
        try:
            self._call("move", self.accounts[str(account)], *location)
        except OracleError:
            if point is not None:
                raise
            # At the end all leave the map, also if the service takes no more calls; the result does not depend on it.
            self.failure = failure

    def _listed(self, point: Point, function: str = "nearby") -> list[str]:
        """Return the ids near a point, as text."""
        answer = self._call(function, *location_of(self._box, point))
        if not isinstance(answer, list | tuple):
            raise OracleError(f"{self._called} must return a list of ids, not a value of type {type(answer).__name__}")
        if others := {type(each).__name__ for each in answer if not _is_id(each)}:
            raise OracleError(
                f"{self._called} must return a list of ids, text or whole numbers, not values of type "
                f'{", ".join(sorted(others))}; return the id of each user, such as user["id"]'
            )
        ids = [str(each) for each in answer]
        if not len(set(ids)) == len(ids) <= _MOST_LISTED:
            raise OracleError(f"{self._called} must return at most {_MOST_LISTED:,} ids, and none of them twice")
        return ids

    def _checked_accounts(self) -> dict[str, object]:
        """Return the accounts as `move` takes them, by their ids as text."""
        accounts = getattr(self._service, "accounts", ()) if self._function == "nearby" else ()
        if not isinstance(accounts, list | tuple) or not all(map(_is_id, accounts)):
            raise UsageError(f"accounts in {self._name} must be a list of the ids of your own accounts")
        if accounts and not callable(getattr(self._service, "move", None)):
            raise UsageError(f"{self._name} names accounts but has no function move() to move them")
        return {str(account): account for account in accounts}

    def _checked_radii(self) -> Radii:
        radii_m = getattr(self._service, "radii_m", ())
        is_list = isinstance(radii_m, list | tuple | range)
        if not is_list or not all(isinstance(each, Real) and 1 <= float(each) <= _LARGEST_RADIUS_M for each in radii_m):
            raise UsageError(f"radii_m in {self._name} must be a list of radii in meters, from 1 m to 1,000 km")
        return Radii(fixed_m=tuple(map(float, radii_m)), least_m=1.0)

    @property
    def _called(self) -> str:
        return f"{self._function}() in {self._name}"

    def _call(self, name: str, *values: object) -> Any:
        """Call a function of the service; after an error the attack ends with what it knows."""
        called, function = f"{name}() in {self._name}", getattr(self._service, name)
        try:
            # Some functions do not tell what they take.
            with contextlib.suppress(ValueError):
                inspect.signature(function).bind(*values)
        except TypeError:
            raise OracleError(f"{called} must take ({_ARGUMENTS_OF.get(name, 'latitude, longitude')})") from None
        answer, error = _result_of(function, values, self._call_s)
        if error is None:
            if name != "move":
                self._answered += 1
                self._on_query(1)
            return answer
        if _status(error) == _TOO_MANY_REQUESTS or isinstance(error, OutOfQueriesError):
            if not self._answered:
                raise OracleError(f"{called} was refused at once: too many queries; wait, and try again") from None
            raise OutOfQueriesError("the service refused further queries") from None
        if isinstance(error, NearveilError):
            raise error from None
        reason = f"{called} {_reason(error, self._name)}"
        if not self._answered:
            raise OracleError(reason) from None
        self.failure = reason
        raise OutOfQueriesError(reason) from None


def _is_id(value: object) -> bool:
    return isinstance(value, str | Integral | UUID)


class _NoAnswerError(Exception):
    """A call took too long."""


def _result_of(
    function: Callable[..., object], values: Sequence[object], limit_s: float | None
) -> tuple[Any, BaseException | None]:
    """Return what a function answers, and the error that it raises; with a limit in a thread, which it cannot hold up.

    What it prints goes to standard error: standard output is for the result, which may be JSON.
    """
    if limit_s is None:
        try:
            return function(*values), None
        except NearveilError as error:
            return None, error
    answers, errors = list[object](), list[BaseException]()

    def call() -> None:
        try:
            answers.append(function(*values))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        thread.join(limit_s)
    if answers:
        return answers[0], None
    return None, errors[0] if errors else _NoAnswerError(f"did not return within {limit_s:g} s")


def _reason(error: BaseException, name: str) -> str:
    """Say what happened without the text of an error, which may have a location in it."""
    if isinstance(error, _NoAnswerError):
        return str(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == name]
    kind = type(error).__name__ + (f" in line {lines[-1]}" if lines else "")
    if isinstance(error, SyntaxError):
        return f"raised {type(error).__name__} in line {error.lineno or 1}: {error.msg}"
    if isinstance(error, ImportError):
        return f"raised {kind}: {error}"
    if (status := _status(error)) is not None:
        return f"raised {kind} with status {status}"
    is_offline = isinstance(error, ConnectionError | TimeoutError | URLError) or "Connect" in kind
    return f"raised {kind}; {'is the service running?' if is_offline else 'call it by itself to see why'}"


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, as urllib, requests, httpx or aiohttp have it."""
    places = ((error, "code"), (error, "status"), (getattr(error, "response", None), "status_code"))
    found = [getattr(place, name, None) for place, name in places] if isinstance(error, Exception) else []
    return next((status for status in found if isinstance(status, int)), None)


# Where the attack asks from.


_HALF_BOX_M = 20_000.0
_METERS_PER_DEGREE = 111_200.0
# The truth is anywhere in this share of the box, so that the box says no more than what the attack takes for granted:
# that the user is in it.
_SHARE = 0.8
_WIDEST_HALF_DEG = 85.0


def box_around(truth: tuple[float, float], rng: np.random.Generator, half_m: float) -> Region:
    """Return a box with the truth at a random point of it."""
    half_height = min(half_m, _LARGEST_RADIUS_M) / _METERS_PER_DEGREE
    level = math.cos(math.radians(truth[0]))
    half_width = min(half_height / max(level, 1e-9), _WIDEST_HALF_DEG)
    north, east = rng.uniform(-_SHARE, _SHARE, 2)
    latitude = min(max(truth[0] + north * half_height, half_height - 90.0), 90.0 - half_height)
    longitude = truth[1] + east * half_width
    return Region(
        latitude - half_height, wrap_longitude(longitude - half_width),
        latitude + half_height, wrap_longitude(longitude + half_width),
    )  # fmt: skip


def location_of(region: Region, point: Point) -> tuple[float, float]:
    """Return latitude and longitude of a point; one beyond the region is moved to its edge."""
    return point_of(region.clip(region.from_metres(np.array([point])))[0])


_FIRST_STEP_M, _STEPS_GROW, _MOST_TRIES = 50.0, 1.5, 60


def find_start(
    listing: Callable[[Point], Sequence[str]], user: str, truth_m: Point, region: Region, rng: np.random.Generator,
    *, k: int,
) -> Point | None:  # fmt: skip
    """Return where an attack begins: about as far away, in some direction, as the user is among the first k of a list.

    None if no location near the truth lists the user. These queries do not count as queries of the attack.
    """

    def rank(point: Point) -> float:
        is_inside = all(abs(value) < half for value, half in zip(point, region.half_extent_m, strict=True))
        return (rank_of(listing(point), user) or math.inf) if is_inside else math.inf

    best, best_rank, tries = truth_m, rank(truth_m), 0
    while best_rank > k and tries < _MOST_TRIES:
        # From near to far, repeatedly: it is not known how far the service has moved the user.
        reach_m = _FIRST_STEP_M * 2.0 ** (tries % 8) * math.sqrt(rng.random())
        point, tries = step_from(best, rng.uniform(0, 2 * math.pi), reach_m), tries + 1
        if (found := rank(point)) < best_rank:
            best, best_rank = point, found
    if best_rank > k:
        return None
    angle, length_m = rng.uniform(0, 2 * math.pi), _FIRST_STEP_M
    while rank(step_from(best, angle, length_m)) <= k:
        length_m *= _STEPS_GROW
    return step_from(best, angle, length_m / _STEPS_GROW) if length_m > _FIRST_STEP_M else best
