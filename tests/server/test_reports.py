"""Many reports in one transaction: what is acknowledged is kept, and what is not kept is not acknowledged."""

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import Any

import pytest

from nearveil.nearby.publishing.publisher import Answer, Report, Status
from nearveil.nearby.stores.base import StoreError
from nearveil.server.problems import Problem
from nearveil.server.reports import ANSWER_TICK_S, MOST_PER_TRANSACTION, ReportWriter
from tests.waiting import PATIENCE_S


class Held:
    """Receives batches, each only when it is allowed to."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Event()
        self.allowed = threading.Event()
        self.failure: Exception | None = None

    def __call__(self, reports: Sequence[Report]) -> list[Answer]:
        self.begun.set()
        assert self.allowed.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        self.batches.append([report.person for report in reports])
        return [Answer(Status.TAKEN, report.person) for report in reports]


def _run(writer: ReportWriter, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    writer.start()
    try:
        asyncio.run(scene())
    finally:
        writer.close()


def _reports(count: int) -> list[Report]:
    return [Report(f"person-{number}", 0.0, 0.0) for number in range(count)]


def test_what_comes_during_a_transaction_is_the_next_one() -> None:
    held = Held()
    writer = ReportWriter(held)

    async def scene() -> None:
        first = asyncio.create_task(writer.submit(Report("first", 0.0, 0.0)))
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)
        rest = [asyncio.create_task(writer.submit(report)) for report in _reports(MOST_PER_TRANSACTION + 1)]
        while len(writer) < len(rest):
            await asyncio.sleep(0)
        held.allowed.set()
        answers = await asyncio.gather(first, *rest)
        assert [answer.receipt for answer in answers[1:]] == [report.person for report in _reports(len(rest))]

    _run(writer, scene)
    assert [len(batch) for batch in held.batches] == [1, MOST_PER_TRANSACTION, 1]


def test_nothing_is_acknowledged_that_the_store_did_not_keep() -> None:
    held = Held()
    held.failure = StoreError("the disk is full")
    held.allowed.set()
    writer = ReportWriter(held)

    async def scene() -> None:
        outcomes = await asyncio.gather(*(writer.submit(report) for report in _reports(3)), return_exceptions=True)
        assert [outcome.status for outcome in outcomes if isinstance(outcome, Problem)] == [503, 503, 503]
        # It goes on when the store is well again.
        held.failure = None
        assert (await writer.submit(Report("later", 0.0, 0.0))).status is Status.TAKEN

    _run(writer, scene)
    assert held.batches == [["later"]]


def test_a_bug_in_one_batch_does_not_end_the_writer() -> None:
    held = Held()
    held.failure = KeyError("37.774937")
    held.allowed.set()
    writer = ReportWriter(held)

    async def scene() -> None:
        with pytest.raises(Problem) as caught:
            await writer.submit(Report("ann", 0.0, 0.0))
        assert caught.value.status == 500
        assert "37" not in caught.value.detail
        held.failure = None
        await writer.submit(Report("ann", 0.0, 0.0))

    _run(writer, scene)
    assert held.batches == [["ann"]]


def test_what_waits_beyond_the_bound_is_refused_and_the_rest_is_kept() -> None:
    held = Held()
    writer = ReportWriter(held, most_waiting=2)

    async def scene() -> None:
        first = asyncio.create_task(writer.submit(Report("first", 0.0, 0.0)))
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)
        waiting = [asyncio.create_task(writer.submit(report)) for report in _reports(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as caught:
            await writer.submit(Report("one-too-many", 0.0, 0.0))
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (503, True)
        held.allowed.set()
        await asyncio.gather(first, *waiting)

    _run(writer, scene)
    assert sorted(chain(*held.batches)) == ["first", "person-0", "person-1"]


def test_closing_keeps_and_answers_what_waits_and_takes_no_more() -> None:
    held = Held()
    writer = ReportWriter(held)

    async def scene() -> None:
        waiting = [asyncio.create_task(writer.submit(report)) for report in _reports(5)]
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)
        closing = asyncio.create_task(asyncio.to_thread(writer.close))
        while writer.is_running:
            await asyncio.sleep(0)
        with pytest.raises(Problem) as caught:
            await writer.submit(Report("late", 0.0, 0.0))
        assert caught.value.status == 503
        held.allowed.set()
        assert len(await asyncio.gather(*waiting)) == 5
        await closing

    _run(writer, scene)
    assert len(list(chain(*held.batches))) == 5


def test_a_writer_that_never_began_answers_all_the_same() -> None:
    writer = ReportWriter(Held())

    async def scene() -> None:
        waiting = asyncio.create_task(writer.submit(Report("ann", 0.0, 0.0)))
        while not len(writer):
            await asyncio.sleep(0)
        writer.close()
        with pytest.raises(Problem) as caught:
            await waiting
        assert caught.value.status == 503

    asyncio.run(scene())


def test_somebody_who_left_is_no_trouble_for_the_others() -> None:
    held = Held()
    writer = ReportWriter(held)

    async def scene() -> None:
        leaving, staying = (asyncio.create_task(writer.submit(report)) for report in _reports(2))
        await asyncio.to_thread(held.begun.wait, PATIENCE_S)
        leaving.cancel()
        held.allowed.set()
        assert (await staying).status is Status.TAKEN

    _run(writer, scene)


def test_a_report_never_prints_where() -> None:
    assert "37" not in repr(Report("ann", 37.774937, 37.774937))


def test_answers_leave_at_ticks_however_long_a_report_takes() -> None:
    left_at: list[float] = []

    async def ask() -> None:
        writer = ReportWriter(lambda some: [Answer(Status.TAKEN)] * len(some))
        writer.start()
        for _ in range(5):
            future = asyncio.ensure_future(writer.submit(Report("ann", 0.0, 0.0)))
            future.add_done_callback(lambda _: left_at.append(asyncio.get_running_loop().scheduled_at))  # type: ignore[attr-defined]
            await future
        writer.close()

    with asyncio.Runner(loop_factory=_WatchedLoop) as runner:
        runner.run(ask())
    assert len(left_at) == 5
    assert all(abs(at / ANSWER_TICK_S - round(at / ANSWER_TICK_S)) < 1e-6 for at in left_at)


class _WatchedLoop(asyncio.SelectorEventLoop):
    """Remembers for when the last call was scheduled."""

    scheduled_at = math.nan

    def call_at(self, when: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.scheduled_at = when
        return super().call_at(when, *arguments, **options)
