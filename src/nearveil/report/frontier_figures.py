"""The frontier as curves: what lists cost in meters, against what the best attacker gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from nearveil.evaluation.studies.frontier import METERS, Curve, curves
from nearveil.report.style import add_legend, panels, plot_estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_PANELS = {"found": "users found within 100 m (share)", "named_sparsest": "users named in the sparsest tenth (share)"}


def frontier_figures(runs: pd.DataFrame) -> dict[str, Figure]:
    """Return a figure for each population, and hiding among users beside noise in meters."""
    found = curves(runs)
    datasets = list(dict.fromkeys(one.dataset for one in found))
    figures = {f"frontier-{name}": _figure([one for one in found if one.dataset == name]) for name in datasets}
    beside = [one for one in found if one.contender.name == METERS or one.contender.swept == "hide_among"]
    if any(one.contender.swept == "hide_among" for one in beside):
        figures["among"] = _among(beside, datasets)
    return figures


def _figure(found: list[Curve]) -> Figure:
    figure, all_axes = panels(2, columns=2, height=4.2)
    for axes, (name, label) in zip(all_axes, _PANELS.items(), strict=True):
        _draw(axes, found, name, "extra_m")
        axes.set(xlabel=label, ylabel="meters that users listed are farther away", yscale="log")
        _ticks(axes.yaxis, "{x:,.0f}")
    add_legend(figure, columns=4)
    return figure


def _among(found: list[Curve], datasets: list[str]) -> Figure:
    figure, all_axes = panels(2 * len(datasets), columns=2, height=3.0)
    sides = [(dataset, name) for dataset in datasets for name in ("named", "named_sparsest")]
    for axes, (dataset, name) in zip(all_axes, sides, strict=True):
        _draw(axes, [one for one in found if one.dataset == dataset], name, "recall")
        whom = "users" if name == "named" else "users of the sparsest tenth"
        axes.set(title=dataset, xlabel=f"{whom} named (share)", ylabel="recall@10", xscale="log")
        _ticks(axes.xaxis, "{x:g}")
    add_legend(figure, columns=4)
    return figure


def _ticks(axis: Axis, form: str) -> None:
    """Write numbers at 1, 2, 5, 10 and so on along a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(NullFormatter())


def _draw(axes: Axes, found: list[Curve], x: str, y: str) -> None:
    for one in found:
        across, up = ([point[name] for point in one.points] for name in (x, y))
        plot_estimates(axes, across, up, label=one.contender.label)


FIGURES: dict[str, Callable[[pd.DataFrame], dict[str, Figure]]] = {"frontier": frontier_figures}
