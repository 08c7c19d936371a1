"""Feed byte streams to connections of a real service, without a network, and compare with a plain reading of them.

``python -m tests.services.fuzz --minutes 5`` tries new streams for so long; the tests try the same few every time.

What should come back is found in another way: the parser alone splits the whole stream into requests, and each of them
goes straight to the application, on the plain route. Whatever the stream, however it is cut into pieces, with or
without time between them, on the fast lane and without it:

- every complete request gets that answer, status, headers and body, once and in order, up to one that ends the
  connection; at most one more answer comes, to what is incomplete or malformed;
- nothing is written after the end, no error escapes, and there is no 5xx;
- a head within the limits is never refused for its size, and one of twice the limit always is;
- no answer and no line of the log repeats a location.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import httptools
import uvicorn
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.server.running import HERE, Running, running
from tests.server.test_abuse import captured_log
from uvicorn.server import ServerState

from nearveil.server import reports
from nearveil.server.asgi import Answers
from nearveil.server.connections import ConnectionLimits, Connections
from nearveil.server.protocol import FastLaneProtocol, LimitedProtocol, protocol_for
from nearveil.server.settings import Settings

KINDS: tuple[type[LimitedProtocol], ...] = (FastLaneProtocol, LimitedProtocol)
LIMITS = replace(ConnectionLimits.of(Settings()), header_bytes=1024, headers=16)
# What must not be found: the digits of every location that is sent, wherever it is sent.
LOCATION = re.compile(rb"774937|419418")
_RECEIPT = re.compile(rb'"receipt":"[0-9a-f]+"')

Headers = list[tuple[bytes, bytes]]
Cuts = Sequence[tuple[int, bool]]
"""Where a stream is cut, and whether all that can be answered is answered before it goes on."""


# -- what should be answered ---------------------------------------------------------------------------------------


@dataclass
class Request:
    """A request as the parser alone sees it; trailers are not part of it."""

    url: bytes = b""
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    method: bytes = b""
    is_last: bool = False
    has_head: bool = False


class Framing:
    """Splits a stream into requests, byte by byte, and counts the bytes between two things that end.

    Attributes
    ----------
    requests : list of Request
        Those that are complete.
    ends : list of int
        Where each of them ends.
    is_whole : bool
        Whether nothing is left after the last one.
    longest_gaps : list of int
        For each request, and what follows the last one: most bytes that ended neither a head nor a piece of a body.
    """

    def __init__(self, stream: bytes) -> None:
        self.requests: list[Request] = []
        self.longest_gaps: list[int] = [0]
        self._now = Request()
        self._has_begun = False
        self._at = self._last_at = 0
        parser = self._parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        is_well_formed = True
        try:
            for at in range(len(stream)):
                self._at = at + 1
                parser.feed_data(stream[at : at + 1])
                if self.requests and self.requests[-1].is_last:
                    break
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            is_well_formed = False
        self.is_whole = is_well_formed and not self._has_begun
        self._progress()

    @property
    def methods(self) -> list[bytes]:
        """The methods of all requests, also of one whose body is not complete."""
        return [request.method for request in (*self.requests, *([self._now] if self._has_begun else []))]

    def _progress(self) -> None:
        self.longest_gaps[-1] = max(self.longest_gaps[-1], self._at - self._last_at)
        self._last_at = self._at

    def on_message_begin(self) -> None:
        self._now, self._has_begun = Request(), True

    def on_url(self, url: bytes) -> None:
        self._now.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._now.has_head:
            self._now.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._progress()
        now, parser = self._now, self._parser
        now.has_head, now.method = True, parser.get_method()
        now.is_last = (
            not parser.should_keep_alive() or parser.get_http_version() == "1.0" or bool(parser.should_upgrade())
        )
        if len(now.headers) > LIMITS.headers:
            raise ValueError("too many headers")
        _ = now.url and httptools.parse_url(now.url).path.decode("ascii")

    def on_body(self, body: bytes) -> None:
        self._progress()
        self._now.body += body

    def on_message_complete(self) -> None:
        self._progress()
        self.requests.append(self._now)
        self.longest_gaps.append(0)
        self._has_begun = False


@dataclass(frozen=True)
class Answer:
    """An answer; receipts, which are random, are left out of it."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def closes(self) -> bool:
        """Whether it says that the connection ends."""
        return (b"connection", b"close") in self.headers


def answers_in(received: bytes, methods: Sequence[bytes]) -> list[Answer]:
    """Read answers one after the other, each with a length, as a client must who sent requests of these methods."""
    found: list[Answer] = []
    while received:
        head, end, rest = received.partition(b"\r\n\r\n")
        assert end, "an answer was cut off"
        line, *lines = head.split(b"\r\n")
        status = int(re.fullmatch(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z ]+", line)[1])  # type: ignore[index]
        if status == 100:
            received = rest
            continue
        headers = tuple((name.lower(), value) for name, _, value in (one.partition(b": ") for one in lines))
        has_body = len(found) >= len(methods) or methods[len(found)] != b"HEAD"
        # Where a connection is refused, nobody looked at the method.
        size = int(dict(headers)[b"content-length"]) if has_body or (b"connection", b"close") in headers else 0
        size = size if has_body or len(rest) == size else 0
        assert len(rest) >= size, "an answer was cut off"
        found.append(Answer(status, headers, _RECEIPT.sub(b"", rest[:size])))
        received = rest[size:]
    return found


# -- a connection without a network --------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """The service's end of a connection. It takes what is written, and nothing after the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("192.0.2.1", 40_000), "sockname": ("127.0.0.1", 80)})
        self.protocol: Any = None
        self.received = b""
        self.is_paused = False
        self.late: list[bytes] = []
        self._loop = loop
        self._has_ended = self._is_closing = False

    def write(self, data: Any) -> None:
        if self._has_ended or self._is_closing:
            self.late.append(bytes(data))
        else:
            self.received += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._has_ended = True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    @property
    def is_over(self) -> bool:
        """Whether the service has said its last word."""
        return self._has_ended or self._is_closing

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@dataclass
class Bench:
    """A service with its log, and connections to it."""

    place: Running
    log: io.StringIO
    runner: asyncio.Runner
    token: str
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _expected: dict[tuple[bytes, bytes, bytes, bytes], Answer] = field(default_factory=dict)
    _waiting: int = 0

    def check(self, stream: bytes, cuts: Cuts) -> None:
        """Send a stream in pieces over both kinds of connection; raise if anything is not as it should be."""
        self.runner.run(self._check(stream, cuts))

    async def _check(self, stream: bytes, cuts: Cuts) -> None:
        framing = Framing(stream)
        expected: list[Answer] = []
        for request in framing.requests:
            expected.append(await self._plainly(request))
            if request.is_last or expected[-1].closes:
                break
        has_ended = bool(expected) and (framing.requests[len(expected) - 1].is_last or expected[-1].closes)
        for kind in KINDS:
            del self.refused[:], self.errors[:]
            wire = await self._send(kind, stream, cuts)
            found = answers_in(wire.received, framing.methods)
            assert not self.errors, self.errors
            assert not wire.late, "something was written after the end"
            assert all(answer.status < 500 for answer in found), found
            assert not LOCATION.search(wire.received), "an answer repeats a location"
            self._compare(found, expected, framing, has_ended=has_ended, wire=wire)
        assert not LOCATION.search(self.log.getvalue().encode()), "the log has a location"
        self.log.seek(0)
        self.log.truncate()

    def _compare(
        self, found: list[Answer], expected: list[Answer], framing: Framing, *, has_ended: bool, wire: Wire
    ) -> None:
        if "headers-too-large" in self.refused and found and found[-1].status == 431:
            before = len(found) - 1
            is_grey = max(framing.longest_gaps[: before + 1], default=0) > LIMITS.header_bytes
            is_malformed = before == len(framing.requests) and not framing.is_whole
            assert is_grey or is_malformed, "a head within the limits was refused"
            assert found[:before] == expected[:before] and found[-1].closes and wire.is_over
            return
        for at, gap in enumerate(framing.longest_gaps[: len(found)]):
            assert gap <= 2 * LIMITS.header_bytes or at == len(expected), "a head of twice the limit was answered"
        assert [_without_end(one) for one in found[: len(expected)]] == [_without_end(one) for one in expected]
        for at in range(len(expected)):
            is_end = has_ended and at == len(expected) - 1
            assert found[at].closes == is_end, "an answer must say whether the connection ends with it"
        assert wire.is_over or not has_ended
        more = found[len(expected) :]
        assert len(more) <= (0 if has_ended or framing.is_whole else 1), "an answer too many"

    async def _plainly(self, request: Request) -> Answer:
        """Give a request to the application, on the plain route, and return the answer."""
        key = request.method, request.url, repr(request.headers).encode(), request.body
        if key not in self._expected:
            url = httptools.parse_url(request.url)
            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": request.method.decode(),
                "scheme": "http",
                "path": urllib.parse.unquote(url.path.decode("ascii")),
                "raw_path": url.path,
                "query_string": url.query or b"",
                "root_path": "",
                "headers": request.headers,
                "server": ("127.0.0.1", 80),
                "client": ("192.0.2.1", 40_000),
            }
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": request.body, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await self.place.app(scope, receive, send)
            body = b"".join(message.get("body", b"") for message in sent[1:]) if request.method != b"HEAD" else b""
            headers = tuple((name.lower(), value) for name, value in sent[0]["headers"])
            self._expected[key] = Answer(sent[0]["status"], headers, _RECEIPT.sub(b"", body))
        return self._expected[key]

    async def _send(self, kind: type[LimitedProtocol], stream: bytes, cuts: Cuts) -> Wire:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.errors.append(str(context.get("exception", context))))
        registry = Connections(LIMITS, refused=self.refused.append)
        limited = protocol_for(kind, registry, Answers(), routes=self.place.app)
        # As the service is run, but for the loop.
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "proxy_headers": False}
        config = uvicorn.Config(self._app, http=limited, ws="none", lifespan="off", interface="asgi3", **quiet)
        state = ServerState()
        wire = Wire(loop)
        wire.protocol = connection = limited(config=config, server_state=state, app_state={}, _loop=loop)
        connection.connection_made(wire)
        self._waiting, begin = 0, 0
        for end, settles in [*cuts, (len(stream), True)]:
            while wire.is_paused and not wire.is_over:
                await asyncio.sleep(0)
            if wire.is_closing():
                break
            if end > begin:
                connection.data_received(stream[begin:end])
                begin = end
            if settles:
                await self._settled(state, connection, wire)
        # The client hangs up; what still waits for the rest of a request ends.
        wire.close()
        while state.tasks or len(registry):
            await asyncio.sleep(0)
        return wire

    async def _settled(self, state: ServerState, connection: LimitedProtocol, wire: Wire) -> None:
        """Return when every request that is not answered waits for the client."""
        quiet = 0
        while quiet < 4:
            await asyncio.sleep(0)
            # Reports on the fast lane have no task.
            are_answered = connection._under_way <= self._waiting or wire.is_closing()
            quiet = quiet + 1 if are_answered and len(state.tasks) == self._waiting else 0

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_and_count() -> Any:
            self._waiting += 1
            try:
                return await receive()
            finally:
                self._waiting -= 1

        await self.place.app(scope, receive_and_count, send)


def _without_end(answer: Answer) -> Answer:
    """What is compared: whether a connection ends may follow from the request and not from the application."""
    return replace(answer, headers=tuple(one for one in answer.headers if one != (b"connection", b"close")))


@contextmanager
def bench() -> Iterator[Bench]:
    """Start a service with two people in it, and without limits of questions."""
    unlimited: dict[str, Any] = {"questions_per_minute": 0.0, "key_questions_per_s": 0.0}
    # Reports are written at once: there is no load to wait for.
    with captured_log() as log, mock.patch.object(reports, "BATCH_WAIT_S", 0.0), running(**unlimited) as place:
        place.add("ann", "bob")
        for person in ("ann", "bob"):
            assert place.report(person).status_code == 202
        place.next_epoch()
        with asyncio.Runner() as runner:
            yield Bench(place, log, runner, place.token("ann"))


# -- streams -------------------------------------------------------------------------------------------------------


KEY = b"nvk_" + b"k" * 43
"""Stands for the platform's key, and is as long, so that heads have the length that they were made with."""
_TOKEN = b"<a token of ann>"
_NUMBERS = ("37.774937", "-122.419418", "3.7774937e1", "NaN", "-Infinity", "1e999", "-0", "774937" * 60, '"37.774937"')
_PATHS = (
    b"/v1/nearby", b"/v1/nearby", b"/v1/nearby", b"/v1/nearby?at=37.774937", b"/v1/%6eearby", b"http://host/v1/nearby",
    b"/v1/nearby/", b"/v1/people/ann/location", b"/v1/people/nobody/location", b"/v1/people/ann", b"/healthz",
    b"/v1/guarantee", b"/37.774937,-122.419418", b"/v1/people/37.774937/location", b"/%ff%00", b"//", b"*", b"?", b"",
)  # fmt: skip
_METHODS = (b"POST", b"POST", b"POST", b"PUT", b"PUT", b"GET", b"HEAD", b"OPTIONS", b"BREW", b"get", b"CONNECT")
_MORE_HEADERS = (
    b"connection: close", b"connection: keep-alive", b"connection: upgrade\r\nupgrade: h2c", b"expect: 100-continue",
    b"content-type: text/plain", b"content-type: application/json; charset=x", b"content-length: 3",
    b"content-length: 99999999999999999999", b"content-length: -1", b"content-length:", b"transfer-encoding: gzip",
    b"transfer-encoding: chunked, chunked", b"x-location: 37.774937,-122.419418", b"authorization: Bearer no",
    b"host: \xff\xfe", b"a b: c", b": c", b"x:\x00y", b" folded", b"forwarded: for=::1",
)  # fmt: skip
_TRAILERS = (
    b"x: 37.774937\r\n", b"content-type: text/plain\r\n", b"authorization: Bearer " + KEY + b"\r\n",
    b"connection: close\r\n", b"content-length: 4\r\n", b"expect: 100-continue\r\n",
    b"connection: upgrade\r\nupgrade: h2c\r\n", b"transfer-encoding: gzip\r\n",
)  # fmt: skip


def _bodies() -> st.SearchStrategy[bytes]:
    good = st.builds(
        lambda more: json.dumps({**HERE, **more}).encode(),
        st.fixed_dictionaries(
            {},
            optional={
                "k": st.sampled_from([1, 2, 0, 10**30, True, "3"]),
                "within_m": st.sampled_from([1, 500.0, -1, None]),
                "asker": st.sampled_from(["ann", "bob", "nobody", "a b", "", None, "\ud800", 5]),
                "\u0061sker ": st.just(1),
            },
        ),
    )
    number = st.sampled_from(_NUMBERS)
    odd = st.builds(lambda x, y: f'{{"latitude":{x},"longitude":{y}}}'.encode(), number, number)
    other = st.sampled_from(
        [
            b"", b"{", b"[]", b"null", b"[" * 500, b"\xef\xbb\xbf{}", b'{"latitude":"\xff\xfe37.774937"}',
            json.dumps({**HERE, "asker": "ann"}).replace("asker", "\\u0061sker").encode(),
            json.dumps(HERE).encode() + b" " * 66_000, b"GET /healthz HTTP/1.1\r\n\r\n",
        ]
    )  # fmt: skip
    # A plain place is both a report and a question.
    return st.one_of(st.just(json.dumps(HERE).encode()), good, good, odd, other)


def _chunked(body: bytes, size: int, extension: bytes, trailers: bytes) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    lines = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    return lines + b"0\r\n" + trailers + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request: mostly one that is well-formed, with anything in it that headers and bodies can have."""
    path = draw(st.sampled_from(_PATHS))
    is_plain = draw(st.integers(0, 2)) > 0
    usual = b"PUT" if path.endswith(b"/location") else b"POST" if b"earby" in path else b"GET"
    method = usual if is_plain else draw(st.sampled_from(_METHODS))
    body = draw(_bodies()) if usual != b"GET" or not is_plain else b""
    secret = draw(st.sampled_from([KEY, KEY, KEY, KEY, _TOKEN, b"nvk_wrong", b""]))
    lines = [b"authorization: Bearer " + secret] if secret else []
    if draw(st.booleans()):
        lines.append(b"content-type: application/json")
    if not is_plain:
        lines += draw(st.lists(st.sampled_from(_MORE_HEADERS), max_size=2))
    framing = draw(st.sampled_from(["length", "length", "length", "chunks", "none"]))
    if framing == "length":
        wrong = 0 if is_plain else draw(st.sampled_from([0, 0, 1, -1, 7]))
        lines.append(b"content-length: %d" % max(0, len(body) + wrong))
    elif framing == "chunks":
        lines.append(b"transfer-encoding: chunked")
        extension = draw(st.sampled_from([b"", b"", b";x=37.774937", b";" + b"e" * 300]))
        trailers = b"".join(draw(st.lists(st.sampled_from(_TRAILERS), max_size=2)))
        body = _chunked(body, draw(st.sampled_from([1, 7, 100_000])) if len(body) < 5000 else 5000, extension, trailers)
    else:
        body = b""
    if draw(st.integers(0, 5)) == 0:
        lines += [b"x-%d: 1" % number for number in range(draw(st.sampled_from([12, LIMITS.headers, 40])))]
    version = b"1.1" if is_plain else draw(st.sampled_from([b"1.1", b"1.1", b"1.0", b"2.0", b"9"]))
    head = b"\r\n".join([method + b" " + path + b" HTTP/" + version, *lines]) + b"\r\n"
    # As long as a head may be, about, or more than twice as long: what is between depends on pieces.
    wanted = draw(st.sampled_from([0, 0, 0, 0, 0, 900, 1000, LIMITS.header_bytes, 3 * LIMITS.header_bytes]))
    room = wanted - len(head) - len(b"pad: \r\n\r\n")
    if room > 0:
        head += b"pad: " + b"1" * room + b"\r\n"
    return head + b"\r\n" + body


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Requests one after the other; often with a byte lost, changed, doubled or added, or without an end."""
    stream = b"".join(draw(st.lists(requests(), min_size=1, max_size=5)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(stream)))
        other = draw(
            st.one_of(st.sampled_from([b"\r\n", b"\n", b"\r", b" ", b":", b"\0", b"0"]), st.binary(max_size=4))
        )
        stream = stream[:at] + other + stream[at + draw(st.integers(0, 4)) :]
    if draw(st.integers(0, 3)) == 0:
        stream = stream[: draw(st.integers(0, len(stream)))]
    return stream


@st.composite
def cuts(draw: st.DrawFn) -> Cuts:
    """Where to cut a stream: for its first bytes in equal pieces, or in some places."""
    settles = draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        return [(at, settles) for at in range(0, 3000, draw(st.sampled_from([1, 2, 13, 500, LIMITS.header_bytes])))]
    places = sorted(draw(st.lists(st.integers(0, 3000), max_size=6)))
    return [(at, draw(st.booleans())) for at in places]


def check_stream(place: Bench, stream: bytes, pieces: Cuts) -> None:
    """Send a stream with real keys in it, whole and in pieces."""
    stream = stream.replace(KEY, place.place.key.encode()).replace(_TOKEN, place.token.encode())
    for some in ([], pieces):
        kept = [(at, settles) for at, settles in some if at < len(stream)]
        try:
            place.check(stream, kept)
        except AssertionError as error:
            shown = stream.replace(place.place.key.encode(), KEY).replace(place.token.encode(), _TOKEN)
            raise AssertionError(f"{error}; sent {shown!r} cut at {kept}") from error


def try_streams(place: Bench, examples: int, **options: Any) -> Callable[[], None]:
    """Return a test of so many streams."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        **options,
    )
    @given(streams(), cuts())
    def test(stream: bytes, pieces: Cuts) -> None:
        check_stream(place, stream, pieces)

    return test


def main() -> None:
    """Try new streams for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    number = options.seed
    with bench() as place:
        # Without the time to compile: a short run would try nothing.
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            try:
                seed(number)(try_streams(place, 200))()
            except BaseException:
                print(f"seed {number} fails: python -m tests.services.fuzz --minutes 0.01 --seed {number}", flush=True)
                raise
            number += 1
    print(f"{200 * (number - options.seed):,} streams, twice each, on both kinds of connection: all as they should be")


if __name__ == "__main__":
    main()
