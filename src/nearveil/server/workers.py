"""Several processes that serve one address: a parent that starts, watches and stops them.

Each worker is a whole service on the same PostgreSQL, with its own index in memory, as if it were started by hand. All
listen on one address (SO_REUSEPORT), and the kernel distributes new connections among them. A worker listens only when
it can answer: at the start when all can, and after it was started again as soon as it can itself.

Workers are fresh processes, not copies of the parent, so that they share none of its threads, locks and connections.
They get the settings through a pipe, so that no secret is on a command line.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from nearveil.errors import NearveilError, UsageError
from nearveil.server.logs import log_event, set_up_logs
from nearveil.server.run import forbid_core_dumps, listen, run
from nearveil.server.service import Service
from nearveil.server.settings import Settings

SHORTEST_BACK_OFF_S = 0.5
"""Time after which a worker that ended is started again; doubled each time, until one has been ready for a minute."""
LONGEST_BACK_OFF_S = 30.0

_STEADY_S = 60.0
_LOOK_S = 0.1
# Reports are written after requests have finished.
_WRITING_S = 30.0

Worker = Callable[[Settings, Connection], None]


def reserve(settings: Settings) -> tuple[socket.socket, Settings]:
    """Reserve the address for workers; return a socket that holds it, and settings that name its port."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise UsageError("several workers need SO_REUSEPORT, which this system does not have; leave out workers")
    # Another service of the same user that listens there with workers would let us share its port.
    with listen(settings) as alone:
        settings = settings.model_copy(update={"port": alone.getsockname()[1]})
    return listen(settings, with_others=True), settings


def run_workers(
    settings: Settings, *, when_ready: Callable[[], None] | None = None, worker: Worker | None = None
) -> None:
    """Serve with several processes until SIGTERM or SIGINT, then stop them gracefully.

    Parameters
    ----------
    settings : Settings
        With a port that is reserved; see `reserve`.
    when_ready : callable, optional
        Called once, when all workers can answer questions.
    worker : callable, optional
        What a worker does; `serve_as_worker` unless given.
    """
    forbid_core_dumps()
    Supervisor(settings, worker or serve_as_worker, when_ready=when_ready).run()


@dataclass
class _Slot:
    """The place of one worker, and when it is to be started again."""

    number: int
    process: BaseProcess | None = None
    pipe: Connection | None = None
    is_ready: bool = False
    ready_at: float = 0.0
    start_at: float = 0.0
    back_off_s: float = field(default=0.0)


class Supervisor:
    """Keeps as many workers as the settings say.

    Parameters
    ----------
    settings : Settings
        Of each worker.
    worker : callable
        What a worker does, in a process of its own; it can be found by its name.
    when_ready : callable, optional
        Called once, when all are ready.
    clock : callable, optional
        Seconds that never go back.
    """

    def __init__(
        self,
        settings: Settings,
        worker: Worker,
        *,
        when_ready: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # What is done once, the parent has done.
        self._settings = settings.model_copy(update={"redraw_noise": False})
        self._worker, self._when_ready, self._clock = worker, when_ready, clock
        self._slots = [_Slot(number) for number in range(settings.workers)]
        self._all_were_ready = False
        self._is_stopping = False

    def run(self) -> None:
        """Start the workers, and return when all have ended after a signal.

        Raises what a worker raised, if one cannot be started at all.
        """
        try:
            with _woken_by_signals(self._stop) as woken:
                while not self._is_stopping:
                    self._start_due()
                    self._look(woken)
        finally:
            self._end_all()

    def _stop(self) -> None:
        self._is_stopping = True

    def _start_due(self) -> None:
        now = self._clock()
        for slot in self._slots:
            if slot.process is None and slot.start_at <= now:
                self._start(slot)

    def _start(self, slot: _Slot) -> None:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=self._worker, args=(self._settings, theirs), name=f"nearveil-worker-{slot.number}"
        )
        with _interrupts_blocked():
            process.start()
        theirs.close()
        slot.process, slot.pipe, slot.is_ready = process, ours, False
        log_event("worker started", pid=process.pid or 0, count=slot.number + 1)

    def _look(self, woken: int) -> None:
        """Wait for a signal, a message, the end of a worker, or the time to start one."""
        running = [slot for slot in self._slots if slot.process is not None]
        due_at = min((slot.start_at for slot in self._slots if slot.process is None), default=None)
        timeout_s = None if due_at is None else max(0.0, due_at - self._clock())
        objects: list[Any] = [woken]
        objects += [slot.process.sentinel for slot in running if slot.process is not None]
        objects += [slot.pipe for slot in running if slot.pipe is not None and not slot.is_ready]
        wait(objects, timeout_s)
        for slot in running:
            self._hear(slot)
            if slot.process is not None and not slot.process.is_alive():
                self._ended(slot)

    def _hear(self, slot: _Slot) -> None:
        """Take what a worker has to say: that it is ready, or why it cannot be."""
        if slot.pipe is None or slot.is_ready:
            return
        try:
            said = slot.pipe.recv() if slot.pipe.poll() else None
        except (EOFError, OSError):
            # It is ending; that is seen by its process.
            slot.pipe.close()
            slot.pipe = None
            return
        if isinstance(said, NearveilError):
            if not self._all_were_ready:
                raise said
            log_event("worker cannot start", level="error", error=type(said).__name__, count=slot.number + 1)
        elif said == _READY:
            slot.is_ready, slot.ready_at = True, self._clock()
            self._let_in()

    def _let_in(self) -> None:
        """Let workers listen: all at once at the start, later each as soon as it is ready."""
        if not (self._all_were_ready or all(slot.is_ready for slot in self._slots)):
            return
        for slot in self._slots:
            if slot.is_ready and slot.pipe is not None:
                slot.pipe.send(_LISTEN)
                slot.pipe.close()
                slot.pipe = None
        if not self._all_were_ready:
            self._all_were_ready = True
            log_event("workers are ready", count=len(self._slots))
            if self._when_ready is not None:
                self._when_ready()

    def _ended(self, slot: _Slot) -> None:
        process, now = slot.process, self._clock()
        if process is None or self._is_stopping:
            return
        was_steady = slot.is_ready and now - slot.ready_at >= _STEADY_S
        slot.back_off_s = _next_back_off(0.0 if was_steady else slot.back_off_s)
        slot.start_at = now + slot.back_off_s
        log_event(
            "worker ended, another is started",
            level="error",
            pid=process.pid or 0,
            code_number=process.exitcode or 0,
            seconds=slot.back_off_s,
        )
        self._forget(slot)

    @staticmethod
    def _forget(slot: _Slot) -> None:
        if slot.process is not None:
            slot.process.join()
            slot.process.close()
        if slot.pipe is not None:
            slot.pipe.close()
        slot.process, slot.pipe, slot.is_ready = None, None, False

    def _end_all(self) -> None:
        """Let all workers finish, and kill what does not."""
        running = [slot for slot in self._slots if slot.process is not None]
        for slot in running:
            if slot.process is not None:
                slot.process.terminate()
        ends_at = self._clock() + max(1.0, self._settings.graceful_s) + _WRITING_S
        for slot in running:
            if slot.process is not None:
                slot.process.join(max(0.0, ends_at - self._clock()))
                if slot.process.is_alive():
                    log_event("worker did not stop in time", level="error", pid=slot.process.pid or 0)
                    slot.process.kill()
            self._forget(slot)


_SPAWN = multiprocessing.get_context("spawn")
_READY, _LISTEN = "ready", "listen"


def _next_back_off(before_s: float) -> float:
    return min(2 * before_s or SHORTEST_BACK_OFF_S, LONGEST_BACK_OFF_S)


@contextmanager
def _woken_by_signals(stop: Callable[[], None]) -> Iterator[int]:
    """Call a function at SIGTERM and SIGINT; give a file that can be read from then on, to wait for."""
    woken, wakes = os.pipe()

    def on_signal(_number: int, _frame: object) -> None:
        stop()
        os.write(wakes, b".")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield woken
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        os.close(wakes)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start a process that gets no SIGINT: a terminal sends it to workers too, and the parent stops them in order."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The worker.


def serve_as_worker(settings: Settings, parent: Connection) -> None:
    """Open the service, say that it is ready, and serve when the parent says so."""
    set_up_logs(settings.log_level)
    try:
        listening = listen(settings, with_others=True)
        service = Service.open(settings)
    except NearveilError as error:
        parent.send(error)
        return
    _stop_without_parent()

    def wait_for_parent(is_stopping: Callable[[], bool]) -> None:
        while not service.scheduler.loaded.wait(_LOOK_S):
            if is_stopping():
                return
        try:
            parent.send(_READY)
            while not parent.poll(_LOOK_S):
                if is_stopping():
                    return
            parent.recv()
        except (EOFError, OSError):
            # The parent has ended.
            signal.raise_signal(signal.SIGTERM)

    run(service, listening, before_listening=wait_for_parent)


def _stop_without_parent() -> None:
    """Stop gracefully when the parent has ended, however it did: nobody would start or stop this worker any more."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def stop() -> None:
        parent.join()
        log_event("parent has ended, worker stops", level="error")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, name="nearveil-parent", daemon=True).start()
