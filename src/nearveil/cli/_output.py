"""How commands talk to people: results on standard output, everything else on standard error."""

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


def say_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print a result for machines: one JSON object, or a list of them."""
    print(json.dumps(document, indent=2, allow_nan=False))


def warn(text: str) -> None:
    """Print something to think about."""
    print(f"warning: {text}", file=sys.stderr)


def complain(text: str) -> None:
    """Print what went wrong."""
    print(f"error: {text}", file=sys.stderr)


# Bars that show how far long work has come: rich is loaded where there is a terminal to show them on.


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[ProgressCallback]:
    """Show a bar on a terminal, and nothing elsewhere; without a total, it only counts."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn  # noqa: PLC0415

    with _bar(title, total, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as advance:
        yield advance


@contextmanager
def work_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal for work whose pieces differ in size: its share, time taken and time left."""
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
    # Long pieces: what was fast or slow in the last seconds says little of the time left.
    with _bar(title, total, *columns, estimate_over_s=600) as advance:
        yield advance


@contextmanager
def _bar(
    title: str, total: float | None, *columns: ProgressColumn, estimate_over_s: float = 30
) -> Iterator[Callable[[float], None]]:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TextColumn  # noqa: PLC0415

    words = TextColumn("{task.description}")
    console = Console(stderr=True)
    with Progress(words, *columns, console=console, transient=True, speed_estimate_period=estimate_over_s) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def _ignore(_done: float) -> None:
    """There is nobody to show it to."""


def write_private_json(path: Path, document: dict[str, Any], *, force: bool) -> None:
    """Write a document that only the owner of the file can read."""
    with replacing(path, force=force, private=True) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
