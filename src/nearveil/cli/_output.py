"""Output of the commands: results on standard output, warnings, errors and progress on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearveil.types import IntArray
    from nearveil.types import Progress as ProgressCallback


FULL_CARD = "nearveil guarantee FILE, with the output of --json"
"""Where the summary of a guarantee says that the whole of it is."""
COUNTS_ROWS = "The guarantee counts rows: name the users with --user if a user may have several."
"""What a release or a fit without ids of users prints."""


def say(text: str) -> None:
    """Print a result, at once: a service goes on for months, and a log that it writes to would hold the text back."""
    print(text, flush=True)


def note(text: str) -> None:
    """Print what belongs to a result, where the result itself is on standard output."""
    print(text, file=sys.stderr)


_MOST_ROWS_NAMED = 20


def note_skipped(skipped: dict[str, IntArray]) -> None:
    """Name rows that were left out by their numbers, without a word of what is in them."""
    for reason, rows in skipped.items():
        more = f" and {len(rows) - _MOST_ROWS_NAMED:,} more" if len(rows) > _MOST_ROWS_NAMED else ""
        numbers = ", ".join(map(str, rows[:_MOST_ROWS_NAMED].tolist()))
        note(f"Skipped, {reason}: row{'s' * (len(rows) > 1)} {numbers}{more}")


def say_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print a result as JSON: one object, or a list of objects."""
    print(json.dumps(document, indent=2, allow_nan=False))


def warn(text: str) -> None:
    """Print a warning."""
    print(f"warning: {with_options(text)}", file=sys.stderr)


def complain(text: str) -> None:
    """Print an error."""
    print(f"error: {with_options(text)}", file=sys.stderr)


# A parameter of Python in a message, such as region=, user='id', skip_bad=True or noise_m=500.
_PARAMETER = re.compile(r"""(?<![\w.-])(?<!--set )([a-z][a-z0-9_]*)=('[^']*'|"[^"]*"|[\w…+/-]*(?:[.,:][\w…+/-]+)*)""")
SETTABLE = "nearveil.settable"
"""Where a command notes which parameters its ``--set`` takes."""


def with_options(message: str) -> str:
    """Replace the parameters of Python that a message names by the options of the command that runs.

    A message that is raised below the command line says ``noise_m=500``; here it becomes ``--noise 500m``. Parameters
    of a mechanism that have no option of their own go with ``--set``. Others stay as they are.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return message
    options = {each.name: each for each in context.command.params if isinstance(each, click.Option)}

    def replaced(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'\"")
        option = options.get(name)
        if option is not None:
            if option.is_flag or not value:
                return option.opts[0]
            unit = "m" if name.endswith("_m") and value.replace(".", "").isdigit() else ""
            return f"{option.opts[0]} {value}{unit}"
        return f"--set {name}={value or 'VALUE'}" if name in context.meta.get(SETTABLE, ()) else found[0]

    return _PARAMETER.sub(replaced, message)


# Progress on a terminal: what is done, how much of it, the time elapsed and about how much is left. rich is imported
# only if there is a terminal.


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[ProgressCallback]:
    """Show a progress bar if standard error is a terminal; without a total, it only counts."""
    with _bar(title, total, "{task.completed:,.0f}" + ("" if total is None else " of {task.total:,.0f}")) as advance:
        yield advance


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show what is being done and for how long, where it has no steps to count."""
    with _bar(title, None, ""):
        yield


@contextmanager
def _bar(title: str, total: float | None, done: str) -> Iterator[Callable[[float], None]]:
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, Task, TextColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Done(TextColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None and not task.completed else super().render(task)

    class Times(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(times(task.elapsed or 0.0, task.time_remaining))

    columns = [TextColumn("{task.description}"), BarColumn(), Done(done), Times("")]
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda step: bar.advance(task, step)


def times(elapsed_s: float, left_s: float | None) -> str:
    """Say how long something has taken, and about how long it still takes if that is known.

    Examples
    --------
    >>> times(25.4, 300.0)
    '0:25 elapsed, about 5:00 left'
    >>> times(3725.0, None)
    '1:02:05 elapsed'
    """
    left = "" if left_s is None else f", about {_clock(left_s)} left"
    return f"{_clock(elapsed_s)} elapsed{left}"


def _clock(seconds: float) -> str:
    return re.sub(r"^0:0?(?=.)", "", str(timedelta(seconds=int(seconds))))


def _ignore(_done: float) -> None:
    """Do nothing: there is no terminal to show progress on."""
