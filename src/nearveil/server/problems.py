"""Problems: every way in which the service refuses a request, as problem details (RFC 9457).

A problem's words are ours alone. What a client sent is never repeated: it may be a place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

PROBLEM_TYPE = "application/problem+json"
URN = "urn:nearveil:problem:"


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """A request that is refused, with everything that the answer needs.

    Parameters
    ----------
    name : str
        Last part of the problem's type.
    status : int
        Of HTTP.
    title, detail : str
        What kind of problem it is, and what to do about this one.
    headers : mapping, optional
        Of the answer.
    """

    def __init__(
        self, name: str, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name)
        self.name, self.status, self.title, self.detail = name, status, title, detail
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers or {}))


_KINDS: dict[str, tuple[int, str, str]] = {
    "malformed-json": (400, "The body is not JSON", "Send one JSON document in UTF-8 as the body of the request."),
    "unauthorised": (
        401,
        "No valid key",
        "Send 'Authorization: Bearer' with a platform key or a token of a person that has not expired.",
    ),
    "forbidden": (403, "Not yours", "This key or token may not do this; use a platform key, or that person's token."),
    "not-found": (404, "Not found", "There is nothing here; check the path, and whether the person exists."),
    "method-not-allowed": (405, "Method not allowed", "Use a method that the API's description has for this path."),
    "conflict": (409, "Not as things are", "Something of this name is there already, or is still needed."),
    "too-large": (413, "The body is too large", "Send less at once."),
    "invalid": (422, "The request is not valid", "Compare the request with the API's description."),
    "outside-region": (422, "Outside the region", "Send a place within the service's region, in degrees."),
    "too-many-requests": (429, "Too many requests", "Wait as long as Retry-After says, and ask less often."),
    "unusual-behaviour": (
        429,
        "Unusual behaviour",
        "Recent questions and moves of this person are not those of somebody who is looking around; try again later.",
    ),
    "not-ready": (503, "Not ready", "The service is starting or stopping; try again in a moment."),
}

PROBLEM_NAMES = frozenset(_KINDS)
"""Every problem there is: metrics count them by name."""


def _problem(name: str, detail: str | None = None, headers: Mapping[str, str] | None = None) -> Problem:
    status, title, usual = _KINDS[name]
    return Problem(name, status, title, detail or usual, headers)


def malformed_json() -> Problem:
    """Return that the body cannot be read as JSON."""
    return _problem("malformed-json")


def unauthorised() -> Problem:
    """Return that there is no key, or none that is valid; it is not said why."""
    return _problem("unauthorised", headers={"WWW-Authenticate": 'Bearer realm="nearveil"'})


def forbidden() -> Problem:
    """Return that the caller is known and may not do this."""
    return _problem("forbidden")


def not_found() -> Problem:
    """Return that there is no such path or person."""
    return _problem("not-found")


def method_not_allowed(allow: str) -> Problem:
    """Return that the path is there and the method is not; ``allow`` lists those that are."""
    return _problem("method-not-allowed", headers={"Allow": allow})


def conflict(detail: str | None = None) -> Problem:
    """Return that the request does not fit what is there."""
    return _problem("conflict", detail)


def too_large(most_bytes: int) -> Problem:
    """Return that the body has more bytes than may be sent."""
    return _problem("too-large", f"Send at most {most_bytes:,} bytes at once.")


def invalid(detail: str | None = None) -> Problem:
    """Return that the request does not fit the API; the detail names fields, and never what was in them."""
    return _problem("invalid", detail)


def outside_region() -> Problem:
    """Return that a place is not in the service's region."""
    return _problem("outside-region")


def too_many_requests(wait_s: float) -> Problem:
    """Return that a limit is reached, and when to come back."""
    return _problem("too-many-requests", headers=_retry_after(wait_s))


def unusual_behaviour(wait_s: float) -> Problem:
    """Return that the asker is throttled for what they did lately."""
    return _problem("unusual-behaviour", headers=_retry_after(wait_s))


def not_ready(wait_s: float = 1.0) -> Problem:
    """Return that the service cannot answer now."""
    return _problem("not-ready", headers=_retry_after(wait_s))


def _retry_after(wait_s: float) -> dict[str, str]:
    # Whole seconds, never 0: who comes back too early only waits longer.
    return {"Retry-After": str(max(1, math.ceil(wait_s)))}


def problem_body(problem: Problem) -> bytes:
    """Return the body of the answer, of type `PROBLEM_TYPE`."""
    document = {
        "type": URN + problem.name,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    return json.dumps(document, ensure_ascii=False).encode()


# Answers in plain ASGI: heads that are made once and problems, with the headers that every answer has.


Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

UNPROTECTED_HEADER = (b"nearveil-protection", b"off")
ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_MOST_HEADS = 4096


class Answers:
    """Sends JSON and problems.

    Parameters
    ----------
    is_unprotected : bool
        Protection is off: every answer says so.
    """

    def __init__(self, *, is_unprotected: bool) -> None:
        self.always = (*ALWAYS, UNPROTECTED_HEADER) if is_unprotected else ALWAYS
        self._heads: dict[tuple[int, int], Message] = {}

    def json_headers(self, status: int, body: bytes) -> RawHeaders:
        """Return the headers of a JSON document."""
        head = self._heads.get((status, len(body))) or self._new_head(status, len(body))
        headers: RawHeaders = head["headers"]
        return headers

    def problem_headers(self, problem: Problem, body: bytes) -> RawHeaders:
        """Return the headers of a problem."""
        own = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        return [*_content(PROBLEM_TYPE.encode(), len(body)), *self.always, *own]

    async def send_json(self, send: Send, status: int, body: bytes) -> None:
        """Send a JSON document."""
        size = len(body)
        head = self._heads.get((status, size)) or self._new_head(status, size)
        await send(head)
        await send({"type": "http.response.body", "body": body})

    async def send_problem(self, send: Send, problem: Problem) -> None:
        """Send what is wrong."""
        body = problem_body(problem)
        headers = self.problem_headers(problem, body)
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _new_head(self, status: int, size: int) -> Message:
        headers = [*_content(b"application/json", size), *self.always]
        head: Message = {"type": "http.response.start", "status": status, "headers": headers}
        if len(self._heads) < _MOST_HEADS:
            self._heads[status, size] = head
        return head


def _content(kind: bytes, size: int) -> RawHeaders:
    return [(b"content-type", kind), (b"content-length", str(size).encode())]


# Problems that only the running service has: another type of body, a store that fails, a failure of its own.


def wrong_media_type() -> Problem:
    """Return that the body is said to be something else than JSON."""
    return Problem("wrong-media-type", 415, "Not JSON", "Send the body with 'Content-Type: application/json'.")


def not_kept() -> Problem:
    """Return that the store did not keep what was sent, so that nothing is promised about it."""
    detail = "The store could not keep this; nothing was changed, send it again in a moment."
    return Problem("not-kept", 503, "Not kept", detail, {"Retry-After": "1"})


def too_busy() -> Problem:
    """Return that more waits to be written than can be."""
    detail = "More reports wait than can be written; send it again in a moment."
    return Problem("too-busy", 503, "Too busy", detail, {"Retry-After": "1"})


def internal() -> Problem:
    """Return that the service failed; nothing is said of where, which may hold a place."""
    return Problem("internal", 500, "The service failed", "This is a bug of the service; its log says where it arose.")
