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
from nearveil.report.maps import draw_discs, draw_dots, draw_ground, map_axes
from nearveil.report.style import (
    DISC_COLOR,
    PALETTE,
    PUBLISHED_COLOR,
    TRUE_COLOR,
    add_legend,
    house_style,
    save_png,
)
from nearveil.types import FloatArray

_MOST_DOTS = 50_000
_TITLE_LETTERS = 38
_REACH_M = 1_500.0
# Of the attacks, in their order.
_MARKS = (("o", "orange"), ("v", "sky"), ("P", "green"), ("s", "purple"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackedService:
    """One column of the picture: a title for the service, and what was ``found`` of its users.

    ``places`` is where the service has its users, in degrees: published locations if ``protected``, else the true ones.
    ``misses_m`` has for each attack, by its name, how far east and north of the user every estimate is. Users are moved
    into ``intervals``, if there are any.
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
        width_m, height_m = region.half_extent_m
        count = len(services)
        figure = Figure(figsize=(4.6 * count, 4.2 * (1 + height_m / width_m) + 1.5), layout="compressed")
        grid = figure.subplots(2, count, squeeze=False, height_ratios=(height_m, width_m))
        for service, above, below in zip(services, *grid, strict=True):
            _draw_city(above, service, region)
            _draw_misses(below, service, tau_m)
            for axes in (above, below) if service is not services[0] else ():
                axes.set_ylabel("")
        figure.suptitle(title, fontsize=14)
        add_legend(figure, columns=4)
        save_png(figure, path)


def _draw_city(axes: Axes, service: AttackedService, region: Region) -> None:
    draw_ground(axes, region)
    color, what = (PUBLISHED_COLOR, "published") if service.protected else (TRUE_COLOR, "true")
    # As large in the legend as it can be seen there.
    axes.plot([], [], ".", color=color, markersize=9, label=f"{what} location")
    intervals = service.intervals
    if intervals is not None and intervals.region.scaling == "isotropic":
        radii_m = np.repeat(intervals.radii_m[:, None], 2, axis=1)
        draw_discs(axes, np.hstack([intervals.centres * intervals.region.metres_per_unit, radii_m]))
        axes.plot([], [], "o", color=DISC_COLOR, fillstyle="none", markersize=9, label="private disc")
    draw_dots(axes, region.to_metres(service.places[:_MOST_DOTS]), color)
    axes.set_title(textwrap.fill(service.title, _TITLE_LETTERS))


def _draw_misses(axes: Axes, service: AttackedService, tau_m: float) -> None:
    map_axes(axes, np.array([[-_REACH_M] * 2, [_REACH_M] * 2]), "the user")
    for (label, misses_m), (marker, color) in zip(service.misses_m.items(), cycle(_MARKS), strict=False):
        style: dict[str, Any] = {"color": PALETTE[color], "fillstyle": "none", "markersize": 6.5, "zorder": 3}
        axes.plot(*misses_m.T, marker, label=f"estimate of {label}", **style)
    turn, label = np.linspace(0, 2 * np.pi, 100), f"within {tau_m:g} m of the user"
    axes.plot(tau_m * np.cos(turn), tau_m * np.sin(turn), "--", color=TRUE_COLOR, label=label, zorder=4)
    axes.set_title(textwrap.fill(service.found, _TITLE_LETTERS))
    axes.grid()
    beyond = sum(int((np.abs(misses_m).max(axis=1) > _REACH_M).sum()) for misses_m in service.misses_m.values())
    if beyond:
        axes.text(0.98, 0.02, f"{beyond} more beyond the edge", transform=axes.transAxes, ha="right", va="bottom")
