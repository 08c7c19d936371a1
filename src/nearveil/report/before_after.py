"""The before/after map: where people are, and where they are published to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region
from nearveil.report.style import DISC_COLOUR, PUBLISHED_COLOUR, TRUE_COLOUR, house_style
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

_ZOOM_HALF_KM = 1.5
_MOST_DOTS = 50_000


def draw_before_after(
    true: FloatArray,
    published: FloatArray,
    region: Region,
    path: Path,
    *,
    title: str,
    intervals: Intervals | None = None,
) -> None:
    """Draw the true places, the published places, and a neighbourhood of both close up; save as PNG.

    It shows true places, so it is for made-up people, or for the operator's eyes only.
    """
    # Heavy, and only needed where a picture is drawn.
    from matplotlib import pyplot as plt  # noqa: PLC0415

    true_km, published_km = region.to_metres(true) / 1000, region.to_metres(published) / 1000
    half_width, half_height = (extent / 1000 for extent in region.half_extent_m)
    with house_style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 5.9), layout="constrained")
        for axes, places, colour, what in (
            (left, true_km, TRUE_COLOUR, "True places"),
            (middle, published_km, PUBLISHED_COLOUR, "Published places"),
        ):
            shown = places[:_MOST_DOTS]
            axes.plot(shown[:, 0], shown[:, 1], ".", color=colour, markersize=1.2, alpha=0.45, rasterized=True)
            axes.set_xlim(-half_width, half_width)
            axes.set_ylim(-half_height, half_height)
            axes.set_title(f"{what} ({len(places):,} people)")
        focus = _busiest_place(true_km)
        _draw_close_up(right, true_km, published_km, focus, intervals)
        for axes in (left, middle):
            # Dark on white, to be seen on any crowd.
            axes.add_patch(_frame(focus, "white", 3.5))
            axes.add_patch(_frame(focus, "black", 1.5))
        for axes in (left, middle, right):
            axes.set_aspect("equal")
            axes.set_xlabel("km east of the region's centre")
        figure.suptitle(title)
        left.set_ylabel("km north of the region's centre")
        figure.savefig(path, format="png")
        plt.close(figure)


def _draw_close_up(
    axes: Axes, true_km: FloatArray, published_km: FloatArray, focus: FloatArray, intervals: Intervals | None
) -> None:
    near = (np.abs(true_km - focus) <= _ZOOM_HALF_KM).all(axis=1)
    if intervals is not None and intervals.region.scaling == "isotropic":
        _draw_discs(axes, intervals, focus)
    for start, stop in zip(true_km[near], published_km[near], strict=True):
        axes.plot([start[0], stop[0]], [start[1], stop[1]], "-", color=DISC_COLOUR, linewidth=0.35, alpha=0.55)
    axes.plot(*true_km[near].T, ".", color=TRUE_COLOUR, markersize=4, zorder=3, label="true place")
    # Whoever is published here, wherever they come from.
    shown = (np.abs(published_km - focus) <= _ZOOM_HALF_KM).all(axis=1)
    axes.plot(*published_km[shown].T, "x", color=PUBLISHED_COLOUR, markersize=3.5, label="where it is published")
    axes.set_xlim(focus[0] - _ZOOM_HALF_KM, focus[0] + _ZOOM_HALF_KM)
    axes.set_ylim(focus[1] - _ZOOM_HALF_KM, focus[1] + _ZOOM_HALF_KM)
    axes.set_title("Close up (the square on the maps)")
    axes.legend(loc="lower right", framealpha=0.95, markerscale=2)


def _draw_discs(axes: Axes, intervals: Intervals, focus: FloatArray) -> None:
    from matplotlib.patches import Circle  # noqa: PLC0415

    centres_km = intervals.centres * intervals.region.metres_per_unit / 1000
    label: str | None = "private interval"
    for centre, radius_m in zip(centres_km, intervals.radii_m, strict=True):
        if (np.abs(centre - focus) <= _ZOOM_HALF_KM + radius_m / 1000).all():
            disc = Circle(tuple(centre), radius_m / 1000, fill=False, edgecolor=DISC_COLOUR, linewidth=1.2, label=label)
            axes.add_patch(disc)
            label = None


def _frame(focus: FloatArray, colour: str, width: float) -> Rectangle:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    corner = (focus[0] - _ZOOM_HALF_KM, focus[1] - _ZOOM_HALF_KM)
    side = 2 * _ZOOM_HALF_KM
    return Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=width, zorder=5)


def _busiest_place(places_km: FloatArray) -> FloatArray:
    """Middle of the square kilometre with most people."""
    cells, counts = np.unique(np.floor(places_km), axis=0, return_counts=True)
    busiest: FloatArray = cells[np.argmax(counts)] + 0.5
    return busiest
