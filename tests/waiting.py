"""Wait for what another thread or process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Long enough for a machine with much other work: a test that hangs fails all the same.
PATIENCE_S = 120.0


def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Look often whether a condition holds, and return once it does; fail if it takes too long."""
    end, pause = time.monotonic() + patience_s, threading.Event()
    while not condition():
        assert time.monotonic() < end, f"waited {patience_s:.0f} s in vain"
        pause.wait(0.01)
