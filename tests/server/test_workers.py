"""The parent of workers: it starts them again, stops them all, and says once that they are ready."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.server import workers
from nearveil.server.metrics import Metrics
from nearveil.server.run import listen
from nearveil.server.settings import Settings
from nearveil.server.workers import LONGEST_BACK_OFF_S, SHORTEST_BACK_OFF_S, Place, Supervisor, reserve

LONG_S = 120.0


def settings(folder: Path) -> Settings:
    """Settings that tell the made-up workers where to leave their notes."""
    options = {"store": "postgresql://nobody/nothing", "workers": 2, "graceful_s": 1.0}
    return Settings.load(options=options).model_copy(update={"tile_address": str(folder)})


def note(folder: str | None, event: str) -> None:
    path = Path(str(folder)) / f"{os.getpid()}"
    with path.open("a") as notes:
        notes.write(event + "\n")


def notes(folder: Path, event: str) -> list[int]:
    """The processes that noted an event."""
    return [int(path.name) for path in folder.iterdir() if event in path.read_text().split("\n")]


def good_worker(of: Settings, parent: Connection, place: Place) -> None:
    """A worker that is ready, and listens until it is told to stop."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    note(of.tile_address, "started")
    note(of.tile_address, f"number {place.number} of {place.count}")
    parent.send("ready")
    if parent.recv() == "listen":
        note(of.tile_address, "listens")
    stopping.wait()
    note(of.tile_address, "stopped")


def unusable_worker(_: Settings, parent: Connection, __: Place) -> None:
    parent.send(DataError("the key file is gone; name another"))


class Parent:
    """A supervisor in a thread, with what the test wants to know of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.events: list[tuple[str, dict[str, object]]] = []
        self.ready: list[list[int]] = []
        monkeypatch.setattr(workers, "log_event", lambda event, **about: self.events.append((event, about)))
        monkeypatch.setattr(workers, "SHORTEST_BACK_OFF_S", 0.01)
        self.supervisor = Supervisor(settings(folder), good_worker, when_ready=self._when_ready)

    def _when_ready(self) -> None:
        self.ready.append(notes(self.folder, "started"))

    def run_until(self, act: Callable[[], None]) -> None:
        """Run it in this thread, which is the one that gets signals; act from another, and then send one."""
        failed: list[BaseException] = []

        def act_and_stop() -> None:
            try:
                act()
            except BaseException as error:
                failed.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=act_and_stop)
        thread.start()
        self.supervisor.run()
        thread.join()
        if failed:
            raise failed[0]

    def named(self, event: str) -> list[dict[str, object]]:
        return [about for name, about in self.events if name == event]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_all_listen_when_all_are_ready_and_all_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Parent(tmp_path, monkeypatch)
    parent.run_until(lambda: until(lambda: len(notes(tmp_path, "listens")) == 2))
    assert len(parent.ready) == 1
    assert len(parent.ready[0]) == 2
    assert len(notes(tmp_path, "stopped")) == 2
    assert [len(notes(tmp_path, f"number {number} of 2")) for number in range(2)] == [1, 1]
    assert not parent.supervisor._folder.exists()
    assert parent.named("workers are ready") == [{"count": 2}]
    assert not parent.named("worker ended, another is started")
    assert not any(is_there(pid) for pid in notes(tmp_path, "started"))


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_that_died_is_started_again_and_then_listens_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Parent(tmp_path, monkeypatch)

    def kill_one() -> None:
        until(lambda: len(notes(tmp_path, "listens")) == 2)
        victim = notes(tmp_path, "listens")[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(notes(tmp_path, "listens")) == 3)

    parent.run_until(kill_one)
    ended = parent.named("worker ended, another is started")
    assert [about["code_number"] for about in ended] == [-signal.SIGKILL]
    assert [about["level"] for about in ended] == ["error"]
    # Said once, however often a worker starts.
    assert len(parent.ready) == 1
    assert len(notes(tmp_path, "stopped")) == 2
    # The new one has the place of the old one.
    assert sorted(len(notes(tmp_path, f"number {number} of 2")) for number in range(2)) == [1, 2]


def test_a_worker_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the key file is gone; name another"):
        Supervisor(settings(tmp_path), unusable_worker).run()


def test_back_off_doubles_up_to_a_cap() -> None:
    waits = [SHORTEST_BACK_OFF_S]
    while len(waits) < 12:
        waits.append(workers._next_back_off(waits[-1]))
    assert workers._next_back_off(0.0) == waits[0]
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits[-1] == LONGEST_BACK_OFF_S == max(waits)


def test_what_is_done_once_is_not_left_to_the_workers(tmp_path: Path) -> None:
    once = settings(tmp_path).model_copy(update={"redraw_noise": True})
    assert Supervisor(once, good_worker)._settings.redraw_noise is False


def test_an_address_is_shared_among_workers_and_with_nobody_else() -> None:
    any_port = Settings.load(options={"port": 0})
    reserved, found = reserve(any_port)
    with reserved, listen(found, with_others=True) as first, listen(found, with_others=True) as second:
        assert found.port == reserved.getsockname()[1] == first.getsockname()[1] == second.getsockname()[1] > 0
        first.listen()
        # Another service on the port, with workers or without, would get some of the questions.
        for start in (reserve, listen):
            with pytest.raises(UsageError, match="choose another --port"):
                start(found)
        # Nobody is sent to a worker that does not listen yet.
        for _ in range(20):
            with socket.create_connection(first.getsockname()):
                first.accept()[0].close()


def test_metrics_are_those_of_all_workers_that_answer(tmp_path: Path) -> None:
    """Three workers, of which one has been killed and has left its socket."""
    both = [Metrics(), Metrics()]
    for number, metrics in enumerate(both):
        workers._share_metrics(metrics, Place(number, 3, tmp_path))
        metrics.reports(10 * (number + 1))
        metrics.question(0.001)
        metrics.rejected("not-found")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "metrics-2"))
    for metrics in both:
        lines = metrics.exposition()[0].decode().splitlines()
        assert [line for line in lines if line.startswith("nearveil_reports_total")] == [
            'nearveil_reports_total{worker="0"} 10.0',
            'nearveil_reports_total{worker="1"} 20.0',
        ]
        assert 'nearveil_question_seconds_count{worker="1"} 1.0' in lines
        assert 'nearveil_rejected_total{problem="not-found",worker="0"} 1.0' in lines
        assert lines.count("# TYPE nearveil_reports_total counter") == 1
    # A worker that is started again takes the place over.
    third = Metrics()
    workers._share_metrics(third, Place(2, 3, tmp_path))
    assert 'nearveil_reports_total{worker="2"} 0.0' in both[0].exposition()[0].decode()
