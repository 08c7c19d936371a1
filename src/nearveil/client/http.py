"""Python client of a Nearveil service, with a platform key or a person's token.

No answer prints a location or a token, errors are one sentence, and nothing is logged.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from nearveil.errors import NearveilError, UsageError
from nearveil.nearby.stores.base import LONGEST_ID, is_person_id
from nearveil.region import Region, named_region, parse_region

PROBLEM_PREFIX = "urn:nearveil:problem:"

TOO_MANY = 429


class ServiceError(NearveilError):
    """A service refused, failed, or could not be reached.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if there was no answer.
    name : str
        The problem's name, such as ``unknown-person``; empty if the answer names none.
    title, detail : str
        What the service says.
    retry_after_s : float or None
        When to try again, where the service says so.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        name: str = "",
        title: str = "",
        detail: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.name, self.title, self.detail = status, name, title, detail
        self.retry_after_s = retry_after_s


class UnreachableError(ServiceError):
    """No answer at all."""


# Answers of a service, as frozen values. None of them prints a location or a token.


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A person's token and when it ends, as the service wrote it."""

    token: str = field(repr=False)
    expires_at: Any


@dataclass(frozen=True, slots=True)
class Receipt:
    """Answer to a report.

    Attributes
    ----------
    status : str
        "taken", or "published" where protection is off.
    receipt : str
        Names the report; the next report's ``previous``.
    publishes_at : float or None
        The next epoch boundary, in seconds since 1970.
    """

    status: str
    receipt: str = ""
    publishes_at: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it is published at an epoch boundary only."""
        return self.status == "taken"


@dataclass(frozen=True, slots=True, eq=False)
class ServiceCard:
    """The service's guarantee as text, and the whole answer."""

    text: str
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class LedgerState:
    """State of the ledger: the epoch, and the whole answer."""

    epoch: int | None
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ServiceIntervals:
    """Intervals that a service uses: their fingerprint, and the whole answer."""

    fingerprint: str | None
    document: Mapping[str, Any] = field(repr=False)


# The client.


MOST_PEOPLE_AT_ONCE = 10_000


class Client:
    """Client of one service, with one key.

    Parameters
    ----------
    url : str
        The service's address. Over plain http it must be this machine, unless ``allow_plain_http`` says otherwise:
        a key must not travel in clear.
    key : str
        A platform's key or a person's token; empty for `is_healthy` alone.
    timeout_s : float
        How long to wait for an answer.
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
        transport: httpx.BaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self._wire = Wire(url, timeout_s=timeout_s, transport=transport, allow_plain_http=allow_plain_http)
        self._key = checked_key(key)

    def with_key(self, key: str) -> Client:
        """Return a client with another key that shares the connections; closing one closes both."""
        other = object.__new__(Client)
        other._wire, other._key = self._wire, checked_key(key)
        return other

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._wire.shown_url!r})"

    # -- the service -------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Return whether the service is healthy."""
        return self._is_fine("/healthz")

    def is_ready(self) -> bool:
        """Return whether the service can answer questions."""
        return self._is_fine("/readyz")

    def _is_fine(self, path: str) -> bool:
        try:
            self._get(path)
        except ServiceError as error:
            if error.status == 503:
                return False
            raise
        return True

    def guarantee(self) -> ServiceCard:
        """Return the guarantee of the service."""
        answer = self._get("/v1/guarantee")
        return ServiceCard(field_of(answer, "text", str), json_of(answer))

    def ledger(self) -> LedgerState:
        """Return the ledger's state; platforms only."""
        document = object_of(self._get("/v1/ledger"))
        epoch = document.get("epoch")
        return LedgerState(epoch if isinstance(epoch, int) else None, document)

    def metrics(self) -> str:
        """Return the service's metrics as Prometheus reads them."""
        return self._get("/metrics").text

    def intervals(self) -> ServiceIntervals:
        """Return which intervals are in use."""
        document = object_of(self._get("/v1/intervals"))
        fingerprint = document.get("fingerprint")
        return ServiceIntervals(fingerprint if isinstance(fingerprint, str) else None, document)

    def put_intervals(self, file: str) -> int:
        """Hand over an intervals file as it was written; return the epoch from which on it is used."""
        answer = self._send("PUT", "/v1/intervals", repeatable=True, content=file.encode())
        return int(field_of(answer, "from_epoch", int))

    def advance_epoch(self) -> int:
        """Go to the next epoch at once, where the service has test hooks; return it."""
        return int(field_of(self._send("POST", "/v1/epoch", repeatable=False), "epoch", int))

    # -- people ------------------------------------------------------------------------------------------------

    def create_person(self, person: str) -> bool:
        """Create a person; whether there was none of this id before."""
        return self._send("PUT", person_path(person), repeatable=True).status_code == 201

    def create_people(self, people: Sequence[str]) -> int:
        """Create many people; return how many are new."""
        for person in people:
            checked_id(person)
        created = 0
        for start in range(0, len(people), MOST_PEOPLE_AT_ONCE):
            part = list(people[start : start + MOST_PEOPLE_AT_ONCE])
            answer = self._send("POST", "/v1/people", repeatable=False, json={"ids": part})
            created += int(field_of(answer, "created", int))
        return created

    def delete_person(self, person: str) -> bool:
        """Erase a person; whether there was one."""
        return self._delete(person_path(person))

    def export(self, person: str) -> dict[str, Any]:
        """Return everything held about a person."""
        return object_of(self._get(person_path(person)))

    def issue_token(self, person: str, *, expires_in_s: int = 3600) -> IssuedToken:
        """Return a token with which a person can use the service; platforms only."""
        body = {"expires_in_s": expires_in_s}
        answer = self._send("POST", person_path(person, "/tokens"), repeatable=False, json=body)
        return IssuedToken(field_of(answer, "token", str), field_of(answer, "expires_at", (str, int, float)))

    def revoke_tokens(self, person: str) -> bool:
        """Void the tokens made for a person so far; whether there was such a person."""
        return self._delete(person_path(person, "/tokens"))

    def set_tags(self, person: str, tags: Sequence[str]) -> None:
        """Give a person these tags, and no others; platforms only."""
        self._send("PUT", person_path(person, "/tags"), repeatable=True, json={"tags": list(tags)})

    def blocked(self, person: str) -> list[str]:
        """Return whom a person has blocked."""
        return list(field_of(self._get(person_path(person, "/blocked")), "ids", list))

    def set_blocked(self, person: str, others: Sequence[str]) -> None:
        """Let these be all whom a person has blocked."""
        body = {"ids": [checked_id(other) for other in others]}
        self._send("PUT", person_path(person, "/blocked"), repeatable=True, json=body)

    def block(self, person: str, other: str) -> None:
        """Block somebody for a person: neither finds the other any more."""
        self._send("PUT", person_path(person, f"/blocked/{quote(checked_id(other), safe='')}"), repeatable=True)

    def unblock(self, person: str, other: str) -> None:
        """Block somebody no more for a person."""
        self._send("DELETE", person_path(person, f"/blocked/{quote(checked_id(other), safe='')}"), repeatable=True)

    # -- places ------------------------------------------------------------------------------------------------

    def report(self, person: str, latitude: float, longitude: float, *, previous: str | None = None) -> Receipt:
        """Report where a person is.

        ``previous`` is the receipt of the last report that was answered, and ``secrets.token_hex(12)`` with the first
        one. The service takes no other report of the person then. With the same ``previous`` a report may be sent
        again; one without is sent once. Status 409 says that somebody else has reported: ask for a new token.
        """
        body: dict[str, Any] = place_body(latitude, longitude)
        if previous is not None:
            body["previous"] = previous
        answer = self._send("PUT", person_path(person, "/location"), repeatable=previous is not None, json=body)
        document = object_of(answer)
        at = document.get("publishes_at")
        moment = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
        return Receipt(field_of(answer, "status", str), str(document.get("receipt") or ""), moment)

    def withdraw(self, person: str) -> bool:
        """Take a person off the map; whether there was such a person."""
        return self._delete(person_path(person, "/location"))

    def nearby(
        self,
        latitude: float,
        longitude: float,
        *,
        k: int = 10,
        within_m: float | None = None,
        asker: str | None = None,
        only: Sequence[Sequence[str]] = (),
        exclude: Sequence[str] = (),
    ) -> list[str]:
        """Return the ids of the people near a location, nearest first.

        ``only`` people who have at least one tag of each of these groups, and nobody of those to ``exclude``.
        """
        body = question_body(latitude, longitude, k, within_m, asker, only, exclude)
        return self._page(body)[0]

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
        body = {**question_body(latitude, longitude, k, within_m, asker, only, exclude), "paged": True}
        following: str | None = ""
        while following is not None:
            ids, following = self._page({**body, "after": following} if following else body)
            yield ids

    def _page(self, body: Mapping[str, Any]) -> tuple[list[str], str | None]:
        # A question changes nothing, so that it may be asked again.
        answer = self._send("POST", "/v1/nearby", repeatable=True, json=body)
        ids, following = field_of(answer, "ids", list), object_of(answer).get("next")
        if not all(isinstance(person, str) for person in ids) or not isinstance(following, str | None):
            raise strange(answer)
        return list(ids), following

    # -- underneath --------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, *, json: Any = None, also: Collection[int] = ()) -> httpx.Response:
        """Return the whole answer to any request that may be repeated, for audits: a success, or one ``also`` has."""
        return self._wire.send(method, path, self._key, repeatable=True, json=json, also=also)

    def _get(self, path: str) -> httpx.Response:
        return self._send("GET", path, repeatable=True)

    def _delete(self, path: str) -> bool:
        try:
            self._send("DELETE", path, repeatable=True)
        except ServiceError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _send(
        self, method: str, path: str, *, repeatable: bool, json: Any = None, content: bytes | None = None
    ) -> httpx.Response:
        return self._wire.send(method, path, self._key, repeatable=repeatable, json=json, content=content)


# What is checked before it is sent.


def checked_key(key: str) -> str:
    """Return a key that can stand in a request's head."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError("this is not a key of a Nearveil service; keys begin with nvk_ and tokens with nvt_")
    return key


def checked_id(person: str) -> str:
    """Return an id that a service takes."""
    if not is_person_id(person):
        raise UsageError(f"an id is 1 to {LONGEST_ID} of the characters A-Z a-z 0-9 _ . : @ -, and not only dots")
    return person


def person_path(person: str, rest: str = "") -> str:
    """Return a person's address, with what follows it."""
    # The dots of an id that is nothing but dots would otherwise be taken for steps through folders.
    name = quote(checked_id(person), safe="")
    return f"/v1/people/{name.replace('.', '%2E') if not person.strip('.') else name}{rest}"


def place_body(latitude: float, longitude: float) -> dict[str, float]:
    """Return a place as requests hold it."""
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        raise UsageError("a location is two numbers, latitude and longitude in degrees")
    return {"latitude": float(latitude), "longitude": float(longitude)}


def question_body(
    latitude: float,
    longitude: float,
    k: int,
    within_m: float | None,
    asker: str | None,
    only: Sequence[Sequence[str]],
    exclude: Sequence[str],
) -> dict[str, Any]:
    """Return a question, without what was not asked for."""
    if isinstance(only, str) or any(isinstance(group, str) for group in only):
        raise UsageError('each group is a list of tags, also a group of one: [["woman", "nonbinary"], ["25-35"]]')
    body: dict[str, Any] = {**place_body(latitude, longitude), "k": k}
    if within_m is not None:
        body["within_m"] = within_m
    if asker is not None:
        body["asker"] = checked_id(asker)
    if only:
        body["only"] = [list(group) for group in only]
    if exclude:
        body["exclude"] = [checked_id(person) for person in exclude]
    return body


# Wire: requests with a key in their head, answers checked, errors in one sentence. Nothing is logged.


_PAUSES_S = (0.1, 0.4)
_LONGEST_DETAIL = 300
_CONNECTION_ERRORS = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)


class Wire:
    """One service and its connections, shared by all who talk to it with a key of their own."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        transport: httpx.BaseTransport | None,
        allow_plain_http: bool,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        address = _checked(url, allow_plain_http=allow_plain_http)
        if not 0 < timeout_s < math.inf:
            raise UsageError("the time limit is a number of seconds greater than 0")
        self._pause = pause
        # A proxy of the environment would see a key that travels in clear; encrypted it may pass through one.
        self._http = httpx.Client(
            base_url=address, timeout=timeout_s, transport=transport, trust_env=address.scheme == "https"
        )
        self.shown_url = str(address)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        key: str,
        *,
        repeatable: bool,
        json: Any = None,
        content: bytes | None = None,
        also: Collection[int] = (),
    ) -> httpx.Response:
        """Send a request and return the answer if it is a success, or has a status that ``also`` has.

        It is repeated only where that changes nothing.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        for wait_s in (*(_PAUSES_S if repeatable else ()), None):
            try:
                answer = self._http.request(method, path, json=json, content=content, headers=headers)
            except _CONNECTION_ERRORS as error:
                if wait_s is None:
                    raise self._unreachable(error) from None
                self._pause(wait_s)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            else:
                if not answer.is_success and answer.status_code not in also:
                    raise _refusal(answer)
                return answer
        raise AssertionError("the last turn returns or raises")  # pragma: no cover

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        return UnreachableError(
            f"the service at {self.shown_url} did not answer ({type(error).__name__}); is it running?"
        )


def json_of(answer: httpx.Response) -> Any:
    """Return the answer's JSON."""
    try:
        return answer.json()
    except ValueError:
        raise strange(answer) from None


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the answer's JSON, which is an object."""
    document = json_of(answer)
    if not isinstance(document, dict):
        raise strange(answer)
    return document


def field_of(answer: httpx.Response, name: str, kind: type | tuple[type, ...]) -> Any:
    """Return one field of an answer that is a JSON object."""
    value = object_of(answer).get(name)
    if not isinstance(value, kind):
        raise strange(answer)
    return value


def strange(answer: httpx.Response) -> ServiceError:
    """Return the error of an answer that no Nearveil service gives."""
    return ServiceError(
        "the service answered something else than a Nearveil service does; check the address",
        status=answer.status_code,
    )


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
            "allow plain http (--plain-http)"
        )
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(answer: httpx.Response) -> ServiceError:
    """Return what the service says as an error: its problem details where it has any."""
    try:
        document = answer.json()
    except ValueError:
        document = {}
    said = document if isinstance(document, dict) else {}
    kind, title, detail = (str(said.get(name) or "") for name in ("type", "title", "detail"))
    title = title or answer.reason_phrase
    text = " ".join(detail.split())[:_LONGEST_DETAIL]
    return ServiceError(
        f"the service refused ({answer.status_code} {title})" + (f": {text}" if text else ""),
        status=answer.status_code,
        name=kind.removeprefix(PROBLEM_PREFIX) if kind.startswith(PROBLEM_PREFIX) else "",
        title=title,
        detail=detail,
        retry_after_s=_retry_after_s(answer),
    )


def _retry_after_s(answer: httpx.Response) -> float | None:
    try:
        wait_s = float(answer.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return wait_s if answer.status_code in (TOO_MANY, 503) and 0 <= wait_s < math.inf else None


# Which region a service is for.


_USUAL = "san-francisco"
_EDGES = ("south", "west", "north", "east")


def region_of(client: Client, asked: str | None) -> Region:
    """Return the named region, otherwise the one that the service states, otherwise the default."""
    if asked is not None:
        return parse_region(asked)
    said = client.guarantee().document.get("region")
    if isinstance(said, dict) and all(isinstance(said.get(edge), int | float) for edge in _EDGES):
        south, west, north, east = (float(said[edge]) for edge in _EDGES)
        return Region(south, west, north, east)
    return named_region(_USUAL)
