"""How commands talk to people: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
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


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[ProgressCallback]:
    """Show a bar on a terminal, and nothing elsewhere; without a total, it only counts."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def work_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar for work whose pieces differ in size: its share, time taken and time left."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    # Long pieces: what was fast or slow in the last seconds says little of the time left.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=600
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
