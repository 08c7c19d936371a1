"""Middleware: `Guard` stands before every route but the hot ones, `AccessLog` and `Traced` around everything.

Who calls is found out before anything else is looked at.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from nearveil.server.asgi import (
    ALWAYS,
    MOST_BYTES_OF_INTERVALS,
    Answers,
    App,
    ClientLeftError,
    Message,
    Receive,
    Scope,
    Send,
    authorization_of,
)
from nearveil.server.auth import Caller
from nearveil.server.logs import log_event
from nearveil.server.problems import Problem, problem_of, too_large
from nearveil.server.scopes import ROUTES
from nearveil.server.service import Service
from nearveil.server.settings import is_loopback
from nearveil.server.traces import Traces

CALLER = "nearveil.caller"
OPEN_PROBE = "nearveil.open_probe"
OPENAPI_PATH = "/openapi.json"
HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"

_PROBES = frozenset({READY_PATH, METRICS_PATH})
_NEEDS_KEY = frozenset({OPENAPI_PATH, *_PROBES})
_FORWARDED = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
# [::1]:8000, or a name or an address of IPv4 with or without a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]+)?")
_HEADERS = (
    *ALWAYS,
    # The pages of the console bring a policy of their own.
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
        self._answers = Answers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering = _Answering(send)
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
        if path in _PROBES and self._service.settings.open_probes and self._is_open_probe(scope):
            scope[OPEN_PROBE] = True
            return
        scope[CALLER] = await self._service.admit(authorization_of(scope["headers"]))

    def _is_open_probe(self, scope: Scope) -> bool:
        """Whether a request comes from this machine, not through a proxy on it, and not from a page in a browser.

        A page can point its own name at this machine (DNS rebinding) and then read what it answers, but the Host header
        has that name.
        """
        client, headers = scope.get("client"), scope["headers"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if not client or len(hosts) != 1 or any(name in _FORWARDED for name, _ in headers):
            return False
        named = _HOST.fullmatch(hosts[0])
        host = (named[1] or named[2]).lower() if named else ""
        return is_loopback(client[0]) and (is_loopback(host) or host == self._service.settings.host.lower())

    async def _refuse(self, answering: _Answering, send: Send, problem: Problem) -> None:
        self._service.metrics.rejected(problem.name)
        if not answering.has_begun:
            await self._answers.send_problem(send, problem)


class _Answering:
    """Adds headers to an answer where it has none of the name, and remembers whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message = {**message, "headers": own + [header for header in _HEADERS if header[0] not in names]}
        await self._send(message)


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


_CHOSEN = {"people": "{id}", "platform-keys": "{name}"}
_NAMED = re.compile(r"^/v1/(people|platform-keys)/[^/]+")
_OTHER = re.compile(r"(?<=^/v1/people/\{id\}/blocked/)[^/]+$")
_KNOWN = {"/", HEALTH_PATH, *(path for _, path in ROUTES)}


class _Observer(ABC):
    """Middleware around everything that sees when a request is answered, and how."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter_ns(), 0

        async def send_and_see(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            self._answered(scope, status, time.perf_counter_ns() - started)

    @abstractmethod
    def _answered(self, scope: Scope, status: int, elapsed_ns: int) -> None:
        """Take note of an answer."""


class AccessLog(_Observer):
    """Logs each request.

    Parameters
    ----------
    app : ASGI application
        What answers.
    caller_name : callable
        Returns how to name a caller, without a person's id.
    """

    def __init__(self, app: App, caller_name: Callable[[Caller], str]) -> None:
        super().__init__(app)
        self._caller_name = caller_name

    def _answered(self, scope: Scope, status: int, elapsed_ns: int) -> None:
        caller: Caller | None = scope.get(CALLER)
        log_event(
            "request",
            method=scope["method"],
            route=kind_of(scope["path"]),
            **({} if caller is None else {"caller": self._caller_name(caller)}),
            status=status,
            ms=round(elapsed_ns / 1e6, 3),
        )


class Traced(_Observer):
    """Traces a share of the requests.

    Parameters
    ----------
    app : ASGI application
        What answers.
    traces : Traces
        Where spans go.
    """

    def __init__(self, app: App, traces: Traces) -> None:
        super().__init__(app)
        self._traces = traces

    def _answered(self, scope: Scope, status: int, elapsed_ns: int) -> None:
        self._traces.add(scope["method"], kind_of(scope["path"]), status, elapsed_ns)


def kind_of(path: str) -> str:
    """Return a path without what a client chose in it.

    Examples
    --------
    >>> kind_of("/v1/people/ann/location"), kind_of("/37.77,-122.42")
    ('/v1/people/{id}/location', 'other')
    >>> kind_of("/v1/people/ann/blocked/eve")
    '/v1/people/{id}/blocked/{other}'
    """
    kind = _OTHER.sub("{other}", _NAMED.sub(lambda found: f"/v1/{found[1]}/{_CHOSEN[found[1]]}", path))
    return kind if kind in _KNOWN else "other"
