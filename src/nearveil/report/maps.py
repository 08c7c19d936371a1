"""Maps of a region: land and water, users, discs, and cells with where a user of one may be published."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nearveil.io.datasets import Dataset
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import Region
from nearveil.report.land import land_in
from nearveil.report.style import LIGHT, Theme, house_style, panels, plain_ticks, save_png
from nearveil.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAP_IN = 4.6


def population_map(dataset: Dataset) -> Figure:
    """Return a map of the users of a population, each where they truly are."""
    half_width_m, half_height_m = dataset.region.half_extent_m
    figure, [axes] = panels(1, columns=1, width=_MAP_IN, height=_MAP_IN * half_height_m / half_width_m)
    draw_ground(axes, dataset.region, LIGHT)
    places_km = dataset.region.to_metres(dataset.places) / 1000
    size = min(4.0, max(0.9, 150 / math.sqrt(max(len(places_km), 1))))
    axes.plot(*places_km.T, ".", color=LIGHT.palette["blue"], markersize=size, alpha=0.55, markeredgewidth=0,
              rasterized=True, zorder=3)  # fmt: skip
    axes.set_title(f"{dataset.name}, {len(dataset.places):,} users")
    return figure


def draw_ground(axes: Axes, region: Region, theme: Theme) -> None:
    """Land and water in true proportions, a scale and the way north."""
    draw_land(axes, region, theme, lambda meters: meters / 1000)
    _set_limits(axes, region, np.zeros(2), region.half_extent_m[0] / 1000, theme)


def _set_limits(axes: Axes, region: Region, center_km: FloatArray, width_km: float, theme: Theme) -> None:
    """Show what is so far to either side of a point, in the proportions of the region, with a scale and north."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    half_width_m, half_height_m = region.half_extent_m
    height_km = width_km * half_height_m / half_width_m
    (x, y), halo = center_km, [withStroke(linewidth=2.5, foreground=theme.panel)]
    axes.set(xlim=(x - width_km, x + width_km), ylim=(y - height_km, y + height_km), aspect="equal", xticks=[],
             yticks=[])  # fmt: skip
    length_km = _round_length(width_km / 2)
    left, low = x - 0.94 * width_km, y - 0.94 * height_km
    axes.plot([left, left + length_km], [low, low], color=theme.ink, linewidth=2, path_effects=halo, zorder=6,
              solid_capstyle="butt")  # fmt: skip
    text = f"{length_km:g} km" if length_km >= 1 else f"{1000 * length_km:g} m"
    axes.text(left + length_km / 2, low + 0.03 * height_km, text, ha="center", va="bottom", fontsize=9, zorder=6,
              path_effects=halo)  # fmt: skip
    axes.annotate("N", (0.96, 0.975), (0.96, 0.885), "axes fraction", ha="center", va="center", fontsize=9, zorder=6,
                  path_effects=halo, arrowprops={"arrowstyle": "-|>", "color": theme.ink, "shrinkB": 0})  # fmt: skip


def _round_length(most_km: float) -> float:
    """Return the longest of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most_km))
    return max(step * power for step in (1, 2, 5) if step * power <= most_km)


def draw_discs(axes: Axes, places_km: FloatArray, radii_km: FloatArray, color: str) -> None:
    """Draw outlines of discs, as an image even in SVG."""
    from matplotlib.collections import EllipseCollection  # noqa: PLC0415

    axes.add_collection(
        EllipseCollection(
            2 * radii_km, 2 * radii_km, np.zeros(len(radii_km)),
            units="xy", offsets=places_km, offset_transform=axes.transData, facecolors="none", edgecolors=color,
            linewidths=0.9, rasterized=True, zorder=2,
        )
    )  # fmt: skip


# Cells: how large they are, and where a user may be published.

_LEAST_SHARE = 0.01
_MOST_OUTLINED = 1500
_COLOR_BAR: dict[str, Any] = {"orientation": "horizontal", "fraction": 0.05, "pad": 0.03, "aspect": 30}


def draw_cells(mechanism: HideAmong, path: Path | BinaryIO) -> None:
    """Draw a map of the cells by their side in meters, and where two users may be published, as PNG.

    One is in the densest cell and one in a sparse one. Nothing in the picture comes from a true location.
    """
    cells = mechanism.current_cells
    half_width_m, half_height_m = cells.region.half_extent_m
    with house_style():
        figure, (whole, *close_ups) = panels(3, columns=3, width=13.0, height=4.4 * half_height_m / half_width_m + 0.6)
        for axes in (whole, *close_ups):
            draw_land(axes, cells.region, LIGHT, lambda meters: meters / 1000)
        _set_limits(whole, cells.region, np.zeros(2), half_width_m / 1000, LIGHT)
        sides = _draw_boxes(whole, cells, np.arange(len(cells)), cells.sides_m)
        whole.set_title(f"{len(cells):,} cells to hide among {mechanism.hide_among:,} users")
        figure.colorbar(sides, ax=whole, label="side of a cell (m)", **_COLOR_BAR)
        # The densest cell; and of those less dense than the cells of nine tenths of the users, the one in the middle.
        order = np.argsort(cells.sides**2 / np.maximum(cells.people, 1e-9), kind="stable")
        sparse = order[np.searchsorted(np.cumsum(cells.people[order]), 0.9 * cells.people.sum()) :]
        middle = sparse[np.abs(cells.centres[sparse]).max(axis=1).argmin()]
        for axes, cell, where in zip(close_ups, (order[0], middle), ("a dense", "a sparse"), strict=True):
            drawn = _draw_published(axes, mechanism, int(cell))
            axes.set_title(f"A user (★) in {where} part")
        label = f"probability of being published there, relative to the likeliest cell (blank: below {_LEAST_SHARE:g})"
        figure.colorbar(drawn, ax=close_ups, label=label, **_COLOR_BAR)
        plain_ticks(figure)
        save_png(figure, path)


def _draw_boxes(axes: Axes, cells: Cells, drawn: IntArray, values: FloatArray) -> Any:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    west, south, east, north = (cells.boxes()[drawn] * cells.region.metres_per_unit / 1000).T
    corners = np.moveaxis(np.array([[west, south], [east, south], [east, north], [west, north]]), 2, 0)
    boxes = PolyCollection(
        list(corners), array=values, cmap="viridis", norm=LogNorm(values.min(), values.max() * (1 + 1e-9)),
        edgecolors=LIGHT.panel, linewidths=0.25 if len(drawn) < _MOST_OUTLINED else 0.1, alpha=0.75, zorder=2,
        rasterized=True,
    )  # fmt: skip
    axes.add_collection(boxes)
    return boxes


def _draw_published(axes: Axes, mechanism: HideAmong, cell: int) -> Any:
    """Draw the likeliest cells around one, by probability, on a map that just holds them."""
    cells = mechanism.current_cells
    share = np.exp(mechanism.channel.log_probability(cell, np.arange(len(cells))))
    share /= share.max()
    shown = np.flatnonzero(share >= _LEAST_SHARE)
    drawn = _draw_boxes(axes, cells, shown, share[shown])
    drawn.set_clim(_LEAST_SHARE, 1.0)
    center_km = cells.centres[cell] * cells.region.metres_per_unit / 1000
    boxes_km = cells.boxes()[shown].reshape(-1, 2, 2) * cells.region.metres_per_unit / 1000
    across, up = 1.05 * np.abs(boxes_km - center_km).max(axis=(0, 1))
    axes.plot(*center_km, "*", color=LIGHT.palette["vermilion"], markersize=11, markeredgecolor=LIGHT.panel, zorder=5)
    half_width_m, half_height_m = cells.region.half_extent_m
    _set_limits(axes, cells.region, center_km, max(across, up * half_width_m / half_height_m), LIGHT)
    return drawn


def draw_land(axes: Axes, region: Region, theme: Theme, place: Callable[[FloatArray], FloatArray]) -> None:
    """Draw the region's water and land below everything else, and nothing beyond the region's edge.

    ``place`` says where on the axes a point is that is given in meters from the region's center.
    """
    # Heavy, and only needed where a picture is drawn.
    from matplotlib.patches import Polygon  # noqa: PLC0415

    east, north = region.half_extent_m
    edge = place(np.array([[-east, -north], [east, -north], [east, north], [-east, north]]))
    # `Axes.add_artist` does not stretch the axes, which `Axes.add_patch` would look into at length.
    water = Polygon(edge, facecolor=theme.water, edgecolor="none", zorder=0.4)
    axes.add_artist(water)
    for ring in land_in(region):
        corners = place(region.to_metres(ring))
        land = Polygon(corners, facecolor=theme.land, edgecolor=theme.shore, linewidth=0.7, zorder=0.5)
        land.set_clip_path(water.get_path(), axes.transData)
        axes.add_artist(land).set_clip_box(axes.bbox)
