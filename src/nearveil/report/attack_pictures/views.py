"""Which part of the map matters after each question: square windows that only get closer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.report.attack_pictures.answers import Bounds
from nearveil.report.attack_pictures.scene import Scene
from nearveil.types import FloatArray

_END_VIEW_TAUS = 2.5
_END_VIEW_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class View:
    """A square window, in metres."""

    centre: Spot
    half_m: float

    @property
    def corners(self) -> FloatArray:
        """South-west and north-east."""
        x, y = self.centre
        return np.array([[x - self.half_m, y - self.half_m], [x + self.half_m, y + self.half_m]])

    def holds(self, place: Spot) -> bool:
        """Whether a place can be seen."""
        return max(abs(place[0] - self.centre[0]), abs(place[1] - self.centre[1])) <= self.half_m


def views_of(scene: Scene, rings: Sequence[Bounds | None]) -> list[View]:
    """Windows that hold all that matters from each question on; the last is for the result."""
    others = [np.array([place]) for place in scene.result.others.values()]
    boxes = [*_boxes_of_questions(scene, rings), _box(np.vstack([end_view(scene).corners, *others]))]
    views = [_square(_box(np.vstack(boxes[number:])), 1.08) for number in range(len(boxes))]
    return views if others else [*views[:-1], end_view(scene)]


def end_view(scene: Scene) -> View:
    """The last stretch: the person, what is published of it, the estimate, and the streets around them."""
    ends = _box(np.array(scene.ends))
    # Where the person and the published place are far apart, neither is drawn in a corner.
    margin_m = max(_END_VIEW_TAUS * scene.tau_m, _END_VIEW_SHARE * float((ends[1] - ends[0]).max()))
    return _square(np.array([ends[0] - margin_m, ends[1] + margin_m]), 1.0)


def close_view(scene: Scene) -> View:
    """All questions and the last stretch."""
    return _square(_box(np.vstack([end_view(scene).corners, *(np.array([step.place]) for step in scene.steps)])), 1.2)


def _boxes_of_questions(scene: Scene, rings: Sequence[Bounds | None]) -> list[FloatArray]:
    """For each question what is still possible, the place asked from, and what the last look is about."""
    boxes: list[FloatArray] = []
    whole = np.array([[-1.0, -1.0], [1.0, 1.0]]) * np.array(scene.region.half_extent_m)
    nearest_m = math.inf
    for step, ring in zip(scene.steps, rings, strict=True):
        nearest_m = min(nearest_m, ring[1]) if ring is not None else nearest_m
        if step.cells is not None:
            box = _box(scene.boxes(step.cells).reshape(-1, 2))
        elif math.isfinite(nearest_m):
            box = np.array([step.place, step.place]) + np.array([[-nearest_m], [nearest_m]])
        else:
            box = whole if not boxes else np.array([step.place, step.place])
        within = np.clip(box, whole[0], whole[1])
        boxes.append(_box(np.vstack([within, np.array([step.place]), np.array(scene.ends)])))
    return boxes


def _box(points: FloatArray) -> FloatArray:
    return np.array([points.min(axis=0), points.max(axis=0)])


def _square(box: FloatArray, margin: float) -> View:
    middle = box.mean(axis=0)
    return View((float(middle[0]), float(middle[1])), margin * float((box[1] - box[0]).max()) / 2)
