"""A map of what one place publishes, with the event shaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearveil.report.audit_picture.scene import Cloud, Scene, View
from nearveil.report.style import DISC_COLOUR, INK, PUBLISHED_COLOUR, TRUE_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap

COLOURS = {"first": TRUE_COLOUR, "second": PUBLISHED_COLOUR}
EVENT_COLOUR = "#F0E442"
BORDER_DASHES = (0, (5, 3))

_GRID = 360
_LETTERS = {"first": "A", "second": "B"}


def letter(side: str) -> str:
    """Return the letter that a place has in the picture."""
    return _LETTERS[side]


def draw_map(axes: Axes, scene: Scene, cloud: Cloud, view: View) -> None:
    """Draw one cloud over the event, the intervals and both places."""
    unit, name = (1.0, "m") if view.half < 5_000 else (1000.0, "km")
    if scene.has_areas:
        _shade_event(axes, scene, view, unit)
    _draw_intervals(axes, scene, view, unit)
    _draw_outputs(axes, cloud, unit)
    for other in scene.clouds:
        _mark_place(axes, other, view, unit, here=other is cloud)
    (west, east), (south, north) = view.limits
    axes.set_xlim(west / unit, east / unit)
    axes.set_ylim(south / unit, north / unit)
    axes.set_aspect("equal")
    axes.set_xlabel(f"{name} east of the point between A and B")
    axes.set_ylabel(f"{name} north of it")
    axes.set_title(f"Outputs for someone at {letter(cloud.name)}", color=COLOURS[cloud.name])


def _shade_event(axes: Axes, scene: Scene, view: View, unit: float) -> None:
    x, y = (np.linspace(*limits, _GRID) for limits in view.limits)
    event = scene.event_on(x, y)
    if event.any():
        shade = np.where(event, 1.0, np.nan)
        axes.pcolormesh(x / unit, y / unit, shade, cmap=_one_colour(), shading="nearest", rasterized=True, zorder=0.5)
    if event.any() and not event.all():
        axes.contour(x / unit, y / unit, event.astype(float), levels=[0.5], colors=[INK], linewidths=0.9, zorder=2.5)


def _one_colour() -> ListedColormap:
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    return ListedColormap([EVENT_COLOUR + "73"])


def _draw_intervals(axes: Axes, scene: Scene, view: View, unit: float) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415
    from matplotlib.patches import Ellipse  # noqa: PLC0415

    if scene.discs is None:
        return
    axes.add_collection(
        LineCollection(list(scene.borders / unit), colors=INK, linewidths=0.9, linestyles=[BORDER_DASHES])
    )
    near = np.abs(scene.discs[:, :2] - view.middle) <= view.half + scene.discs[:, 2:]
    for x, y, width, height in scene.discs[near.all(axis=1)] / unit:
        axes.add_patch(Ellipse((x, y), 2 * width, 2 * height, fill=False, edgecolor=DISC_COLOUR, linewidth=1.4))


def _draw_outputs(axes: Axes, cloud: Cloud, unit: float) -> None:
    colour = COLOURS[cloud.name]
    for hit, size, alpha in ((False, 2.0, 0.3), (True, 2.6, 0.75)):
        dots = cloud.outputs[cloud.hits == hit] / unit
        axes.plot(*dots.T, ".", color=colour, markersize=size, alpha=alpha, rasterized=True, zorder=2)


def _mark_place(axes: Axes, cloud: Cloud, view: View, unit: float, *, here: bool) -> None:
    x, y = cloud.place / unit
    (west, east), (south, north) = view.limits
    if not (west <= cloud.place[0] <= east and south <= cloud.place[1] <= north):
        return
    colour = COLOURS[cloud.name]
    axes.plot(
        [x], [y], "o", color=colour if here else "white", markeredgecolor="white" if here else colour,
        markersize=15, markeredgewidth=1.5, zorder=4,
    )  # fmt: skip
    axes.text(
        x, y, letter(cloud.name), color="white" if here else colour, fontsize=9, fontweight="bold", ha="center",
        va="center_baseline", zorder=5,
    )  # fmt: skip
