"""The story of one attack, frame by frame: what each question showed, where to look, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from nearveil.attacks.result import TraceStep
from nearveil.report.attack_pictures.answers import Bounds, ring_after
from nearveil.report.attack_pictures.scene import Scene
from nearveil.report.attack_pictures.views import View, views_of
from nearveil.report.attack_pictures.words import question_words, result_words
from nearveil.types import FloatArray

# Fewer questions than this from one place are never put together: the first halvings are what one wants to see.
_LEAST_PER_PLACE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is shown after some questions; the last frame of a story has no question and shows the result.

    Attributes
    ----------
    number : int
        Questions asked so far.
    step : TraceStep or None
        The last of them.
    view : View
        The part of the map that matters from here on.
    area_km2 : float or None
        Where the target can still be, if the attack keeps count.
    ring_m : (float, float) or None
        Least and greatest distance from the place asked, if the attack does not keep count but has accounts.
    words : str
        The same in words.
    """

    number: int
    step: TraceStep | None
    view: View
    area_km2: float | None = None
    ring_m: Bounds | None = None
    words: str


def frames_of(scene: Scene, few: int | None = None) -> list[Frame]:
    """The story of an attack: a frame for each question and one for the result. Views only get closer.

    Parameters
    ----------
    few : int, optional
        Where there are more questions than this, later ones from the same place share a frame, to come close to it.
    """
    steps = scene.steps
    rings = [None if step.cells is not None else ring_after(steps[: i + 1]) for i, step in enumerate(steps)]
    views = views_of(scene, rings)
    frames = []
    for numbers in _shared(steps, few):
        step, ring = steps[numbers[-1] - 1], rings[numbers[-1] - 1]
        area = None if step.cells is None else _area_km2(scene.boxes(step.cells))
        words = question_words(scene, numbers, ring, area)
        view = views[numbers[-1] - 1]
        frames.append(Frame(number=numbers[-1], step=step, view=view, area_km2=area, ring_m=ring, words=words))
    return [*frames, Frame(number=len(steps), step=None, view=views[-1], words=result_words(scene))]


def _area_km2(boxes: FloatArray) -> float:
    return float(((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sum()) / 1e6


def _shared(steps: Sequence[TraceStep], few: int | None) -> list[range]:
    """Numbers of the questions of each frame: at every place the first ones alone, the rest together."""
    numbers = range(1, len(steps) + 1)
    if few is None or len(steps) <= few:
        return [range(number, number + 1) for number in numbers]
    runs = [list(run) for _, run in groupby(numbers, lambda number: steps[number - 1].place)]
    lengths = np.array([len(run) for run in runs])
    most = _LEAST_PER_PLACE
    while np.minimum(lengths, most + 1).sum() <= few:
        most += 1
    frames: list[range] = []
    for run in runs:
        frames += [range(number, number + 1) for number in run[: most - 1]]
        frames += [range(run[most - 1], run[-1] + 1)] if len(run) >= most else []
    return frames
