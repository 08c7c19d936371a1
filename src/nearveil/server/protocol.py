"""uvicorn's HTTP protocol with limits, and with a fast lane for questions and reports.

This is the only file that uses private parts of uvicorn. `pyproject.toml` bounds its version, and `fitting` tries both
protocols out at the start: a service without the fast lane is slower, one without limits does not start.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from http import HTTPStatus
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from nearveil.server.asgi import MOST_BYTES, Answers, RawHeaders, Receive, Scope, Send
from nearveil.server.auth import Caller
from nearveil.server.connections import CLOSE_S, MOST_PIPELINED, NEVER, ConnectionLimits, Connections
from nearveil.server.hot_path import NEARBY_PATH, HotRoutes, WholeAnswer
from nearveil.server.problems import (
    Problem,
    headers_too_large,
    malformed_request,
    problem_body,
    too_many_connections,
    too_many_requests,
    too_slow,
)
from nearveil.server.settings import Settings

_MOST_DROPPED_BYTES = 1024 * 1024
_TRIAL_S, _TRIAL_TURNS = 10.0, 500
_NO_LINGER = struct.pack("ii", 1, 0)
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}


class _Reading(Enum):
    """What is being received."""

    NOTHING = 0
    HEAD = 1
    NEW_BODY = 2
    BODY = 3


class _RefusedError(Exception):
    """Stops the parser."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, in front of whose parser bytes are counted, and times measured.

    The parser gathers what belongs to one header, or to one line of a body in chunks, however long that is. So it gets
    no more at once than a head may have, and no more after that unless it has come to an end of something.
    """

    registry: Connections
    answers: Answers
    tls: ssl.SSLContext | None = None

    deadline = NEVER
    write_deadline = NEVER
    _reading = _Reading.NOTHING
    _has_sent_a_request = False
    _made_progress = False
    _room_bytes = 0
    # Requests on the ordinary route that are not answered, and the one whose body is not complete.
    _under_way = 0
    _unfinished: RequestResponseCycle | None = None
    _refusal: Problem | None = None
    _is_dropping = False
    _dropped_bytes = 0
    _handshake: asyncio.Task[None] | None = None
    _is_open = False

    # -- connections -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, or refuse it as one too many."""
        if self._handshake is not None:
            self._open(transport)
            return
        self.transport = transport
        address = get_remote_addr(transport)
        if not self.registry.admit(self, address[0] if address else None):
            self._is_dropping = True
            problem = too_many_connections()
            self.registry.refused(problem.name)
            if self.tls is None:
                transport.write(self._answer(problem))
            transport.close()
            return
        self.registry.watch(self.loop)
        if self.tls is None:
            self._open(transport)
        else:
            # Not left to the listening socket: a handshake is a connection, which counts and has a deadline.
            accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
            self._handshake = self.loop.create_task(self._shake_hands(accepted, self.tls))

    def _open(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._is_open, self._room_bytes = True, self.registry.limits.header_bytes

    async def _shake_hands(self, accepted: socket.socket, tls: ssl.SSLContext) -> None:
        try:
            # Calls `connection_made` once more, when the connection is encrypted.
            await self.loop.connect_accepted_socket(
                lambda: self, accepted, ssl=tls, ssl_handshake_timeout=self.registry.limits.head_s
            )
        except (OSError, asyncio.CancelledError):
            # The client does not speak TLS, or another version; it is too slow, or gone.
            self.registry.leave(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.registry.leave(self)
        if self._is_open:
            super().connection_lost(exc)

    def expire(self) -> None:
        """End a connection that takes too long, unless it is the service that does."""
        now, limits = self.registry.clock(), self.registry.limits
        is_over = self.transport.is_closing() or (self._is_dropping and not self._under_way)
        if not self._is_open or is_over or self.write_deadline <= now:
            self.abort()
        elif self._reading is not _Reading.NOTHING and not (self._is_dropping or self.flow.read_paused):
            self._refuse(too_slow())
        elif self._reading is not _Reading.NOTHING or self._under_way:
            self.deadline = now + limits.body_s
        else:
            self.transport.close()
            self.deadline = now + CLOSE_S

    def abort(self) -> None:
        """Close at once; the system must not keep what the client does not read either."""
        if not self._is_open:
            if self._handshake is not None:
                self._handshake.cancel()
            return
        with suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    # -- bytes -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Give the parser what it may have."""
        at, size = 0, len(data)
        while at < size and self._room_bytes and not self.transport.is_closing():
            piece = data[at : at + self._room_bytes]
            at += len(piece)
            self._made_progress = False
            HttpToolsProtocol.data_received(self, piece)
            if self._reading is _Reading.NEW_BODY:
                self._reading = _Reading.BODY
                self.deadline = self.registry.clock() + self.registry.limits.body_s
            if self._is_dropping:
                break
            if self._made_progress:
                self._room_bytes = self.registry.limits.header_bytes
            else:
                self._without_progress(len(piece))
        if self._is_dropping:
            self._drop(size - at)

    def _without_progress(self, count: int) -> None:
        """Take note of bytes that ended nothing: they belong to a head, or stand between the pieces of a body."""
        limits = self.registry.limits
        if self._reading is _Reading.NOTHING:
            self._reading = _Reading.HEAD
            if self._has_sent_a_request:
                self.deadline = self.registry.clock() + limits.head_s
        self._room_bytes -= count
        if not self._room_bytes:
            self._refuse(headers_too_large(limits.headers, limits.header_bytes))

    def on_headers_complete(self) -> None:
        """Check a head before anything is done about it."""
        self._check_head()
        super().on_headers_complete()
        # Trailers come as headers do, and must not change what the head has said.
        self.headers = []
        self._unfinished = self.cycle
        self._under_way += 1
        if self.parser.should_upgrade():
            # There is nothing to upgrade to, and the parser reads no further.
            self.cycle.keep_alive = False

    def _check_head(self) -> None:
        limits = self.registry.limits
        if self.transport.is_closing():
            # An answer of just now has said that it is the last one.
            raise _RefusedError
        if len(self.headers) > limits.headers:
            self._stop_parsing(headers_too_large(limits.headers, limits.header_bytes))
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop_parsing(too_many_requests(1.0))
        if not self._has_sent_a_request:
            self._has_sent_a_request = True
            self.registry.heard(self)
        self._made_progress = True
        self._reading = _Reading.NEW_BODY

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._made_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._made_progress = True
        super().on_message_complete()
        self._unfinished = None
        self._expect_next()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there in part, or was refused."""
        self._under_way -= 1
        if self.pipeline:
            super().on_response_complete()
        else:
            # Idle connections have our deadline: uvicorn's timer for each answer would cost as much as the answer.
            self.server_state.total_requests += 1
            self.flow.resume_reading()
        if self._is_dropping:
            if not self._under_way:
                self._end()
        elif self._reading is _Reading.NOTHING:
            self._expect_next()

    def _expect_next(self) -> None:
        self._reading = _Reading.NOTHING
        self.deadline = self.registry.clock() + self.registry.limits.idle_s

    def pause_writing(self) -> None:
        """Give a client that does not read its answers a time to do so."""
        self.write_deadline = self.registry.clock() + self.registry.limits.send_s
        if self._is_open:
            super().pause_writing()

    def resume_writing(self) -> None:
        """Take note that the client reads."""
        self.write_deadline = NEVER
        if self._is_open:
            super().resume_writing()

    # -- refusals --------------------------------------------------------------------------------------------

    def _stop_parsing(self, problem: Problem) -> None:
        self._refusal = problem
        raise _RefusedError

    def send_400_response(self, msg: str) -> None:
        """Answer after the parser has stopped, whether it did so by itself or was told to."""
        del msg
        if not self.transport.is_closing():
            self._refuse(self._refusal or malformed_request())

    def _refuse(self, problem: Problem) -> None:
        """Read no further, and end the connection when the requests before are answered; then say why."""
        self.registry.refused(problem.name)
        self._is_dropping, self._room_bytes, self._refusal = True, 0, problem
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None and unfinished.response_started:
            # This request has its answer.
            self._refusal = None
        elif unfinished is not None:
            self._under_way -= 1
            if self.pipeline and self.pipeline[0][0] is unfinished:
                self.pipeline.popleft()
            unfinished.disconnected = True
            unfinished.message_event.set()
        if self._under_way:
            self.deadline = self.registry.clock() + self.registry.limits.body_s
        else:
            self._end()

    def _end(self) -> None:
        """Say why a connection ends, and end it."""
        if self.transport.is_closing():
            return
        self.deadline = self.registry.clock() + CLOSE_S
        if self._refusal is None or self.flow.write_paused:
            self.transport.close()
            return
        self.transport.write(self._answer(self._refusal))
        if self.transport.can_write_eof():
            # Closed at once, with bytes that were not read, it would be reset before the client has read the answer.
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            self.transport.close()

    def _drop(self, count: int) -> None:
        self._dropped_bytes += count
        if self._dropped_bytes > _MOST_DROPPED_BYTES:
            self.abort()

    def _answer(self, problem: Problem) -> bytes:
        body = problem_body(problem)
        headers = self.answers.problem_headers(problem, body)
        # Every refusal of a connection is its last answer.
        headers = [*self.server_state.default_headers, *headers, *([] if _CLOSE in headers else [_CLOSE])]
        return _head(problem.status, headers) + body


class _Unanswered:
    """Stands where uvicorn looks for the request that is being answered, for a report that waits to be kept."""

    def __init__(self, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = self.disconnected = False
        self.message_event = asyncio.Event()


class FastLaneProtocol(LimitedProtocol):
    """Answers questions right after parsing, and takes reports, without a task of their own.

    Most of the cost of a small request in an ASGI server is not the answer. A question does not wait for anything, so
    it can be answered at once; a report is answered when it is kept. Every other request takes the ordinary route,
    which gives the same answers.
    """

    routes: HotRoutes
    _body: bytes | None = None
    _person: str | None = None
    _head: RawHeaders
    _closes = False
    _caller: Caller | None = None

    def on_message_begin(self) -> None:
        """Begin a request, without the scope that only the ordinary route needs."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Decide which way a request takes."""
        self._body = self._caller = self._person = None
        if self._is_hot() and self._is_plain():
            self._caller = self.routes.known_caller(self.headers)
        if self._caller is None:
            self._take_ordinary_route()
        else:
            self._check_head()
            # Trailers must not change what the head has said.
            self._head, self.headers = self.headers, []
            self._body, self._closes = b"", not self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Collect a body, up to the first byte too many: a longer one is refused by its length."""
        if self._body is None:
            super().on_body(body)
            return
        self._made_progress = True
        if len(self._body) <= MOST_BYTES:
            self._body += body
        if self._person is None and len(self._body) > MOST_BYTES:
            # The ordinary route collects what comes in many pieces.
            self._hand_over(self._body)

    def on_message_complete(self) -> None:
        """Answer a request that is complete."""
        if self._body is None or self._caller is None:
            super().on_message_complete()
            return
        self._made_progress = True
        body, self._body = self._body, None
        if self._person is not None:
            self._report(self._caller, self._person, body)
        elif self.routes.needs_store(self._caller, body):
            # The ordinary route can wait.
            self._hand_over(body)
            super().on_message_complete()
        else:
            self._send(self.routes.answer_now(self._caller, self._head, body), closes=self._closes)
            self.server_state.total_requests += 1
            self._expect_next()

    def _take_ordinary_route(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        # The scope has this very list.
        self.headers += headers
        super().on_headers_complete()

    def _hand_over(self, body: bytes) -> None:
        """Let the ordinary route take a question."""
        self._body = None
        self.headers = self._head
        self._take_ordinary_route()
        self.cycle.keep_alive = not self._closes
        super().on_body(body)

    def _report(self, caller: Caller, person: str, body: bytes) -> None:
        unanswered = _Unanswered(keep_alive=not self._closes)

        def done(answer: WholeAnswer) -> None:
            unanswered.response_complete = True
            if not unanswered.disconnected:
                self._send(answer, closes=not unanswered.keep_alive)
                self.on_response_complete()

        refusal = self.routes.report_now(caller, person, self._head, body, done)
        self.cycle = unanswered  # type: ignore[assignment]
        self._under_way += 1
        self._expect_next()
        if refusal is not None:
            done(refusal)

    def _send(self, answer: WholeAnswer, *, closes: bool) -> None:
        status, headers, body = answer
        if closes and _CLOSE not in headers:
            headers = [*headers, _CLOSE]
        if not self.transport.is_closing():
            self.transport.write(_head(status, [*self.server_state.default_headers, *headers]) + body)
            if _CLOSE in headers:
                self.transport.close()

    def _is_hot(self) -> bool:
        """Whether this is a question or a report; of a report, keep whose it is."""
        method = self.parser.get_method()
        if method == b"PUT" and (location := _LOCATION.fullmatch(self.url)):
            self._person = location[1].decode("ascii")
            return True
        return method == b"POST" and self.url == _URL

    def _is_plain(self) -> bool:
        """Whether nothing else is under way on this connection, and it reads what it is sent."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not (self.flow.write_paused or self.expect_100_continue)
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )


_URL = NEARBY_PATH.encode()
# Without what would have to be decoded.
_LOCATION = re.compile(rb"/v1/people/([A-Za-z0-9_.:@~-]+)/location")
_CLOSE = (b"connection", b"close")


def _head(status: int, headers: RawHeaders) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    return b"%b%b\r\n" % (_STATUS_LINES[status], lines)


def protocol_for(
    kind: type[LimitedProtocol],
    registry: Connections,
    answers: Answers,
    *,
    routes: Any = None,
    tls: ssl.SSLContext | None = None,
) -> type[LimitedProtocol]:
    """Return a protocol for the connections of one service; ``routes`` are for the fast lane."""
    return type(kind.__name__, (kind,), {"registry": registry, "answers": answers, "routes": routes, "tls": tls})


# Trying it out: whether the installed uvicorn is one that this file knows.


@functools.cache
def fitting(kind: type[LimitedProtocol]) -> bool:
    """Whether a protocol does what it should with the installed uvicorn: tried on a made-up connection."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_works(kind))
    except (Exception, asyncio.CancelledError):  # whatever has changed, and however that shows
        return False


async def _works(kind: type[LimitedProtocol]) -> bool:
    loop, trial = asyncio.get_running_loop(), asyncio.current_task()
    # An error in a protocol is the loop's: without this the answer would be waited for.
    loop.set_exception_handler(lambda *_: trial.cancel() if trial else None)
    refused: list[str] = []
    limits = replace(ConnectionLimits.of(Settings()), header_bytes=1024, headers=5)
    registry = Connections(limits, refused=refused.append)
    protocol = protocol_for(kind, registry, Answers(), routes=_TrialRoutes())
    config = uvicorn.Config(_trial_app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()

    async def talk(*pieces: bytes, until: _Reading | None = None) -> bytes:
        """Send pieces and return all answers; ``until`` ends the connection when so much of a request is there."""
        ours, theirs = socket.socketpair()
        connection = protocol(config=config, server_state=ServerState(), app_state={}, _loop=loop)
        connection.logger = _SILENT
        await loop.connect_accepted_socket(lambda: connection, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            first = await reader.read(1) if until is _Reading.NOTHING else b""
            if until is not None:
                await _soon(lambda: connection._reading is until)
                connection.expire()
            return first + await reader.read()
        finally:
            writer.close()

    question = b"POST /v1/nearby HTTP/1.1\r\ncontent-length: 2\r\n\r\n"
    large = question.replace(b"2", b"5000", 1).replace(b"/v1/nearby", b"/other")
    last = question.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
    report = b"PUT /v1/people/ann/location HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    answer = b"fast" if issubclass(kind, FastLaneProtocol) else b"plain"
    async with asyncio.timeout(_TRIAL_S):
        answers = [
            await talk(question, b"{", b"}" + (question + b"{}") * 30 + last, b"{}"),
            await talk(large + b"1" * 5000 + last + b"{}"),
            await talk(question + b"{}", until=_Reading.NOTHING),
            await talk(b"GET / HTTP/1.1\r\nlong: ", b"1" * 2048),
            await talk(b"GET / HTTP/1.1\r\n" + b"one: 1\r\n" * 6 + b"\r\n"),
            await talk(b"GET / HTTP/1.1\r\nslow: ", until=_Reading.HEAD),
            await talk(question, b"{", until=_Reading.BODY),
            # The question waits for the report, on the ordinary route.
            await talk(report + last + b"{}"),
        ]
        await _soon(lambda: not len(registry))
    found = [[part.split(b" ")[0] for part in each.split(b"HTTP/1.1 ")[1:]] for each in answers]
    return (
        found == [[b"200"] * 32, [b"200"] * 2, [b"200"], [b"431"], [b"431"], [b"408"], [b"408"], [b"200"] * 2]
        and answers[0].count(answer) == 32
        and [part[-5:] for part in answers[-1].split(b"HTTP/1.1 ")[1:]] == [answer.rjust(5, b"\n"), b"plain"]
        and refused == ["headers-too-large"] * 2 + ["too-slow"] * 2
    )


async def _soon(condition: Callable[[], bool]) -> None:
    """Wait for what takes a few turns of the loop; turns are counted, so that a slow machine has as many."""
    for _ in range(_TRIAL_TURNS):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


_SILENT = logging.Logger("nearveil.trial", level=logging.CRITICAL)


async def _trial_app(_scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"plain"})


class _TrialRoutes:
    @staticmethod
    def known_caller(_headers: RawHeaders) -> Caller:
        return Caller("platform", "trial")

    @staticmethod
    def needs_store(_caller: Caller, _body: bytes) -> bool:
        return False

    @staticmethod
    def answer_now(_caller: Caller, _headers: RawHeaders, _body: bytes) -> WholeAnswer:
        return 200, [(b"content-length", b"4")], b"fast"

    def report_now(
        self, caller: Caller, _person: str, headers: RawHeaders, body: bytes, done: Callable[[WholeAnswer], None]
    ) -> None:
        asyncio.get_running_loop().call_soon(done, self.answer_now(caller, headers, body))
