"""The fast lane: questions are answered where the request has just been parsed, without a task of their own.

Most of what a small request costs in an ASGI server is not the answer. A question waits for nothing, so that it can be
answered on the spot; whatever is not a plain question takes the usual way, where the same route answers the same.
"""

from __future__ import annotations

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nearveil.server.access import Caller
from nearveil.server.answers import RawHeaders
from nearveil.server.bodies import MOST_BYTES
from nearveil.server.hot_route import NEARBY_PATH, HotRoutes

_URL = NEARBY_PATH.encode()
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}


def fast_lane(routes: HotRoutes) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with a fast lane for the questions of a service."""
    return type("FastLaneProtocol", (_FastLane,), {"routes": routes})


class _FastLane(HttpToolsProtocol):
    routes: HotRoutes
    _question: bytes | None = None
    _caller: Caller | None = None

    def on_headers_complete(self) -> None:
        """Decide which way a request takes."""
        self._question = self._caller = None
        if self.url == _URL and self.parser.get_method() == b"POST" and self._is_plain():
            self._caller = self.routes.known_caller(self.headers)
        if self._caller is None:
            super().on_headers_complete()
        else:
            self._question = b""

    def on_body(self, body: bytes) -> None:
        """Collect a question's body, up to the first byte too many: a longer one is refused by its length."""
        if self._question is None:
            super().on_body(body)
        elif len(self._question) <= MOST_BYTES:
            self._question += body

    def on_message_complete(self) -> None:
        """Answer a question that is complete."""
        if self._question is None or self._caller is None:
            super().on_message_complete()
            return
        question, self._question = self._question, None
        status, headers, answer = self.routes.answer_now(self._caller, self.headers, question)
        closes = not self.parser.should_keep_alive() or (b"connection", b"close") in headers
        self.transport.write(_head(status, headers) + answer)
        if closes:
            self.transport.close()
        self.on_response_complete()

    def _is_plain(self) -> bool:
        """Whether nothing else is under way on this connection, and it reads what it is sent."""
        return (
            self.routes.answers_at_once
            and (self.cycle is None or self.cycle.response_complete)
            and not (self.flow.write_paused or self.expect_100_continue)
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )


def _head(status: int, headers: RawHeaders) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    return b"%b%b\r\n" % (_STATUS_LINES[status], lines)
