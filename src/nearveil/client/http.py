"""Python clients of a Nearveil service, with a platform key or a person's token: `Client`, and `AsyncClient` to await.

Both have the same methods, made from the calls in `nearveil.client.calls`. Errors are one sentence. Nothing is logged.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from nearveil.client import calls
from nearveil.client.calls import Call, LocationReport, Receipt, ServiceError, UnreachableError
from nearveil.errors import UsageError
from nearveil.region import Region, as_region

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])


def _blocking(call: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """Return the method of `Client` that makes a call."""

    @wraps(call)
    def method(client: Client, /, *values: P.args, **named: P.kwargs) -> T:
        return client.send(call(*values, **named))

    return _shown(method, call)


def _awaitable(call: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return the method of `AsyncClient` that makes a call."""

    @wraps(call)
    async def method(client: AsyncClient, /, *values: P.args, **named: P.kwargs) -> T:
        return await client.send(call(*values, **named))

    return _shown(method, call)


def _shown(method: M, call: Callable[..., Call[Any]]) -> M:
    """Let help and editors show what a method takes and returns, not what its call is."""
    signature = inspect.signature(call)
    returned = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [own, *signature.parameters.values()]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)  # type: ignore[attr-defined]
    return method


class Client:
    """Client of one service, with one key.

    A request that may be repeated is sent again after a broken connection or 503, at most ``retries`` times, after
    pauses that double from 0.1 to 2 seconds (shorter at random, so that not all clients come back at once) and within
    ``deadline_s``. 429 is not repeated: the error says when to ask again (`ServiceError.retry_after_s`).

    Parameters
    ----------
    url : str
        The service's address. Over plain http it must be this machine, unless ``allow_plain_http`` says otherwise:
        a key must not travel in clear.
    key : str
        A platform's key or a person's token; empty for `is_healthy` alone.
    timeout_s : float
        How long to wait for a connection, and for an answer to go on.
    deadline_s : float, optional
        How long a call may take with all its pauses: no request is sent after it, or waited for beyond it. Three times
        ``timeout_s`` if it is left out.
    retries : int
        How often a request is sent again, at most.
    transport : httpx.BaseTransport, optional
        Another way to the service, for tests.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", "nvk_secret")
    >>> client
    Client('http://127.0.0.1:8000')
    >>> client.close()
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 10.0,
        deadline_s: float | None = None,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self._wire = Wire(url, timeout_s, deadline_s, retries, allow_plain_http=allow_plain_http)
        self._http = httpx.Client(transport=transport, **self._wire.options)
        self._key = calls.checked_key(key)

    def with_key(self, key: str) -> Client:
        """Return a client with another key that shares the connections; closing one closes both."""
        other = object.__new__(Client)
        other._wire, other._http, other._key = self._wire, self._http, calls.checked_key(key)
        return other

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._wire.shown_url!r})"

    def send(self, call: Call[T]) -> T:
        """Make a call and return what its answer says."""
        attempts = Attempts(self._wire, call)
        while True:
            try:
                answer = self._http.request(**attempts.request(self._key))
            except httpx.HTTPError as error:
                pause_s = attempts.pause_after_error(error)
            else:
                waits_s = attempts.pause_after_answer(answer)
                if waits_s is None:
                    return call.read(answer)
                pause_s = waits_s
            self._wire.pause(pause_s)

    # The service.
    is_healthy = _blocking(calls.is_healthy)
    is_ready = _blocking(calls.is_ready)
    guarantee = _blocking(calls.guarantee)
    ledger = _blocking(calls.ledger)
    metrics = _blocking(calls.metrics)
    intervals = _blocking(calls.intervals)
    put_intervals = _blocking(calls.put_intervals)
    advance_epoch = _blocking(calls.advance_epoch)
    # People.
    create_person = _blocking(calls.create_person)
    delete_person = _blocking(calls.delete_person)
    export = _blocking(calls.export)
    issue_token = _blocking(calls.issue_token)
    revoke_tokens = _blocking(calls.revoke_tokens)
    set_tags = _blocking(calls.set_tags)
    blocked = _blocking(calls.blocked)
    set_blocked = _blocking(calls.set_blocked)
    block = _blocking(calls.block)
    unblock = _blocking(calls.unblock)
    # Locations.
    report = _blocking(calls.report)
    withdraw = _blocking(calls.withdraw)
    nearby = _blocking(calls.nearby)

    def create_people(self, people: Sequence[str]) -> int:
        """Create many people; return how many are new."""
        parts = [calls.create_people_at_once(part) for part in calls.in_parts(people, calls.MOST_PEOPLE_AT_ONCE)]
        return sum(self.send(part) for part in parts)

    def report_many(self, reports: Sequence[LocationReport]) -> list[Receipt | ServiceError]:
        """Report where people are, 1,000 in a request; return for each its receipt, or why it was refused."""
        parts = [calls.report_at_once(part) for part in calls.in_parts(reports, calls.MOST_REPORTS_AT_ONCE)]
        return [answer for part in parts for answer in self.send(part)]

    def nearby_pages(
        self,
        latitude: float,
        longitude: float,
        *,
        k: int = 100,
        within_m: float | None = None,
        asker: str | None = None,
        only: Sequence[Sequence[str]] = (),
        exclude: Sequence[str] = (),
    ) -> Iterator[list[str]]:
        """Return the whole list, k people at a time; each page is a question of its own, asked when it is wanted.

        Status 409 says that an epoch has ended meanwhile, or that the last person of a page has left: ask anew.
        """
        first = calls.nearby(latitude, longitude, k=k, within_m=within_m, asker=asker, only=only, exclude=exclude)
        question = calls.PagedQuestion(first)
        while question.has_more:
            yield self.send(question.next_page())


class AsyncClient:
    """The same for asyncio: parameters and methods as of `Client`, which are awaited here.

    Examples
    --------
    >>> async def who_is_near() -> list[str]:
    ...     async with AsyncClient("http://127.0.0.1:8000", "nvk_secret") as client:
    ...         return await client.nearby(37.77, -122.42, k=10)
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 10.0,
        deadline_s: float | None = None,
        retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self._wire = Wire(url, timeout_s, deadline_s, retries, allow_plain_http=allow_plain_http)
        self._http = httpx.AsyncClient(transport=transport, **self._wire.options)
        self._key = calls.checked_key(key)

    def with_key(self, key: str) -> AsyncClient:
        """Return a client with another key that shares the connections; closing one closes both."""
        other = object.__new__(AsyncClient)
        other._wire, other._http, other._key = self._wire, self._http, calls.checked_key(key)
        return other

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._wire.shown_url!r})"

    async def send(self, call: Call[T]) -> T:
        """Make a call and return what its answer says."""
        attempts = Attempts(self._wire, call)
        while True:
            try:
                answer = await self._http.request(**attempts.request(self._key))
            except httpx.HTTPError as error:
                pause_s = attempts.pause_after_error(error)
            else:
                waits_s = attempts.pause_after_answer(answer)
                if waits_s is None:
                    return call.read(answer)
                pause_s = waits_s
            await self._wire.pause_async(pause_s)

    # The service.
    is_healthy = _awaitable(calls.is_healthy)
    is_ready = _awaitable(calls.is_ready)
    guarantee = _awaitable(calls.guarantee)
    ledger = _awaitable(calls.ledger)
    metrics = _awaitable(calls.metrics)
    intervals = _awaitable(calls.intervals)
    put_intervals = _awaitable(calls.put_intervals)
    advance_epoch = _awaitable(calls.advance_epoch)
    # People.
    create_person = _awaitable(calls.create_person)
    delete_person = _awaitable(calls.delete_person)
    export = _awaitable(calls.export)
    issue_token = _awaitable(calls.issue_token)
    revoke_tokens = _awaitable(calls.revoke_tokens)
    set_tags = _awaitable(calls.set_tags)
    blocked = _awaitable(calls.blocked)
    set_blocked = _awaitable(calls.set_blocked)
    block = _awaitable(calls.block)
    unblock = _awaitable(calls.unblock)
    # Locations.
    report = _awaitable(calls.report)
    withdraw = _awaitable(calls.withdraw)
    nearby = _awaitable(calls.nearby)

    async def create_people(self, people: Sequence[str]) -> int:
        """Create many people; return how many are new."""
        parts = [calls.create_people_at_once(part) for part in calls.in_parts(people, calls.MOST_PEOPLE_AT_ONCE)]
        return sum([await self.send(part) for part in parts])

    async def report_many(self, reports: Sequence[LocationReport]) -> list[Receipt | ServiceError]:
        """Report where people are, 1,000 in a request; return for each its receipt, or why it was refused."""
        parts = [calls.report_at_once(part) for part in calls.in_parts(reports, calls.MOST_REPORTS_AT_ONCE)]
        return [answer for part in parts for answer in await self.send(part)]

    async def nearby_pages(
        self,
        latitude: float,
        longitude: float,
        *,
        k: int = 100,
        within_m: float | None = None,
        asker: str | None = None,
        only: Sequence[Sequence[str]] = (),
        exclude: Sequence[str] = (),
    ) -> AsyncIterator[list[str]]:
        """Return the whole list, k people at a time; see `Client.nearby_pages`."""
        first = calls.nearby(latitude, longitude, k=k, within_m=within_m, asker=asker, only=only, exclude=exclude)
        question = calls.PagedQuestion(first)
        while question.has_more:
            yield await self.send(question.next_page())


# When a request is sent again.


_SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
_CONNECTION_ERRORS = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
_BUSY = 503


class Wire:
    """One service and how to talk to it, shared by all clients with keys of their own."""

    def __init__(
        self, url: str, timeout_s: float, deadline_s: float | None, retries: int, *, allow_plain_http: bool
    ) -> None:
        address = _checked(url, allow_plain_http=allow_plain_http)
        deadline_s = 3 * timeout_s if deadline_s is None else deadline_s
        if not (0 < timeout_s < math.inf and 0 < deadline_s < math.inf):
            raise UsageError("the time limit is a number of seconds greater than 0")
        if retries < 0:
            raise UsageError("the number of retries is 0 or more")
        self.timeout_s, self.deadline_s, self.retries = timeout_s, deadline_s, retries
        self.shown_url = str(address)
        # A proxy of the environment would see a key that travels in clear; encrypted it may pass through one.
        self.options: dict[str, Any] = {"base_url": address, "trust_env": address.scheme == "https"}
        self.clock: Callable[[], float] = time.monotonic
        self.pause: Callable[[float], None] = time.sleep
        self.pause_async: Callable[[float], Awaitable[None]] = asyncio.sleep


class Attempts:
    """The requests of one call: what each sends, and how long to wait before the next one."""

    def __init__(self, wire: Wire, call: Call[Any]) -> None:
        self._wire, self._call = wire, call
        self._ends = wire.clock() + wire.deadline_s
        self._left = wire.retries if call.is_repeatable else 0
        self._longest_s = _SHORTEST_PAUSE_S

    def request(self, key: str) -> dict[str, Any]:
        """Return what is sent, with the time that is left for it."""
        call, left_s = self._call, self._ends - self._wire.clock()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if call.content is not None:
            headers["Content-Type"] = "application/json"
        return {
            "method": call.method,
            "url": call.path,
            "json": call.json,
            "content": call.content,
            "headers": headers,
            # The pauses leave some time.
            "timeout": min(self._wire.timeout_s, max(left_s, 0.001)),
        }

    def pause_after_error(self, error: httpx.HTTPError) -> float:
        """Return how long to wait before the next request; raise if there is to be none."""
        pause_s = self._pause_s() if isinstance(error, _CONNECTION_ERRORS) else None
        if pause_s is None:
            raise UnreachableError(
                f"the service at {self._wire.shown_url} did not answer ({type(error).__name__}); is it running?"
            ) from None
        return pause_s

    def pause_after_answer(self, answer: httpx.Response) -> float | None:
        """Return None for an answer that counts, else how long to wait; raise if the service has refused."""
        if answer.is_success or answer.status_code in self._call.also:
            return None
        refusal = calls.refusal_of(answer)
        pause_s = self._pause_s(refusal.retry_after_s or 0.0) if refusal.status == _BUSY else None
        if pause_s is None:
            raise refusal
        return pause_s

    def _pause_s(self, at_least_s: float = 0.0) -> float | None:
        pause_s = max(at_least_s, self._longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        self._longest_s = min(2 * self._longest_s, LONGEST_PAUSE_S)
        self._left -= 1
        fits = self._left >= 0 and at_least_s <= LONGEST_PAUSE_S and self._wire.clock() + pause_s < self._ends
        return pause_s if fits else None


def _checked(url: str, *, allow_plain_http: bool) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise UsageError("the service's address is not a web address; write it as http://127.0.0.1:8000") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise UsageError("the service's address begins with http:// or https://, such as http://127.0.0.1:8000")
    if address.userinfo or address.query or address.fragment:
        raise UsageError("the service's address has no user name, question mark or # in it; give the key apart from it")
    if address.scheme == "http" and not (allow_plain_http or _is_loopback(address.host)):
        raise UsageError(
            "over http:// the key would travel in clear to another machine; use https://, or in a network of your own "
            "allow plain http (allow_plain_http=True)"
        )
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Which region a service is for.


_EDGES = ("south", "west", "north", "east")


def region_of(client: Client, asked: str | None) -> Region:
    """Return the named region, otherwise the one that the service states."""
    if asked is not None:
        return as_region(asked)
    said = client.guarantee().document.get("region")
    if isinstance(said, dict) and all(isinstance(said.get(edge), int | float) for edge in _EDGES):
        south, west, north, east = (float(said[edge]) for edge in _EDGES)
        return Region(south, west, north, east)
    raise UsageError("the service does not say which region it is for; name it with --region")
