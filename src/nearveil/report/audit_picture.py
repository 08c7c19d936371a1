"""The picture of an audit: the outputs of two locations, the boundary between cells, the event and its frequencies."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from nearveil.auditing.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.auditing.events import TELL_TALES
from nearveil.auditing.subjects import Subject
from nearveil.auditing.witness import Witness, shared_confidence
from nearveil.mechanisms.base import Learned
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.region import Region
from nearveil.report.attack_scene import View
from nearveil.report.maps import draw_discs, map_axes
from nearveil.report.style import (
    DISC_COLOR,
    INK,
    PUBLISHED_COLOR,
    TRUE_COLOR,
    add_legend,
    house_style,
    plain_ticks,
    save_png,
)
from nearveil.types import BoolArray, FloatArray

EVENT_COLOR = "#F0E442"
_COLORS = {"first": TRUE_COLOR, "second": PUBLISHED_COLOR}
_LETTERS = {"first": "A", "second": "B"}
_BORDER: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.7}
_CELL: dict[str, Any] = {"edgecolor": "#6B7280", "linewidth": 0.5}
_SENTENCE_LETTERS = 170


def draw_audit(
    witness: Witness, subject: Subject, path: Path, *, title: str, learned: Learned | None = None
) -> None:  # fmt: skip
    """Draw the outputs of both locations of a witness, the boundary, the event and its frequencies; save as PNG.

    The dots are outputs drawn for the picture alone. Intervals or cells that were ``learned`` are shown with borders.
    """
    scene = AuditScene(witness, subject, learned)
    event = witness.event.describe().replace("the first", "A").replace("the second", "B")
    remaps = getattr(getattr(subject, "mechanism", None), "remaps", False)
    stage = " Outputs are shown as drawn, before they are moved into the intervals." if remaps else ""
    sentence = f"A and B are {witness.pair}. The event: outputs {event}.{stage}"
    with house_style():
        figure = Figure(figsize=(15, 6.9), layout="compressed")
        *maps, rates_axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.62))
        for axes, cloud, view in zip(maps, scene.clouds, scene.views, strict=True):
            _draw_map(axes, view, scene, cloud)
        _draw_frequencies(rates_axes, witness)
        _name_marks(maps[0], scene)
        figure.suptitle(textwrap.fill(title, _SENTENCE_LETTERS // 2), fontsize=15)
        add_legend(figure, title=textwrap.fill(sentence, _SENTENCE_LETTERS))
        plain_ticks(figure)
        save_png(figure, path)


def _name_marks(axes: Axes, scene: AuditScene) -> None:
    """Explain what is on the maps in the legend."""
    if scene.has_areas:
        axes.fill([], [], facecolor=EVENT_COLOR + "73", edgecolor=INK, label="the event")
    else:
        axes.plot([], [], ".", color=INK, markersize=9, label="an output that is the event")
    axes.plot([], [], ".", color=INK, alpha=1 if scene.has_areas else 0.3, label="an output")
    if scene.discs is not None:
        axes.plot([], [], "o", color=DISC_COLOR, fillstyle="none", markersize=12, label="an interval")
        axes.plot([], [], color=INK, linewidth=0.7, label="boundary between cells")
    if scene.cells is not None:
        axes.fill([], [], facecolor="none", label="a cell", **_CELL)


# What is shown, in meters around the point between the two locations.


DOTS = 3_000

_PICTURE_STREAM = 25
# Tails are left out of the view; they are in the counts.
_TAIL = 0.02
_MARGIN = 1.15
_LEAST_HALF_M = 5.0
# Clouds farther apart than this multiple of their size are shown separately.
_FAR = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Outputs from one location: where they are, and which of them are the event."""

    side: str
    place: FloatArray
    outputs: FloatArray
    hits: BoolArray


class AuditScene:
    """Outputs of both locations of a witness, and the intervals or cells around them.

    ``discs`` are rows of x, y, half width and half height; ``borders`` are the corners of their cells;
    ``cells`` are rows of west, south, east and north edge.
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
            self.borders = [cell * unit - middle_m for cell in cell_polygons(learned)]
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

    def event_on(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return 1 where an output at a point of a grid, in meters, is the event, else 0; shape (len(y), len(x))."""
        grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) / self._scale + self._middle
        hits = self.witness.event.hits(grid, self.witness.pair, self._subject)
        return hits.reshape(len(y), len(x)).astype(np.float64)

    def _cloud(self, number: int, of: tuple[str, FloatArray]) -> Cloud:
        (side, place), pair = of, self.witness.pair
        rng = np.random.default_rng(np.random.SeedSequence(self.witness.seed, spawn_key=(_PICTURE_STREAM, number)))
        outputs = self._subject.sample((pair.first, pair.second)[number], DOTS, rng)
        hits = self.witness.event.hits(outputs, pair, self._subject)
        return Cloud(side, (place - self._middle) * self._scale, (outputs - self._middle) * self._scale, hits)


def _unit_m(region: Region) -> FloatArray:
    """Return meters east and north for one unit of a region's square (per-axis scaling: nearly)."""
    return np.divide(region.half_extent_m, region.half_extent_square)


def _view_of(points: FloatArray) -> View:
    view = View.around(points, _MARGIN)
    return View(view.centre, max(view.half_m, _LEAST_HALF_M))


# A map of what one location publishes, with the event shaded.


_GRID = 360


def _draw_map(axes: Axes, view: View, scene: AuditScene, cloud: Cloud) -> None:
    """Draw one cloud over the event, the intervals or cells, and both locations."""
    map_axes(axes, view.corners, "the point between A and B")
    if scene.has_areas:
        (west, south), (east, north) = view.corners
        x, y = np.linspace(west, east, _GRID), np.linspace(south, north, _GRID)
        event = scene.event_on(x, y)
        axes.contourf(x, y, event, levels=[0.5, 1.5], colors=[EVENT_COLOR + "73"], zorder=0.5)
        if 0 < event.mean() < 1:
            axes.contour(x, y, event, levels=[0.5], colors=[INK], linewidths=0.9, zorder=2.5)
    _draw_learned(axes, scene)
    color = _COLORS[cloud.side]
    for hit, size, alpha in ((False, 2.0, 0.3), (True, 2.6, 0.75)):
        dots = cloud.outputs[cloud.hits == hit]
        axes.plot(*dots.T, ".", color=color, markersize=size, alpha=alpha, zorder=2)
    for other in sorted(scene.clouds, key=lambda one: one is cloud):
        ink = _COLORS[other.side]
        face, edge = (ink, "white") if other is cloud else ("white", ink)
        box = {"boxstyle": "circle", "facecolor": face, "edgecolor": edge}
        style: dict[str, Any] = {"ha": "center", "va": "center", "clip_on": True, "zorder": 4}
        axes.text(
            other.place[0], other.place[1], _LETTERS[other.side], color=edge, fontweight="bold", bbox=box, **style
        )
    axes.set_title(f"Outputs for a user at {_LETTERS[cloud.side]}", color=color)


def _draw_learned(axes: Axes, scene: AuditScene) -> None:
    """Draw intervals and their borders, or the cells: thin and over the outputs, whose dots would hide small ones."""
    if scene.discs is not None:
        axes.add_collection(PolyCollection(scene.borders, facecolors="none", **_BORDER), autolim=False)
        draw_discs(axes, scene.discs)
    if scene.cells is not None:
        corners = scene.cells[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
        axes.add_collection(PolyCollection(list(corners), facecolors="none", zorder=2.2, **_CELL), autolim=False)


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
    band = [(x := _AT[likely.side]) - 0.3, x + 0.7]
    axes.fill_between(band, floor, allowed, color=DISC_COLOR, alpha=0.28, linewidth=0, zorder=0.5)
    axes.plot(band, [allowed, allowed], "--", color=INK, linewidth=1.2)
    words = f" if the claim is true,\n at most {allowed:.3g}\n from {_LETTERS[likely.side]}"
    axes.text(band[0], floor * 1.1, words, fontsize=8.5, va="bottom")
    for rate in (likely, unlikely):
        color, x = _COLORS[rate.side], _AT[rate.side]
        low, at = (rate.low, rate.share) if rate.hits else (floor, rate.high)
        axes.plot([x, x], [low, rate.high], color=color, linewidth=7, alpha=0.5, solid_capstyle="butt")
        axes.plot([x], [at], "o" if rate.hits else "v", color=color, markersize=7, markeredgecolor="white", zorder=4)
        words = f"{rate.hits:,}\nof {rate.trials:,}" if rate.hits else f"never in\n{rate.trials:,}"
        # Words stay off the line of what is allowed.
        above = rate is likely and rate.share > allowed
        style: dict[str, Any] = {"color": color, "fontsize": 9, "fontweight": "bold", "zorder": 5}
        offset, place = (9, -4 if above else 4), "bottom" if above else "top"
        axes.annotate(words, (x, at), offset, textcoords="offset points", va=place, **style)
    axes.set_xticks(list(_AT.values()), [f"from {_LETTERS[side]}" for side in _AT])
    shaded = "" if witness.event.score.kind in TELL_TALES else " (yellow)"
    axes.set(ylabel=f"share of outputs that are the event{shaded}", title="How often the event came")
    axes.grid(axis="y")
