"""The ``nearveil`` command itself: its verbs, its exit codes, and what it says when something fails."""

from __future__ import annotations

import os
import signal
import sys
from importlib import metadata
from typing import Annotated

import typer

from nearveil.cli.attack import attack
from nearveil.cli.audit import audit
from nearveil.cli.certify import certify
from nearveil.cli.console import complain, say
from nearveil.cli.datasets import datasets_app
from nearveil.cli.demo import demo
from nearveil.cli.fit import fit
from nearveil.cli.guarantee import guarantee
from nearveil.cli.keys import keys_app
from nearveil.cli.plan import plan
from nearveil.cli.protect import protect
from nearveil.cli.region import region
from nearveil.cli.reproduce import reproduce
from nearveil.cli.serve import serve
from nearveil.cli.serve_demo import serve_demo
from nearveil.errors import NearveilError

_HELP = """Audit and protect "people nearby" services.

Exit codes: 0 done, 2 wrong usage, 3 data that cannot be used, 4 a result that cannot be written, 5 a budget that
does not allow it, 1 a failure of Nearveil itself. 'nearveil audit' has exit codes of its own.
"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks, and worse the values of variables, would put true places into logs.
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"nearveil {metadata.version('nearveil')}")
        raise typer.Exit


@app.callback(help=_HELP)
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    del version


for command in (protect, plan, attack, audit, certify, guarantee, reproduce, fit, serve, serve_demo, demo):
    app.command()(command)
# A region may start with a minus sign.
app.command(context_settings={"ignore_unknown_options": True})(region)
app.add_typer(datasets_app, name="datasets")
app.add_typer(keys_app, name="keys")


class _StoppedError(BaseException):
    """Somebody pressed Ctrl-C or ended the process; Typer would leave silently after a KeyboardInterrupt."""


def _stop(_number: int, _frame: object) -> None:
    raise _StoppedError


def main() -> None:
    """Run a command; turn errors into one sentence and an exit code."""
    # Ending is not a reason to leave half a file behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        app()
    except NearveilError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except _StoppedError:
        complain("stopped; no file was left half written")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has left; there is nobody to complain to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        complain("there is not enough memory for this file; protect it in parts, with one intervals file")
        sys.exit(1)
    except Exception as error:  # a bug: say so without the values that a traceback would show
        if os.environ.get("NEARVEIL_DEBUG"):
            raise
        complain(f"Nearveil failed ({type(error).__name__}); set NEARVEIL_DEBUG=1 to see where, and please report it")
        sys.exit(1)
