"""Processes that the auditor starts, and ends: those and no others."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started in a session of its own, and what it has started, unless it has ended already."""
    # Until it is waited for, its number, which is also that of its group, belongs to nobody else.
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def how_it_ended(code: int) -> str:
    """Say how a process ended, from its return code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
