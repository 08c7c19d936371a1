"""What a client may do before it is known who it is, on the fast lane and on the plain route; on a clock of tests."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httptools
import pytest
import uvicorn
import uvloop
from uvicorn.protocols.http import httptools_impl
from uvicorn.server import ServerState

from nearveil.server import protocol, run
from nearveil.server.asgi import Answers
from nearveil.server.auth import Caller
from nearveil.server.connections import CLOSE_S, MOST_PIPELINED, ConnectionLimits, Connections, tls_context
from nearveil.server.protocol import FastLaneProtocol, LimitedProtocol, fitting, protocol_for
from nearveil.server.settings import Settings
from tests.server.test_connections import Watch, self_signed
from tests.waiting import PATIENCE_S

LIMITS = replace(ConnectionLimits.of(Settings()), header_bytes=4096, headers=20)
QUESTION = b"POST /v1/nearby HTTP/1.1\r\nhost: service\r\ncontent-length: 2\r\n\r\n{}"
LARGE = 300_000


class Routes:
    """Answers as hot routes do."""

    @staticmethod
    def known_caller(_: object) -> Caller:
        return Caller("platform", "tests")

    @staticmethod
    def needs_store(_caller: Caller, _body: bytes) -> bool:
        return False

    @staticmethod
    def answer_now(_caller: Caller, _headers: object, body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        return 200, [(b"content-length", str(len(body)).encode())], body


@dataclass
class Edge:
    """A listening protocol."""

    registry: Connections
    watch: Watch
    port: int
    kind: type[LimitedProtocol]
    refused: list[str]
    made: list[LimitedProtocol] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    work: asyncio.Event = field(default_factory=asyncio.Event)

    async def connect(self, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        before = len(self.made)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
        self.writers.append(writer)
        await until(lambda: len(self.made) > before and self.made[-1].transport is not None)
        return reader, writer

    async def send(self, *pieces: bytes) -> bytes:
        """Send pieces on one connection and return all that comes back until it is closed."""
        reader, writer = await self.connect()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await read_all(reader, writer)

    def later(self, seconds: float) -> None:
        """Let time pass, and look at all connections."""
        self.watch.now += seconds
        self.registry.sweep()

    @property
    def path(self) -> bytes:
        return b"/v1/nearby" if self.kind is FastLaneProtocol else b"/other"


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def read_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    received = b""
    try:
        while piece := await reader.read(65_536):
            received += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
    return received


@asynccontextmanager
async def edge(kind: type[LimitedProtocol], tls: ssl.SSLContext | None = None, **limits: Any) -> AsyncIterator[Edge]:
    loop = asyncio.get_running_loop()
    watch, refused = Watch(), list[str]()
    registry = Connections(replace(LIMITS, **limits), refused=refused.append, clock=watch)
    limited = protocol_for(kind, registry, Answers(), routes=Routes(), tls=tls)
    opened = Edge(registry, watch, 0, kind, refused)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        opened.bodies.append(body)
        if scope["path"] == "/slow":
            await opened.work.wait()
        answer = b"x" * LARGE if scope["path"] == "/large" else body
        size = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": size})
        await send({"type": "http.response.body", "body": answer})

    config = uvicorn.Config(app, http=limited, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()

    def create() -> asyncio.Protocol:
        opened.made.append(limited(config=config, server_state=state, app_state={}, _loop=loop))
        return opened.made[-1]

    server = await loop.create_server(create, "127.0.0.1", 0)
    opened.port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield opened
    finally:
        server.close()
        for writer in opened.writers:
            writer.transport.abort()


def on_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())  # type: ignore[arg-type]


@pytest.fixture(params=[FastLaneProtocol, LimitedProtocol], ids=["fast", "plain"])
def kind(request: pytest.FixtureRequest) -> type[LimitedProtocol]:
    found: type[LimitedProtocol] = request.param
    return found


def refusal(answer: bytes) -> tuple[int, str]:
    """Status and problem of the last answer, which must say that the connection is closed."""
    head, _, body = answer.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[0]), json.loads(body)["type"].rpartition(":")[2]


def head(path: bytes, size: int, *, ending: bytes = b"\r\n\r\n") -> bytes:
    """A head of so many bytes."""
    start = b"POST " + path + b" HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\nlong: "
    return start + b"1" * (size - len(start) - len(ending)) + ending


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [4096, 1000, 1])
def test_a_head_as_long_as_allowed_is_answered_and_a_longer_one_refused(kind: type[LimitedProtocol], cut: int) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            for size, status in ((4096, b"200"), (4097, b"431")):
                whole = head(service.path, size) + b"{}"
                answer = await service.send(*(whole[at : at + cut] for at in range(0, len(whole), cut)))
                assert answer.split()[1] == status
            assert service.refused == ["headers-too-large"]

    on_a_loop(work)


@pytest.mark.parametrize(
    "flood",
    [
        b"GET / HTTP/1.1\r\nlong: " + b"1" * 5_000_000,
        b"GET /" + b"1" * 5_000_000,
        b"\r\n" * 2_500_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 800_000,
        b"POST /v1/nearby HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nlong: " + b"1" * 5_000_000,
        b"POST /v1/nearby HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 800_000,
        b"POST /v1/nearby HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;" + b"1" * 5_000_000,
        b"POST /v1/nearby HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;" + b"a=b;" * 1_200_000,
    ],
    ids=["header", "url", "newlines", "headers", "trailer", "trailers", "chunk extension", "chunk extensions"],
)
def test_no_flood_reaches_the_parser(
    kind: type[LimitedProtocol], flood: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []

    class Parser(httptools.HttpRequestParser):  # type: ignore[misc]
        def feed_data(self, data: Any) -> None:
            fed.append(len(data))
            super().feed_data(data)

    monkeypatch.setattr(httptools, "HttpRequestParser", Parser)

    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            reading = asyncio.create_task(read_all(reader, writer))
            try:
                writer.write(flood)
                await writer.drain()
            except ConnectionError:
                pass
            await reading
            await until(lambda: not len(service.registry))
            assert service.refused == ["headers-too-large"]
            # What began within a piece that another thing ended in is not counted from its first byte on.
            assert sum(fed) <= 2 * LIMITS.header_bytes
            assert service.made[0]._dropped_bytes < len(flood) / 2

    on_a_loop(work)


def test_the_answer_to_headers_that_are_too_long_is_read_by_whoever_sends_some_more(
    kind: type[LimitedProtocol],
) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            answer = await service.send(b"GET / HTTP/1.1\r\nlong: " + b"1" * 500_000)
            assert refusal(answer) == (431, "headers-too-large")

    on_a_loop(work)


def test_more_headers_than_allowed_are_refused(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            # Two of them are in every head here.
            for number, status in ((18, 200), (19, 431)):
                lines = b"".join(b"h%d: 1\r\n" % each for each in range(number))
                whole = b"POST " + service.path + b" HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\n" + lines
                answer = await service.send(whole + b"\r\n{}")
                assert int(answer.split()[1]) == status
            assert refusal(answer) == (431, "headers-too-large")

    on_a_loop(work)


def test_requests_that_pile_up_end_the_connection(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            few = b"GET /other HTTP/1.1\r\n\r\n" * MOST_PIPELINED
            answer = await service.send(few + b"GET /other HTTP/1.1\r\nconnection: close\r\n\r\n")
            assert answer.count(b"200 OK") == MOST_PIPELINED + 1
            answer = await service.send(b"GET /other HTTP/1.1\r\n\r\n" * 10 * MOST_PIPELINED)
            assert answer.count(b"200 OK") == MOST_PIPELINED + 1
            assert refusal(answer) == (429, "too-many-requests")
            assert service.refused == ["too-many-requests"]
            assert max(len(each.pipeline) for each in service.made) <= MOST_PIPELINED

    on_a_loop(work)


# -- times ---------------------------------------------------------------------------------------------------------


def test_whoever_sends_nothing_is_let_go(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            service.later(LIMITS.head_s - 0.1)
            assert len(service.registry) == 1
            service.later(0.2)
            assert await read_all(reader, writer) == b""
            assert service.refused == []

    on_a_loop(work)


def test_a_head_in_drops_has_one_deadline(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            sent: list[int] = []
            for at in range(12):
                writer.write(QUESTION[at : at + 1])
                await until(lambda: LIMITS.header_bytes - service.made[0]._room_bytes > len(sent))
                sent.append(at)
                service.later(1.0)
                if service.refused:
                    break
            assert len(sent) == LIMITS.head_s
            assert refusal(await read_all(reader, writer)) == (408, "too-slow")

    on_a_loop(work)


def test_a_body_in_drops_has_one_deadline(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            start = b"POST " + service.path + b" HTTP/1.1\r\ncontent-length: 1000\r\n\r\n"
            writer.write(start)
            await until(lambda: service.made[0]._reading.name == "BODY")
            for _ in range(9):
                service.made[0]._made_progress = False
                writer.write(b"1")
                await until(lambda: service.made[0]._made_progress)
                service.later(LIMITS.body_s / 10)
            assert service.refused == []
            service.later(LIMITS.body_s / 10)
            assert refusal(await read_all(reader, writer)) == (408, "too-slow")
            # The application has not taken a part for the whole.
            assert service.bodies == []

    on_a_loop(work)


def test_an_idle_connection_is_closed_after_its_time(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            for _ in range(3):
                writer.write(QUESTION)
                await reader.readuntil(b"{}")
                service.later(LIMITS.idle_s - 0.1)
            assert len(service.registry) == 1
            service.later(0.2)
            assert await read_all(reader, writer) == b""
            await until(lambda: not len(service.registry))
            assert service.refused == []

    on_a_loop(work)


def test_nobody_is_cut_off_while_the_service_is_at_work(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
            await until(lambda: service.bodies)
            for _ in range(5):
                service.later(1000.0)
            service.work.set()
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            # The next request has the usual time.
            service.later(LIMITS.idle_s - 0.1)
            writer.write(QUESTION)
            assert b"200 OK" in await reader.readuntil(b"{}")

    on_a_loop(work)


def test_a_closed_connection_whose_client_stays_is_ended(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            reader, writer = await service.connect()
            writer.write(b"GET / HTTP/1.1\r\nlong: " + b"1" * 10_000)
            assert refusal(await reader.read()) == (431, "headers-too-large")
            # It has read that it is refused, and does not hang up.
            assert len(service.registry) == 1
            service.later(CLOSE_S + 0.1)
            await until(lambda: not len(service.registry))

    on_a_loop(work)


@pytest.mark.parametrize("path", [b"/large", b"/v1/nearby"])
def test_whoever_does_not_read_is_cut_off(kind: type[LimitedProtocol], path: bytes) -> None:
    async def work() -> None:
        async with edge(kind) as service:
            _, writer = await service.connect(limit=1024)
            body = b"1" * 60_000
            request = b"POST " + path + b" HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            connection: Any = service.made[0]
            while not connection.flow.write_paused:
                writer.write(request)
                await asyncio.sleep(0)
            for _ in range(50):  # what else arrives piles up neither here nor there
                writer.write(request)
                await asyncio.sleep(0)
            assert connection.transport.get_write_buffer_size() < LARGE + 200_000
            assert len(connection.pipeline) <= MOST_PIPELINED
            service.later(LIMITS.send_s - 0.1)
            assert len(service.registry) == 1
            service.later(0.2)
            await until(lambda: not len(service.registry))

    on_a_loop(work)


# -- how many ------------------------------------------------------------------------------------------------------


def test_one_connection_too_many_is_told_so_and_others_are_served(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind, connections_per_address=2, proxies=()) as service:
            first = await service.connect()
            second = await service.connect()
            reader, writer = await service.connect()
            assert refusal(await read_all(reader, writer)) == (503, "too-many-connections")
            assert service.refused == ["too-many-connections"]
            for reader, writer in (first, second):
                writer.write(QUESTION)
                assert b"200 OK" in await reader.readuntil(b"{}")
            first[1].close()
            await until(lambda: len(service.registry) == 1)
            reader, writer = await service.connect()
            writer.write(QUESTION)
            assert b"200 OK" in await reader.readuntil(b"{}")

    on_a_loop(work)


def test_whoever_has_asked_is_not_displaced_by_those_who_only_connect(kind: type[LimitedProtocol]) -> None:
    async def work() -> None:
        async with edge(kind, connections=2) as service:
            reader, writer = await service.connect()
            writer.write(QUESTION)
            await reader.readuntil(b"{}")
            for _ in range(3):
                silent = await service.connect()
                service.watch.now += 1.5
                await service.connect()
                assert await read_all(*silent) == b""
                writer.write(QUESTION)
                assert b"200 OK" in await reader.readuntil(b"{}")
                service.watch.now += 1.5
            assert len(service.registry) == 2
            assert service.refused == []

    on_a_loop(work)


# -- TLS -----------------------------------------------------------------------------------------------------------


def test_tls_has_the_same_limits(kind: type[LimitedProtocol], tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate))

    async def work() -> None:
        async with edge(kind, tls_context(certificate, key), connections=2, head_s=1000.0) as service:
            reader, writer = await service.connect(ssl=trust)
            writer.write(QUESTION)
            assert b"200 OK" in await reader.readuntil(b"{}")
            assert service.made[0].scheme == "https"
            writer.write(b"GET / HTTP/1.1\r\nlong: " + b"1" * 10_000)
            assert refusal(await read_all(reader, writer)) == (431, "headers-too-large")
            await until(lambda: not len(service.registry))
            # Whoever does not shake hands counts, and is let go after a while.
            reader, writer = await service.connect()
            assert len(service.registry) == 1
            service.later(1000.1)
            assert await read_all(reader, writer) == b""
            await until(lambda: not len(service.registry))
            # So is whoever does not speak TLS.
            reader, writer = await service.connect()
            writer.write(QUESTION)
            assert b"HTTP" not in await read_all(reader, writer)
            await until(lambda: not len(service.registry))
            for _ in range(2):
                await service.connect()
            reader, writer = await service.connect()
            assert await read_all(reader, writer) == b""

    on_a_loop(work)


# -- another uvicorn -----------------------------------------------------------------------------------------------


@pytest.fixture
def other_uvicorn(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Change a part of uvicorn's protocol."""
    fitting.cache_clear()
    monkeypatch.setattr(protocol, "_TRIAL_S", PATIENCE_S)
    original = httptools_impl.HttpToolsProtocol

    def change(name: str, value: Any) -> None:
        if value is None:
            monkeypatch.delattr(original, name)
        else:
            monkeypatch.setattr(original, name, value)

    return change


@pytest.fixture(autouse=True)
def tried_again() -> Any:
    yield
    fitting.cache_clear()


def test_without_the_fast_lane_the_limits_stay(other_uvicorn: Callable[[str, Any], None]) -> None:
    """The fast lane alone makes the scope after the headers; a uvicorn may come to need it for each of them."""
    original = httptools_impl.HttpToolsProtocol.on_header

    def on_header(self: Any, name: bytes, value: bytes) -> None:
        original(self, name, value)
        if self.scope["headers"] is not self.headers:
            raise TypeError("a scope is needed")

    other_uvicorn("on_header", on_header)
    assert fitting(LimitedProtocol)
    assert not fitting(FastLaneProtocol)
    assert run.has_limits()
