"""Middleware: `Guard` stands before every route but the hot ones, `AccessLog` around everything.

Who calls is found out before anything else is looked at.
"""

from __future__ import annotations

import ipaddress
import re
import time

from nearveil.server.asgi import (
    MOST_BYTES_OF_INTERVALS,
    Answers,
    App,
    ClientLeftError,
    Message,
    RawHeaders,
    Receive,
    Scope,
    Send,
    authorization_of,
)
from nearveil.server.logs import log_event
from nearveil.server.problems import Problem, problem_of, too_large
from nearveil.server.service import Service

CALLER = "nearveil.caller"
OPEN_PROBE = "nearveil.open_probe"
OPENAPI_PATH = "/openapi.json"
HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"

_PROBES = frozenset({READY_PATH, METRICS_PATH})
_NEEDS_KEY = frozenset({OPENAPI_PATH, *_PROBES})
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip"})
_HARDENED = (
    # The console's page brings a policy of its own.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    """Middleware: keys, sizes, headers, and a problem for whatever goes wrong.

    Parameters
    ----------
    app : ASGI application
        What is guarded.
    service : Service
        Knows the callers.
    """

    def __init__(self, app: App, service: Service) -> None:
        self._app = app
        self._service = service
        self._answers = Answers(is_unprotected=service.is_unprotected)
        self._headers = [*self._answers.always, *_HARDENED]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering = _Answering(send, self._headers)
        try:
            await self._let_in(scope)
            await self._app(scope, _limited(receive), answering.send)
        except ClientLeftError:
            return
        except Exception as error:
            await self._refuse(answering, send, problem_of(error))

    async def _let_in(self, scope: Scope) -> None:
        path: str = scope["path"]
        if not (path.startswith("/v1/") or path in _NEEDS_KEY):
            return
        if path in _PROBES and self._service.settings.open_probes and _is_from_here(scope):
            scope[OPEN_PROBE] = True
            return
        scope[CALLER] = await self._service.admit(authorization_of(scope["headers"]))

    async def _refuse(self, answering: _Answering, send: Send, problem: Problem) -> None:
        self._service.metrics.rejected(problem.name)
        if not answering.has_begun:
            await self._answers.send_problem(send, problem)


class _Answering:
    """Adds headers to an answer where it has none of the name, and remembers whether it has begun."""

    def __init__(self, send: Send, headers: RawHeaders) -> None:
        self._send = send
        self._headers = headers
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message = {**message, "headers": own + [header for header in self._headers if header[0] not in names]}
        await self._send(message)


def _is_from_here(scope: Scope) -> bool:
    """Whether a request comes from this machine and not through a proxy on it."""
    client = scope.get("client")
    if not client or any(name in _FORWARDED for name, _ in scope["headers"]):
        return False
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _limited(receive: Receive) -> Receive:
    """Let no route read more than the largest body there is, whatever its own limit."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BYTES_OF_INTERVALS:
            raise too_large(MOST_BYTES_OF_INTERVALS)
        return message

    return receive_some


_PERSON = re.compile(r"^(/v1/people/)[^/]+")
_KNOWN = re.compile(r"/(healthz|readyz|metrics|openapi\.json|v1/(nearby|guarantee|ledger|intervals|epoch|people))?")
_KNOWN_OF_PERSON = re.compile(r"/v1/people/\{id\}(/(location|tokens))?")


class AccessLog:
    """Middleware around everything.

    Parameters
    ----------
    app : ASGI application
        What answers.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_and_see(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            milliseconds = round(1000 * (time.perf_counter() - started), 3)
            log_event("request", method=scope["method"], route=kind_of(scope["path"]), status=status, ms=milliseconds)


def kind_of(path: str) -> str:
    """Return a path without what a client chose in it.

    Examples
    --------
    >>> kind_of("/v1/people/ann/location"), kind_of("/37.77,-122.42")
    ('/v1/people/{id}/location', 'other')
    """
    kind = _PERSON.sub(r"\1{id}", path)
    return kind if _KNOWN.fullmatch(kind) or _KNOWN_OF_PERSON.fullmatch(kind) else "other"
