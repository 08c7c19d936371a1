"""The two servers, each in a process of its own."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.process import NEARVEIL

PATIENCE_S = 300.0


@dataclass(frozen=True)
class Server:
    """A server that runs on this machine."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return the time that it and its workers have computed for."""
        process = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))

    def peak_bytes(self) -> int:
        """Return the most memory that it has had."""
        status = Path(f"/proc/{self.pid}/status")
        if status.exists():
            line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
            return int(line.split()[1]) * 1024
        return int(psutil.Process(self.pid).memory_info().rss)


@contextmanager
def bare_server() -> Iterator[Server]:
    """Run the route that does nothing."""
    port = _free_port()
    with _running([sys.executable, "-m", "benchmarks.serving.bare_route", str(port)]) as process:
        _wait_until(lambda: _status(f"http://127.0.0.1:{port}/", "") == 404)
        yield Server(port, process.pid)


@contextmanager
def nearveil_server(
    store: Path | str, key: str, epoch: str, window: str, log_file: Path, *options: str
) -> Iterator[Server]:
    """Run the service on a store until everybody is on its map."""
    port = _free_port()
    command = [*NEARVEIL, "serve", "--port", str(port), "--epoch", epoch, "--window", window]
    command += ["--region", "san-francisco"]
    # Places count at once, so that reports of people who are now here, now there are drawn and published.
    command += ["--key-questions-per-s", "0", "--dwell", "1", *options]
    # In a variable, because an address may have a password.
    environment = {**os.environ, "NEARVEIL_STORE": str(store)}
    with log_file.open("wb") as log, _running(command, log, environment) as process:
        _wait_until(lambda: process.poll() is not None or _status(f"http://127.0.0.1:{port}/readyz", key) == 200)
        if process.poll() is not None:
            raise SystemExit(log_file.read_text(encoding="utf-8"))
        yield Server(port, process.pid)


@contextmanager
def _running(
    command: list[str], log: Any = None, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def _status(address: str, key: str) -> int | None:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {key}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("a server did not start in time")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
