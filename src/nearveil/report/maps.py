"""Maps of a region: land and water, people, where they are published, centres and discs, cells."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nearveil.evaluation.results import Map, MapLayer, MapPanel
from nearveil.mechanisms.cell_steps import STEP, reach_of
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import Region
from nearveil.report.charts import (
    Format,
    Handle,
    draw_legend,
    draw_title,
    log_ticks,
    panel_grid,
    panel_width_in,
    plain_number,
    save,
)
from nearveil.report.land import land_in
from nearveil.report.style import DARK, LIGHT, Theme, house_style
from nearveil.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Marker, size of one alone, colour in the theme's palette.
_LOOKS = {
    "people": (".", 7.0, "blue"),
    "published": (".", 7.0, "vermilion"),
    "centres": ("+", 7.0, "ink"),
    "attacker": ("*", 12.0, "purple"),
}
_CROWD = 300


def draw_map(
    map: Map, path: Path | BinaryIO, *, dark: bool = False, format: Format = "png", titled: bool = True
) -> None:
    """Draw maps side by side; the same maps give the same bytes. See `draw_chart` for the parameters.

    Places and discs are an image even in SVG, so that many of them do not make it large.
    """
    theme = DARK if dark else LIGHT
    columns = min(map.columns, len(map.panels))
    width_in = panel_width_in(columns)
    half_width_m, half_height_m = map.region.half_extent_m
    height_in = width_in * half_height_m / half_width_m + 0.15
    with house_style(theme):
        figure, grid = panel_grid(len(map.panels), columns, width_in, height_in)
        handles: dict[str, Handle] = {}
        for panel, axes in zip(map.panels, grid.flat, strict=False):
            draw_ground(axes, map.region, theme)
            handles |= _draw_layers(axes, panel, map.region, theme)
            axes.set_title(textwrap.fill(panel.title, int(width_in * 9.5)))
        if titled:
            draw_title(figure, map.title)
        draw_legend(figure, handles, handle_length=1.0)
        save(figure, path, format)


def draw_ground(axes: Axes, region: Region, theme: Theme) -> None:
    """Land and water in true proportions, a scale and the way north."""
    width_km, height_km = (extent / 1000 for extent in region.half_extent_m)
    draw_land(axes, region, theme, lambda metres: metres / 1000)
    axes.set(xlim=(-width_km, width_km), ylim=(-height_km, height_km), aspect="equal", xticks=[], yticks=[])
    _draw_scale(axes, width_km, height_km, theme)


def _draw_scale(
    axes: Axes, width_km: float, height_km: float, theme: Theme, centre_km: tuple[float, float] = (0.0, 0.0)
) -> None:
    from matplotlib.patheffects import withStroke  # noqa: PLC0415

    halo = [withStroke(linewidth=2.5, foreground=theme.panel)]
    length_km = _round_length(width_km / 2)
    left, low = centre_km[0] - 0.94 * width_km, centre_km[1] - 0.94 * height_km
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


def _draw_layers(axes: Axes, panel: MapPanel, region: Region, theme: Theme) -> dict[str, Handle]:
    """Draw the layers, and return what the legend shows for each."""
    handles: dict[str, Handle] = {}
    for layer in panel.layers:
        marker, _, colour_name = _LOOKS[layer.kind]
        colour = theme.palette[colour_name]
        places_km = region.to_metres(layer.places) / 1000
        crowd = layer.kind in ("people", "published") and len(places_km) > _CROWD
        axes.plot(
            places_km[:, 0], places_km[:, 1], marker, color=colour, markersize=_size(layer),
            alpha=0.55 if crowd else 1.0, markeredgewidth=0.9 if marker == "+" else 0, rasterized=True, zorder=3,
        )  # fmt: skip
        if layer.radii_m is None:
            handles[layer.label] = axes.plot([], [], marker, color=colour, markersize=9 if marker == "." else 8)[0]
        else:
            # Faint enough for a crowd of them.
            outline = theme.soft if layer.kind == "centres" else colour
            draw_discs(axes, places_km, layer.radii_m / 1000, outline)
            handles[layer.label] = axes.plot([], [], "o", color=outline, fillstyle="none", markersize=9)[0]
    return handles


def _size(layer: MapLayer) -> float:
    """Smaller dots for larger crowds, and small ones in the middle of discs."""
    _, size, _ = _LOOKS[layer.kind]
    if layer.radii_m is not None:
        return 0.4 * size
    return size * min(1.0, max(0.28, math.pow(_CROWD / max(len(layer.places), 1), 0.33)))


def draw_discs(axes: Axes, places_km: FloatArray, radii_km: FloatArray, colour: str) -> None:
    """Draw outlines of discs, as an image even in SVG."""
    from matplotlib.collections import EllipseCollection  # noqa: PLC0415

    axes.add_collection(
        EllipseCollection(
            2 * radii_km, 2 * radii_km, np.zeros(len(radii_km)),
            units="xy", offsets=places_km, offset_transform=axes.transData, facecolors="none", edgecolors=colour,
            linewidths=0.9, rasterized=True, zorder=2,
        )
    )  # fmt: skip


# Cells: how large they are, and where somebody may be published.


_LIKELY = 0.9
_LEAST_SHARE = 0.01
_AROUND = 4
_TRIED = 500
_MOST_OUTLINED = 1500


def draw_cells(
    mechanism: HideAmong, path: Path | BinaryIO, *, dark: bool = False, format: Format = "png", titled: bool = True
) -> None:
    """Draw a map of the cells by their side in metres, and where two people may be published.

    One is in the smallest cell and one in a cell that is larger than those of nine tenths of the people. Nothing in the
    picture comes from a true place.

    Parameters
    ----------
    mechanism : HideAmong
        With its cells.
    path, dark, format, titled
        As of `draw_map`.
    """
    theme, cells = DARK if dark else LIGHT, mechanism.current_cells
    dense, sparse = _dense_and_sparse(cells)
    width_in = panel_width_in(3)
    half_width_m, half_height_m = cells.region.half_extent_m
    with house_style(theme):
        figure, grid = panel_grid(3, 3, width_in, width_in * half_height_m / half_width_m + 0.15)
        whole, *close_ups = grid.flat
        draw_ground(whole, cells.region, theme)
        sides = _draw_boxes(whole, cells, np.arange(len(cells)), cells.sides_m, theme)
        whole.set_title(f"{len(cells):,} cells, coloured by their side")
        _draw_colour_bar(figure, sides, [whole], "side of a cell (m)")
        shown = []
        for axes, cell, where in zip(close_ups, (dense, sparse), ("a dense", "a sparse"), strict=True):
            shown.append(_draw_published(axes, mechanism, cell, theme))
            axes.set_title(f"Somebody (★) in {where} part")
        label = f"probability of being published there, relative to the likeliest cell (blank: below {_LEAST_SHARE:g})"
        _draw_colour_bar(figure, shown[0], close_ups, label)
        if titled:
            draw_title(figure, f"Hidden among {mechanism.hide_among:,} people")
        save(figure, path, format)


def _dense_and_sparse(cells: Cells) -> tuple[int, int]:
    """A smallest cell among small ones, and one of those that hold the sparsest tenth of people."""
    centres, sides, near = cells.centres, cells.sides, reach_of(cells, _AROUND * STEP)
    smallest = np.flatnonzero(sides == sides.min())
    # A private quadtree has a few small cells where nobody is.
    dense = min(smallest[:: max(1, len(smallest) // _TRIED)], key=lambda cell: float(sides[near.of(cell)[0]].mean()))
    order = np.argsort(sides, kind="stable")
    held = np.cumsum(cells.people[order]) / cells.people.sum()
    size = sides[order[np.searchsorted(held, 0.95)]]
    inner = (np.abs(centres) < 0.7 * np.array(cells.region.half_extent_square)).all(axis=1)
    candidates = np.flatnonzero((sides == size) & inner)
    candidates = candidates if len(candidates) else np.flatnonzero(sides == size)
    return int(dense), int(candidates[np.argmax(cells.people[candidates])])


def _draw_boxes(axes: Axes, cells: Cells, drawn: IntArray, values: FloatArray, theme: Theme) -> Any:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    west, south, east, north = (cells.boxes()[drawn] * cells.region.metres_per_unit / 1000).T
    corners = np.moveaxis(np.array([[west, south], [east, south], [east, north], [west, north]]), 2, 0)
    boxes = PolyCollection(
        list(corners), array=values, cmap="viridis", norm=LogNorm(values.min(), values.max() * (1 + 1e-9)),
        edgecolors=theme.panel, linewidths=0.25 if len(drawn) < _MOST_OUTLINED else 0.1, alpha=0.75, zorder=2,
        rasterized=True,
    )  # fmt: skip
    axes.add_collection(boxes)
    return boxes


def _draw_published(axes: Axes, mechanism: HideAmong, cell: int, theme: Theme) -> Any:
    """Draw the likeliest cells around one, by probability, on a map that just holds them."""
    cells = mechanism.current_cells
    probability = np.exp(mechanism.channel.log_probability(cell, np.arange(len(cells))))
    order = np.argsort(-probability, kind="stable")
    likely = order[: int(np.searchsorted(np.cumsum(probability[order]), _LIKELY)) + 1]
    draw_ground(axes, cells.region, theme)
    boxes_km = cells.boxes() * cells.region.metres_per_unit / 1000
    centre = cells.centres[cell] * cells.region.metres_per_unit / 1000
    reach = 1.15 * float(np.abs(boxes_km[likely].reshape(-1, 2, 2) - centre).max())
    width_km, height_km = (extent / 1000 for extent in cells.region.half_extent_m)
    across, up = max(reach, reach * width_km / height_km), max(reach, reach * height_km / width_km)
    share = probability / probability.max()
    drawn = _draw_boxes(axes, cells, np.flatnonzero(share >= _LEAST_SHARE), share[share >= _LEAST_SHARE], theme)
    drawn.set_clim(_LEAST_SHARE, 1.0)
    for old in [*axes.lines, *axes.texts]:
        old.remove()
    axes.plot(*centre, "*", color=theme.palette["vermilion"], markersize=11, markeredgecolor=theme.panel, zorder=5)
    axes.set(xlim=(centre[0] - across, centre[0] + across), ylim=(centre[1] - up, centre[1] + up))
    _draw_scale(axes, across, up, theme, (float(centre[0]), float(centre[1])))
    return drawn


def _draw_colour_bar(figure: Figure, drawn: Any, below: list[Axes], label: str) -> None:
    bar = figure.colorbar(drawn, ax=below, orientation="horizontal", fraction=0.05, pad=0.03, aspect=30)
    bar.set_label(label)
    low, high = drawn.norm.vmin, drawn.norm.vmax
    ticks = log_ticks(low, high, 6)
    bar.set_ticks(ticks, labels=[plain_number(value) for value in ticks])
    bar.ax.minorticks_off()


# Where land is.


def draw_land(axes: Axes, region: Region, theme: Theme, place: Callable[[FloatArray], FloatArray]) -> None:
    """Draw the region's water and land below everything else, and nothing beyond the region's edge.

    Parameters
    ----------
    place : callable
        Where on the axes a place is that is given in metres from the region's centre.
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
