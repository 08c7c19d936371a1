"""The picture of an audit: the outputs of two locations, the boundary between cells, the event and its frequencies."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, LineCollection, PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from nearveil.auditing.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.auditing.events import TELL_TALES
from nearveil.auditing.subjects import Subject
from nearveil.auditing.witness import Witness, shared_confidence
from nearveil.mechanisms.base import Learned
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.region import Region
from nearveil.report.attack_figure import MapAxes
from nearveil.report.attack_scene import View
from nearveil.report.style import (
    DISC_COLOUR,
    INK,
    PUBLISHED_COLOUR,
    TRUE_COLOUR,
    disc_handle,
    disc_handlers,
    house_style,
)
from nearveil.types import BoolArray, FloatArray

EVENT_COLOUR = "#F0E442"
CELL_COLOUR = "#6B7280"
_COLOURS = {"first": TRUE_COLOUR, "second": PUBLISHED_COLOUR}
_LETTERS = {"first": "A", "second": "B"}
_BORDER: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (5, 3))}
_CELL: dict[str, Any] = {"edgecolor": CELL_COLOUR, "linewidth": 0.5}
_SENTENCE_LETTERS = 190
# Left, bottom, width and height; words above.
_PANELS = (0.0, 0.0, 1.0, 0.87)


def draw_audit(
    witness: Witness, subject: Subject, path: Path, *, title: str, learned: Learned | None = None
) -> None:  # fmt: skip
    """Draw the outputs of both locations of a witness, the boundary, the event and its frequencies; save as PNG.

    Parameters
    ----------
    witness : Witness
        Names the locations and the event, and has the counts. The dots are outputs drawn for the picture alone.
    subject : Subject
        What was audited.
    title : str
        The verdict.
    learned : Intervals or Cells, optional
        To show discs and the borders between their cells, or cells, so that steps can be counted.
    """
    scene = AuditScene(witness, subject, learned)
    event = witness.event.describe().replace("the first", "A").replace("the second", "B")
    remaps = getattr(getattr(subject, "mechanism", None), "remaps", False)
    stage = " Outputs are shown as drawn, before they are moved into the intervals." if remaps else ""
    sentence = f"A and B are {witness.pair}. The event: outputs {event}.{stage}"
    with house_style():
        figure = Figure(figsize=(15, 6.6), layout=ConstrainedLayoutEngine(rect=_PANELS))
        *maps, rates_axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.62))
        for axes, cloud, view in zip(maps, scene.clouds, scene.views, strict=True):
            _draw_map(MapAxes(axes, view, (0.0, 0.0), "the point between A and B"), scene, cloud)
        _draw_frequencies(rates_axes, witness)
        figure.text(0.012, 0.975, title, fontsize=15, fontweight="bold", va="top")
        figure.text(0.012, 0.925, textwrap.fill(sentence, _SENTENCE_LETTERS), fontsize=10, va="top")
        handles = _handles(scene)
        figure.legend(
            handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9,
            handler_map=disc_handlers(),
        )  # fmt: skip
        figure.savefig(path, format="png")


def _handles(scene: AuditScene) -> list[Any]:
    dot: dict[str, Any] = {"marker": ".", "linestyle": "", "color": INK}
    if scene.has_areas:
        area = Patch(facecolor=EVENT_COLOUR + "73", edgecolor=INK, label="the event")
        handles = [area, Line2D([], [], label="an output", **dot)]
    else:
        hit = Line2D([], [], markersize=9, label="an output that is the event", **dot)
        handles = [hit, Line2D([], [], alpha=0.3, label="an output", **dot)]
    if scene.discs is not None:
        border = Line2D([], [], label="boundary between cells", **_BORDER)
        handles += [disc_handle("an interval", DISC_COLOUR), border]
    if scene.cells is not None:
        handles.append(Patch(fill=False, label="a cell", **_CELL))
    return handles


# What is shown, in meters around the point between the two locations.


DOTS = 3_000

_PICTURE_STREAM = 25
# Tails are left out of the view; they are in the counts.
_TAIL = 0.02
_MARGIN = 1.15
_LEAST_HALF_M = 5.0
# Clouds farther apart than this multiple of their size are shown separately.
_FAR = 3.0
# Corners that two cells share are computed twice, and differ by round-off, in units of the square.
_SAME_POINT = 9


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Outputs from one location: where they are, and which of them are the event."""

    side: str
    place: FloatArray
    outputs: FloatArray
    hits: BoolArray


class AuditScene:
    """Outputs of both locations of a witness, and the intervals or cells around them.

    ``discs`` are rows of x, y, half width and half height; ``borders`` are sides of their cells as pairs of points,
    each once; ``cells`` are rows of west, south, east and north edge.
    """

    def __init__(self, witness: Witness, subject: Subject, learned: Learned | None) -> None:
        self.witness, self._subject = witness, subject
        self.has_areas = witness.event.score.kind not in TELL_TALES
        """Whether the event is made of areas that can be shaded; points and low digits are too fine to be seen."""
        mechanism = getattr(subject, "mechanism", None)
        in_square = mechanism is not None and mechanism.frame == "square"
        self._scale = _unit_m(subject.region) if in_square else np.ones(2)
        places = [subject.in_outputs(place) for place in (witness.pair.first, witness.pair.second)]
        self._middle = (places[0] + places[1]) / 2
        self.clouds = tuple(self._cloud(*each) for each in enumerate(zip(_LETTERS, places, strict=True)))
        middle_m = self._middle * self._scale
        self.discs = self.cells = None
        if isinstance(learned, Intervals):
            unit = _unit_m(learned.region)
            self.discs = np.column_stack([learned.centres * unit - middle_m, learned.radii[:, None] * unit])
            sides = np.vstack([np.stack([cell, np.roll(cell, 1, axis=0)], axis=1) for cell in cell_polygons(learned)])
            in_order = np.array([sorted(side) for side in sides.round(_SAME_POINT).tolist()])
            _, once = np.unique(in_order.reshape(-1, 4), axis=0, return_index=True)
            self.borders = sides[once] * unit - middle_m
        elif isinstance(learned, Cells):
            self.cells = learned.boxes() * np.tile(_unit_m(learned.region), 2) - np.tile(middle_m, 2)

    @property
    def views(self) -> tuple[View, View]:
        """A window for each cloud: the same for both, unless they are too far apart to be seen in one."""
        bodies = [np.vstack([np.quantile(one.outputs, [_TAIL, 1 - _TAIL], axis=0), one.place]) for one in self.clouds]
        first, second = map(_view_of, bodies)
        if math.dist(first.centre, second.centre) > _FAR * (first.half_m + second.half_m):
            return first, second
        both = _view_of(np.vstack(bodies))
        return both, both

    def event_on(self, x: FloatArray, y: FloatArray) -> BoolArray:
        """Return whether an output at each point of a grid, in meters, is the event; shape (len(y), len(x))."""
        grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) / self._scale + self._middle
        hits = self.witness.event.hits(grid, self.witness.pair, self._subject)
        return hits.reshape(len(y), len(x))

    def _cloud(self, number: int, of: tuple[str, FloatArray]) -> Cloud:
        (side, place), pair = of, self.witness.pair
        rng = np.random.default_rng(np.random.SeedSequence(self.witness.seed, spawn_key=(_PICTURE_STREAM, number)))
        outputs = self._subject.sample((pair.first, pair.second)[number], DOTS, rng)
        hits = self.witness.event.hits(outputs, pair, self._subject)
        return Cloud(side, (place - self._middle) * self._scale, (outputs - self._middle) * self._scale, hits)


def _unit_m(region: Region) -> FloatArray:
    """Return meters east and north for one unit of a region's square (per-axis scaling: nearly)."""
    unit: FloatArray = np.array(region.half_extent_m) / np.array(region.half_extent_square)
    return unit


def _view_of(points: FloatArray) -> View:
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = ((low + high) / 2).tolist()
    return View((x, y), max(float((high - low).max()) / 2 * _MARGIN, _LEAST_HALF_M))


# A map of what one location publishes, with the event shaded.


_GRID = 360


def _draw_map(chart: MapAxes, scene: AuditScene, cloud: Cloud) -> None:
    """Draw one cloud over the event, the intervals or cells, and both locations."""
    if scene.has_areas:
        _shade_event(chart, scene)
    _draw_learned(chart, scene)
    colour = _COLOURS[cloud.side]
    for hit, size, alpha in ((False, 2.0, 0.3), (True, 2.6, 0.75)):
        dots = chart.xy(cloud.outputs[cloud.hits == hit])
        chart.axes.plot(*dots.T, ".", color=colour, markersize=size, alpha=alpha, rasterized=True, zorder=2)
    for other in scene.clouds:
        ink = _COLOURS[other.side]
        face, edge = (ink, "white") if other is cloud else ("white", ink)
        chart.marks(other.place, "o", color=face, markeredgecolor=edge, markersize=15, markeredgewidth=1.5, zorder=4)
        if chart.view.holds((other.place[0], other.place[1])):
            chart.write((other.place[0], other.place[1]), _LETTERS[other.side], colour=edge, halo=face)
    chart.axes.set_title(f"Outputs for someone at {_LETTERS[cloud.side]}", color=colour)


def _shade_event(chart: MapAxes, scene: AuditScene) -> None:
    (west, south), (east, north) = chart.view.corners
    x_m, y_m = np.linspace(west, east, _GRID), np.linspace(south, north, _GRID)
    event, (x, y) = scene.event_on(x_m, y_m), chart.xy(np.column_stack([x_m, y_m])).T
    if event.any():
        yellow, shade = ListedColormap([EVENT_COLOUR + "73"]), np.where(event, 1.0, np.nan)
        chart.axes.pcolormesh(x, y, shade, cmap=yellow, shading="nearest", rasterized=True, zorder=0.5)
    if event.any() and not event.all():
        chart.axes.contour(x, y, event.astype(float), levels=[0.5], colors=[INK], linewidths=0.9, zorder=2.5)


def _draw_learned(chart: MapAxes, scene: AuditScene) -> None:
    """Draw intervals and their borders, or the cells: thin and over the outputs, whose dots would hide small ones."""
    axes, (west, south), (east, north) = chart.axes, *chart.view.corners
    if scene.discs is not None:
        lines = chart.xy(scene.borders).reshape(-1, 2, 2)
        axes.add_collection(LineCollection(list(lines), **_BORDER))
        widths, heights = 2 * (chart.xy(scene.discs[:, 2:]) - chart.xy((0.0, 0.0))).T
        options: dict[str, Any] = {"units": "xy", "offset_transform": axes.transData, "facecolors": "none"}
        centres, angles = chart.xy(scene.discs[:, :2]), np.zeros(len(widths))
        axes.add_collection(
            EllipseCollection(
                widths, heights, angles, offsets=centres, edgecolors=DISC_COLOUR, linewidths=1.4, **options
            )
        )
    if scene.cells is not None:
        boxes = scene.cells
        seen = (boxes[:, 0] < east) & (boxes[:, 2] > west) & (boxes[:, 1] < north) & (boxes[:, 3] > south)
        corners = chart.xy(boxes[seen][:, [0, 1, 2, 1, 2, 3, 0, 3]]).reshape(-1, 4, 2)
        axes.add_collection(PolyCollection(list(corners), facecolors="none", zorder=2.2, **_CELL))


# How often the event came from either location, against what the claim allows.


_LARGEST_LOSS = 50.0
_AT = {"first": 0, "second": 1}


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of outputs, with the bounds that the audit's confidence gives it."""

    side: str
    hits: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.trials


def rates(witness: Witness) -> tuple[Rate, Rate]:
    """Return the rates of the event: from the location it speaks for, and from the other."""
    counts, direction = witness.counts, witness.event.direction
    error = (1 - shared_confidence(witness.confidence, witness.events_counted)) / 2

    def rate(side: str, hits: int, trials: int) -> Rate:
        low, high = clopper_pearson_low(hits, trials, error), clopper_pearson_high(hits, trials, error)
        return Rate(side, hits, trials, float(low), float(high))

    other = "second" if direction == "first" else "first"
    return rate(direction, counts.hits, counts.trials), rate(other, counts.false_hits, counts.false_trials)


def most_allowed(witness: Witness, unlikely: Rate) -> float:
    """Return how often the likelier location may give the event if the claim is true and the other's bound holds."""
    loss = min(witness.claimed_loss, _LARGEST_LOSS)
    return min(1.0, math.exp(loss) * unlikely.high + witness.claim.delta)


def _draw_frequencies(axes: Axes, witness: Witness) -> None:
    """Draw both rates with their bounds on a logarithmic scale, over the band that the claim allows."""
    likely, unlikely = rates(witness)
    allowed = most_allowed(witness, unlikely)
    floor = min(rate.low if rate.hits else rate.high for rate in (likely, unlikely)) / 4
    axes.set(yscale="log", ylim=(floor, 2.5 * max(likely.high, allowed)), xlim=(-0.5, 2.0))
    x = _AT[likely.side]
    axes.fill_between([x - 0.3, x + 0.7], floor, allowed, color=DISC_COLOUR, alpha=0.28, linewidth=0, zorder=0.5)
    axes.plot([x - 0.3, x + 0.7], [allowed, allowed], "--", color=INK, linewidth=1.2)
    words = f" if the claim is true,\n at most {allowed:.3g}\n from {_LETTERS[likely.side]}"
    axes.text(x - 0.3, floor * 1.1, words, fontsize=8.5, va="bottom", color=INK)
    for rate in (likely, unlikely):
        # Words stay off the line of what is allowed.
        _draw_rate(axes, rate, words_above=rate is likely and rate.share > allowed)
    axes.set_xticks(list(_AT.values()), [f"from {_LETTERS[side]}" for side in _AT])
    shaded = "" if witness.event.score.kind in TELL_TALES else " (yellow)"
    axes.set(ylabel=f"share of outputs that are the event{shaded}", title="How often the event came")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def _draw_rate(axes: Axes, rate: Rate, *, words_above: bool) -> None:
    colour, floor, x = _COLOURS[rate.side], axes.get_ylim()[0], _AT[rate.side]
    low, at = (rate.low, rate.share) if rate.hits else (floor, rate.high)
    axes.plot([x, x], [low, rate.high], "-", color=colour, linewidth=7, alpha=0.5, solid_capstyle="butt")
    axes.plot([x], [at], "o" if rate.hits else "v", color=colour, markersize=7, markeredgecolor="white", zorder=4)
    words = f"{rate.hits:,}\nof {rate.trials:,}" if rate.hits else f"never in\n{rate.trials:,}"
    axes.annotate(
        words, (x, at), (9, -4 if words_above else 4), textcoords="offset points",
        va="bottom" if words_above else "top", fontsize=9, color=colour, fontweight="bold", zorder=5,
    )  # fmt: skip
