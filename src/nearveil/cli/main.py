"""The ``nearveil`` command itself: its verbs, its exit codes, and what it says when something fails."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn, TextIO

try:
    import click

    from nearveil.cli._output import complain
    from nearveil.errors import EXTRA_OF, NearveilError, UsageError, missing_package
except ImportError as error:
    # Python would exit with 1, which is the verdict of 'nearveil audit' on a violated claim.
    print(f"error: Nearveil cannot be loaded ({error})", file=sys.stderr)
    sys.exit(4 if sys.argv[1:2] == ["audit"] else 1)

_HELP = """Attack, audit and protect "people nearby" features.

Exit codes: 0 success, 1 internal error, 2 wrong usage, 3 unusable data, 4 output that cannot be written, 5 privacy
budget exceeded. 'nearveil audit' has its own exit codes.
"""

# In short what each verb's help says, here so that listing the verbs imports none of them.
VERBS = {
    "protect": "Publish a file with noisy locations, and say what is guaranteed.",
    "plan": "Recommend a mechanism for your users and your goal.",
    "attack": "Locate users through ranked lists or other answers.",
    "audit": "Test the privacy claim of a mechanism.",
    "certify": "Compute the largest privacy loss of a mechanism.",
    "guarantee": "Explain in plain words what a release guarantees.",
    "reproduce": "Reproduce the paper, or one of its tables or figures.",
    "fit": "Find the intervals of dprs or the cells of hide-among.",
    "serve": "Run a protected 'people nearby' service.",
    "import": "Bring users into the store of a service.",
    "serve-demo": "Run the service with 25,000 synthetic users.",
    "demo": "Attack a synthetic city, protect it, and attack again.",
    "datasets": "List the four populations of the paper.",
    "keys": "Manage the secret keys and the API keys of a service.",
    "store": "Look after the store of a service.",
}
# The extras that bring everything for a verb, where a package that is missing is not in an extra of its own.
_EXTRA_OF_VERB = {
    **dict.fromkeys(("plan", "attack", "audit", "certify", "reproduce", "demo", "datasets"), "research"),
    **dict.fromkeys(("serve", "import", "serve-demo", "keys", "store"), "serve"),
}


class LazyGroup(click.Group):
    """A group that imports a verb only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        name = name_of(cmd_name)
        found: click.Command = getattr(import_module(f"nearveil.cli.{name}"), name)
        if not gc.isenabled():
            # Imported modules stay, so the garbage collector need not look at them.
            gc.freeze()
            gc.enable()
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def name_of(verb: str) -> str:
    """Return what the module of a verb and its command are called, neither of which can have a keyword's name."""
    return "import_people" if verb == "import" else verb.replace("-", "_")


@click.group(
    cls=LazyGroup,
    help=_HELP,
    context_settings={"max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="nearveil", message="nearveil %(version)s")
def nearveil() -> None:
    """Run a verb."""


class _StoppedError(BaseException):
    """SIGINT or SIGTERM arrived. Not a KeyboardInterrupt, which click turns into an error of its own."""


def _stop(_number: int, _frame: object) -> None:
    raise _StoppedError


def main() -> None:
    """Run a command; turn errors into one sentence and an exit code."""
    # While a verb is imported: `LazyGroup` turns it on again.
    gc.disable()
    # A signal must raise, so that partial files are removed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    # 'nearveil audit' exits with 1 for a violated claim, so an audit without a verdict exits with 4.
    is_audit = sys.argv[1:2] == ["audit"]
    failed = 4 if is_audit else 1
    try:
        code: Any = nearveil.main(prog_name="nearveil", standalone_mode=False)
        if sys.stdout is not None:
            # An error of printing must occur here, and not at exit, when the exit code can no longer change.
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        sys.exit(error.exit_code)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "nearveil"
        _exit(f"{error.format_message()}\nSee '{path} --help'.", error.exit_code)
    except NearveilError as error:
        _exit(str(error), failed if is_audit and not isinstance(error, UsageError) else error.exit_code)
    except ModuleNotFoundError as error:
        _exit_without_package(error, failed)
    except _StoppedError:
        _exit("stopped; no file was left half written", 130)
    except BrokenPipeError:
        # The reader of the output has closed it.
        _discard(sys.stdout)
        sys.exit(failed)
    except MemoryError:
        _exit("not enough memory; use a smaller file, or fewer samples", failed)
    except SystemExit as error:
        if not is_audit:
            raise
        _exit_after_bug(error, failed)
    except Exception as error:
        _exit_after_bug(error, failed)
    sys.exit(code if isinstance(code, int) else failed if is_audit else 0)


def _exit(text: str, code: int) -> NoReturn:
    try:
        complain(text)
    except OSError:
        _discard(sys.stderr)
    _discard(sys.stdout)
    sys.exit(code)


def _discard(stream: TextIO | None) -> None:
    """Discard output that cannot be printed: Python would try again at exit, and replace the exit code."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _exit_after_bug(error: BaseException, code: int) -> NoReturn:
    """Say that there is a bug, without a traceback, which could show true locations."""
    if isinstance(error, SystemExit) and type(sys.stdout).__module__.startswith("click."):
        sys.exit(code)  # click wraps stdout and exits when the reader of the output has closed it
    if os.environ.get("NEARVEIL_DEBUG"):
        traceback.print_exception(error)
    name = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    _exit(f"Nearveil failed ({name}); set NEARVEIL_DEBUG=1 to see where, and please report it", code)


def _exit_without_package(error: ModuleNotFoundError, code: int) -> NoReturn:
    """Name the extra to install for a package that is missing."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRA_OF:
        _exit_after_bug(error, code)
    verb = next((word for word in sys.argv[1:] if word in VERBS), "")
    extra = EXTRA_OF[package]
    missing = missing_package(package, f"'nearveil {verb}'", _EXTRA_OF_VERB.get(verb) if extra == "files" else extra)
    _exit(str(missing), missing.exit_code)
