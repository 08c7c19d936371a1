"""How ``nearveil audit`` ends: an exit code for each verdict, and others for everything else."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TextIO

import typer

from nearveil.audit.auditor import Verdict
from nearveil.cli.console import complain
from nearveil.errors import NearveilError, UsageError

EXIT_CODES = {Verdict.CONSISTENT: 0, Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3}
WRONG_USAGE = 2
FAILED = 4


def leave_with(verdict: Verdict) -> NoReturn:
    """Leave with the verdict's exit code, once everything is printed."""
    # What cannot be printed must show now, and not when Python has taken the exit code for settled.
    if sys.stdout is not None:
        sys.stdout.flush()
    raise typer.Exit(EXIT_CODES[verdict])


def only_verdicts(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command leave with an exit code that is no verdict, unless it calls `leave_with`."""

    @wraps(command)
    def run(**options: Any) -> None:
        raise typer.Exit(_exit_code(lambda: command(**options)))

    return run


def _exit_code(work: Callable[[], None]) -> int:
    try:
        work()
    except typer.Exit as verdict:
        return verdict.exit_code
    except UsageError as error:
        return _complained(str(error), WRONG_USAGE)
    except NearveilError as error:
        return _complained(str(error))
    except BrokenPipeError:
        # Whoever read the output has left; there is nobody to complain to.
        _let_go_of(sys.stdout)
        return FAILED
    except OSError as error:
        _let_go_of(sys.stdout)
        return _complained(f"the audit failed: {error.strerror or 'the system refused'}; there is no verdict")
    except MemoryError:
        return _complained("there is not enough memory for this audit; ask for fewer --samples")
    except (Exception, SystemExit) as error:
        if os.environ.get("NEARVEIL_DEBUG"):
            traceback.print_exc()
        name = type(error).__name__
        return _complained(f"the audit failed ({name}); set NEARVEIL_DEBUG=1 to see where, and please report it")
    return _complained("the audit ended without a verdict; please report it")


def _complained(text: str, code: int = FAILED) -> int:
    try:
        complain(text)
    except OSError:
        # Where nothing can be printed, the exit code has to do.
        _let_go_of(sys.stderr)
    return code


def _let_go_of(stream: TextIO) -> None:
    """Send what cannot be printed nowhere: Python would try again at the end, and put its own exit code in place."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
