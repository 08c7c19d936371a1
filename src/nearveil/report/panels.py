"""What charts and maps have in common: panels in rows, a title above, a legend below, and files without the time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["png", "svg"]
Handle = Any
"""What stands for a label in the legend."""

# About as wide as a page of the report together, so that words are not scaled down there.
_PANEL_WIDTHS_IN = {1: 6.6, 2: 4.75, 3: 3.2}
_NARROWEST_IN = 2.45
_LEGEND_LINE_IN = 0.21
_LETTER_HEIGHT_IN = 0.132
_DOTS_PER_INCH = 150


def panel_width_in(columns: int) -> float:
    """Return the width of each of some panels side by side."""
    return _PANEL_WIDTHS_IN.get(columns, _NARROWEST_IN)


def panel_grid(count: int, columns: int, width_in: float, height_in: float) -> tuple[Figure, Any]:
    """Return a figure and its axes as an array, one row for each row of panels; axes too many are taken away."""
    # Heavy, and only needed where a picture is drawn.
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width_in * columns, height_in * rows), layout="constrained")
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(h_pad=0.07, w_pad=0.06)  # type: ignore[call-arg]
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, grid


def draw_title(figure: Figure, title: str) -> None:
    """Draw a title above everything."""
    lines = textwrap.wrap(title, int(figure.get_figwidth() * 9.5))
    figure.set_figheight(figure.get_figheight() + 0.27 * len(lines))
    figure.suptitle("\n".join(lines), fontsize=12.5, fontweight="bold")


def draw_legend(figure: Figure, handles: Mapping[str, Handle], *, handle_length: float) -> None:
    """Draw one legend below everything, in as many columns as fit, and make room for it."""
    if not handles:
        return
    widths_in = [(handle_length + 2.6) * _LETTER_HEIGHT_IN + 0.08 * len(label) for label in handles]
    # As few rows as fit, as full as each other, which looks better than a last one with a single entry.
    for rows in range(1, len(handles) + 1):
        columns = math.ceil(len(handles) / rows)
        if sum(max(widths_in[column::columns]) for column in range(columns)) <= figure.get_figwidth():
            break
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE_IN * rows + 0.1)
    labels = _by_rows(list(handles), columns)
    figure.legend(
        [handles[label] for label in labels], labels, loc="outside lower center", ncols=columns, frameon=False,
        fontsize=9.5, handlelength=handle_length, columnspacing=1.6,
    )  # fmt: skip


def save(figure: Figure, path: Path | BinaryIO, format: Format) -> None:
    """Write a figure; the same figure gives the same bytes."""
    metadata: dict[str, str | None] = {"Date": None} if format == "svg" else {"Software": None}
    figure.savefig(path, format=format, dpi=_DOTS_PER_INCH, metadata=metadata)


def _by_rows(labels: list[str], columns: int) -> list[str]:
    """Put labels in the order in which a legend, which fills its columns one by one, shows them row by row."""
    return [label for column in range(columns) for label in labels[column::columns]]
