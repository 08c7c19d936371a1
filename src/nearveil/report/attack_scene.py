"""One attack on one user in words and data: what each query asked and its answer tells, and what part of a map to show.

`attack_figure` and `attack_player` draw it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import shapely

from nearveil.attacks.base import AttackResult, Circle, Outcome, TraceStep
from nearveil.attacks.oracle import Point
from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from nearveil.evaluation.attack import AttackOutcome

Bounds = tuple[float, float]
"""More than the first, less than the second distance away, in meters; 0 and infinity where nothing is known."""

_RIGHT_HERE_M = 1e-3
# Edges of neighboring cells differ by round-off.
_GRID_M = 0.01
_END_VIEW_TAUS = 2.5
_END_VIEW_SHARE = 0.15
_FAR = 3.0


@dataclass(frozen=True)
class Scene:
    """One attack, and the truth that the attacker did not know, in meters from the region's center.

    ``people_m`` is where the service has its users, ``truth`` where the target is, ``published`` where a protected
    service publishes the target; found means within ``tau_m``.
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
        """The locations that the last frame is about."""
        return [point for point in (self.truth, self.published, self.result.estimate) if point is not None]

    def from_user(self, points_m: object) -> FloatArray:
        """Return points as meters east and north of the user, in rows of x and y."""
        moved: FloatArray = np.asarray(points_m, dtype=np.float64).reshape(-1, 2) - np.array(self.truth)
        return moved

    def users(self, most: int) -> FloatArray:
        """Return the users to draw: all, or of more than ``most`` some around the target and a share of the others."""
        order = np.argsort(np.hypot(*self.from_user(self.people_m).T))
        near, far = order[: most // 8], order[most // 8 :]
        return self.people_m[np.append(near, far[:: max(1, math.ceil(8 * len(far) / (7 * most)))])]

    def boxes(self, cells: FloatArray) -> FloatArray:
        """Return west, south, east and north of cells within the region: what lies beyond it is not possible."""
        half = np.array(self.region.half_extent_m)
        west_south = np.clip(cells[:, :2] - cells[:, 2:], -half, half)
        return np.hstack([west_south, np.clip(cells[:, :2] + cells[:, 2:], -half, half)])

    @cached_property
    def areas(self) -> list[shapely.Geometry | None]:
        """Where the target can still be after each query, in meters from the user; None if the attack does not say."""
        return [None if step.cells is None else self._area_of(step.cells) for step in self.steps]

    def _area_of(self, cells: FloatArray) -> shapely.Geometry:
        corners = self.from_user(self.boxes(cells)).reshape(-1, 4)
        return shapely.union_all(shapely.box(*corners.T), grid_size=_GRID_M)

    def circles_after(self, number: int) -> list[Circle]:
        """Return the circles known after ``number`` queries: all accounts around their center were compared."""
        later = {step.place for step in self.steps[number:] if step.accounts}
        asked = {step.place for step in self.steps[:number]}
        return [circle for circle in self.result.trace.circles if circle.centre in asked - later]


def scene_of(outcome: AttackOutcome) -> Scene:
    """Return what to draw of an attack on a user whose location is known."""
    if outcome.truth is None:
        raise UsageError("the picture shows how far off the attack is; give attack() the truth to draw it")
    users_m = np.empty((0, 2)) if outcome.people_m is None else outcome.people_m
    return Scene(outcome.result, outcome.region, users_m, outcome.truth, outcome.tau_m, outcome.published)


# What one list tells: where the target came among the attacker's accounts.


def bounds_of(step: TraceStep) -> Bounds:
    """Return how far the target is, from its rank in one list among the accounts. Contradictions stay."""
    low, high = 0.0, math.inf
    for account, rank in zip(step.accounts, step.account_ranks, strict=True):
        distance_m = math.dist(step.place, account)
        # A user who is not listed is farther than everybody who is.
        if rank is not None and (step.rank is None or rank < step.rank):
            low = max(low, distance_m)
        elif step.rank is not None and distance_m > _RIGHT_HERE_M:
            high = min(high, distance_m)
    return low, high


def _ring_after(steps: Sequence[TraceStep]) -> Bounds | None:
    """Return the distance from the last location by all queries there; None if nothing is known."""
    here = [bounds_of(step) for step in steps if step.place == steps[-1].place]
    ring = max(low for low, _ in here), min(high for _, high in here)
    return None if ring == (0.0, math.inf) else ring


# Text about one attack.


def length(meters: float) -> str:
    """Return a length as text that is not broken across lines."""
    if meters >= 1000:
        return f"{meters / 1000:,.{0 if meters >= 10_000 else 1}f}\N{NO-BREAK SPACE}km"
    return f"{meters:.{0 if meters >= 9.95 else 1}f}\N{NO-BREAK SPACE}m"


def verdict(scene: Scene) -> str:
    """Say whether the user was found, and separately whether the published location was."""
    estimate = scene.result.estimate
    if estimate is None:
        return f"no estimate, {scene.result.outcome}"
    aims = [("published location", scene.published), ("user", scene.truth)]
    errors_m = [(what, math.dist(estimate, point)) for what, point in aims if point is not None]
    return ", ".join(
        f"{what} found" if error_m <= scene.tau_m else f"{what} missed by {length(error_m)}"
        for what, error_m in errors_m
    )


def heading(scene: Scene) -> str:
    """Return the result of the attack as a title: what was found, the error and the queries."""
    queries, estimate = scene.result.queries, scene.result.estimate
    text = f"{verdict(scene).capitalize()} after {queries:,} quer{'y' if queries == 1 else 'ies'}"
    if estimate is None or math.dist(estimate, scene.truth) > scene.tau_m:
        return text
    return f"{text}, {length(math.dist(estimate, scene.truth))} off"


def certificate(scene: Scene) -> str:
    """Say what the answers prove of the location that the service uses: of a protected user, the published one."""
    result, what = scene.result, "location" if scene.published is None else "published location"
    if result.outcome is not Outcome.FOUND:
        return f"the attack ended early, {result.outcome}"
    if not result.certified or result.estimate is None:
        return "the result is not certified"
    if math.dist(result.estimate, scene.seen) > scene.tau_m:
        return f"certified wrongly: the {what} is farther off than {length(scene.tau_m)}"
    return f"the answers leave no {what} farther off than {length(scene.tau_m)}"


def _query_text(scene: Scene, number: int, ring: Bounds | None) -> str:
    """Describe one query and its answer."""
    step, area = scene.steps[number - 1], scene.areas[number - 1]
    aim = "the user" if scene.published is None else "the published location"
    text = f"Query {number} of {len(scene.steps)}, {length(math.dist(step.place, scene.seen))} from {aim}"
    distances_m = sorted(math.dist(step.place, account) for account in step.accounts)
    if away := ", ".join(length(distance_m) for distance_m in distances_m if distance_m > _RIGHT_HERE_M):
        text += f" (accounts {away} away)"
    if step.answer is not None:
        text += f". The answer is “{step.answer}”"
    else:
        listed = "not listed" if step.rank is None else f"number {step.rank} in the list"
        text += f". The user is {listed}" + _distance_text(f", so {aim} is ", bounds_of(step))
    if area is not None:
        text += f". Still possible: {_area(area.area)}"
    elif ring is not None:
        text += _distance_text(f". By all answers from here {aim} is ", ring)
    return f"{text}."


def _result_text(scene: Scene) -> str:
    """Describe the result of the attack."""
    estimate = scene.result.estimate
    text = f"Result: {verdict(scene)}"
    if scene.result.others:
        text += f", and estimates of {len(scene.result.others):,} other users as well"
    if estimate is None:
        return f"{text}."
    text += f". The estimate is {length(math.dist(estimate, scene.truth))} from the user"
    if scene.published is not None:
        text += f" and {length(math.dist(estimate, scene.published))} from the published location"
    return f"{text}; {certificate(scene)}."


def _distance_text(before: str, bounds: Bounds) -> str:
    """Return how far away something is, after other words; nothing if nothing is known."""
    low, high = map(length, bounds)
    if bounds == (0.0, math.inf):
        return ""
    if bounds[0] > bounds[1]:
        return f"{before}more than {low} and yet less than {high} away: the answers contradict each other"
    if math.isinf(bounds[1]):
        return f"{before}more than {low} away"
    return f"{before}{f'less than {high}' if bounds[0] == 0 else f'{low} to {high}'} away"


def _area(square_m: float) -> str:
    if square_m < 10_000:
        return f"{square_m:,.0f}\N{NO-BREAK SPACE}m²"
    return f"{square_m / 1e6:,.{2 if square_m < 10e6 else 0}f}\N{NO-BREAK SPACE}km²"


# Which part of the map matters after each query: square windows that only get closer.


@dataclass(frozen=True, slots=True)
class View:
    """A square window, in meters."""

    centre: Point
    half_m: float

    @classmethod
    def around(cls, points: FloatArray, margin: float = 1.0) -> View:
        """Return the window that holds points, ``margin`` times as large as it must be."""
        low, high = points.min(axis=0), points.max(axis=0)
        x, y = ((low + high) / 2).tolist()
        return cls((x, y), margin * float((high - low).max()) / 2)

    @property
    def corners(self) -> FloatArray:
        """South-west and north-east."""
        (x, y), half = self.centre, self.half_m
        return np.array([[x - half, y - half], [x + half, y + half]])


def end_view(scene: Scene) -> View:
    """Return the last stretch: the user, what is published of it, the estimate, and the streets around them."""
    ends = np.array(scene.ends)
    # Where the user and the published location are far apart, neither is drawn in a corner.
    margin_m = max(_END_VIEW_TAUS * scene.tau_m, _END_VIEW_SHARE * float(np.ptp(ends, axis=0).max()))
    return View.around(np.vstack([ends - margin_m, ends + margin_m]))


def views_of(scene: Scene) -> tuple[View, View]:
    """Return windows for all queries and the last stretch; if these are alike, for the region and all queries."""
    end = end_view(scene)
    close = View.around(np.vstack([end.corners, *(np.array([step.place]) for step in scene.steps)]), 1.2)
    if close.half_m > _FAR * end.half_m:
        return close, end
    return View((0.0, 0.0), max(scene.region.half_extent_m)), close


def _views(scene: Scene, rings: Sequence[Bounds | None]) -> list[View]:
    """Return for each query a window that holds all that matters from then on, and one for the result."""
    half = np.array(scene.region.half_extent_m)
    matters: list[FloatArray] = []
    nearest_m = math.inf
    for step, ring in zip(scene.steps, rings, strict=True):
        nearest_m = min(nearest_m, math.inf if ring is None else ring[1])
        possible = np.array([step.place, step.place])
        if step.cells is not None:
            possible = scene.boxes(step.cells).reshape(-1, 2)
        elif math.isfinite(nearest_m):
            possible += np.array([[-nearest_m], [nearest_m]])
        elif not matters:
            possible = np.array([-half, half])
        matters.append(np.vstack([np.clip(possible, -half, half), np.array([step.place, *scene.ends])]))
    end = end_view(scene)
    matters.append(end.corners)
    return [*(View.around(np.vstack(matters[number:]), 1.08) for number in range(len(scene.steps))), end]


# One attack frame by frame.


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is shown after ``number`` queries, the last of which is ``step``; None in the last frame, with the result.

    ``ring_m`` has the least and the greatest distance from the last query, if the attack has accounts and no area.
    """

    number: int
    step: TraceStep | None
    view: View
    ring_m: Bounds | None = None
    text: str


def frames_of(scene: Scene) -> list[Frame]:
    """Return a frame for each query and one for the result. Views only get closer."""
    steps = scene.steps
    rings = [None if step.cells is not None else _ring_after(steps[: i + 1]) for i, step in enumerate(steps)]
    *views, end = _views(scene, rings)
    frames = [
        Frame(number=number, step=step, view=view, ring_m=ring, text=_query_text(scene, number, ring))
        for number, (step, ring, view) in enumerate(zip(steps, rings, views, strict=True), start=1)
    ]
    return [*frames, Frame(number=len(steps), step=None, view=end, text=_result_text(scene))]
