"""The ``nearveil`` command, as a process of its own that is watched."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
_GLANCE_S = 0.01
# As it is where it was installed: Python's own compiled files may be kept, whatever the shell says.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True, slots=True)
class Run:
    """How a process went."""

    seconds: float
    peak_gb: float
    told: str


def run_watched(command: list[str]) -> Run:
    """Run a command to its end; an error is shown and raised."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT) as process:
        watch = _PeakMemory(process.pid)
        told = process.stdout.read() if process.stdout else ""
    seconds = time.perf_counter() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Run(seconds, watch.peak_gb(), told)


class _PeakMemory:
    """Watches a process's memory until it ends."""

    def __init__(self, pid: int) -> None:
        self._peak = 0
        self._thread = threading.Thread(target=self._watch, args=(psutil.Process(pid),), daemon=True)
        self._thread.start()

    def _watch(self, process: psutil.Process) -> None:
        try:
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                self._peak = max(self._peak, _peak_bytes(process))
                time.sleep(_GLANCE_S)
        except (psutil.Error, OSError):
            return

    def peak_gb(self) -> float:
        return self._peak / 1e9


def _peak_bytes(process: psutil.Process) -> int:
    """Return the most memory that it has had so far where the system keeps that, else what it has now."""
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return int(process.memory_info().rss)
