"""How commands talk to people: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
    if not sys.stderr.isatty():
        yield _ignore
        return
    from nearveil.cli.bars import counting_bar  # noqa: PLC0415

    with counting_bar(title, total) as advance:
        yield advance


@contextmanager
def work_bar(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on a terminal for work whose pieces differ in size: its share, time taken and time left."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from nearveil.cli.bars import share_bar  # noqa: PLC0415

    with share_bar(title, total) as advance:
        yield advance


def _ignore(_done: float) -> None:
    """There is nobody to show it to."""
