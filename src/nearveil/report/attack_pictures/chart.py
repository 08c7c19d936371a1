"""Chart: axes on which places and lengths in metres can be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Patch, PathPatch, Rectangle, Wedge
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke

from nearveil.attacks.oracle import Spot
from nearveil.report.attack_pictures.views import View
from nearveil.report.style import INK
from nearveil.types import FloatArray


class Chart:
    """Axes that show a view, in metres or kilometres from some place."""

    def __init__(self, axes: Axes, view: View, origin: Spot, whence: str) -> None:
        self.axes, self.view = axes, view
        self._origin = np.array(origin)
        self._unit_m, unit = (1000.0, "km") if view.half_m > 2500 else (1.0, "m")
        (left, bottom), (right, top) = self.xy(view.corners)
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.set_aspect("equal")
        axes.set_xlabel(f"{unit} east of {whence}")
        axes.set_ylabel(f"{unit} north of {whence}")

    def xy(self, places: object) -> FloatArray:
        """Places on the axes."""
        at: FloatArray = (np.asarray(places, dtype=np.float64).reshape(-1, 2) - self._origin) / self._unit_m
        return at

    def marks(self, places: object, marker: str, **style: Any) -> None:
        """Draw places that lie in view."""
        at = np.asarray(places, dtype=np.float64).reshape(-1, 2)
        shown = at[(np.abs(at - self.view.centre) <= self.view.half_m).all(axis=1)]
        if len(shown):
            self.axes.plot(*self.xy(shown).T, marker, linestyle="none", **style)

    def spots(self, places: Sequence[Spot], colours: Sequence[str], size: float, zorder: float) -> None:
        """Draw places as round marks of different colours, all at once."""
        at = self.xy(list(places))
        self.axes.scatter(
            at[:, 0], at[:, 1], s=size**2, c=list(colours), edgecolors="white", linewidths=1, zorder=zorder
        )

    def circle(self, centre: Spot, radius_m: float, **style: Any) -> None:
        """Draw a circle."""
        self._add(Circle(self._point(centre), radius_m / self._unit_m, fill=False, **style))

    def ring(self, centre: Spot, ring_m: tuple[float, float], **style: Any) -> None:
        """Shade what lies between two distances."""
        low, high = ring_m[0], min(ring_m[1], 4 * self.view.half_m + math.dist(centre, self.view.centre))
        if high > low:
            width = (high - low) / self._unit_m
            self._add(Wedge(self._point(centre), high / self._unit_m, 0, 360, width=width, **style))

    def boxes(self, boxes: FloatArray, colour: str, outline: str, zorder: float = 1) -> None:
        """Fill boxes, and outline what they make up together."""
        (west, south), (east, north) = self.view.corners
        shown = (boxes[:, 0] <= east) & (boxes[:, 2] >= west) & (boxes[:, 1] <= north) & (boxes[:, 3] >= south)
        corners = self.xy(boxes[shown][:, [0, 1, 0, 3, 2, 3, 2, 1]]).reshape(-1, 4, 2)
        # One path is drawn faster than many.
        path = Outline.make_compound_path_from_polys(corners)
        # Wide edges below make an outline of the whole; edges of the same colour above close the seams.
        for edge, width in ((outline, 2.6), (colour, 0.4)):
            self._add(PathPatch(path, facecolor=colour, edgecolor=edge, linewidth=width, zorder=zorder))

    def rectangle(self, corner: Spot, opposite: Spot, **style: Any) -> None:
        """Outline a rectangle, given by its south-western and north-eastern corners."""
        width, height = (self.xy(opposite) - self.xy(corner))[0]
        self._add(Rectangle(self._point(corner), width, height, fill=False, **style))

    def frame(self, view: View, least_m: float = 0.0) -> None:
        """Mark the part that another chart shows, dark on white, to be seen on any crowd."""
        (x, y), half = view.centre, max(view.half_m, least_m)
        for colour, width in (("white", 3.2), (INK, 1.4)):
            self.rectangle((x - half, y - half), (x + half, y + half), edgecolor=colour, linewidth=width, zorder=5)

    def arrow(self, start: Spot, stop: Spot, colour: str) -> None:
        """Draw an arrow that leaves room for the marks at both ends."""
        style: dict[str, Any] = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8}
        style |= {"shrinkA": 7, "shrinkB": 9, "mutation_scale": 16}
        self.axes.annotate(
            "", self._point(stop), self._point(start), arrowprops=style, zorder=6.5, annotation_clip=True
        )

    def write(self, middle: Spot, text: str, size: float = 9) -> None:
        """Write in such a way that it can be read on anything."""
        halo = [withStroke(linewidth=2.5, foreground="white")]
        x, y = self._point(middle)
        self.axes.text(x, y, text, ha="center", va="center", fontsize=size, path_effects=halo, zorder=10)

    def _add(self, patch: Patch) -> None:
        """Add what does not stretch the axes, which `Axes.add_patch` would look into at length."""
        self.axes.add_artist(patch)

    def _point(self, place: Spot) -> tuple[float, float]:
        x, y = self.xy(place)[0].tolist()
        return x, y
