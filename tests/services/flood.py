"""Flood a service with headers and connections while somebody else asks questions, and look at both.

It fails if a connection in use is closed, or if a flood of headers keeps new connections out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.services.running import RunningService
from tests.waiting import PATIENCE_S

OPTIONS = ("--questions-per-minute", "0", "--key-questions-per-s", "0", "--no-console")
QUESTION = json.dumps({"latitude": 37.774937, "longitude": -122.419418, "k": 10}).encode()
_AT_ONCE = 500


# -- somebody who asks ---------------------------------------------------------------------------------------------


@dataclass
class Asker:
    """Asks one question after the other, every tenth on a new connection, until told to stop.

    Attributes
    ----------
    seconds : list of float
        Until each answer.
    refused : int
        New connections that were refused.
    """

    service: RunningService
    seconds: list[float] = field(default_factory=list)
    refused: int = 0

    def run(self, stopping: threading.Event) -> None:
        """Ask until the event is set."""
        number = 0
        with self._connect() as kept:
            # At least once: a flood may be refused before this thread has begun.
            while not (number and stopping.is_set()):
                number += 1
                begun = time.perf_counter()
                if number % 10:
                    assert self._ask(kept), "a connection that is in use was closed"
                elif not self._ask_anew():
                    self.refused += 1
                    continue
                self.seconds.append(time.perf_counter() - begun)
                stopping.wait(0.002)

    def _ask_anew(self) -> bool:
        with suppress(ConnectionError), self._connect() as line:
            return self._ask(line)
        return False

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.service.port), timeout=PATIENCE_S)

    def _ask(self, line: socket.socket) -> bool:
        head = (
            f"POST /v1/nearby HTTP/1.1\r\nHost: service\r\nAuthorization: Bearer {self.service.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(QUESTION)}\r\n\r\n"
        )
        line.sendall(head.encode() + QUESTION)
        answer = b""
        while not answer.endswith(b"}"):
            piece = line.recv(65_536)
            if not piece:
                return False
            answer += piece
        return answer.startswith(b"HTTP/1.1 200")

    def percentile_ms(self, share: float) -> float:
        """Return how long so large a share of the answers took at most, in milliseconds."""
        return 1000 * float(np.quantile(self.seconds, share))


@contextmanager
def asking(service: RunningService) -> Iterator[Asker]:
    """Let somebody ask during the block; an error of theirs is raised after it."""
    asker, stopping, errors = Asker(service), threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            asker.run(stopping)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield asker
    finally:
        stopping.set()
        thread.join()
    if errors:
        raise errors[0]


def memory_mb(service: RunningService, which: str = "VmRSS") -> float:
    """Return the memory of a service: now, or its peak (VmHWM)."""
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(which))


# -- floods --------------------------------------------------------------------------------------------------------


def one_long_header(port: int, size: int) -> None:
    """Send one header of so many bytes, or as much of it as is taken."""
    _send_all(port, b"GET /healthz HTTP/1.1\r\nlong: ", b"1" * 65_536, size)


def many_short_headers(port: int, size: int) -> None:
    """Send so many bytes of short headers, or as much of them as is taken."""
    _send_all(port, b"GET /healthz HTTP/1.1\r\n", b"abcdef: 1\r\n" * 6_000, size)


def _send_all(port: int, start: bytes, piece: bytes, size: int) -> None:
    with (
        suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line,
    ):
        line.sendall(start)
        for _ in range(size // len(piece)):
            line.sendall(piece)


def idle_connections(port: int, count: int) -> float:
    """Open connections, half of them with half a request, and return the seconds until all are closed."""
    return asyncio.run(_idle_connections(port, count))


async def _idle_connections(port: int, count: int) -> float:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opening = asyncio.Semaphore(_AT_ONCE)
    begun = time.perf_counter()

    async def visit(number: int) -> None:
        with suppress(ConnectionError):
            async with opening:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                if number % 2:
                    writer.write(b"POST /v1/nearby HTTP/1.1\r\nHost: serv")
                await reader.read()
            finally:
                writer.close()

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(visit(number) for number in range(count)))
    return time.perf_counter() - begun


def unread_answers(port: int, count: int, key: str) -> float:
    """Ask for long answers on so many connections, read nothing, and return the seconds until all are cut off."""
    request = f"GET /openapi.json HTTP/1.1\r\nHost: service\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    begun, lines = time.perf_counter(), []
    for _ in range(count):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", port))
        line.settimeout(PATIENCE_S)
        line.sendall(request * 90)
        lines.append(line)
    for line in lines:
        # It is reset, which a poll notices without reading.
        ends = select.poll()
        ends.register(line, select.POLLHUP)
        assert ends.poll(1000 * PATIENCE_S), "a connection that reads nothing was kept"
        line.close()
    return time.perf_counter() - begun


def _again_and_again(flood: Callable[[], None]) -> None:
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        flood()


def _in_a_process(work: Callable[[], object]) -> float:
    """Run the flood beside the one who asks, not in their way; return how long it took."""
    begun = time.perf_counter()
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0, "the flood failed"
    return time.perf_counter() - begun


def main() -> None:
    """Flood a service in every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--long-mb", type=int, default=120)
    parser.add_argument("--short-mb", type=int, default=50)
    parser.add_argument("--unread", type=int, default=100)
    options = parser.parse_args()
    floods: dict[str, Callable[[RunningService], object]] = {
        "nothing, for 10 s": lambda _: time.sleep(10),
        f"one header of {options.long_mb} MB, again and again for 10 s": lambda service: _again_and_again(
            lambda: one_long_header(service.port, options.long_mb * 10**6)
        ),
        f"{options.short_mb} MB of headers, again and again for 10 s": lambda service: _again_and_again(
            lambda: many_short_headers(service.port, options.short_mb * 10**6)
        ),
        f"{options.connections:,} idle connections": lambda service: idle_connections(
            service.port, options.connections
        ),
        f"{options.unread} connections that read nothing": lambda service: unread_answers(
            service.port, options.unread, service.key
        ),
    }
    for name, flood in floods.items():
        with tempfile.TemporaryDirectory() as folder:
            service = RunningService(Path(folder), OPTIONS)
            service.start()
            try:
                before = memory_mb(service)
                with asking(service) as asker:
                    took_s = _in_a_process(lambda flood=flood, service=service: flood(service))  # type: ignore[misc]
                print(
                    f"{name}: over after {took_s:.1f} s; {len(asker.seconds):,} answers to somebody else, p50 "
                    f"{asker.percentile_ms(0.5):.1f} ms, p99 {asker.percentile_ms(0.99):.1f} ms, slowest "
                    f"{asker.percentile_ms(1.0):.0f} ms, {asker.refused} new connections of theirs refused; memory "
                    f"{before:.0f} MB before, {memory_mb(service, 'VmHWM'):.0f} MB at most",
                    flush=True,
                )
                assert asker.seconds, "nobody else was answered"
                assert not asker.refused or "header" not in name, "new connections were refused"
            finally:
                service.stop()


if __name__ == "__main__":
    main()
