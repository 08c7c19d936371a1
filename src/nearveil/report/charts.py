"""Charts: panels of lines and points with 95 % intervals, the paper's values beside ours."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nearveil.evaluation.attack_score import Estimate
from nearveil.evaluation.outcome import Chart, Panel, Series
from nearveil.report.chart_axes import label_axes, set_scales
from nearveil.report.panels import Format, Handle, draw_legend, draw_title, panel_grid, panel_width_in, save
from nearveil.report.style import DARK, LIGHT, Look, Theme, house_style, looks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAPER = "the paper's values"
_PAPER_MARKERS = "DsoX^v"


def draw_chart(
    chart: Chart, path: Path | BinaryIO, *, dark: bool = False, format: Format = "png", titled: bool = True
) -> None:
    """Draw a chart; the same chart gives the same bytes.

    Parameters
    ----------
    chart : Chart
        What to draw.
    path : Path or binary stream
        Where to write it.
    dark : bool
        For a dark page.
    format : {"png", "svg"}
        Of the file; letters in SVG are outlines and need no font.
    titled : bool
        With the title above; False where a caption says it.
    """
    theme = DARK if dark else LIGHT
    columns = min(chart.columns, len(chart.panels))
    width_in = panel_width_in(columns)
    height_in = min(0.62 * width_in + 1.0, 3.9)
    everything = [series for panel in chart.panels for series in panel.series]
    looks = looks_of(series.label for series in everything if series.kind != "paper")
    strangers = dict.fromkeys(each.label for each in everything if each.kind == "paper" and each.label not in looks)
    paper_markers = dict(zip(strangers, cycle(_PAPER_MARKERS), strict=False))
    with house_style(theme):
        figure, grid = panel_grid(len(chart.panels), columns, width_in, height_in)
        handles: dict[str, Handle] = {}
        for panel, axes in zip(chart.panels, grid.flat, strict=False):
            for label, handle in _draw_panel(axes, panel, looks, paper_markers, theme).items():
                handles.setdefault(label, handle)
            axes.set_title(textwrap.fill(panel.title, int(width_in * 9.5)))
        set_scales(chart.panels, list(grid.flat[: len(chart.panels)]), columns, width_in)
        label_axes(chart.panels, grid, width_in, height_in)
        if titled:
            draw_title(figure, chart.title)
        if _PAPER in handles:
            handles[_PAPER] = handles.pop(_PAPER)
        draw_legend(figure, handles, handle_length=3.0)
        save(figure, path, format)


def _draw_panel(
    axes: Axes, panel: Panel, looks: dict[str, Look], paper_markers: dict[str, str], theme: Theme
) -> dict[str, Handle]:
    """Draw the series of a panel, and return what the legend shows for each label."""
    handles: dict[str, Handle] = {}
    for series in panel.series:
        if series.kind != "paper":
            look = looks[series.label]
            line = "none" if series.kind == "points" else look.dashes
            colour = theme.palette[looks.get(series.colour_of, look).colour]
            handles[series.label] = _draw_series(axes, series, colour, look.marker, line, filled=True)
            if series.colour_of:
                # An edge, to be seen on the line of the same colour.
                handles[series.label].set_markeredgecolor(theme.ink)
        elif series.label in looks:
            # The paper's values of something that we measured too: in its colour.
            colour = theme.palette[looks[series.label].colour]
            _draw_series(axes, series, colour, "D", "none", filled=False)
            handles[_PAPER] = axes.plot([], [], "D", color=theme.ink, fillstyle="none", markersize=6)[0]
        else:
            marker = paper_markers[series.label]
            handles[series.label] = _draw_series(axes, series, theme.ink, marker, "none", filled=False)
    axes.grid(linewidth=0.7)
    axes.set_axisbelow(True)
    return handles


def _draw_series(axes: Axes, series: Series, colour: str, marker: str, line: str, *, filled: bool) -> Handle:
    points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if _drawable(x, y)]
    drawn = axes.errorbar(
        [x.value for x, _ in points],
        [y.value for _, y in points],
        xerr=_intervals([x for x, _ in points]),
        yerr=_intervals([y for _, y in points]),
        color=colour, marker=marker, linestyle=line, fillstyle="full" if filled else "none",
        markersize=_marker_size(marker, filled=filled), markeredgewidth=0.8 if filled else 1.3, linewidth=1.5,
        elinewidth=1.1, capsize=2.5, zorder=_height(marker, filled=filled),
    )  # fmt: skip
    # The line with its markers, without the bars.
    return drawn[0]


def _marker_size(marker: str, *, filled: bool) -> float:
    """Hollow ones must be seen around filled ones, and a star over everything."""
    if marker == "*":
        return 15.0
    return 5.5 if filled else 6.5


def _height(marker: str, *, filled: bool) -> int:
    if marker == "*":
        return 5
    return 3 if filled else 4


def _drawable(x: Estimate, y: Estimate) -> bool:
    return math.isfinite(x.value) and math.isfinite(y.value)


def _intervals(estimates: Sequence[Estimate]) -> Sequence[Sequence[float]] | None:
    """How far down and up intervals reach. Nothing is drawn where nothing is known; a nan is not drawn either."""
    if all(one.low is None for one in estimates):
        return None
    return (
        [math.nan if one.low is None else one.value - one.low for one in estimates],
        [math.nan if one.high is None else one.high - one.value for one in estimates],
    )
