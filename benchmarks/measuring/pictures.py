"""The pictures: ratios as bars beside their limits, and growth as curves."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measuring.grown import Grown
from benchmarks.measuring.results import MET, Beside, Result
from benchmarks.measuring.words import amount
from nearveil.report.style import LIGHT, add_legend, house_style, panels, plain_ticks, plot_estimates, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE_LETTERS = 100
_BAR_IN, _WIDTH_IN = 0.42, 11.0
# Told apart without colour too: bars that miss their limit are hatched.
_LOOKS = {MET: ("blue", "", "limit met"), None: ("grey", "", "no limit")}
_MISSED = ("vermilion", "///", "limit not met")


def draw_ratios(results: Sequence[Result], target: Path, machine: str) -> bool:
    """Draw every comparison as a bar; whether there was any."""
    bars = [result for result in results if isinstance(result, Beside)]
    if not bars:
        return False
    with house_style():
        figure, [axes] = panels(1, columns=1, width=_WIDTH_IN, height=1.6 + _BAR_IN * len(bars))
        # Before anything is drawn, so that bars from 1 on are drawn as such.
        axes.set_xscale("log")
        handles: dict[str, Any] = {}
        for row, bar in enumerate(bars):
            handles |= _draw_bar(axes, row, bar)
        axes.set_xlim(right=4 * max(1.0, *(bar.speed for bar in bars)))
        plain_ticks(figure)
        axes.set_yticks(range(len(bars)), [f"{bar.what}\nbeside {bar.peer}" for bar in bars], fontsize=8)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.axvline(1.0, color=LIGHT.soft, linewidth=1)
        axes.set_xlabel("Nearveil's speed as a multiple of the peer's (best of each; 1 is as fast)")
        # Above everything, because the axes are only as wide as their labels leave them.
        figure.suptitle(textwrap.fill(f"Nearveil beside its peers, on {machine}", _TITLE_LETTERS), fontweight="bold")
        axes.grid(visible=False, axis="y")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
        save_png(figure, target)
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
    with house_style():
        figure, [together, single] = panels(2, columns=2, width=_WIDTH_IN, height=3.6)
        together.set(title="All users at once", xlabel="users", ylabel="time (s)", xscale="log", yscale="log")
        single.set(title="One query to the live index", xlabel="users", ylabel="time (µs)", xscale="log")
        everybody = [point for point in points if point.per == "everybody"]
        _draw_curves(together, everybody, 1.0)
        _draw_curves(single, [point for point in points if point.per == "question"], 1e6)
        if everybody:
            # To compare with: as many times the users, as many times the time. It runs below all others.
            ends = [end(point.people for point in everybody) for end in (min, max)]
            each = min(point.times.best / point.people for point in everybody) / 3
            together.plot(ends, [each * end for end in ends], ":", color=LIGHT.ink, label="time in proportion")
        plain_ticks(figure)
        add_legend(figure)
        save_png(figure, target)
    return True


def _draw_curves(axes: "Axes", points: Sequence[Grown], units_per_s: float) -> None:
    for name in dict.fromkeys(point.series for point in points):
        own = [point for point in points if point.series == name]
        plot_estimates(axes, [one.people for one in own], [units_per_s * one.times.best for one in own], label=name)
