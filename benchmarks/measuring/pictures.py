"""The pictures: ratios as bars beside their limits, and growth as curves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measuring.grown import Grown
from benchmarks.measuring.results import MET, Beside, Result
from benchmarks.measuring.words import amount
from nearveil.evaluation.results import Chart, Panel, Series, exact
from nearveil.report.charts import draw_chart, draw_title, panel_grid, plain_number, save
from nearveil.report.style import LIGHT, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR_IN, _WIDTH_IN = 0.42, 11.0
# Told apart without colour too: bars that miss their limit are hatched.
_LOOKS = {MET: ("blue", "", "limit met"), None: ("grey", "", "no limit")}
_MISSED = ("vermilion", "///", "limit not met")


def draw_ratios(results: Sequence[Result], target: Path, machine: str) -> bool:
    """Draw every comparison as a bar; whether there was any."""
    bars = [result for result in results if isinstance(result, Beside)]
    if not bars:
        return False
    with house_style(LIGHT):
        figure, grid = panel_grid(1, 1, _WIDTH_IN, 1.6 + _BAR_IN * len(bars))
        axes = grid[0, 0]
        # Before anything is drawn, so that bars from 1 on are drawn as such.
        axes.set_xscale("log")
        handles: dict[str, Any] = {}
        for row, bar in enumerate(bars):
            handles |= _draw_bar(axes, row, bar)
        axes.set_xlim(right=4 * max(1.0, *(bar.speed for bar in bars)))
        axes.xaxis.set_major_formatter(lambda value, _: plain_number(value))
        axes.set_yticks(range(len(bars)), [f"{bar.what}\nbeside {bar.peer}" for bar in bars], fontsize=8)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.axvline(1.0, color=LIGHT.soft, linewidth=1)
        axes.set_xlabel("Nearveil's speed as a multiple of the peer's (best of each; 1 is as fast)")
        # Above everything, because the axes are only as wide as their labels leave them.
        draw_title(figure, f"Nearveil beside its peers, on {machine}")
        axes.grid(axis="x", linewidth=0.7)
        axes.set_axisbelow(True)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
        save(figure, target, "png")
    return True


def _draw_bar(axes: "Axes", row: int, bar: Beside) -> dict[str, Any]:
    """Draw from 1 to the ratio: to the right is quicker than the peer, to the left is slower."""
    colour, hatch, label = _LOOKS.get(bar.verdict, _MISSED)
    fill = LIGHT.palette[colour]
    handles: dict[str, Any] = {
        label: axes.barh(row, bar.speed - 1, left=1, height=0.62, color=fill, hatch=hatch, edgecolor="white"),
        "from medians": axes.plot([bar.median_speed], [row], "D", color=LIGHT.ink, markersize=4, fillstyle="none")[0],
    }
    if bar.speed_limit:
        handles["limit"] = axes.plot([bar.speed_limit] * 2, [row - 0.42, row + 0.42], color=LIGHT.ink, linewidth=2)[0]
    axes.text(1.12 * max(bar.speed, bar.median_speed, bar.speed_limit or 1, 1), row, amount(bar.speed), va="center")
    return handles


def draw_growth(results: Sequence[Result], target: Path) -> bool:
    """Draw the curves; whether there were any."""
    points = [result for result in results if isinstance(result, Grown)]
    if not points:
        return False
    together = _panel("everybody", "Everybody at once", "time (s)", 1.0, points, log_y=True)
    together = replace(together, series=(*together.series, *_in_proportion(together.series)))
    single = _panel("question", "One question to the live index", "time (µs)", 1e6, points, log_y=False)
    chart = Chart("growth", "How time grows with the number of people", (together, single), 2, "Growth curves.")
    draw_chart(chart, target)
    return True


def _in_proportion(series: Sequence[Series]) -> list[Series]:
    """A line to compare with: as many times the people, as many times the time. It runs below all others."""
    if not series:
        return []
    people = [x.value for one in series for x in one.x]
    each = min(y.value / x.value for one in series for x, y in zip(one.x, one.y, strict=True)) / 3
    ends = min(people), max(people)
    return [Series("time in proportion", tuple(map(exact, ends)), tuple(exact(each * end) for end in ends))]


def _panel(per: str, title: str, y_label: str, units_per_s: float, points: Sequence[Grown], *, log_y: bool) -> Panel:
    chosen = [point for point in points if point.per == per]
    series = tuple(
        Series(
            name,
            tuple(exact(point.people) for point in chosen if point.series == name),
            tuple(exact(units_per_s * point.times.best) for point in chosen if point.series == name),
        )
        for name in dict.fromkeys(point.series for point in chosen)
    )
    return Panel(title, "people", y_label, series, log_x=True, log_y=log_y)
