"""Maps of a region: land and water, users, and discs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.io.datasets import Dataset
from nearveil.region import Region
from nearveil.report.land import land_in
from nearveil.report.style import DISC_COLOR, LIGHT, TRUE_COLOR, panels
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAP_IN = 4.6


def population_map(dataset: Dataset) -> Figure:
    """Return a map of the users of a population, each where they truly are."""
    half_width_m, half_height_m = dataset.region.half_extent_m
    figure, [axes] = panels(1, columns=1, width=_MAP_IN, height=_MAP_IN * half_height_m / half_width_m)
    draw_ground(axes, dataset.region)
    draw_dots(axes, dataset.region.to_metres(dataset.places), TRUE_COLOR)
    axes.set_title(f"{dataset.name}, {len(dataset.places):,} users")
    return figure


def draw_dots(axes: Axes, points_m: FloatArray, color: str) -> None:
    """Draw users as dots, smaller where they are more."""
    size = min(4.0, max(1.0, 150 / math.sqrt(max(len(points_m), 1))))
    axes.plot(*points_m.T, ".", color=color, ms=size, alpha=0.55, markeredgewidth=0, zorder=3)


def draw_ground(axes: Axes, region: Region) -> None:
    """Draw land and water of a whole region, in meters from its center."""
    draw_land(axes, region)
    half = np.array(region.half_extent_m)
    map_axes(axes, np.array([-half, half]), "the center")


def draw_discs(axes: Axes, discs: FloatArray) -> None:
    """Draw outlines of discs: rows of x, y, half width and half height in meters."""
    from matplotlib.collections import EllipseCollection  # noqa: PLC0415

    widths, heights = 2 * discs[:, 2:].T
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": DISC_COLOR, "linewidths": 1.1, "zorder": 2}
    place: dict[str, Any] = {"units": "xy", "offsets": discs[:, :2], "offset_transform": axes.transData}
    axes.add_collection(EllipseCollection(widths, heights, np.zeros(len(discs)), **place, **style), autolim=False)


def map_axes(axes: Axes, corners: FloatArray, whence: str) -> None:
    """Show what lies between two corners in meters, and say how far east and north of somewhere it is."""
    from matplotlib.ticker import EngFormatter, MaxNLocator  # noqa: PLC0415

    (west, south), (east, north) = corners
    axes.set(xlim=(west, east), ylim=(south, north), aspect="equal")
    axes.set(xlabel=f"east of {whence}", ylabel=f"north of {whence}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(EngFormatter("m"))


def draw_land(axes: Axes, region: Region, origin: Sequence[float] = (0.0, 0.0)) -> None:
    """Draw the region's water and land in meters below everything else, and nothing beyond the region's edge.

    ``origin`` is what the axes count from, in meters from the region's center.
    """
    # Heavy, and only needed where a picture is drawn.
    from matplotlib.patches import Polygon  # noqa: PLC0415

    half = np.array(region.half_extent_m)
    edge = half * [[-1, -1], [1, -1], [1, 1], [-1, 1]] - np.array(origin)
    # `Axes.add_artist` does not stretch the axes, which `Axes.add_patch` would look into at length.
    water = Polygon(edge, facecolor=LIGHT.water, edgecolor="none", zorder=0.4)
    axes.add_artist(water)
    for ring in land_in(region):
        corners = region.to_metres(ring) - np.array(origin)
        land = Polygon(corners, facecolor=LIGHT.land, edgecolor=LIGHT.shore, linewidth=0.7, zorder=0.5)
        land.set_clip_path(water.get_path(), axes.transData)
        axes.add_artist(land).set_clip_box(axes.bbox)
