"""One attack as a picture: the region, the queries with what they leave possible, and the last stretch.

First the parts that the GIF has as well: colors, axes in meters, marks and legend.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, PathPatch, Rectangle, Wedge
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke

from nearveil.attacks.oracle import Point
from nearveil.report.attack_scene import (
    Scene,
    View,
    bounds_of,
    close_view,
    end_view,
    heading,
    legend_name,
    length,
    summary,
)
from nearveil.report.maps import draw_land
from nearveil.report.style import (
    ACCOUNT_COLOUR,
    CIRCLE_COLOUR,
    INK,
    LIGHT,
    PUBLISHED_COLOUR,
    TRUE_COLOUR,
    disc_handle,
    disc_handlers,
    house_style,
)
from nearveil.types import FloatArray


def shades(questions: int) -> list[str]:
    """Return a color for each query, light at first; at least two, so that there is one where nothing was asked."""
    along = np.linspace(0.06, 0.94, max(questions, 2))
    return [mpl.colors.to_hex(colour) for colour in mpl.colormaps["viridis_r"](along)]


def tint(colour: str, share: float) -> str:
    """Return a color mixed with white."""
    red, green, blue = (1 - share * (1 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


class MapAxes:
    """Axes that show a view, in meters or kilometers from some location."""

    def __init__(self, axes: Axes, view: View, origin: Point, whence: str) -> None:
        self.axes, self.view = axes, view
        self._origin = np.array(origin)
        self._unit_m, unit = (1000.0, "km") if view.half_m > 2500 else (1.0, "m")
        (left, bottom), (right, top) = self.xy(view.corners)
        axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        axes.set(xlabel=f"{unit} east of {whence}", ylabel=f"{unit} north of {whence}")

    def xy(self, places: object) -> FloatArray:
        """Return where locations in meters are on the axes."""
        at: FloatArray = (np.asarray(places, dtype=np.float64).reshape(-1, 2) - self._origin) / self._unit_m
        return at

    def marks(self, places: object, marker: str, **style: Any) -> None:
        """Draw locations that lie in view."""
        at = np.asarray(places, dtype=np.float64).reshape(-1, 2)
        shown = at[(np.abs(at - self.view.centre) <= self.view.half_m).all(axis=1)]
        if len(shown):
            self.axes.plot(*self.xy(shown).T, marker, linestyle="none", **style)

    def circle(self, centre: Point, radius_m: float, **style: Any) -> None:
        """Draw a circle."""
        self._add(Circle(self._point(centre), radius_m / self._unit_m, fill=False, **style))

    def ring(self, centre: Point, ring_m: tuple[float, float], **style: Any) -> None:
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
        # Wide edges below make an outline of the whole; edges of the same color above close the seams.
        for edge, width in ((outline, 2.6), (colour, 0.4)):
            self._add(PathPatch(path, facecolor=colour, edgecolor=edge, linewidth=width, zorder=zorder))

    def square(self, corner: Point, opposite: Point, **style: Any) -> None:
        """Outline a rectangle, given by its south-western and north-eastern corners."""
        width, height = (self.xy(opposite) - self.xy(corner))[0]
        self._add(Rectangle(self._point(corner), width, height, fill=False, **style))

    def frame(self, view: View, least_m: float = 0.0) -> None:
        """Mark the part that another chart shows, dark on white, to be seen on any crowd."""
        (x, y), half = view.centre, max(view.half_m, least_m)
        for colour, width in (("white", 3.2), (INK, 1.4)):
            self.square((x - half, y - half), (x + half, y + half), edgecolor=colour, linewidth=width, zorder=5)

    def arrow(self, start: Point, stop: Point, colour: str) -> None:
        """Draw an arrow that leaves room for the marks at both ends."""
        style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "shrinkA": 7, "shrinkB": 9}
        at = self._point(stop), self._point(start)
        self.axes.annotate("", *at, arrowprops={**style, "mutation_scale": 16}, zorder=6.5, annotation_clip=True)

    def write(self, middle: Point, text: str, colour: str = INK, halo: str = "white") -> None:
        """Write in such a way that it can be read on anything."""
        around = [withStroke(linewidth=2.5, foreground=halo)]
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "clip_on": True}
        self.axes.text(*self._point(middle), text, color=colour, path_effects=around, zorder=10, **style)

    def _add(self, patch: Patch) -> None:
        """Add what does not stretch the axes, which `Axes.add_patch` would look into at length."""
        self.axes.add_artist(patch)

    def _point(self, place: Point) -> tuple[float, float]:
        x, y = self.xy(place)[0].tolist()
        return x, y


# The marks that every picture of an attack has, and the legend that explains them.


MARKS: dict[str, dict[str, Any]] = {
    "the person": {"marker": "*", "color": TRUE_COLOUR, "markersize": 24, "markeredgecolor": "white", "zorder": 8},
    "where the person is published": {
        "marker": "D", "color": PUBLISHED_COLOUR, "markersize": 15, "markerfacecolor": "none", "markeredgewidth": 2.4,
        "zorder": 8,
    },
    "the attacker's estimate": {"marker": "x", "color": INK, "markersize": 9, "markeredgewidth": 2, "zorder": 9},
    "others located": {
        "marker": "o", "color": INK, "markersize": 4, "markerfacecolor": "none", "markeredgewidth": 0.9, "zorder": 4,
    },
    "an account": {
        "marker": "^", "color": ACCOUNT_COLOUR, "markersize": 6, "markeredgecolor": INK, "markeredgewidth": 0.5,
        "zorder": 5,
    },
    "a question, numbered": {
        "marker": "o", "color": "#31688E", "markersize": 9, "markeredgecolor": "white", "zorder": 7,
    },
    "people": {"marker": ".", "color": "#777777", "markersize": 5, "alpha": 0.8, "zorder": 2},
}  # fmt: skip


def draw_people(chart: MapAxes, scene: Scene, size: float) -> None:
    """Draw land and water, everybody, faintly, and the region's edge."""
    draw_land(chart.axes, scene.region, LIGHT, chart.xy)
    east, north = scene.region.half_extent_m
    chart.square((-east, -north), (east, north), edgecolor="#BBBBBB", linewidth=1, zorder=2)
    chart.marks(scene.dots, ".", color="#777777", markersize=size, alpha=0.55, zorder=2, markeredgewidth=0)


def draw_ends(chart: MapAxes, scene: Scene, *, estimate: bool = True) -> None:
    """Draw the user, what is published of it, and the estimate."""
    chart.circle(scene.truth, scene.tau_m, edgecolor=TRUE_COLOUR, linewidth=1.6, linestyle="--", zorder=6)
    if scene.published is not None:
        chart.arrow(scene.truth, scene.published, PUBLISHED_COLOUR)
        chart.marks(scene.published, **MARKS["where the person is published"])
    chart.marks(scene.truth, **MARKS["the person"])
    if estimate and scene.result.estimate is not None:
        # A cross on a wider white one is seen on anything.
        chart.marks(scene.result.estimate, "x", color="white", markersize=11, markeredgewidth=4.2, zorder=7)
        chart.marks(scene.result.estimate, **MARKS["the attacker's estimate"])


def add_legend(figure: Figure, scene: Scene, columns: int, *, at_once: bool = False, **options: Any) -> None:
    """Explain the marks that this attack needs: below the charts, or where ``options`` of matplotlib's legend say.

    ``at_once``: all queries are in one picture.
    """
    absent = {
        "where the person is published": scene.published is None,
        "the attacker's estimate": scene.result.estimate is None,
        "others located": not scene.result.others,
        "an account": not any(step.accounts for step in scene.steps),
        "a question, numbered": not scene.steps,
        "people": not len(scene.people_m),
    }
    # As on the map, light at first and dark at the end.
    some = [shades(len(scene.steps))[along] for along in (0, len(scene.steps) // 2, -1)]
    handles: dict[str, Any] = {}
    for name, mark in MARKS.items():
        if not absent.get(name, False):
            look = {**mark, "linestyle": "none", "markersize": min(mark["markersize"], 11)}
            own = [{"color": colour} for colour in some] if name == "a question, numbered" else [{}]
            handles[legend_name(scene, name)] = tuple(Line2D([], [], **(look | colour)) for colour in own)
        if name == "the person":
            handles[f"within {length(scene.tau_m)} of the person"] = disc_handle("", TRUE_COLOUR, dashes="--")
    if scene.result.trace.circles:
        handles["a circle found"] = disc_handle("", CIRCLE_COLOUR)
    if any(step.cells is not None for step in scene.steps):
        handles["still possible"] = tuple(Patch(facecolor=tint(colour, 0.45)) for colour in some)
        if at_once and not absent["an account"]:
            handles["as far from a question as an account"] = disc_handle("", some[-1], dashes=":")
    handlers = {**disc_handlers(), tuple: HandlerTuple(ndivide=None, pad=0.2)}
    options = {"loc": "outside lower center", "fontsize": 9.5, "columnspacing": 1.6, "frameon": False, **options}
    figure.legend(handles.values(), handles.keys(), ncols=columns, handler_map=handlers, **options)


# The three panels of the picture: the whole region, the attack close up, and its last stretch.


# Narrow enough to be read in a page, where it is about 700 pixels wide, and sharp in full size.
_WIDTH_IN, _DOTS_PER_INCH = 9.6, 165
_TITLE_LETTERS, _SUMMARY_LETTERS = 56, 74
_LINE_INCHES = 0.24
_WORDS: dict[Any, Any] = {"font.size": 11, "axes.titlesize": 12}


def draw_attack(scene: Scene, path: Path, *, title: str) -> None:
    """Draw the whole region, the attack close up, and its last stretch; save as PNG, whatever the path's suffix.

    It shows true locations, so it is for synthetic users, or for the operator's eyes only.
    """
    lines = textwrap.wrap(heading(scene, title), _TITLE_LETTERS)
    below = textwrap.wrap(summary(scene), _SUMMARY_LETTERS)
    end, close = end_view(scene), close_view(scene)
    with house_style(), mpl.rc_context(_WORDS):
        height_in = 9.6 + _LINE_INCHES * (len(lines) + len(below))
        figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
        # The region and the attack above; the last stretch below the attack, beside it the legend.
        grid = figure.subplot_mosaic([["region", "attack"], ["legend", "end"]])
        _draw_region(grid["region"], scene, close)
        for name, view, size in (("attack", close, 5), ("end", end, 9)):
            chart = MapAxes(grid[name], view, scene.truth, "the person")
            draw_people(chart, scene, size)
            if name == "attack":
                chart.frame(end)
            _draw_knowledge(chart, scene)
            _draw_questions(chart, scene)
            draw_ends(chart, scene)
        grid["attack"].set_title("The attack (the square on the left)")
        grid["end"].set_title("The last stretch (the square above)")
        grid["legend"].axis("off")
        middle = {"bbox_to_anchor": (0.5, 0.5), "bbox_transform": grid["legend"].transAxes, "loc": "center"}
        add_legend(figure, scene, 1, at_once=True, fontsize=11, labelspacing=0.9, **middle)
        # Empty lines below the title keep room for the summary, which is not bold. Dollars are no formulas.
        figure.suptitle("\n".join([*lines, *("" for _ in below)]), fontsize=14, fontweight="bold", parse_math=False)
        top = 1 - (0.12 + _LINE_INCHES * len(lines)) / height_in
        note = figure.text(0.5, top, "\n".join(below), ha="center", va="top", fontsize=12, parse_math=False)
        note.set_in_layout(False)
        figure.savefig(path, format="png", dpi=_DOTS_PER_INCH)


def _draw_region(axes: Axes, scene: Scene, close: View) -> None:
    """Draw everybody, all accounts, and where the next panel is."""
    east, north = scene.region.half_extent_m
    whole = MapAxes(axes, View((0.0, 0.0), max(east, north)), (0.0, 0.0), "the region's center")
    (right, top) = whole.xy((east, north))[0]
    axes.set(xlim=(-right, right), ylim=(-top, top))
    draw_people(whole, scene, 2.2)
    accounts = [spot for step in scene.steps for spot in step.accounts]
    whole.marks(accounts, **{**MARKS["an account"], "markersize": 4})
    whole.frame(close, 0.025 * whole.view.half_m)
    people = len(scene.people_m)
    # Where the others are is not known of a service of one's own.
    axes.set_title("The whole region" + (f" ({people:,} people)" if people else ""))


def _draw_knowledge(chart: MapAxes, scene: Scene) -> None:
    """Draw what was possible after each query, later on top of earlier; circles, and others located."""
    for order, (step, colour) in enumerate(zip(scene.steps, shades(len(scene.steps)), strict=False)):
        if step.cells is None:
            continue
        share = 0.25 + 0.3 * order / len(scene.steps)
        chart.boxes(scene.boxes(step.cells), tint(colour, share), tint(colour, share + 0.35), zorder=1 + 0.001 * order)
        # Of an answer only the two accounts that the user came between, which say what is possible.
        for radius_m in bounds_of(step):
            if 0 < radius_m < math.inf:
                chart.circle(step.place, radius_m, edgecolor=colour, linewidth=1, linestyle=":", zorder=3)
    for circle in scene.result.trace.circles:
        chart.circle(circle.centre, circle.radius_m, edgecolor=CIRCLE_COLOUR, linewidth=1.8, zorder=3)
    chart.marks(list(scene.result.others.values()), **MARKS["others located"])


def _draw_questions(chart: MapAxes, scene: Scene) -> None:
    """Draw locations with the numbers of the queries asked there, and the accounts."""
    asked: dict[Point, list[int]] = {}
    for number, step in enumerate(scene.steps, start=1):
        if chart.view.holds(step.place):
            asked.setdefault(step.place, []).append(number)
    accounts = [spot for step in scene.steps for spot in step.accounts]
    chart.marks(accounts, **MARKS["an account"])
    colours, half_m = shades(len(scene.steps)), chart.view.half_m
    taken = [*asked, *accounts, *scene.result.others.values()]
    if scene.published is not None:
        taken += [(x, y) for x, y in np.linspace(scene.truth, scene.published, 60).tolist()]
    for place, numbers in asked.items():
        chart.marks(place, **{**MARKS["a question, numbered"], "color": colours[numbers[-1] - 1]})
        text = _ranges(numbers)
        side_m, up_m = (0.05 + 0.017 * len(text)) * half_m, 0.075 * half_m
        spots = [(place[0] + x * side_m, place[1] + y * up_m) for x, y in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        # A number without room is left out: the last stretch shows the location closer, and its color tells.
        for spot in spots:
            room = View(chart.view.centre, 0.95 * half_m)
            small, large = [one for one in taken if one != place], scene.ends
            free = _is_free(spot, (side_m, 0.6 * up_m), small) and _is_free(spot, (1.5 * side_m, 1.5 * up_m), large)
            if room.holds(spot) and free:
                chart.write(spot, text)
                taken.append(spot)
                break


def _is_free(spot: Point, room: Point, taken: Iterable[Point]) -> bool:
    return not any(abs(one[0] - spot[0]) < room[0] and abs(one[1] - spot[1]) < room[1] for one in taken)


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers with runs put together: 1–3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)
