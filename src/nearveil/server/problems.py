"""Problems: every way in which the service refuses a request, as problem details (RFC 9457).

A problem never repeats what a client sent, because that may be a location.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from nearveil.nearby.stores.base import LeftError, Reason, StoreError
from nearveil.server.logs import log_exception, log_seldom

PROBLEM_TYPE = "application/problem+json"
URN = "urn:nearveil:problem:"


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """A refused request, with everything that the answer needs.

    Parameters
    ----------
    name : str
        Last part of the problem's type.
    status : int
        HTTP status.
    title, detail : str
        Kind of problem, and what to do about this one.
    headers : mapping, optional
        Headers of the answer.
    reason : str, optional
        A word of ours that says why, for programs.
    """

    def __init__(
        self,
        name: str,
        status: int,
        title: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(name)
        self.name, self.status, self.title, self.detail, self.reason = name, status, title, detail, reason
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers or {}))


_KINDS: dict[str, tuple[int, str, str]] = {
    "malformed-json": (400, "The body is not JSON", "Send one JSON document in UTF-8 as the body of the request."),
    "malformed-request": (400, "Not HTTP", "Send requests as HTTP/1.1 says; this connection is closed."),
    "unauthorised": (
        401,
        "No valid key",
        "Send 'Authorization: Bearer' with a platform key or a token of a person that has not expired.",
    ),
    "forbidden": (
        403,
        "Not allowed",
        "This token is of another person, or only a platform key may do this; use one of those.",
    ),
    "missing-scope": (
        403,
        "Scope missing",
        "This platform key does not have the scopes that this takes; use a key that has them.",
    ),
    "not-found": (404, "Not found", "There is nothing here; check the path, and whether the person exists."),
    "method-not-allowed": (405, "Method not allowed", "Use a method that the API's description has for this path."),
    "too-slow": (408, "Too slow", "Send each request whole and without long breaks."),
    "conflict": (409, "Conflict", "Something of this name is there already, or is still needed."),
    "chain-broken": (
        409,
        "Not the last report's receipt",
        "Nothing was kept: send as 'previous' the receipt of the last report that was answered, and if there is none "
        "or it is refused, have the platform revoke the person's tokens (DELETE /v1/people/{id}/tokens), and send the "
        "report again.",
    ),
    "cursor-expired": (
        409,
        "The list does not go on",
        "A new epoch has begun since the page before, or its last person has left the map; ask from the start.",
    ),
    "too-large": (413, "The body is too large", "Send less at once."),
    "wrong-media-type": (415, "Not JSON", "Send the body with 'Content-Type: application/json'."),
    "invalid": (422, "The request is not valid", "Compare the request with the API's description."),
    "outside-region": (
        422,
        "Outside the region",
        "Send a place in degrees within the region, which GET /v1/guarantee has.",
    ),
    "too-many-requests": (429, "Too many requests", "Wait as long as Retry-After says, and ask less often."),
    "headers-too-large": (431, "The headers are too large", "Send fewer and shorter headers."),
    "internal": (500, "The service failed", "This is a bug of the service; its log says where it arose."),
    "not-ready": (503, "Not ready", "The service is starting or stopping; try again in a moment."),
    "not-kept": (
        503,
        "Not kept",
        "The store could not keep this, or broke off before it could say so; send it again in a moment.",
    ),
    "too-many-connections": (503, "Too many connections", "Use few connections, and each of them for many requests."),
    "not-logged": (503, "Not logged", "The audit log could not be written, so nothing was done; see to it first."),
    "store-ahead": (
        503,
        "The store is ahead of the clock",
        "The store has seen a later time, so this could not be published in time, and nothing was kept. The operator "
        "sets the clock right, or stops the service and runs 'nearveil store repair-clock'.",
    ),
    "too-busy": (503, "Too busy", "More reports wait than can be written; send it again in a moment."),
}

UnreadyReason = Literal[
    "clock",
    "damaged",
    "database-away",
    "disk-failed",
    "disk-full",
    "other-noise",
    "read-only",
    "slow",
    "starting",
]
_UNREADY: dict[UnreadyReason, str] = {
    "clock": "The store is ahead of the clock; set the clock right, or run 'nearveil store repair-clock'.",
    "damaged": "The store is damaged; restore it from a backup.",
    "database-away": "The database cannot be reached; reports are refused, and known callers may ask for a while.",
    "disk-failed": "The disk of the store fails; reports are refused.",
    "disk-full": "The disk of the store is full; reports are refused until there is room.",
    "other-noise": "Another process uses the store with other noise; start this one with the same settings.",
    "read-only": "The store cannot be written; reports are refused.",
    "slow": "The store does not finish a small write; reports wait.",
    "starting": "The service is starting or stopping; try again in a moment.",
}
# After how many seconds it is worth to try again.
_RETRY_S: dict[Reason, float] = {"database-away": 5.0, "disk-full": 30.0, "read-only": 30.0}
_CLOSES = {"Connection": "close"}

PROBLEM_NAMES = frozenset(_KINDS)
"""Every problem there is: metrics count them by name."""


def _problem(
    name: str, detail: str | None = None, headers: Mapping[str, str] | None = None, reason: str | None = None
) -> Problem:
    status, title, usual = _KINDS[name]
    return Problem(name, status, title, detail or usual, headers, reason)


def malformed_json() -> Problem:
    """Return the problem of a body that is not JSON."""
    return _problem("malformed-json")


def malformed_request() -> Problem:
    """Return the problem of bytes that are not a request; it closes the connection."""
    return _problem("malformed-request", headers=_CLOSES)


def unauthorised() -> Problem:
    """Return the problem of a missing or invalid key; the reason is not disclosed."""
    return _problem("unauthorised", headers={"WWW-Authenticate": 'Bearer realm="nearveil"'})


def forbidden() -> Problem:
    """Return the problem of a caller without permission."""
    return _problem("forbidden")


def missing_scope(scope: str) -> Problem:
    """Return the problem of a platform key that lacks a scope."""
    return _problem("missing-scope", f"This platform key does not have the scope '{scope}'; use a key that has it.")


def not_found() -> Problem:
    """Return the problem of an unknown path or person."""
    return _problem("not-found")


def method_not_allowed(allow: str) -> Problem:
    """Return the problem of a method that the path does not have; ``allow`` lists those that it has."""
    return _problem("method-not-allowed", headers={"Allow": allow})


def conflict(detail: str | None = None) -> Problem:
    """Return the problem of a request that conflicts with the state of the service."""
    return _problem("conflict", detail)


def chain_broken() -> Problem:
    """Return the problem of a report that does not bring the receipt of the person's last one."""
    return _problem("chain-broken")


def cursor_expired() -> Problem:
    """Return the problem of a list that cannot go on where the page before ended."""
    return _problem("cursor-expired")


def too_large(most_bytes: int, *, closes: bool = False) -> Problem:
    """Return the problem of a body that is too large; ``closes`` closes the connection instead of reading the rest."""
    return _problem("too-large", f"Send at most {most_bytes:,} bytes at once.", _CLOSES if closes else None)


def wrong_media_type() -> Problem:
    """Return the problem of a content type other than JSON."""
    return _problem("wrong-media-type")


def invalid(detail: str | None = None) -> Problem:
    """Return the problem of an invalid request; the detail names fields, never their values."""
    return _problem("invalid", detail)


def outside_region() -> Problem:
    """Return the problem of a location outside the service's region."""
    return _problem("outside-region")


def too_many_requests(wait_s: float) -> Problem:
    """Return the problem of an exceeded rate limit, with the time to wait."""
    return _problem("too-many-requests", headers=_retry_after(wait_s))


def not_ready(wait_s: float = 1.0, *, reason: UnreadyReason | None = None) -> Problem:
    """Return the problem of a service that cannot answer, and why, in a word and in a sentence."""
    return _problem("not-ready", _UNREADY[reason] if reason else None, _retry_after(wait_s), reason)


def not_kept(reason: Reason | None = None) -> Problem:
    """Return the problem of a store that failed to keep what was sent."""
    return _problem("not-kept", headers=_retry_after(_RETRY_S.get(reason or "failed", 1.0)))


def store_ahead() -> Problem:
    """Return the problem of a report that the store would publish too late, because a clock was ahead."""
    return _problem("store-ahead", headers=_retry_after(60.0))


def not_logged() -> Problem:
    """Return the problem of a change that could not be written to the audit log."""
    return _problem("not-logged", headers=_retry_after(1.0))


def too_busy() -> Problem:
    """Return the problem of too many reports waiting to be written."""
    return _problem("too-busy", headers=_retry_after(1.0))


def too_slow() -> Problem:
    """Return the problem of a request that does not arrive in time."""
    return _problem("too-slow", headers=_CLOSES)


def headers_too_large(most_headers: int, most_bytes: int) -> Problem:
    """Return the problem of headers that are too many or too long."""
    detail = f"Send at most {most_headers:,} headers, of {most_bytes:,} bytes together."
    return _problem("headers-too-large", detail, _CLOSES)


def too_many_connections() -> Problem:
    """Return the problem of a connection for which there is no room."""
    return _problem("too-many-connections", headers=_CLOSES | _retry_after(1.0))


def internal() -> Problem:
    """Return the problem of a failed service; no details, because they may hold a location."""
    return _problem("internal")


def problem_of(error: Exception) -> Problem:
    """Return the problem for an error, and log the error unless the client caused it.

    Nothing of the error itself is passed on, because its values may be locations.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, LeftError):
        return cursor_expired()
    if isinstance(error, StoreError):
        log_seldom("store failed", error)
        return store_ahead() if error.reason == "clock" else not_kept(error.reason)
    log_exception("request failed", error)
    return internal()


def _retry_after(wait_s: float) -> dict[str, str]:
    # Whole seconds, never 0: a client that returns too early is refused again.
    return {"Retry-After": str(max(1, math.ceil(wait_s)))}


def problem_body(problem: Problem, *, in_list: bool = False) -> bytes:
    """Return the body of the answer, of type `PROBLEM_TYPE`; in a list, where there are no headers, with the wait."""
    document: dict[str, Any] = {
        "type": URN + problem.name,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.reason is not None:
        document["reason"] = problem.reason
    if in_list and (wait_s := problem.headers.get("Retry-After")) is not None:
        document["retry_after_s"] = int(wait_s)
    return json.dumps(document, ensure_ascii=False).encode()
