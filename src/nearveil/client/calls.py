"""The requests that a Nearveil service takes and the answers that it gives, for both clients in `nearveil.client.http`.

Each function describes a request and how its answer is read, as a `Call`. Its parameters are checked before anything is
sent, and no answer prints a location or a token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from nearveil.errors import NearveilError, UsageError
from nearveil.nearby.stores.base import LONGEST_ID, is_person_id

PROBLEM_PREFIX = "urn:nearveil:problem:"

TOO_MANY = 429

T = TypeVar("T")


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
        "taken".
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


@dataclass(frozen=True, slots=True)
class LocationReport:
    """Where a person is, for `Client.report_many`; it never prints where."""

    person: str
    latitude: float = field(repr=False)
    longitude: float = field(repr=False)
    previous: str | None = field(default=None, repr=False)

    def body(self) -> dict[str, Any]:
        """Return it as requests hold it."""
        body: dict[str, Any] = {"id": checked_id(self.person), **place_body(self.latitude, self.longitude)}
        return body if self.previous is None else {**body, "previous": self.previous}


# Calls.


MOST_PEOPLE_AT_ONCE = 10_000
MOST_REPORTS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how its answer is read.

    Attributes
    ----------
    is_repeatable : bool
        Whether it may be sent again if it is not known what became of it.
    also : collection of int
        Statuses that are answers too, besides those of success.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    json: Any = field(default=None, repr=False)
    content: bytes | None = field(default=None, repr=False)
    is_repeatable: bool = True
    also: Collection[int] = ()


def _done(_: httpx.Response) -> None:
    return None


def _was_there(answer: httpx.Response) -> bool:
    return answer.status_code != 404


def _is_fine(answer: httpx.Response) -> bool:
    return answer.is_success


def is_healthy() -> Call[bool]:
    """Return whether the service is healthy."""
    return Call("GET", "/healthz", _is_fine, also=(503,))


def is_ready() -> Call[bool]:
    """Return whether the service can answer questions."""
    return Call("GET", "/readyz", _is_fine, also=(503,))


def guarantee() -> Call[ServiceCard]:
    """Return the guarantee of the service."""
    return Call("GET", "/v1/guarantee", lambda answer: ServiceCard(field_of(answer, "text", str), json_of(answer)))


def ledger() -> Call[LedgerState]:
    """Return the ledger's state; platforms only."""
    return Call("GET", "/v1/ledger", _read_ledger)


def _read_ledger(answer: httpx.Response) -> LedgerState:
    document = object_of(answer)
    epoch = document.get("epoch")
    return LedgerState(epoch if isinstance(epoch, int) else None, document)


def metrics() -> Call[str]:
    """Return the service's metrics as Prometheus reads them."""
    return Call("GET", "/metrics", lambda answer: answer.text)


def intervals() -> Call[ServiceIntervals]:
    """Return which intervals are in use."""
    return Call("GET", "/v1/intervals", _read_intervals)


def _read_intervals(answer: httpx.Response) -> ServiceIntervals:
    document = object_of(answer)
    fingerprint = document.get("fingerprint")
    return ServiceIntervals(fingerprint if isinstance(fingerprint, str) else None, document)


def put_intervals(file: str) -> Call[int]:
    """Hand over an intervals file as it was written; return the epoch from which on it is used."""
    return Call("PUT", "/v1/intervals", lambda answer: int(field_of(answer, "from_epoch", int)), content=file.encode())


def advance_epoch() -> Call[int]:
    """Go to the next epoch at once, where the service has test hooks; return it."""
    return Call("POST", "/v1/epoch", lambda answer: int(field_of(answer, "epoch", int)), is_repeatable=False)


# Calls about people.


def create_person(person: str) -> Call[bool]:
    """Create a person; whether there was none of this id before."""
    return Call("PUT", person_path(person), lambda answer: answer.status_code == 201)


def create_people_at_once(people: Sequence[str]) -> Call[int]:
    """Create people, as many as one request holds; return how many are new."""
    body = {"ids": [checked_id(person) for person in people]}
    return Call(
        "POST", "/v1/people", lambda answer: int(field_of(answer, "created", int)), json=body, is_repeatable=False
    )


def delete_person(person: str) -> Call[bool]:
    """Erase a person; whether there was one."""
    return Call("DELETE", person_path(person), _was_there, also=(404,))


def export(person: str) -> Call[dict[str, Any]]:
    """Return what is held about a person: id, creation time, published location, tags, and whom they have blocked."""
    return Call("GET", person_path(person), object_of)


def issue_token(person: str, *, expires_in_s: int = 3600) -> Call[IssuedToken]:
    """Return a token with which a person can use the service; platforms only."""
    body = {"expires_in_s": expires_in_s}
    return Call("POST", person_path(person, "/tokens"), _read_token, json=body, is_repeatable=False)


def _read_token(answer: httpx.Response) -> IssuedToken:
    return IssuedToken(field_of(answer, "token", str), field_of(answer, "expires_at", (str, int, float)))


def revoke_tokens(person: str) -> Call[bool]:
    """Void the tokens made for a person so far; whether there was such a person."""
    return Call("DELETE", person_path(person, "/tokens"), _was_there, also=(404,))


def set_tags(person: str, tags: Sequence[str]) -> Call[None]:
    """Give a person these tags, and no others; platforms only."""
    return Call("PUT", person_path(person, "/tags"), _done, json={"tags": list(tags)})


def blocked(person: str) -> Call[list[str]]:
    """Return whom a person has blocked."""
    return Call("GET", person_path(person, "/blocked"), lambda answer: list(field_of(answer, "ids", list)))


def set_blocked(person: str, others: Sequence[str]) -> Call[None]:
    """Let these be all whom a person has blocked."""
    body = {"ids": [checked_id(other) for other in others]}
    return Call("PUT", person_path(person, "/blocked"), _done, json=body)


def block(person: str, other: str) -> Call[None]:
    """Block somebody for a person: neither finds the other any more."""
    return Call("PUT", person_path(person, f"/blocked/{quote(checked_id(other), safe='')}"), _done)


def unblock(person: str, other: str) -> Call[None]:
    """Block somebody no more for a person."""
    return Call("DELETE", person_path(person, f"/blocked/{quote(checked_id(other), safe='')}"), _done)


# Calls about locations.


def report(person: str, latitude: float, longitude: float, *, previous: str | None = None) -> Call[Receipt]:
    """Report where a person is.

    ``previous`` is the receipt of the last report that was answered, and ``secrets.token_hex(12)`` with the first
    one. The service takes no other report of the person then. With the same ``previous`` a report may be sent
    again; one without is sent once. Status 409 says that somebody else has reported: ask for a new token.
    """
    body = LocationReport(person, latitude, longitude, previous).body()
    del body["id"]
    path = person_path(person, "/location")
    return Call(
        "PUT",
        path,
        lambda answer: _receipt(object_of(answer), answer),
        json=body,
        is_repeatable=previous is not None,
    )


def report_at_once(reports: Sequence[LocationReport]) -> Call[list[Receipt | ServiceError]]:
    """Report locations, as many as one request holds."""
    return Call(
        "POST",
        "/v1/locations",
        lambda answer: _receipts(answer, len(reports)),
        json={"reports": [one.body() for one in reports]},
        is_repeatable=all(one.previous is not None for one in reports),
    )


def _receipts(answer: httpx.Response, number: int) -> list[Receipt | ServiceError]:
    documents = field_of(answer, "answers", list)
    if len(documents) != number or not all(isinstance(document, dict) for document in documents):
        raise strange(answer)
    return [
        _receipt(document, answer)
        if isinstance(document.get("status"), str)
        else refusal(document.get("status"), document, retry_after_s=document.get("retry_after_s"))
        for document in documents
    ]


def _receipt(document: Mapping[str, Any], answer: httpx.Response) -> Receipt:
    status, at = document.get("status"), document.get("publishes_at")
    if not isinstance(status, str):
        raise strange(answer)
    moment = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
    return Receipt(status, str(document.get("receipt") or ""), moment)


def withdraw(person: str) -> Call[bool]:
    """Take a person off the map; whether there was such a person."""
    return Call("DELETE", person_path(person, "/location"), _was_there, also=(404,))


def nearby(
    latitude: float,
    longitude: float,
    *,
    k: int = 10,
    within_m: float | None = None,
    asker: str | None = None,
    only: Sequence[Sequence[str]] = (),
    exclude: Sequence[str] = (),
) -> Call[list[str]]:
    """Return the ids of the people near a location, nearest first.

    ``only`` people who have at least one tag of each of these groups, and nobody of those to ``exclude``.
    """
    body = question_body(latitude, longitude, k, within_m, asker, only, exclude)
    # A question changes nothing, so that it may be asked again.
    return Call("POST", "/v1/nearby", lambda answer: _read_page(answer)[0], json=body)


Page = tuple[list[str], str | None]
"""Ids, and what the next page comes after."""


class PagedQuestion:
    """A question whose list is asked for page by page."""

    def __init__(self, question: Call[list[str]]) -> None:
        self._body = {**question.json, "paged": True}
        self._after: str | None = ""

    @property
    def has_more(self) -> bool:
        """Whether there is another page."""
        return self._after is not None

    def next_page(self) -> Call[list[str]]:
        """Return the call for the next page."""
        body = {**self._body, "after": self._after} if self._after else self._body
        return Call("POST", "/v1/nearby", self._read, json=body)

    def _read(self, answer: httpx.Response) -> list[str]:
        ids, self._after = _read_page(answer)
        return ids


def _read_page(answer: httpx.Response) -> Page:
    ids, following = field_of(answer, "ids", list), object_of(answer).get("next")
    if not all(isinstance(person, str) for person in ids) or not isinstance(following, str | None):
        raise strange(answer)
    return list(ids), following


def in_parts(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Cut what one request does not hold."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


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


# How answers are read.


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


_LONGEST_DETAIL = 300


def refusal_of(answer: httpx.Response) -> ServiceError:
    """Return what the service says as an error: its problem details where it has any."""
    try:
        document = answer.json()
    except ValueError:
        document = {}
    said = document if isinstance(document, dict) else {}
    return refusal(
        answer.status_code, {"title": answer.reason_phrase, **said}, retry_after_s=answer.headers.get("Retry-After")
    )


def refusal(status: Any, problem: Mapping[str, Any], *, retry_after_s: Any = None) -> ServiceError:
    """Return problem details as an error."""
    number = status if isinstance(status, int) else 500
    kind, title, detail = (str(problem.get(name) or "") for name in ("type", "title", "detail"))
    text = " ".join(detail.split())[:_LONGEST_DETAIL]
    return ServiceError(
        f"the service refused ({number} {title})" + (f": {text}" if text else ""),
        status=number,
        name=kind.removeprefix(PROBLEM_PREFIX) if kind.startswith(PROBLEM_PREFIX) else "",
        title=title,
        detail=detail,
        retry_after_s=_wait_s(number, retry_after_s),
    )


def _wait_s(status: int, said: Any) -> float | None:
    try:
        wait_s = float(said)
    except (TypeError, ValueError):
        return None
    return wait_s if status in (TOO_MANY, 503) and 0 <= wait_s < math.inf else None
