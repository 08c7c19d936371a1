"""Charts: panels of lines and points with 95 % intervals, the paper's values beside ours.

Panels stand in rows, with a title above and a legend below. Files hold no time, so that equal figures are equal bytes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from nearveil.evaluation.results import Chart, Panel, Series
from nearveil.evaluation.stats import Estimate
from nearveil.report.style import _KNOWN, _SPARE, DARK, LIGHT, Look, Theme, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator


# The user's own has the strongest contrast.
OWN_LOOKS = (Look("ink", "D", "-"), Look("ink", "X", "--"), Look("ink", "P", "-."), Look("ink", "p", ":"))


def looks_of(labels: Iterable[str]) -> dict[str, Look]:
    """Return a look for each label: its own for a known one, else the first that is free."""
    names = list(dict.fromkeys(labels))
    looks = {name: _KNOWN[name] for name in names if name in _KNOWN}
    taken = {look.colour for look in looks.values()}
    spare = [look for look in _SPARE if look.colour not in taken] + list(_SPARE)
    for name in names:
        if name not in looks:
            looks[name] = next((look for look in spare if look not in looks.values()), _SPARE[0])
    return {name: looks[name] for name in names}


_PAPER = "the paper's values"
_PAPER_MARKERS = "DsoX^v"
_BACKGROUND = "others, never the best"


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
    looks = looks_of(each.label for each in everything if each.kind != "paper" and each.emphasis == "")
    own = dict.fromkeys(each.label for each in everything if each.emphasis == "own")
    looks |= dict(zip(own, cycle(OWN_LOOKS), strict=False))
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
            draw_title(figure, chart.title, chart.caption)
        if _PAPER in handles:
            handles[_PAPER] = handles.pop(_PAPER)
        draw_legend(figure, handles, handle_length=3.0)
        if own:
            _name_own(figure, chart.panels, theme)
        save(figure, path, format)


def _draw_panel(
    axes: Axes, panel: Panel, looks: dict[str, Look], paper_markers: dict[str, str], theme: Theme
) -> dict[str, Handle]:
    """Draw the series of a panel, and return what the legend shows for each label."""
    handles: dict[str, Handle] = {}
    for series in panel.series:
        if series.emphasis == "background":
            x, y = ([one.value for one in values] for values in (series.x, series.y))
            handles[_BACKGROUND] = axes.plot(x, y, color=theme.soft, linewidth=0.9, alpha=0.45, zorder=1.5)[0]
        elif series.kind != "paper":
            look = looks[series.label]
            line = "none" if series.kind == "points" else look.dashes
            colour = theme.palette[looks.get(series.colour_of, look).colour]
            handles[series.label] = _draw_series(axes, series, colour, look.marker, line, filled=True)
            if series.emphasis == "own":
                _bring_forward(handles[series.label], theme)
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
    # Where both were measured, the crosses are many and would hide the lines.
    crossed = any(x.low is not None and y.low is not None for x, y in points)
    drawn = axes.errorbar(
        [x.value for x, _ in points],
        [y.value for _, y in points],
        xerr=_intervals([x for x, _ in points]),
        yerr=_intervals([y for _, y in points]),
        color=colour, marker=marker, linestyle=line, fillstyle="full" if filled else "none",
        markersize=_marker_size(marker, filled=filled), markeredgewidth=0.8 if filled else 1.3, linewidth=1.5,
        elinewidth=0.8 if crossed else 1.1, capsize=0 if crossed else 2.5, zorder=_height(marker, filled=filled),
    )  # fmt: skip
    for bar in drawn[2] if crossed else ():
        bar.set_alpha(0.35)
    # The line with its markers, without the bars.
    return drawn[0]


def _bring_forward(line: Handle, theme: Theme) -> None:
    """Draw a line in front of all others."""
    line.set(linewidth=2.6, markersize=9, markeredgecolor=theme.panel, zorder=8)


# Where a name can stand beside a point: how far off, in points, and which of its ends is there.
_ENDS_X, _ENDS_Y = {-1: "right", 0: "center", 1: "left"}, {-1: "top", 0: "center", 1: "bottom"}
_BESIDE = tuple(
    {"position": (gap * right, gap * up), "ha": _ENDS_X[right], "va": _ENDS_Y[up]}
    for gap in (9, 18, 32)
    for right, up in ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
)
_MARK_PT = 6.0


def _name_own(figure: Figure, panels: Sequence[Panel], theme: Theme) -> None:
    """Write the names of the reader's own beside their lines: inside the panel, and over as few points as can be."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    # Only a figure that is laid out knows where things are.
    figure.draw_without_rendering()
    for panel, axes in zip(panels, figure.axes, strict=True):
        marks = axes.transData.transform([point for series in panel.series for point in _points(series)] or [(0, 0)])
        names: list[Any] = []
        for series in panel.series:
            if series.emphasis == "own" and _points(series):
                name = axes.annotate(
                    series.label, (0, 0), (0, 0), textcoords="offset points", fontweight="bold", zorder=9,
                    path_effects=[withStroke(linewidth=3.5, foreground=theme.panel)],
                )  # fmt: skip
                name.set_in_layout(False)
                places = [(point, beside) for beside in _BESIDE for point in _points(series)]
                faults = []
                for name.xy, beside in places:
                    name.set(**beside)
                    faults.append(_faults(name, axes, marks, names))
                name.xy, beside = places[faults.index(min(faults))]
                name.set(**beside)
                names.append(name)


def _faults(name: Any, axes: Axes, marks: Any, others: Sequence[Any]) -> int:
    """How many points a name covers; many more where it is not inside, or covers another name."""
    box, panel = name.get_window_extent(), axes.bbox
    inside = panel.x0 <= box.x0 and box.x1 <= panel.x1 and panel.y0 <= box.y0 and box.y1 <= panel.y1
    covers = any(box.overlaps(other.get_window_extent()) for other in others)
    around = box.padded(_MARK_PT * axes.figure.dpi / 72)
    return int(around.count_contains(marks)) + 1000 * (covers + 2 * (not inside))


def _points(series: Series) -> list[tuple[float, float]]:
    return [(x.value, y.value) for x, y in zip(series.x, series.y, strict=True) if _drawable(x, y)]


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


# What charts and maps have in common: panels, a title above, a legend below.


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


def draw_title(figure: Figure, title: str, caption: str = "") -> None:
    """Draw a title above everything, and below it what to see."""
    lines = textwrap.wrap(title, int(figure.get_figwidth() * 9.5))
    figure.set_figheight(figure.get_figheight() + 0.27 * len(lines))
    heading = figure.suptitle("\n".join(lines), fontsize=12.5, fontweight="bold")
    if caption:
        said = textwrap.wrap(caption, int(figure.get_figwidth() * 11.5))
        more_in = 0.19 * len(said) + 0.1
        figure.set_figheight(figure.get_figheight() + more_in)
        height_in = figure.get_figheight()
        top_in = 0.08 + 0.27 * len(lines)
        heading.set_in_layout(False)
        heading.set_y(1 - 0.06 / height_in)
        figure.text(
            0.5, 1 - top_in / height_in, "\n".join(said), ha="center", va="top", fontsize=10, linespacing=1.25,
            in_layout=False,
        )  # fmt: skip
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.set(rect=(0, 0, 1, 1 - (top_in + more_in) / height_in))  # type: ignore[call-arg]


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


# Axes of charts: scales, ticks as plain numbers, and labels where they are needed.


_MOST_OWN_TICKS = 8
# What a tick's label takes for each letter, and the least gap between two.
_LETTER_IN, _GAP_IN = 0.088, 0.06
# Multiples that are shown of every power of ten; from dense to sparse.
_LOG_STEPS: tuple[tuple[float, ...], ...] = ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3))
_MANY_POWERS = 1000


def set_scales(panels: Sequence[Panel], axes: Sequence[Axes], columns: int, width_in: float) -> None:
    """Set scales, limits and ticks; panels of one row that show the same have the same scale."""
    for panel, each in zip(panels, axes, strict=True):
        each.set_xscale(_scale(panel.log_x, (x for series in panel.series for x in series.x)))
        each.set_yscale(_scale(panel.log_y, (y for series in panel.series for y in series.y)))
        each.margins(x=0.06, y=0.08)
        if each.get_yscale() == "linear":
            _from_zero(panel, each)
        _keep_shares(panel, each)
        _frame_values(panel, each)
    for start in range(0, len(panels), columns):
        _share_y(panels[start : start + columns], axes[start : start + columns])
    for panel, each in zip(panels, axes, strict=True):
        # The rest of the width is for the labels of y.
        _set_x_ticks(each, _exact_x(panel), 0.8 * width_in)
        _set_ticks(each.yaxis, _round_ticks(each.get_ylim(), 6, log=each.get_yscale() == "log"))
        if panel.reverse_x:
            each.invert_xaxis()


def label_axes(panels: Sequence[Panel], grid: Any, width_in: float, height_in: float) -> None:
    """Write labels, but not again beside a panel that has the same one further out."""
    rows, columns = grid.shape
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        if column == 0 or panels[number - 1].y_label != panel.y_label:
            grid[row, column].set_ylabel(textwrap.fill(panel.y_label, int(height_in * 10)))
        below = number + columns
        if row == rows - 1 or below >= len(panels) or panels[below].x_label != panel.x_label:
            grid[row, column].set_xlabel(textwrap.fill(panel.x_label, int(width_in * 10)))


def plain_number(value: float) -> str:
    """Write a number as people do.

    Examples
    --------
    >>> [plain_number(value) for value in (0.05, 1.0, 20_000.0, 3e7)]
    ['0.05', '1', '20,000', '3×10⁷']
    """
    size = abs(value)
    if value == 0 or 1e-4 <= size < 1e6:
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
        return text if text not in ("", "-0") else "0"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}×10" + str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _from_zero(panel: Panel, axes: Axes) -> None:
    """Begin at nought what cannot be less, so that heights can be compared; end shares at one."""
    values = [y.value for series in panel.series for y in series.y if math.isfinite(y.value)]
    if not values or min(values) < 0:
        return
    top = max(_tops(panel))
    is_share = max(values) <= 1
    # Shares that come near one are seen against it, in every row of panels alike.
    axes.set_ylim(0, 1.05 if is_share and top > 0.85 else 1.07 * top or 1.0)


def _keep_shares(panel: Panel, axes: Axes) -> None:
    """Cut measured shares along x at nought and one, where intervals would go beyond."""
    means = [x for series in panel.series for x in series.x]
    if any(x.low is not None for x in means) and all(0 <= x.value <= 1 for x in means):
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -0.03), min(high, 1.03))


def _frame_values(panel: Panel, axes: Axes) -> None:
    """End a measured logarithmic axis with its values: an interval of a few runs may reach over many powers of ten."""
    means = [x for series in panel.series for x in series.x if 0 < x.value < math.inf]
    if axes.get_xscale() == "log" and any(x.low is not None for x in means):
        low, high = (end(x.value for x in means) for end in (min, max))
        margin = max((high / low) ** 0.06, 1.05)
        axes.set_xlim(low / margin, high * margin)


def _tops(panel: Panel) -> list[float]:
    return [_end(y) for series in panel.series for y in series.y if math.isfinite(_end(y))]


def _end(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else estimate.high


def _scale(log: bool, means: Iterable[Estimate]) -> str:
    """Logarithmic where that is wanted and anything could be shown."""
    return "log" if log and any(0 < mean.value < math.inf for mean in means) else "linear"


def _share_y(panels: Sequence[Panel], axes: Sequence[Axes]) -> None:
    kinds = [(panel.y_label, each.get_yscale()) for panel, each in zip(panels, axes, strict=True)]
    for kind in set(kinds):
        alike = [each for each, its_kind in zip(axes, kinds, strict=True) if its_kind == kind]
        lows, highs = zip(*(each.get_ylim() for each in alike), strict=True)
        for each in alike:
            each.set_ylim(min(lows), max(highs))


def _exact_x(panel: Panel) -> list[float]:
    """Values of x that were chosen and not measured, if few."""
    means = [x for series in panel.series for x in series.x]
    values = sorted({x.value for x in means if math.isfinite(x.value)})
    chosen = all(x.low is None for x in means) and 2 <= len(values) <= _MOST_OWN_TICKS
    return values if chosen else []


def _set_x_ticks(axes: Axes, chosen: Sequence[float], length_in: float) -> None:
    """Put ticks at the values that were chosen, else at round numbers, as many as have room."""
    limits, log = axes.get_xlim(), axes.get_xscale() == "log"
    for ticks in (*([chosen] if chosen else []), *(_round_ticks(limits, most, log=log) for most in range(8, 1, -1))):
        if _have_room(ticks, limits, length_in, log=log):
            break
    _set_ticks(axes.xaxis, ticks)


def _round_ticks(limits: tuple[float, float], most: int, *, log: bool) -> list[float]:
    ticks = log_ticks(*limits, most) if log else []
    # A short stretch of a logarithmic axis may have no such number.
    return ticks if len(ticks) > 1 else linear_ticks(*limits, most)


def _set_ticks(axis: Axis, values: Sequence[float]) -> None:
    axis.set_ticks(list(values))
    axis.set_ticks([], minor=True)
    axis.set_major_formatter(lambda value, _position: plain_number(value))


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` round numbers.

    Examples
    --------
    >>> linear_ticks(0, 0.55, 6)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    ticks = _between(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]), low, high)
    # Nought is nought, whatever arithmetic left of it.
    return [round(tick, 12) for tick in ticks]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers for a logarithmic axis, as many as there is room for.

    Examples
    --------
    >>> log_ticks(8, 120, 6), log_ticks(0.01, 10_000, 4)
    ([10.0, 20.0, 50.0, 100.0], [0.01, 1.0, 100.0, 10000.0])
    """
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    for steps in _LOG_STEPS:
        ticks = _between(LogLocator(subs=steps, numticks=_MANY_POWERS), low, high)
        if len(ticks) <= most:
            return ticks
    return _between(LogLocator(numticks=most), low, high)


def _between(locator: Locator, low: float, high: float) -> list[float]:
    """Return the ticks that are not beyond the ends."""
    return [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]


def _have_room(values: Sequence[float], limits: tuple[float, float], length_in: float, *, log: bool) -> bool:
    """Whether labels at these values would stay apart."""
    if not values or (log and min(values) <= 0):
        return False

    def place(value: float) -> float:
        return math.log(value) if log else value

    inches = length_in / (place(limits[1]) - place(limits[0]))
    widths = [_LETTER_IN * len(plain_number(value)) for value in values]
    gaps = [(place(after) - place(before)) * inches for before, after in pairwise(values)]
    return all(gap >= sum(pair) / 2 + _GAP_IN for gap, pair in zip(gaps, pairwise(widths), strict=True))
