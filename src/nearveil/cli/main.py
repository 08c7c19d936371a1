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

Exit codes: 0 done, 2 wrong usage, 3 data that cannot be used, 4 a result that cannot be written, 5 a budget that
does not allow it, 1 a failure of Nearveil itself. 'nearveil audit' has exit codes of its own.
"""

# What each verb says of itself: written here too, so that the list of them loads none of them.
VERBS = {
    "protect": "Publish other places for everybody in INPUT, and say truthfully what that protects.",
    "plan": "Recommend a mechanism and its parameters for the people of INPUT and one goal.",
    "attack": "Attack people through ranked lists alone: the paper's populations or your own people, protected or not.",
    "audit": "Look for two places between which a mechanism loses more than is claimed.",
    "certify": "Compute the largest privacy loss of a mechanism over all pairs of places that it promises to protect.",
    "guarantee": "Explain in plain words what a release promises, and what it does not.",
    "reproduce": "Reproduce one table or figure, or all of them in one HTML report.",
    "fit": "Build private intervals from everybody in INPUT; the file written holds nothing private.",
    "serve": "Serve people nearby: reports in, ranked ids out, made from noisy places.",
    "serve-demo": "Serve 25,000 made-up people of San Francisco, protected, and print what to try.",
    "demo": "Find a person of a made-up city through ranked lists, protect the city in two ways, and attack again.",
    "region": "Show the box, the size and the scale of a region; without REGION, list the names known.",
    "datasets": "List the four populations of the paper: where each was found and how many people it has.",
    "keys": "Make and change the secrets of a service, and the keys of the platforms that may use it.",
}
_GROUPS = ("datasets", "keys")
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
    """Return the command with the verb that is asked for, or with all of them as they are listed: none is loaded."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        # Tracebacks, and worse the values of variables, would put true places into logs.
        pretty_exceptions_enable=False,
    )
    app.callback(help=_HELP)(_options)
    if arguments and arguments[0] in VERBS:
        _add(app, arguments[0])
    else:
        for verb, summary in VERBS.items():
            app.command(verb, help=summary)(_listed)
    return app


def _add(app: typer.Typer, verb: str) -> None:
    name = verb.replace("-", "_")
    module = import_module(f"nearveil.cli.{name}")
    if verb in _GROUPS:
        app.add_typer(getattr(module, f"{name}_app"), name=verb)
    else:
        app.command(verb, context_settings=_SETTINGS.get(verb))(getattr(module, name))


def _listed() -> None:
    """Stand for a verb in the list of them; a verb to be run comes first among the arguments, and is loaded."""
    raise UsageError("the verb comes first, then its options; see 'nearveil --help'")


class _StoppedError(BaseException):
    """Somebody pressed Ctrl-C or ended the process; Typer would leave silently after a KeyboardInterrupt."""


def _stop(_number: int, _frame: object) -> None:
    raise _StoppedError


def main(when_loaded: Callable[[], None] | None = None) -> None:
    """Run a command; turn errors into one sentence and an exit code.

    Parameters
    ----------
    when_loaded : callable, optional
        Called between loading the verb and running it.
    """
    # Ending is not a reason to leave half a file behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        # What cannot even be loaded is for whoever started this to notice.
        app = app_for(sys.argv[1:])
        if when_loaded:
            when_loaded()
    except _StoppedError:
        complain("stopped; no file was left half written")
        sys.exit(130)
    except ModuleNotFoundError as error:
        _leave_for_want_of(error)
    try:
        app()
    except NearveilError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        _leave_for_want_of(error)
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


def _leave_for_want_of(error: ModuleNotFoundError) -> NoReturn:
    """Say which extra to install, or raise the error again where no extra has the package."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        raise error
    verb = next((word for word in sys.argv[1:] if word in VERBS), "")
    wanting = missing_package(package, f"'nearveil {verb}'")
    complain(str(wanting))
    sys.exit(wanting.exit_code)
