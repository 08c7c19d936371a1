"""AccessLog: a line per request if it is wanted: method, kind of path, status and time. No id, no query, no address."""

from __future__ import annotations

import re
import time

from nearveil.server.answers import Message, Send
from nearveil.server.bodies import Receive
from nearveil.server.guard import App, Scope
from nearveil.server.logs import log_event

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
