"""Bars that show how far long work has come; loaded where there is a terminal to show them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


@contextmanager
def counting_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar that counts; without a total, it only counts."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def share_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar for work whose pieces differ in size: its share, time taken and time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    # Long pieces: what was fast or slow in the last seconds says little of the time left.
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
