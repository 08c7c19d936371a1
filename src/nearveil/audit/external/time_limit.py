"""Wait for something no longer than it may take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


class TookTooLongError(Exception):
    """The time limit has passed."""


def within(timeout_s: float, work: Callable[[], _Result]) -> _Result:
    """Return what ``work`` returns or raises; raise `TookTooLongError` once it takes longer than allowed.

    It runs in a thread of its own. Python cannot end a thread, so work that hangs goes on hanging until the process
    ends, which it does not hold up.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # passed on to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="nearveil-audit")
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TookTooLongError
    if errors:
        raise errors[0]
    return results[0]
