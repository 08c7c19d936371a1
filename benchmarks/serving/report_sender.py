"""Sends reports at a steady rate over many connections, and counts what is acknowledged.

Each report brings the receipt of the person's last one, and the first one any.

Run with the port, the key file, the number of people, reports per second, seconds and the length of an epoch in seconds
as arguments; prints JSON. Plain sockets and no HTTP library, because it shares the machine with what is measured.
"""

import asyncio
import json
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import cast

import numpy as np
import uvloop

from benchmarks.serving.people import person_id, places_to_ask_from
from nearveil.types import FloatArray

CONNECTIONS = 300
TICK_S = 0.01
AFTER_BOUNDARY_S = 3.0
FIRST_RECEIPT = "0" * 24


class Connection(asyncio.Protocol):
    """One connection with at most one report under way."""

    def __init__(
        self,
        idle: deque["Connection"],
        statuses: Counter[str],
        waits_s: list[tuple[float, float]],
        receipts: dict[str, str],
    ) -> None:
        self._idle, self._statuses, self._waits_s, self._receipts = idle, statuses, waits_s, receipts
        self._received, self._person = b"", ""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be ready."""
        self._transport = cast("asyncio.Transport", transport)
        self._idle.append(self)

    def send(self, person: str, report: bytes) -> None:
        """Send a report of a person."""
        self._person, self._sent_at = person, time.perf_counter()
        self._transport.write(report)

    def data_received(self, data: bytes) -> None:
        """Count the answer when it is complete."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self._statuses[head[9:12].decode()] += 1
        if head[9:12] == b"202":
            self._receipts[self._person] = json.loads(body)["receipt"]
        wait_s = time.perf_counter() - self._sent_at
        self._waits_s.append((time.time() - wait_s, wait_s))
        self._received = b""
        self._idle.append(self)


async def send_reports(
    port: int, key: str, people: int, per_s: float, seconds: float, epoch_s: float
) -> dict[str, object]:
    """Send for so long; return how often each status came, and how long answers took, at boundaries and otherwise."""
    loop = asyncio.get_running_loop()
    idle: deque[Connection] = deque()
    statuses: Counter[str] = Counter()
    waits_s: list[tuple[float, float]] = []
    receipts: dict[str, str] = {}
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Connection(idle, statuses, waits_s, receipts), "127.0.0.1", port)
    rng = np.random.default_rng()
    places = places_to_ask_from(10_000).round(6).tolist()
    started, due, sent, skipped = time.perf_counter(), 0, 0, 0
    while (elapsed := time.perf_counter() - started) < seconds:
        while due < elapsed * per_s:
            due += 1
            if not idle:
                skipped += 1
                continue
            latitude, longitude = places[int(rng.integers(len(places)))]
            person = person_id(int(rng.integers(people)))
            previous = receipts.get(person, FIRST_RECEIPT)
            idle.popleft().send(person, _report(key, person, latitude, longitude, previous))
            sent += 1
        await asyncio.sleep(TICK_S)
    await asyncio.sleep(1.0)
    sent_at, waited_s = np.array(waits_s or [(0.0, 0.0)]).T
    # A report sent just before a boundary may have to wait for it too.
    between = (sent_at + 1.0) % epoch_s >= 1.0 + AFTER_BOUNDARY_S
    return {
        "sent": sent,
        "not sent for want of a connection": skipped,
        "statuses": dict(statuses),
        "acknowledged_per_s": round(statuses["202"] / seconds, 1),
        "p50_p99_max_ms": _percentiles_ms(waited_s),
        "between_boundaries_p50_p99_max_ms": _percentiles_ms(waited_s[between]),
    }


def _percentiles_ms(waited_s: FloatArray) -> list[float]:
    return [round(1000 * float(value), 1) for value in np.percentile(waited_s, [50, 99, 100])] if len(waited_s) else []


def _report(key: str, person: str, latitude: float, longitude: float, previous: str) -> bytes:
    body = f'{{"latitude":{latitude},"longitude":{longitude},"previous":"{previous}"}}'
    head = (
        f"PUT /v1/people/{person}/location HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


def main() -> None:
    """Read the arguments, send, and print."""
    port, key_file, people, per_s, seconds, epoch_s = sys.argv[1:]
    key = Path(key_file).read_text(encoding="utf-8").strip()
    found = uvloop.run(send_reports(int(port), key, int(people), float(per_s), float(seconds), float(epoch_s)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
