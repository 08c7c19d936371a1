"""Interactive maps made with Plotly: users before and after protection, and what the player of an attack shares.

Notebooks show them as they are, and ``write_html`` turns them into one file. Land and water are drawn from the package,
so that no map needs tiles or a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from nearveil.errors import DataError, require_package
from nearveil.points import as_points
from nearveil.region import Region, as_region, region_around
from nearveil.report.land import land_in, rings_of
from nearveil.report.style import LIGHT, PUBLISHED_COLOR, TRUE_COLOR
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_DOTS = 5_000
_SIZE_PX = 640


def protection_map(before: object, after: object, *, region: Region | str | None = None) -> Figure:
    """Return a map of the same users before and after protection, row by row. It shows true locations.

    The buttons show either or both; with both, a line joins the two locations of a user. Of more than 5,000 users every
    so many are shown. ``before`` and ``after`` are frames or arrays of latitude and longitude. The map shows a
    ``region``, by default a box around both.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (100, 2))
    >>> figure = nv.protection_map(points, nv.PlanarLaplace().perturb(points))
    >>> [trace.name for trace in figure.data if trace.name]
    ['moved', 'before', 'after']
    """
    locations = [as_points(before), as_points(after)]
    box = region_around(np.vstack(locations)) if region is None else as_region(region)
    true_m, published_m = map(box.to_metres, locations)
    if len(true_m) != len(published_m):
        raise DataError(f"{len(true_m):,} locations before and {len(published_m):,} after: give one of each for a user")
    every = math.ceil(len(true_m) / _MOST_DOTS) or 1
    true_m, published_m = true_m[::every], published_m[::every]
    moved = lines(np.stack([true_m, published_m], axis=1), "moved", LIGHT.ink, opacity=0.25)
    both = ((true_m, "before", TRUE_COLOR), (published_m, "after", PUBLISHED_COLOR))
    dots = [marks(*one, size=4, opacity=0.6) for one in both]
    still = ground(box)
    shown = {"both": (True, True, True), "before": (False, True, False), "after": (False, False, True)}
    seen = {label: {"visible": [*(True for _ in still), *moving]} for label, moving in shown.items()}
    buttons = [{"label": label, "method": "restyle", "args": [change]} for label, change in seen.items()]
    menu = {"type": "buttons", "direction": "right", "x": 0, "y": 1.06, "xanchor": "left", "buttons": buttons}
    half = np.array(box.half_extent_m)
    figure = map_figure([*still, moved, *dots], np.array([-half, half]), "the center")
    title = "Users before and after protection (true locations: keep it private)"
    return figure.update_layout(updatemenus=[menu], title=title, margin_t=90)


def map_figure(traces: list[Any], corners: FloatArray, whence: str, **options: Any) -> Any:
    """Return a figure of what lies between two corners, in meters from somewhere."""
    axis = {"showgrid": False, "zeroline": False, "constrain": "domain", "tickformat": "~s", "ticksuffix": "m"}
    (west, south), (east, north) = corners.tolist()
    layout = {
        "height": _SIZE_PX,
        "plot_bgcolor": LIGHT.panel,
        "paper_bgcolor": LIGHT.page,
        "font": {"color": LIGHT.ink, "size": 14},
        "dragmode": "pan",
        "margin": {"l": 70, "r": 20, "t": 20, "b": 50},
        "xaxis": {**axis, "title": f"east of {whence}", "range": [west, east]},
        "yaxis": {**axis, "title": f"north of {whence}", "range": [south, north], "scaleanchor": "x"},
    }
    return _plotly().Figure(traces, layout={**layout, **options})


def ground(region: Region, origin: Sequence[float] = (0.0, 0.0)) -> list[Any]:
    """Return water and land of a region, in meters from a point that is given from its center."""
    box = shapely.box(*-np.array(region.half_extent_m), *region.half_extent_m)
    found = [shapely.make_valid(shapely.Polygon(region.to_metres(ring))).intersection(box) for ring in land_in(region)]
    style: dict[str, Any] = {"line_width": 1, "line_color": LIGHT.shore, "showlegend": False}
    return [
        area(shapely.transform(shape, lambda points: points - np.array(origin)), "", fill, **style)
        for shape, fill in ((box, LIGHT.water), (shapely.union_all(found), LIGHT.land))
    ]


def marks(points: FloatArray, name: str, color: str, *, symbol: str = "circle", size: float, **options: Any) -> Any:
    """Return points, each with a mark."""
    # Half as long in a file, and still exact to a centimeter.
    x, y = np.asarray(points, dtype=np.float32).reshape(-1, 2).T
    marker = {
        "color": color,
        "size": size,
        "symbol": symbol,
        "line": {"color": LIGHT.page, "width": 1 if size > 6 else 0},
    }
    return _plotly().Scatter(x=x, y=y, mode="markers", name=name, marker=marker, hoverinfo="name", **options)


def lines(paths: Sequence[FloatArray] | FloatArray, name: str, color: str, **options: Any) -> Any:
    """Return one trace of paths, with a gap after each."""
    gap = np.full((1, 2), np.nan)
    x, y = np.vstack([gap, *(part for path in paths for part in (path, gap))]).astype(np.float32).T
    return _plotly().Scatter(x=x, y=y, mode="lines", name=name, hoverinfo="skip", **{"line_color": color, **options})


def area(shape: shapely.Geometry, name: str, color: str, **options: Any) -> Any:
    """Return a filled shape; its holes turn the other way, so that they stay empty."""
    return lines(rings_of(shape), name, color, fill="toself", fillcolor=color, **options)


def _plotly() -> Any:
    require_package("plotly", "an interactive map")
    return import_module("plotly.graph_objects")
