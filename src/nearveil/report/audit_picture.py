"""The picture of an audit: the outputs of two locations, the boundary between cells, the event and its frequencies."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearveil.audit.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.audit.events import TELL_TALES
from nearveil.audit.subjects import Subject
from nearveil.audit.witness import Witness, shared_confidence
from nearveil.mechanisms.base import Learned
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.region import Region
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure


_LINE = 190
# Left, bottom, width and height; words above.
_PANELS = (0.0, 0.0, 1.0, 0.87)


def draw_audit(
    witness: Witness,
    subject: Subject,
    path: Path,
    *,
    title: str,
    learned: Learned | None = None,
) -> None:
    """Draw the outputs of both locations of a witness, the boundary, the event and its frequencies; save as PNG.

    Parameters
    ----------
    witness : Witness
        Names the places and the event, and has the counts. The dots are outputs drawn for the picture alone.
    subject : Subject
        What was audited.
    path : Path
        File to write.
    title : str
        The verdict.
    learned : Intervals or Cells, optional
        To show discs and the borders between their cells, or cells, so that steps can be counted.
    """
    # Heavy, and only needed where a picture is drawn.
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    scene = AuditScene(witness, subject, learned)
    with house_style():
        figure, axes = plt.subplots(
            1, 3, figsize=(15, 6.6), layout=ConstrainedLayoutEngine(rect=_PANELS), width_ratios=(1, 1, 0.62)
        )
        for panel, cloud, view in zip(axes[:2], scene.clouds, scene.views, strict=True):
            draw_map(panel, scene, cloud, view)
        draw_frequencies(axes[2], witness)
        figure.text(0.012, 0.975, title, fontsize=15, fontweight="bold", va="top")
        figure.text(0.012, 0.925, textwrap.fill(_sentence(witness, subject), _LINE), fontsize=10, va="top")
        _add_legend(figure, scene)
        figure.savefig(path, format="png")
        plt.close(figure)


def _sentence(witness: Witness, subject: Subject) -> str:
    pair, event = str(witness.pair), witness.event.describe().replace("the first", "A").replace("the second", "B")
    remaps = getattr(getattr(subject, "mechanism", None), "remaps", False)
    stage = " Outputs are shown as drawn, before they are moved into the intervals." if remaps else ""
    return f"A and B are {pair}. The event: outputs {event}.{stage}"


def _add_legend(figure: Figure, scene: AuditScene) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    handles: list[Line2D | Patch] = [
        Patch(facecolor=EVENT_COLOUR + "73", edgecolor=INK, label="the event")
        if scene.has_areas
        else Line2D([], [], marker=".", linestyle="", color=INK, markersize=9, label="an output that is the event"),
        Line2D([], [], marker=".", linestyle="", color=INK, label="an output", alpha=1 if scene.has_areas else 0.3),
    ]
    if scene.discs is not None:
        handles += [
            disc_handle("an interval", DISC_COLOUR),
            Line2D([], [], color=INK, linewidth=0.8, linestyle=BORDER_DASHES, label="boundary between cells"),
        ]
    if scene.cells is not None:
        handles.append(Patch(fill=False, edgecolor=CELL_COLOUR, linewidth=CELL_LINE, label="a cell"))
    figure.legend(
        handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9,
        handler_map=disc_handlers(),
    )  # fmt: skip


# What the picture of an audit shows, in metres around the point between the two places.


DOTS = 3_000

_PICTURE_STREAM = 25
_SIDES = ("first", "second")
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
    """Outputs from one place: where they are, and which of them are the event."""

    name: str
    place: FloatArray
    outputs: FloatArray
    hits: BoolArray


@dataclass(frozen=True, slots=True)
class AuditView:
    """A square window: its middle and half its side, in metres."""

    middle: tuple[float, float]
    half: float

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """West and east, south and north."""
        (x, y), half = self.middle, self.half
        return (x - half, x + half), (y - half, y + half)


class AuditScene:
    """Samples outputs of both locations of a witness, and computes the layout of the picture."""

    def __init__(self, witness: Witness, subject: Subject, learned: Learned | None) -> None:
        self.witness, self._subject = witness, subject
        self._scale = metres_per_output_unit(subject)
        places = [subject.in_outputs(place) for place in (witness.pair.first, witness.pair.second)]
        self._middle = (places[0] + places[1]) / 2
        self.clouds = tuple(self._cloud(side, place) for side, place in enumerate(places))
        intervals = learned if isinstance(learned, Intervals) else None
        self.discs = None if intervals is None else self._discs(intervals)
        self.borders = np.empty((0, 2, 2)) if intervals is None else self._borders(intervals)
        self.cells = self._boxes(learned) if isinstance(learned, Cells) else None

    @property
    def views(self) -> tuple[AuditView, AuditView]:
        """A window for each cloud: the same for both, unless they are too far apart to be seen in one."""
        own = [_view_of(np.vstack([_body(cloud.outputs), cloud.place])) for cloud in self.clouds]
        gap = float(np.hypot(*(np.array(own[0].middle) - np.array(own[1].middle))))
        if gap > _FAR * (own[0].half + own[1].half):
            return own[0], own[1]
        both = _view_of(np.vstack([part for cloud in self.clouds for part in (_body(cloud.outputs), cloud.place)]))
        return both, both

    @property
    def has_areas(self) -> bool:
        """Whether the event is made of areas that can be shaded; points and low digits are too fine to be seen."""
        return self.witness.event.score.kind not in TELL_TALES

    def event_on(self, x: FloatArray, y: FloatArray) -> BoolArray:
        """Whether an output at each point of a grid, in metres, would be the event; shape (len(y), len(x))."""
        grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) / self._scale + self._middle
        hits = self.witness.event.hits(grid, self.witness.pair, self._subject)
        return hits.reshape(len(y), len(x))

    def _metres(self, outputs: FloatArray) -> FloatArray:
        metres: FloatArray = (outputs - self._middle) * self._scale
        return metres

    def _cloud(self, side: int, place: FloatArray) -> Cloud:
        pair = self.witness.pair
        rng = np.random.default_rng(np.random.SeedSequence(self.witness.seed, spawn_key=(_PICTURE_STREAM, side)))
        outputs = self._subject.sample(pair.first if side == 0 else pair.second, DOTS, rng)
        hits = self.witness.event.hits(outputs, pair, self._subject)
        return Cloud(_SIDES[side], self._metres(place[None])[0], self._metres(outputs), hits)

    def _discs(self, intervals: Intervals) -> FloatArray:
        """Rows of x, y, half width and half height."""
        unit = _metres_per_square_unit(intervals.region)
        centres = intervals.centres * unit - self._middle * self._scale
        return np.column_stack([centres, intervals.radii[:, None] * unit])

    def _boxes(self, cells: Cells) -> FloatArray:
        """Rows of west, south, east and north edge."""
        boxes: FloatArray = cells.boxes() * np.tile(_metres_per_square_unit(cells.region), 2)
        return boxes - np.tile(self._middle * self._scale, 2)

    def _borders(self, intervals: Intervals) -> FloatArray:
        """Sides of cells as pairs of points; each once, though two cells share it."""
        sides = np.vstack([np.stack([cell, np.roll(cell, 1, axis=0)], axis=1) for cell in cell_polygons(intervals)])
        in_order = np.array([sorted(side) for side in sides.round(_SAME_POINT).tolist()])
        _, once = np.unique(in_order.reshape(-1, 4), axis=0, return_index=True)
        borders: FloatArray = sides[once] * _metres_per_square_unit(intervals.region) - self._middle * self._scale
        return borders


def metres_per_output_unit(subject: Subject) -> FloatArray:
    """Return metres east and north for one unit of a subject's outputs (per-axis scaling: nearly)."""
    mechanism = getattr(subject, "mechanism", None)
    if mechanism is None or mechanism.frame != "square":
        return np.ones(2)
    return _metres_per_square_unit(subject.region)


def _metres_per_square_unit(region: Region) -> FloatArray:
    unit: FloatArray = np.array(region.half_extent_m) / np.array(region.half_extent_square)
    return unit


def _body(outputs: FloatArray) -> FloatArray:
    """The corners of the box that holds the outputs but for their tails."""
    return np.quantile(outputs, [_TAIL, 1 - _TAIL], axis=0)


def _view_of(points: FloatArray) -> AuditView:
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = (low + high) / 2
    return AuditView((float(x), float(y)), max(float((high - low).max()) / 2 * _MARGIN, _LEAST_HALF_M))


# A map of what one place publishes, with the event shaded.


COLOURS = {"first": TRUE_COLOUR, "second": PUBLISHED_COLOUR}
EVENT_COLOUR = "#F0E442"
BORDER_DASHES = (0, (5, 3))
CELL_COLOUR = "#6B7280"
CELL_LINE = 0.5

_GRID = 360
_LETTERS = {"first": "A", "second": "B"}


def letter(side: str) -> str:
    """Return the letter that a place has in the picture."""
    return _LETTERS[side]


def draw_map(axes: Axes, scene: AuditScene, cloud: Cloud, view: AuditView) -> None:
    """Draw one cloud over the event, the intervals or cells, and both places."""
    unit, name = (1.0, "m") if view.half < 5_000 else (1000.0, "km")
    if scene.has_areas:
        _shade_event(axes, scene, view, unit)
    _draw_intervals(axes, scene, view, unit)
    _draw_cells(axes, scene, view, unit)
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


def _shade_event(axes: Axes, scene: AuditScene, view: AuditView, unit: float) -> None:
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


def _draw_intervals(axes: Axes, scene: AuditScene, view: AuditView, unit: float) -> None:
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


def _draw_cells(axes: Axes, scene: AuditScene, view: AuditView, unit: float) -> None:
    """Draw the outlines of the cells in the window, thin and over the outputs, whose dots would hide small ones."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415

    if scene.cells is None:
        return
    (west, east), (south, north) = view.limits
    boxes = scene.cells
    seen = (boxes[:, 0] < east) & (boxes[:, 2] > west) & (boxes[:, 1] < north) & (boxes[:, 3] > south)
    corners = boxes[seen][:, [[0, 1], [2, 1], [2, 3], [0, 3]]] / unit
    axes.add_collection(
        PolyCollection(list(corners), facecolors="none", edgecolors=CELL_COLOUR, linewidths=CELL_LINE, zorder=2.2)
    )


def _draw_outputs(axes: Axes, cloud: Cloud, unit: float) -> None:
    colour = COLOURS[cloud.name]
    for hit, size, alpha in ((False, 2.0, 0.3), (True, 2.6, 0.75)):
        dots = cloud.outputs[cloud.hits == hit] / unit
        axes.plot(*dots.T, ".", color=colour, markersize=size, alpha=alpha, rasterized=True, zorder=2)


def _mark_place(axes: Axes, cloud: Cloud, view: AuditView, unit: float, *, here: bool) -> None:
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


# How often the event came from either place, against what the claim allows.


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
    """Return the rates of the event: from the place it speaks for, and from the other."""
    counts, direction = witness.counts, witness.event.direction
    error = (1 - shared_confidence(witness.confidence, witness.events_counted)) / 2
    sides = (direction, "second" if direction == "first" else "first")
    counted = ((counts.hits, counts.trials), (counts.false_hits, counts.false_trials))
    likely, unlikely = (
        Rate(
            side,
            hits,
            trials,
            float(clopper_pearson_low(hits, trials, error)),
            float(clopper_pearson_high(hits, trials, error)),
        )
        for side, (hits, trials) in zip(sides, counted, strict=True)
    )
    return likely, unlikely


def most_allowed(witness: Witness, unlikely: Rate) -> float:
    """Return how often the likelier place may give the event if the claim is true and the other's bound holds."""
    loss = min(witness.claimed_loss, _LARGEST_LOSS)
    return min(1.0, math.exp(loss) * unlikely.high + witness.claim.delta)


def draw_frequencies(axes: Axes, witness: Witness) -> None:
    """Draw both rates with their bounds on a logarithmic scale, over the band that the claim allows."""
    likely, unlikely = rates(witness)
    allowed = most_allowed(witness, unlikely)
    floor = min(rate.low if rate.hits else rate.high for rate in (likely, unlikely)) / 4
    axes.set_yscale("log")
    axes.set_ylim(floor, 2.5 * max(likely.high, allowed))
    axes.set_xlim(-0.5, 2.0)
    x = _AT[likely.side]
    axes.fill_between([x - 0.3, x + 0.7], floor, allowed, color=DISC_COLOUR, alpha=0.28, linewidth=0, zorder=0.5)
    axes.plot([x - 0.3, x + 0.7], [allowed, allowed], "--", color=INK, linewidth=1.2)
    words = f" if the claim is true,\n at most {allowed:.3g}\n from {letter(likely.side)}"
    axes.text(x - 0.3, floor * 1.1, words, fontsize=8.5, va="bottom", color=INK)
    for rate in (likely, unlikely):
        # Words stay off the line of what is allowed.
        _draw_rate(axes, rate, words_above=rate is likely and rate.share > allowed)
    axes.set_xticks(list(_AT.values()), [f"from {letter(side)}" for side in _AT])
    shaded = "" if witness.event.score.kind in TELL_TALES else " (yellow)"
    axes.set_ylabel(f"share of outputs that are the event{shaded}")
    axes.set_title("How often the event came")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def _draw_rate(axes: Axes, rate: Rate, *, words_above: bool) -> None:
    colour, floor, x = COLOURS[rate.side], axes.get_ylim()[0], _AT[rate.side]
    low, at = (rate.low, rate.share) if rate.hits else (floor, rate.high)
    axes.plot([x, x], [low, rate.high], "-", color=colour, linewidth=7, alpha=0.5, solid_capstyle="butt")
    axes.plot([x], [at], "o" if rate.hits else "v", color=colour, markersize=7, markeredgecolor="white", zorder=4)
    words = f"{rate.hits:,}\nof {rate.trials:,}" if rate.hits else f"never in\n{rate.trials:,}"
    axes.annotate(
        words, (x, at), (9, -4 if words_above else 4), textcoords="offset points",
        va="bottom" if words_above else "top", fontsize=9, color=colour, fontweight="bold", zorder=5,
    )  # fmt: skip
