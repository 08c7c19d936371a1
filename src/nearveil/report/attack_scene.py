"""The scene of one attack on one user: what was asked and found, in which frames and with which text it is shown.

`attack_figure`, `attack_gif` and `attack_page` draw it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from nearveil.attacks.base import AttackResult, Circle, Outcome, TraceStep
from nearveil.attacks.oracle import Point
from nearveil.region import Region
from nearveil.types import FloatArray

_MOST_DOTS = 40_000


@dataclass(frozen=True)
class Scene:
    """One attack, and the truth that the attacker did not know.

    Attributes
    ----------
    people_m : ndarray of shape (n, 2)
        Where the service has its users, in meters from the region's center.
    truth : Point
        Where the target is.
    tau_m : float
        How near counts as found.
    published : Point or None
        Where a protected service publishes the target.
    """

    result: AttackResult
    region: Region
    people_m: FloatArray
    truth: Point
    tau_m: float
    published: Point | None = None

    @property
    def seen(self) -> Point:
        """Where the service has the target."""
        return self.truth if self.published is None else self.published

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The queries in order."""
        return self.result.trace.steps

    @property
    def ends(self) -> list[Point]:
        """The locations that the last look is about."""
        return [spot for spot in (self.truth, self.published, self.result.estimate) if spot is not None]

    @cached_property
    def dots(self) -> FloatArray:
        """The users to draw: everybody, or in a crowd those around the target and a share of the others."""
        if len(self.people_m) <= _MOST_DOTS:
            return self.people_m
        order = np.argsort(np.hypot(*(self.people_m - np.array(self.seen)).T))
        near, far = order[: _MOST_DOTS // 2], order[_MOST_DOTS // 2 :]
        return self.people_m[np.append(near, far[:: math.ceil(len(far) / (_MOST_DOTS // 2))])]

    def boxes(self, cells: FloatArray) -> FloatArray:
        """Return west, south, east and north of cells within the region: what lies beyond it is not possible."""
        half = np.array(self.region.half_extent_m)
        west_south = np.clip(cells[:, :2] - cells[:, 2:], -half, half)
        return np.hstack([west_south, np.clip(cells[:, :2] + cells[:, 2:], -half, half)])

    def cells_after(self, number: int) -> FloatArray | None:
        """Return the possible area after ``number`` queries, if the attack tracks it."""
        return next((step.cells for step in reversed(self.steps[:number]) if step.cells is not None), None)

    def circles_after(self, number: int) -> list[Circle]:
        """Return the circles known after ``number`` queries: all accounts around their center were compared."""
        later = {step.place for step in self.steps[number:] if step.accounts}
        asked = {step.place for step in self.steps[:number]}
        return [circle for circle in self.result.trace.circles if circle.centre in asked - later]


# What the lists said: where the target came among the attacker's accounts, and nothing else.


Bounds = tuple[float, float]
"""More than the first, less than the second distance away, in meters; 0 and infinity where nothing was said."""

_RIGHT_HERE_M = 1e-3


def distances_of(step: TraceStep) -> list[float]:
    """Return how far from the query the attacker's accounts were put, but for one at the query itself."""
    found = (math.dist(step.place, spot) for spot in step.accounts)
    return sorted(distance_m for distance_m in found if distance_m > _RIGHT_HERE_M)


def bounds_of(step: TraceStep) -> Bounds:
    """Return how far the target is, from its rank in one list among the accounts. Contradictions are not mended."""
    low, high = 0.0, math.inf
    for spot, rank in zip(step.accounts, step.account_ranks, strict=True):
        distance_m = math.dist(step.place, spot)
        # A user who is not listed is farther than everybody who is.
        if rank is not None and (step.rank is None or rank < step.rank):
            low = max(low, distance_m)
        elif step.rank is not None and distance_m > _RIGHT_HERE_M:
            high = min(high, distance_m)
    return low, high


def ring_after(steps: Sequence[TraceStep]) -> Bounds | None:
    """Return what is known of the distance from the last location, from all queries there; None if nothing is."""
    here = [bounds_of(step) for step in steps if step.place == steps[-1].place]
    low, high = max(low for low, _ in here), min(high for _, high in here)
    return None if (low, high) == (0.0, math.inf) else (low, high)


# Text about one attack.


def length(metres: float) -> str:
    """Return a length as text that is not broken across lines."""
    if metres >= 1000:
        return f"{metres / 1000:,.{0 if metres >= 10_000 else 1}f}\N{NO-BREAK SPACE}km"
    return f"{metres:.{0 if metres >= 9.95 else 1}f}\N{NO-BREAK SPACE}m"


def verdict(scene: Scene) -> str:
    """Say whether the person was found, and separately whether the published location was."""
    estimate = scene.result.estimate
    if estimate is None:
        return f"no estimate, {scene.result.outcome}"
    aims = [("person", scene.truth)]
    if scene.published is not None:
        aims.insert(0, ("published place", scene.published))
    errors_m = [(what, math.dist(estimate, spot)) for what, spot in aims]
    return ", ".join(
        f"{what} found" if error_m <= scene.tau_m else f"{what} missed by {length(error_m)}"
        for what, error_m in errors_m
    )


def legend_name(scene: Scene, name: str) -> str:
    """Return the name of a mark in a legend; an attacker of a protected service sees published locations only."""
    as_published = {"people": "people, as published", "others located": "others' published places located"}
    if name == "an account":
        return "an account (the attacker's account)"
    if name == "a question, numbered":
        return "a question; darker: later"
    return name if scene.published is None else as_published.get(name, name)


def heading(scene: Scene, title: str) -> str:
    """Return a title with the result of the attack."""
    return f"{title}: {verdict(scene)}"


def summary(scene: Scene) -> str:
    """Return a summary of the attack in one line, for below the heading."""
    queries = scene.result.queries
    parts = [f"{queries:,} question{'s' if queries != 1 else ''}"]
    if scene.result.estimate is not None:
        parts += [_error_text(scene, scene.result.estimate), _certificate(scene)]
    return " · ".join(parts)


def question_text(scene: Scene, number: int, ring: Bounds | None, area_km2: float | None) -> str:
    """Describe one query and its answer."""
    step = scene.steps[number - 1]
    aim = "the target" if scene.published is None else "the published place"
    asked = f"Question {number} of {len(scene.steps)}: asked {length(math.dist(step.place, scene.seen))} from {aim}"
    if distances := [length(distance_m) for distance_m in distances_of(step)]:
        *others, last = distances
        at = f"{', '.join(others)} and {last}" if others else last
        asked += f", with {'accounts' if others else 'the account'} at {at}"
    sentences = [asked, _answer_sentence(step)]
    if area_km2 is not None:
        sentences.append(f"Possible area: {_area(area_km2)}")
    elif ring is not None:
        sentences.append(_distance_text("After all answers from here it is ", ring))
    return ". ".join(sentences) + "."


def result_text(scene: Scene) -> str:
    """Describe the result of the attack."""
    result = scene.result
    sentences = [f"Result: {verdict(scene)}"]
    if result.others:
        whose = "others" if scene.published is None else "others' published places"
        sentences[0] += f", and estimates of {len(result.others):,} {whose} as well"
    if result.estimate is not None:
        sentences += [f"The {_error_text(scene, result.estimate)}", _certificate(scene).capitalize()]
    return ". ".join(sentences) + "."


def _error_text(scene: Scene, estimate: Point) -> str:
    text = f"estimate is {length(math.dist(estimate, scene.truth))} from the person"
    if scene.published is not None:
        text += f" and {length(math.dist(estimate, scene.published))} from the published place"
    return text


def _certificate(scene: Scene) -> str:
    """Say what is certified: the location that the service uses. For a protected user that is the published one."""
    result, what = scene.result, "place" if scene.published is None else "published place"
    if result.outcome is not Outcome.FOUND:
        return f"the attack ended early, {result.outcome}"
    if not result.certified:
        return "not certified"
    if result.estimate is None or math.dist(result.estimate, scene.seen) > scene.tau_m:
        return f"certified wrongly: the {what} is farther off than {length(scene.tau_m)}"
    return f"certified: the answers leave no {what} farther off than {length(scene.tau_m)}"


def _answer_sentence(step: TraceStep) -> str:
    """Say where the target was listed, and what that tells of its distance, or what else the service answered."""
    if step.answer is not None:
        return f"The answer is “{step.answer}”"
    text = f"The target is {'not listed' if step.rank is None else f'listed {_ordinal(step.rank)}'}"
    return text + _distance_text(", so it is ", bounds_of(step))


def _distance_text(before: str, bounds: Bounds) -> str:
    """Return how far away something is, after other words; nothing if nothing is known."""
    low, high = map(length, bounds)
    if bounds == (0.0, math.inf):
        return ""
    if bounds[0] > bounds[1]:
        return f"{before}more than {low} and yet less than {high} away: the answers contradict each other"
    if math.isinf(bounds[1]):
        return f"{before}more than {low} away"
    if bounds[0] == 0:
        return f"{before}less than {high} away"
    return f"{before}{low if low == high else f'{low} to {high}'} away"


def _area(square_km: float) -> str:
    if square_km < 0.01:
        return f"{1e6 * square_km:,.0f}\N{NO-BREAK SPACE}m²"
    return (f"{square_km:,.0f}" if square_km >= 10 else f"{square_km:.2g}") + "\N{NO-BREAK SPACE}km²"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# Which part of the map matters after each query: square windows that only get closer.


_END_VIEW_TAUS = 2.5
_END_VIEW_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class View:
    """A square window, in meters."""

    centre: Point
    half_m: float

    @property
    def corners(self) -> FloatArray:
        """South-west and north-east."""
        x, y = self.centre
        return np.array([[x - self.half_m, y - self.half_m], [x + self.half_m, y + self.half_m]])

    def holds(self, place: Point) -> bool:
        """Return whether a location can be seen."""
        return max(abs(place[0] - self.centre[0]), abs(place[1] - self.centre[1])) <= self.half_m


def views_of(scene: Scene, rings: Sequence[Bounds | None]) -> list[View]:
    """Return windows that hold all that matters from each query on; the last is for the result."""
    end = end_view(scene)
    boxes = [*_boxes_of_questions(scene, rings), _box(end.corners)]
    return [*(_square(_box(np.vstack(boxes[number:])), 1.08) for number in range(len(boxes) - 1)), end]


def end_view(scene: Scene) -> View:
    """Return the last stretch: the user, what is published of it, the estimate, and the streets around them."""
    ends = _box(np.array(scene.ends))
    # Where the user and the published location are far apart, neither is drawn in a corner.
    margin_m = max(_END_VIEW_TAUS * scene.tau_m, _END_VIEW_SHARE * float((ends[1] - ends[0]).max()))
    return _square(np.array([ends[0] - margin_m, ends[1] + margin_m]), 1.0)


def close_view(scene: Scene) -> View:
    """Return a window with all queries and the last stretch."""
    return _square(_box(np.vstack([end_view(scene).corners, *(np.array([step.place]) for step in scene.steps)])), 1.2)


def _boxes_of_questions(scene: Scene, rings: Sequence[Bounds | None]) -> list[FloatArray]:
    """Return for each query what is still possible, its location, and what the last look is about."""
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
    x, y = box.mean(axis=0).tolist()
    return View((x, y), margin * float((box[1] - box[0]).max()) / 2)


# One attack frame by frame.


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is shown after ``number`` queries, the last of which is ``step``; None in the last frame, with the result.

    ``area_km2`` is the size of the area where the target can still be, if the attack tracks it; else ``ring_m`` has the
    least and the greatest distance from the last query, if the attack has accounts.
    """

    number: int
    step: TraceStep | None
    view: View
    area_km2: float | None = None
    ring_m: Bounds | None = None
    text: str


def frames_of(scene: Scene) -> list[Frame]:
    """Return a frame for each query and one for the result. Views only get closer."""
    steps = scene.steps
    rings = [None if step.cells is not None else ring_after(steps[: i + 1]) for i, step in enumerate(steps)]
    views = views_of(scene, rings)
    frames = []
    for number, (step, ring, view) in enumerate(zip(steps, rings, views, strict=False), start=1):
        area = None if step.cells is None else _area_km2(scene.boxes(step.cells))
        text = question_text(scene, number, ring, area)
        frames.append(Frame(number=number, step=step, view=view, area_km2=area, ring_m=ring, text=text))
    return [*frames, Frame(number=len(steps), step=None, view=views[-1], text=result_text(scene))]


def _area_km2(boxes: FloatArray) -> float:
    """Return the area that boxes cover, each location once: rules that an attack keeps in mind have their own boxes."""
    boxes = np.unique(boxes, axis=0)
    boxes = boxes[np.argsort(boxes[:, 1])]
    covered_m2 = 0.0
    for west, east in pairwise(np.unique(boxes[:, [0, 2]])):
        south, north = boxes[(boxes[:, 0] <= west) & (boxes[:, 2] >= east)][:, [1, 3]].T
        if len(south):
            from_there = np.maximum(south, np.append(-math.inf, np.maximum.accumulate(north)[:-1]))
            covered_m2 += float((east - west) * np.maximum(np.maximum.accumulate(north) - from_there, 0).sum())
    return covered_m2 / 1e6
