"""The picture of the demonstration: where services have their users, and where the same attacks put them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region
from nearveil.report.maps import draw_discs, draw_ground
from nearveil.report.style import (
    DISC_COLOUR,
    LIGHT,
    PALETTE,
    PUBLISHED_COLOUR,
    TRUE_COLOUR,
    add_legend,
    house_style,
    save_png,
)
from nearveil.types import FloatArray

_MOST_DOTS = 50_000
_TITLE_LETTERS = 38
_REACH_M = 1_500.0
_TICKS_M = (-1000, -500, 0, 500, 1000)
# Of the attacks, in their order.
_MARKS = (("o", "orange"), ("v", "sky"), ("P", "green"), ("s", "purple"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackedService:
    """One column of the picture: a title for the service, and what was ``found`` of its users.

    Attributes
    ----------
    places : ndarray of shape (n, 2)
        Where the service has its users, in degrees: published locations if ``protected``, else the true ones.
    misses_m : mapping
        For each attack, by its name: how far east and north of the user every estimate is.
    intervals : Intervals, optional
        Discs that users are moved into.
    """

    title: str
    found: str
    places: FloatArray
    protected: bool
    misses_m: Mapping[str, FloatArray]
    intervals: Intervals | None = None


def draw_before_after(
    services: Sequence[AttackedService], region: Region, path: Path, *, title: str, tau_m: float
) -> None:
    """Draw for each service a map, and below it where attacks put users as seen from each; save as PNG.

    It shows true locations, so it is for synthetic users, or for the operator's eyes only.
    """
    with house_style():
        figure = Figure(figsize=(5 * len(services), 11.6), layout="constrained")
        width_m, height_m = region.half_extent_m
        grid = figure.subplots(2, len(services), squeeze=False, height_ratios=(height_m, width_m))
        for service, above, below in zip(services, *grid, strict=True):
            _draw_city(above, service, region)
            _draw_misses(below, service, tau_m)
        grid[1, 0].set_ylabel("m north of the user")
        figure.suptitle(title, fontsize=14, fontweight="bold")
        add_legend(figure, columns=4)
        save_png(figure, path)


def _draw_city(axes: Axes, service: AttackedService, region: Region) -> None:
    draw_ground(axes, region, LIGHT)
    colour, what = (PUBLISHED_COLOUR, "a published") if service.protected else (TRUE_COLOUR, "a true")
    # As large in the legend as it can be seen there.
    axes.plot([], [], ".", color=colour, markersize=9, label=f"{what} location")
    intervals = service.intervals
    if intervals is not None and intervals.region.scaling == "isotropic":
        centres_km = intervals.centres * intervals.region.metres_per_unit / 1000
        draw_discs(axes, centres_km, intervals.radii_m / 1000, DISC_COLOUR)
        axes.plot([], [], "o", color=DISC_COLOUR, fillstyle="none", markersize=9, label="a private disc")
    shown = region.to_metres(service.places[:_MOST_DOTS]) / 1000
    axes.plot(*shown.T, ".", color=colour, markersize=1.2, alpha=0.45, rasterized=True, zorder=3)
    axes.set_title(textwrap.fill(service.title, _TITLE_LETTERS))


def _draw_misses(axes: Axes, service: AttackedService, tau_m: float) -> None:
    beyond = 0
    for (label, misses_m), (marker, colour) in zip(service.misses_m.items(), cycle(_MARKS), strict=False):
        near = np.abs(misses_m).max(axis=1) <= _REACH_M
        beyond += int((~near).sum())
        style: dict[str, Any] = {"color": PALETTE[colour], "fillstyle": "none", "markersize": 6.5}
        axes.plot(*misses_m[near].T, marker, label=f"an estimate of {label}", zorder=3, **style)
    turn = np.linspace(0, 2 * np.pi, 100)
    label = f"within {tau_m:g} m of the user"
    axes.plot(tau_m * np.cos(turn), tau_m * np.sin(turn), "--", color=TRUE_COLOUR, label=label, zorder=4)
    axes.set(xlim=(-_REACH_M, _REACH_M), ylim=(-_REACH_M, _REACH_M), xticks=_TICKS_M, yticks=_TICKS_M, aspect="equal")
    axes.set_xlabel("m east of the user")
    axes.set_title(textwrap.fill(service.found, _TITLE_LETTERS))
    axes.grid(linewidth=0.7, color=LIGHT.grid)
    axes.set_axisbelow(True)
    if beyond:
        axes.text(0.98, 0.02, f"{beyond} more beyond the edge", transform=axes.transAxes, ha="right", va="bottom")
