"""What the picture of an audit shows, in metres around the point between the two places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearveil.audit.events import TELL_TALES
from nearveil.audit.subject import Subject
from nearveil.audit.witness import Witness
from nearveil.mechanisms.intervals import Intervals, cell_polygons
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray

DOTS = 3_000

_PICTURE_STREAM = 25
_SIDES = ("first", "second")
# Tails are left out of the view; they are in the counts.
_TAIL = 0.02
_MARGIN = 1.15
_LEAST_HALF_M = 5.0
# Clouds farther apart than so many times their own size are shown each by itself.
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
class View:
    """A square window: its middle and half its side, in metres."""

    middle: tuple[float, float]
    half: float

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """West and east, south and north."""
        (x, y), half = self.middle, self.half
        return (x - half, x + half), (y - half, y + half)


class Scene:
    """Draws some outputs from either place of a witness, and knows where everything lies."""

    def __init__(self, witness: Witness, subject: Subject, intervals: Intervals | None) -> None:
        self.witness, self._subject = witness, subject
        self._scale = metres_per_output_unit(subject)
        places = [subject.in_outputs(place) for place in (witness.pair.first, witness.pair.second)]
        self._middle = (places[0] + places[1]) / 2
        self.clouds = tuple(self._cloud(side, place) for side, place in enumerate(places))
        self.discs = None if intervals is None else self._discs(intervals)
        self.borders = np.empty((0, 2, 2)) if intervals is None else self._borders(intervals)

    @property
    def views(self) -> tuple[View, View]:
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
    if mechanism is None or mechanism.frame == "metres":
        return np.ones(2)
    return _metres_per_square_unit(subject.region)


def _metres_per_square_unit(region: Region) -> FloatArray:
    unit: FloatArray = np.array(region.half_extent_m) / np.array(region.half_extent_square)
    return unit


def _body(outputs: FloatArray) -> FloatArray:
    """The corners of the box that holds the outputs but for their tails."""
    return np.quantile(outputs, [_TAIL, 1 - _TAIL], axis=0)


def _view_of(points: FloatArray) -> View:
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = (low + high) / 2
    return View((float(x), float(y)), max(float((high - low).max()) / 2 * _MARGIN, _LEAST_HALF_M))
