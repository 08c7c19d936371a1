"""The ``nearveil`` command itself: its verbs, its exit codes, and what it says when something fails."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Annotated, Any, NoReturn

import typer

from nearveil.cli._output import complain, say
from nearveil.errors import EXTRA_OF, NearveilError, UsageError, missing_package

_HELP = """Audit and protect "people nearby" services.

Exit codes: 0 success, 1 internal error, 2 wrong usage, 3 unusable data, 4 output that cannot be written, 5 privacy
budget exceeded. 'nearveil audit' has its own exit codes.
"""

# The first line of each verb's help, repeated here so that listing the verbs imports none of them.
VERBS = {
    "protect": "Write a copy of INPUT with noisy locations, and print what is guaranteed.",
    "plan": "Recommend a mechanism and its parameters for the people of INPUT and a goal.",
    "attack": "Locate people through ranked lists or other answers: the paper's people or your own, protected or not.",
    "audit": "Test the privacy claim of a mechanism: search for two locations between which it loses more.",
    "certify": "Compute the largest privacy loss of a mechanism over all pairs of locations that it protects.",
    "guarantee": "Explain in plain words what a release guarantees, and what it does not.",
    "reproduce": "Reproduce one table or figure of the paper, or all of them in one HTML report.",
    "fit": "Find the intervals of dprs or the cells of hide-among, and write them to a file.",
    "serve": "Run a protected 'people nearby' service that answers from noisy locations.",
    "import": "Bring the people of a file or of a table of PostgreSQL into the store of a service.",
    "serve-demo": "Run the service with 25,000 made-up people of San Francisco, and print commands to try.",
    "demo": "Locate a person of a made-up city through ranked lists, protect the city, and attack again.",
    "region": "Show the bounds, size and scale of a region; without REGION, list the named regions.",
    "datasets": "List the four populations of the paper, with their sources and sizes.",
    "keys": "Manage the secret keys of a service, and the keys of the platforms that may use it.",
    "store": "Look after the store of a service.",
}
_GROUPS = ("datasets", "keys", "store")
# A region may start with a minus sign.
_SETTINGS: dict[str, dict[str, Any]] = {"region": {"ignore_unknown_options": True}}


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"nearveil {metadata.version('nearveil')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    del version


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with the verb in ``arguments``, or with all verbs as a list that imports none of them."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        # Tracebacks with the values of variables would put true locations into logs.
        pretty_exceptions_enable=False,
    )
    app.callback(help=_HELP)(_options)
    if arguments and arguments[0] in VERBS:
        _add(app, arguments[0])
    else:
        for verb, summary in VERBS.items():
            app.command(verb, help=summary)(_listed)
    return app


def name_of(verb: str) -> str:
    """Return what the module of a verb and its function are called, neither of which can have a keyword's name."""
    return "import_people" if verb == "import" else verb.replace("-", "_")


def _add(app: typer.Typer, verb: str) -> None:
    name = name_of(verb)
    module = import_module(f"nearveil.cli.{name}")
    if verb in _GROUPS:
        app.add_typer(getattr(module, f"{name}_app"), name=verb)
    else:
        app.command(verb, context_settings=_SETTINGS.get(verb))(getattr(module, name))


def _listed() -> None:
    """Stand for a verb in the list; a verb that is to run must be the first argument."""
    raise UsageError("give the command first, then its options; see 'nearveil --help'")


class _StoppedError(BaseException):
    """SIGINT or SIGTERM arrived. Not a KeyboardInterrupt, after which Typer would exit silently."""


def _stop(_number: int, _frame: object) -> None:
    raise _StoppedError


def main(when_loaded: Callable[[], None] | None = None) -> None:
    """Run a command; turn errors into one sentence and an exit code.

    Parameters
    ----------
    when_loaded : callable, optional
        Called after the verb is imported and before it runs.
    """
    # A signal must raise, so that partial files are removed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        # Other errors during import are for the caller.
        app = app_for(sys.argv[1:])
        if when_loaded:
            when_loaded()
    except _StoppedError:
        complain("stopped; no file was left half written")
        sys.exit(130)
    except ModuleNotFoundError as error:
        _exit_without_package(error)
    try:
        app()
    except NearveilError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        _exit_without_package(error)
    except _StoppedError:
        complain("stopped; no file was left half written")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        complain("not enough memory for this file; split it, and protect the pieces with one intervals file")
        sys.exit(1)
    except Exception as error:  # a bug; a traceback could show true locations
        if os.environ.get("NEARVEIL_DEBUG"):
            raise
        complain(f"Nearveil failed ({type(error).__name__}); set NEARVEIL_DEBUG=1 to see where, and please report it")
        sys.exit(1)


def _exit_without_package(error: ModuleNotFoundError) -> NoReturn:
    """Name the extra to install, or raise the error again if no extra has the package."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        raise error
    verb = next((word for word in sys.argv[1:] if word in VERBS), "")
    missing = missing_package(package, f"'nearveil {verb}'")
    complain(str(missing))
    sys.exit(missing.exit_code)
