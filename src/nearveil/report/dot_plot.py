"""Dot plots: things to compare in rows, with dots, 95 % intervals and numbers in panels side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nearveil.evaluation.results import DotPanel, DotPlot, Dots
from nearveil.evaluation.stats import Estimate
from nearveil.report.charts import (
    Format,
    Handle,
    draw_legend,
    draw_title,
    linear_ticks,
    log_ticks,
    panel_grid,
    plain_number,
    save,
)
from nearveil.report.style import DARK, LIGHT, Look, Theme, house_style, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_IN = 0.3
_PANEL_IN = 4.75
_TICKS = 6
# Where a number is written, in points from the end of its interval.
_GAP_POINTS = 6


def draw_dot_plot(
    plot: DotPlot, path: Path | BinaryIO, *, dark: bool = False, format: Format = "png", titled: bool = True
) -> None:
    """Draw a dot plot; the same plot gives the same bytes. Parameters as in `draw_chart`."""
    theme = DARK if dark else LIGHT
    heights = _heights(plot)
    looks = looks_of(series.label for panel in plot.panels for series in panel.series)
    count = len(plot.sections) + sum(len(rows) for _, rows in plot.sections)
    with house_style(theme):
        figure, grid = panel_grid(len(plot.panels), len(plot.panels), _PANEL_IN, _ROW_IN * count + 1.0)
        handles: dict[str, Handle] = {}
        for number, (panel, axes) in enumerate(zip(plot.panels, grid.flat, strict=True)):
            _set_axes(axes, panel, heights.values(), theme)
            for series in panel.series:
                handles.setdefault(series.label, _draw_dots(axes, series, heights.values(), looks[series.label], theme))
            _write_numbers(axes, panel, heights.values())
            _label_rows(axes, plot, heights, shown=number == 0)
        if titled:
            draw_title(figure, plot.title)
        draw_legend(figure, handles, handle_length=1.6)
        save(figure, path, format)


def _heights(plot: DotPlot) -> dict[tuple[str, str], float]:
    """Where each row is, from the top down, with a heading above each section."""
    found, height = {}, 0.0
    for heading, labels in plot.sections:
        height -= 1
        for label in labels:
            found[heading, label] = height
            height -= 1
    return found


def _label_rows(axes: Axes, plot: DotPlot, heights: dict[tuple[str, str], float], *, shown: bool) -> None:
    axes.set_ylim(min(heights.values()) - 0.7, 0.7)
    axes.set_yticks(list(heights.values()), [label for _, label in heights] if shown else [])
    axes.tick_params(axis="y", length=0)
    for heading, labels in plot.sections:
        top = heights[heading, labels[0]] + 1
        if shown:
            axes.annotate(
                heading, (0, top), xycoords=("axes fraction", "data"), xytext=(-6, 0), textcoords="offset points",
                ha="right", va="center", fontweight="bold",
            )  # fmt: skip
        axes.axhspan(top - 0.5, top + 0.7, color=axes.figure.get_facecolor(), zorder=2.5, linewidth=0)


def _set_axes(axes: Axes, panel: DotPanel, heights: Iterable[float], theme: Theme) -> None:
    values = [one for series in panel.series for one in series.values if one is not None]
    ends = [end for one in values for end in (one.value, one.low, one.high) if end is not None and math.isfinite(end)]
    if panel.log_x and min(ends) > 0:
        low, high = min(ends) / 3, max(ends) * 3
        axes.set_xscale("log")
        ticks = log_ticks(low, high, _TICKS)
    else:
        is_share = max(one.value for one in values) <= 1
        # Room for a number on the left of a small share.
        low, high = (-0.19, 1.05) if is_share else (0.0, 1.1 * max(ends))
        ticks = linear_ticks(max(low, 0.0), min(high, 1.0) if is_share else high, _TICKS)
    axes.set_xlim(low, high)
    axes.set_xticks(ticks)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _position: plain_number(value))
    axes.set_xlabel(panel.x_label)
    axes.set_title(panel.title)
    axes.grid(axis="x", linewidth=0.7)
    axes.hlines(list(heights), low, high, color=theme.grid, linewidth=0.7, linestyle=":")
    axes.set_axisbelow(True)


def _draw_dots(axes: Axes, series: Dots, heights: Iterable[float], look: Look, theme: Theme) -> Handle:
    colour = theme.palette[look.colour]
    for value, height in zip(series.values, heights, strict=True):
        if value is not None:
            axes.plot(_ends(value), (height, height), color=colour, linewidth=2.2, solid_capstyle="butt", zorder=3)
            axes.plot(value.value, height, look.marker, color=colour, markersize=7, zorder=4, linestyle="none")
    return axes.plot([], [], look.marker, color=colour, markersize=7, linestyle="none")[0]


def _write_numbers(axes: Axes, panel: DotPanel, heights: Iterable[float]) -> None:
    """Write numbers beside dots: on the right, but on the left of the least of several and near the right edge."""
    low, high = axes.get_xlim()
    for number, height in enumerate(heights):
        row = [(series.values[number], series.form) for series in panel.series]
        shown = sorted(((value, form) for value, form in row if value is not None), key=lambda one: one[0].value)
        # Beyond all intervals of the row, so that no number is on another's line.
        least = min((_ends(value)[0] for value, _ in shown), default=low)
        most = max((_ends(value)[1] for value, _ in shown), default=high)
        for place, (value, form) in enumerate(shown):
            is_left = place < len(shown) - 1 or (axes.get_xscale() == "linear" and most > low + 0.8 * (high - low))
            axes.annotate(
                format(value.value, form), (least if is_left else most, height),
                xytext=(-_GAP_POINTS if is_left else _GAP_POINTS, 0), textcoords="offset points",
                ha="right" if is_left else "left", va="center_baseline", fontsize=9, zorder=5,
            )  # fmt: skip


def _ends(value: Estimate) -> tuple[float, float]:
    """The ends of the interval, or the value itself where there is none."""
    return value.value if value.low is None else value.low, value.value if value.high is None else value.high
