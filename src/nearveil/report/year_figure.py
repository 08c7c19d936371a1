"""Whom an attacker finds by months: with noise that is kept, and with noise that is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nearveil.evaluation.studies import year
from nearveil.report.style import PALETTE, add_legend, panels, plot_estimates

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_PANELS = {
    (year.AT_HOME, "density"): "Users who stay at home, no address known",
    (year.AT_HOME, "addresses"): "Users who stay at home, addresses known",
    (year.COMMUTES, "addresses"): "Users who commute, addresses known",
    (year.COMMUTES, "home and work"): "Users who commute, home and work known",
}
_COLORS = {
    f"{year.DRAWN_AGAIN}, bad GPS": "vermilion", f"{year.USUAL}, good GPS": "sky", f"{year.USUAL}, bad GPS": "blue",
    f"{year.AMONG}, bad GPS": "purple", f"{year.FEW_PLACES}, bad GPS": "green",
}  # fmt: skip


def year_figure(runs: DataFrame) -> dict[str, Figure]:
    """Draw the share of users found within 100 m against months, with 95 % intervals."""
    found = year.found_by_months(runs[runs.dataset == runs.dataset.iloc[0]])
    figure, all_axes = panels(len(_PANELS), columns=2)
    months = sorted(set(found.months))
    for axes, ((users, attacker), title) in zip(all_axes, _PANELS.items(), strict=True):
        own = found[(found.users == users) & (found.attacker == attacker)]
        for number, ((service, gps), curve) in enumerate(own.groupby(["service", "gps"], sort=False)):
            label = f"{service}, {gps} GPS"
            # A little to the right of the one before, so that intervals do not cover one another.
            x = curve.months * 1.02**number
            plot_estimates(axes, x, curve.found, label=label, color=PALETTE[_COLORS[label]])
        axes.set_title(title)
        axes.set_xscale("log")
        axes.set_xticks(months, [str(number) for number in months])
        axes.minorticks_off()
        axes.set(xlabel="months", ylabel="found within 100 m", ylim=(-0.02, 1.02))
    add_legend(figure, columns=3)
    return {"year": figure}


FIGURES: dict[str, Callable[[DataFrame], dict[str, Figure]]] = {"year": year_figure}
