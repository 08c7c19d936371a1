"""How commands talk to people: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearveil.errors import DataError
from nearveil.io.atomic import replacing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

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
    if not sys.stderr.isatty():
        yield _ignore
        return
    import rich.progress as rich_bars  # noqa: PLC0415 - slow to load

    columns = (
        rich_bars.TextColumn("{task.description}"),
        rich_bars.BarColumn(),
        rich_bars.MofNCompleteColumn(),
        rich_bars.TimeRemainingColumn(),
    )
    with _shown(rich_bars.Progress(*columns, console=_stderr(), transient=True), title, total) as advance:
        yield advance


@contextmanager
def work_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal for work whose pieces differ in size: its share, time taken and time left."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    import rich.progress as rich_bars  # noqa: PLC0415 - slow to load

    columns = (
        rich_bars.TextColumn("{task.description}"),
        rich_bars.BarColumn(),
        rich_bars.TaskProgressColumn(),
        rich_bars.TimeElapsedColumn(),
        rich_bars.TextColumn("left"),
        rich_bars.TimeRemainingColumn(),
    )
    # Long pieces: what was fast or slow in the last seconds says little of the time left.
    bar = rich_bars.Progress(*columns, console=_stderr(), transient=True, speed_estimate_period=600)
    with _shown(bar, title, total) as advance:
        yield advance


@contextmanager
def _shown(bar: RichProgress, title: str, total: float | None) -> Iterator[Callable[[float], None]]:
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def _stderr() -> Console:
    from rich.console import Console  # noqa: PLC0415 - slow to load

    return Console(stderr=True)


def _ignore(_done: float) -> None:
    """There is nobody to show it to."""


def read_text(path: Path, kind: str) -> str:
    """Return what a small text file holds, or say why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"the {kind} file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no {kind} file: it is not text") from None


def write_private_json(path: Path, document: dict[str, Any], *, force: bool) -> None:
    """Write a document that only the owner of the file can read."""
    with replacing(path, force=force, private=True) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
