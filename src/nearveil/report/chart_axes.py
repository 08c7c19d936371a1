"""Axes of charts: scales, ticks as plain numbers, and labels where they are needed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nearveil.evaluation.attack_score import Estimate
from nearveil.evaluation.outcome import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_MOST_OWN_TICKS = 8
# What a tick's label takes for each letter, and the least gap between two.
_LETTER_IN, _GAP_IN = 0.088, 0.06
# Multiples that are shown of every power of ten, or of every second, third and so on; from dense to sparse.
_LOG_STEPS: tuple[tuple[tuple[float, ...], int], ...] = (
    ((1, 1.5, 2, 3, 4, 5, 7), 1),
    ((1, 2, 5), 1),
    ((1, 3), 1),
    *(((1,), stride) for stride in range(1, 9)),
)


def set_scales(panels: Sequence[Panel], axes: Sequence[Axes], columns: int, width_in: float) -> None:
    """Set scales, limits and ticks; panels of one row that show the same have the same scale."""
    for panel, each in zip(panels, axes, strict=True):
        each.set_xscale(_scale(panel.log_x, (x for series in panel.series for x in series.x)))
        each.set_yscale(_scale(panel.log_y, (y for series in panel.series for y in series.y)))
        each.margins(x=0.06, y=0.08)
        if each.get_yscale() == "linear":
            _from_zero(panel, each)
        _keep_shares(panel, each)
    for start in range(0, len(panels), columns):
        _share_y(panels[start : start + columns], axes[start : start + columns])
    for panel, each in zip(panels, axes, strict=True):
        # The rest of the width is for the labels of y.
        _set_x_ticks(each, _exact_x(panel), 0.8 * width_in)
        _set_ticks(each.yaxis, _round_ticks(each.get_ylim(), 6, log=each.get_yscale() == "log"))


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
    axes.set_ylim(0, min(1.07 * top, 1.05) if is_share and top > 0.5 else 1.07 * top or 1.0)


def _keep_shares(panel: Panel, axes: Axes) -> None:
    """Cut measured shares along x at nought and one, where intervals would go beyond."""
    means = [x for series in panel.series for x in series.x]
    if any(x.low is not None for x in means) and all(0 <= x.value <= 1 for x in means):
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -0.03), min(high, 1.03))


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
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: plain_number(value)))


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers, at most so many.

    Examples
    --------
    >>> linear_ticks(0, 0.55, 6)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    ticks = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [round(float(tick), 12) for tick in ticks if low <= tick <= high]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers for a logarithmic axis, as many as there is room for.

    Examples
    --------
    >>> log_ticks(8, 120, 6), log_ticks(0.01, 10_000, 4)
    ([10.0, 20.0, 50.0, 100.0], [0.01, 1.0, 100.0, 10000.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps, stride in _LOG_STEPS:
        powers = range(first - first % stride, last + 1, stride)
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        shown = [tick for tick in ticks if low <= tick <= high]
        if len(shown) <= most:
            break
    return shown


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
