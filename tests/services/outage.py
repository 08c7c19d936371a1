"""Take the database away from a service under load, bring it back, and see who was answered.

``python -m tests.services.outage --seconds 120`` does it by a crash and by a server that stands still. It fails unless
all questions are answered throughout, and every report is kept or refused.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
from tests.services.postgres import Cluster, own_cluster, private_database
from tests.services.running import RunningService
from tests.services.torture import platform_key
from tests.waiting import PATIENCE_S, until

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.publishing.protection import Schedule

PEOPLE = 60
ASKERS, REPORTERS = 8, 4
BEFORE_S = 8.0
# Between two requests of a client: a steady load that leaves the machine to others.
PAUSE_S = 0.02
# Epochs of three seconds, so that some begin during the outage.
OPTIONS = (
    "--epoch", "3s", "--window", "1h", "--new-places", "1000", "--questions-per-minute", "0",
    "--key-questions-per-s", "0",
)  # fmt: skip


@dataclass
class Load:
    """Questions and reports: when each was sent, how long it took, and its status; 0 if there was no answer."""

    questions: list[tuple[float, float, int]] = field(default_factory=list)
    reports: list[tuple[float, float, int]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    receipts: dict[str, str] = field(default_factory=dict)

    def run(self, service: RunningService) -> None:
        """Ask and report until `stop` is set: half of the askers with the platform's key, half with people's tokens."""
        asyncio.run(self._run(service))

    async def _run(self, service: RunningService) -> None:
        async with httpx.AsyncClient(base_url=service.url, headers=service.headers, timeout=PATIENCE_S) as client:
            people = [f"person-{number}" for number in range(PEOPLE)]
            assert (await client.post("/v1/people", json={"ids": people})).status_code == 200
            tokens = [(await client.post(f"/v1/people/{person}/tokens", json={"expires_in_s": 3600})).json()["token"]
                      for person in people[: ASKERS // 2]]  # fmt: skip
            await asyncio.gather(
                *(self._ask(client, {"Authorization": f"Bearer {token}"}) for token in tokens),
                *(self._ask(client, {}) for _ in range(ASKERS - len(tokens))),
                *(self._report(client, people[first::REPORTERS]) for first in range(REPORTERS)),
            )

    async def _ask(self, client: httpx.AsyncClient, headers: dict[str, str]) -> None:
        while not self.stop.is_set():
            await self._timed(self.questions, client.post("/v1/nearby", json={**_place(), "k": 5}, headers=headers))

    async def _report(self, client: httpx.AsyncClient, people: list[str]) -> None:
        while not self.stop.is_set():
            person = random.choice(people)
            # What the phone has: the receipt of the last report that was answered, and at first any.
            body = {**_place(), "previous": self.receipts.get(person, "0" * 24)}
            answer = await self._timed(self.reports, client.put(f"/v1/people/{person}/location", json=body))
            if answer is not None and answer.status_code == 202:
                self.receipts[person] = answer.json()["receipt"]

    async def _timed(
        self, rows: list[tuple[float, float, int]], request: Awaitable[httpx.Response]
    ) -> httpx.Response | None:
        sent = time.monotonic()
        answer: httpx.Response | None = None
        with suppress(httpx.TransportError):
            answer = await request
        rows.append((sent, time.monotonic() - sent, 0 if answer is None else answer.status_code))
        await asyncio.sleep(PAUSE_S)
        return answer


@dataclass(frozen=True)
class Outcome:
    """What an outage did to those who asked and reported.

    Attributes
    ----------
    answered : float
        Share of the questions asked during the outage and the second after it that were answered.
    longest_question_s, longest_report_s : float
        The longest wait for any answer, from before the outage to its end.
    first_write_s : float
        From the database's return to the first report that was kept.
    lost : int
        Answers that never came.
    """

    questions: int
    answered: float
    longest_question_s: float
    longest_report_s: float
    first_write_s: float
    lost: int
    statuses: dict[int, int]

    def __str__(self) -> str:
        return (
            f"{self.questions:,} questions, {self.answered:.2%} answered, the longest after "
            f"{self.longest_question_s:.2f} s; longest report {self.longest_report_s:.2f} s, first one kept "
            f"{self.first_write_s:.2f} s after the return; answers to reports {self.statuses}, {self.lost} lost"
        )


def outage(folder: Path, *, seconds: float, how: str, server: Cluster) -> Outcome:
    """Load a service, take its database away for so long, and return what became of the load."""
    with private_database(server) as address:
        write_keys(folder / "keys.json", new_keys(Schedule(epoch=timedelta(seconds=3), window=timedelta(hours=1))))
        options = (*OPTIONS, "--keys", str(folder / "keys.json"))
        service = RunningService(folder, options, store=address, key=platform_key(address))
        service.start()
        load = Load()
        thread = threading.Thread(target=load.run, args=(service,))
        thread.start()
        try:
            _wait_for_reports(load)
            time.sleep(BEFORE_S)
            with _away(server, how):
                began = time.monotonic()
                time.sleep(seconds)
            back = time.monotonic()
            _wait_for_reports(load, since=back)
        finally:
            load.stop.set()
            thread.join()
            service.stop()
    found = _outcome(load, began, back)
    _check(found, (folder / "service.log").read_text())
    return found


def _check(found: Outcome, log: str) -> None:
    assert found.questions > 0
    assert (found.answered, found.lost) == (1.0, 0), str(found)
    # 503 while it is away, 202 before and after, and nothing else.
    assert set(found.statuses) == {202, 503}, str(found)
    assert "database is away" in log
    assert "database is back" in log


@contextmanager
def _away(server: Cluster, how: str) -> Iterator[None]:
    if how == "freeze":
        with server.frozen():
            yield
        return
    server.halt()
    try:
        yield
    finally:
        # Returns when the database answers.
        server.resume()


def _wait_for_reports(load: Load, since: float = 0.0) -> None:
    until(lambda: any(status == 202 and sent >= since for sent, _, status in list(load.reports)))


def _outcome(load: Load, began: float, back: float) -> Outcome:
    asked = [row for row in load.questions if began <= row[0] <= back + 1.0]
    reported = [row for row in load.reports if row[0] >= began - 1.0]
    kept = [sent + took for sent, took, status in load.reports if status == 202 and sent + took >= back]
    return Outcome(
        questions=len(asked),
        answered=sum(status == 200 for _, _, status in asked) / max(1, len(asked)),
        longest_question_s=max(took for _, took, _ in asked),
        longest_report_s=max(took for _, took, _ in reported),
        first_write_s=min(kept) - back,
        lost=sum(status == 0 for _, _, status in (*asked, *reported)),
        statuses=dict(Counter(status for _, _, status in reported)),
    )


def _place() -> dict[str, float]:
    return {"latitude": random.uniform(37.6, 37.8), "longitude": random.uniform(-122.5, -122.3)}


def main() -> None:
    """Take the database away in both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    with own_cluster() as server:
        for how in ("crash", "freeze"):
            with tempfile.TemporaryDirectory() as folder:
                found = outage(Path(folder), seconds=options.seconds, how=how, server=server)
            print(f"{how}, {options.seconds:g} s: {found}", flush=True)


if __name__ == "__main__":
    main()
