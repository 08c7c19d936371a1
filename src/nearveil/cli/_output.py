"""Output of the commands: results on standard output, warnings, errors and progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearveil.io.atomic import replacing

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from nearveil.types import Progress as ProgressCallback


def say(text: str) -> None:
    """Print a result."""
    print(text)


def note(text: str) -> None:
    """Print what belongs to a result, where the result itself is on standard output."""
    print(text, file=sys.stderr)


def say_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print a result as JSON: one object, or a list of objects."""
    print(json.dumps(document, indent=2, allow_nan=False))


def warn(text: str) -> None:
    """Print a warning."""
    print(f"warning: {text}", file=sys.stderr)


def complain(text: str) -> None:
    """Print an error."""
    print(f"error: {text}", file=sys.stderr)


# Progress bars. rich is imported only if there is a terminal.


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[ProgressCallback]:
    """Show a progress bar if standard error is a terminal; without a total, it only counts."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn  # noqa: PLC0415

    with _bar(title, total, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as advance:
        yield advance


@contextmanager
def work_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a progress bar for work in pieces of different size: share done, time elapsed and time left."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    # Pieces take long, so the speed of the last seconds does not predict the time left.
    with _bar(title, total, *columns, estimate_over_s=600) as advance:
        yield advance


@contextmanager
def _bar(
    title: str, total: float | None, *columns: ProgressColumn, estimate_over_s: float = 30
) -> Iterator[Callable[[float], None]]:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TextColumn  # noqa: PLC0415

    label = TextColumn("{task.description}")
    console = Console(stderr=True)
    with Progress(label, *columns, console=console, transient=True, speed_estimate_period=estimate_over_s) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def _ignore(_done: float) -> None:
    """Do nothing: there is no terminal to show progress on."""


def write_private_json(path: Path, document: dict[str, Any], *, force: bool) -> None:
    """Write JSON to a file that only its owner can read."""
    with replacing(path, force=force, private=True) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
