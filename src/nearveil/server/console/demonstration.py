"""A demonstration: one attack on one made-up person, in memory and bounded in time, as the page shows it.

Nobody of the service has anything to do with it: the city is made up, and protected the way the service protects.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from nearveil.attacks.oracle import CountedOracle, Oracle, OutOfQueriesError, Point, point_of
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation.attack_experiment import Instance, draw_instances, instances_of_person, set_up_attacks
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M
from nearveil.nearby.index import Person
from nearveil.nearby.publishing.noise import displaced, rate_per_m
from nearveil.nearby.publishing.protection import Protection, grid_for
from nearveil.projection import exact_projection
from nearveil.randomness import exponential_from_uniforms
from nearveil.region import Region
from nearveil.report.attack_scene import Frame, Scene, frames_of, length, verdict
from nearveil.report.land import land_in
from nearveil.server.problems import too_many_requests
from nearveil.types import FloatArray

FOUND_WITHIN_M = 100.0
MOST_QUESTIONS = 400
MOST_SECONDS = 30.0
MOST_AT_ONCE = 2

# The adaptive attack goes on until it is this sure, with this number of accounts; the others end by themselves.
_SURE_WITHIN_M = 20.0
_ACCOUNTS = 4
# Somebody about a walk away, not next door and not out in the country.
_A_WALK_M = 500.0
_CHOICE = 20


class DemonstrationOptions(BaseModel):
    """What to show; with a number of people to hide among, the distance does not count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)

    attack: Literal["gi-lia", "zo-lia", "adaptive", "unfolding"]
    protected: bool
    noise_m: Annotated[float, Field(ge=50, le=2000)] = DEFAULT_NOISE_M
    hide_among: Annotated[int | None, Field(ge=20, le=1000)] = None
    k: Annotated[int, Field(ge=5, le=100)] = 10
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1


class DemonstrationLock:
    """Lets one demonstration at a time run for a key, and few in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()

    @contextmanager
    def held_by(self, key: str) -> Iterator[None]:
        """Take a turn, or raise that it is too early."""
        with self._lock:
            if key in self._running or len(self._running) >= MOST_AT_ONCE:
                raise too_many_requests(2.0)
            self._running.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(key)


def attack_somebody(options: DemonstrationOptions, region: Region, *, most_seconds: float = MOST_SECONDS) -> Scene:
    """Attack a made-up person; the same seed means the same person, protected or not.

    The attacker's accounts are believed to be where they are put, which a live service does not grant: what protection
    does is shown against an attacker who finds the published place without fail.
    """
    true_m = _city_m(region)
    rng = np.random.default_rng(options.seed)
    instance = _somebody(SimulatedService(region, true_m, rng=options.seed), true_m, options.k, rng)
    served_m = true_m
    if options.protected:
        served_m = published_m(true_m, _protection(options, region), rng)
    service = SimulatedService(region, served_m, rng=options.seed)
    if options.protected:
        instance = instances_of_person(service, served_m, instance.target, k=options.k, count=1, rng=rng)[0]
    sure_m = _SURE_WITHIN_M if options.attack == "adaptive" else FOUND_WITHIN_M
    (setup,) = set_up_attacks((options.attack,), region, accounts=(_ACCOUNTS,), tau_m=sure_m)
    oracle = service.oracle(k=options.k, accounts=setup.accounts, most_queries=MOST_QUESTIONS)
    result = setup.attack.infer(_until(oracle, time.thread_time() + most_seconds), instance.target, instance.start)
    return Scene(
        result,
        region,
        served_m,
        truth=point_of(true_m[instance.target]),
        tau_m=FOUND_WITHIN_M,
        published=point_of(served_m[instance.target]) if options.protected else None,
    )


@lru_cache(maxsize=2)
def _city_m(region: Region) -> FloatArray:
    return region.to_metres(synthetic_city(PEOPLE, region, rng=SEED, land=land_in(region)))


def _protection(options: DemonstrationOptions, region: Region) -> Protection:
    if options.hide_among is not None:
        return Protection(region=region, among=hidden_among(options.hide_among, region))
    return Protection(region=region, noise_m=options.noise_m)


@lru_cache(maxsize=4)
def hidden_among(hide_among: int, region: Region) -> HideAmong:
    """Return what hides among people of the made-up city."""
    return HideAmong(hide_among, cells=cells_of_city(hide_among, region))


def cells_of_city(hide_among: int, region: Region) -> Cells:
    """Return cells of the made-up city, from other people of the same neighborhoods, as from a census."""
    others = synthetic_city(2 * PEOPLE, region, rng=SEED, land=land_in(region))[PEOPLE:]
    return cells_from_points(others, region, CellPlan(hide_among=hide_among))


def _somebody(service: SimulatedService, true_m: FloatArray, k: int, rng: np.random.Generator) -> Instance:
    drawn = draw_instances(service, true_m, k=k, count=_CHOICE, rng=rng)
    return min(drawn, key=lambda one: abs(math.dist(one.start, true_m[one.target]) - _A_WALK_M))


def _until(oracle: Oracle, deadline_s: float) -> CountedOracle:
    """Answer no question after a moment of the thread's clock: a busy machine gives an attack no less of its time."""

    def ask(place: Point) -> Sequence[Person]:
        if time.thread_time() > deadline_s:
            raise OutOfQueriesError("the demonstration has taken as long as it may")
        return oracle.nearby(place)

    return CountedOracle(ask, oracle.put, k=oracle.k, accounts=oracle.accounts, most_queries=MOST_QUESTIONS)


# A demonstration as the page gets it: every step in degrees and as text.


_DECIMALS = 6
_MOST_BOXES = 250
_ROWS_OF_BOXES = 40
_NEAR, _FAR = 700, 800
_LEAST_VIEW_M = 250.0


def scene_to_dict(scene: Scene) -> dict[str, Any]:
    """Return the whole story of a made-up person."""
    *questions, result = frames_of(scene)
    estimate = scene.result.estimate
    return {
        "outcome": str(scene.result.outcome),
        "verdict": verdict(scene).capitalize(),
        "certified": scene.result.certified,
        "questions": scene.result.queries,
        "found_within_m": scene.tau_m,
        "error_m": None if estimate is None else round(math.dist(estimate, scene.truth), 1),
        "true_place": _place(scene, scene.truth),
        "published_place": None if scene.published is None else _place(scene, scene.published),
        "inferred_place": None if estimate is None else _place(scene, estimate),
        "others": _places(scene, np.array(list(scene.result.others.values())).reshape(-1, 2)),
        "people": _places(scene, _some_people(scene)),
        "steps": [_step(scene, frame) for frame in questions],
        "result": {**_frame(scene, result), "text": result_message(scene)},
    }


def result_message(scene: Scene) -> str:
    """Say what came of it to somebody who knows nothing of outcomes and certificates."""
    result, several = scene.result, scene.result.queries != 1
    asked = f"After {result.queries} question{'s' if several else ''} the attacker"
    if result.estimate is None:
        return f"{asked} gives up: {result.outcome}."
    text = f"{asked} points to a place {length(math.dist(result.estimate, scene.truth))} from the person"
    if scene.published is not None:
        text += f", and {length(math.dist(result.estimate, scene.published))} from where the service publishes them"
    return f"{text}. {verdict(scene).capitalize()}."


def _step(scene: Scene, frame: Frame) -> dict[str, Any]:
    """One question."""
    step = scene.steps[frame.number - 1]
    ring = None
    if frame.ring_m is not None and frame.ring_m[0] < frame.ring_m[1]:
        # JSON has no infinity.
        ring = [round(end, 1) if math.isfinite(end) else None for end in frame.ring_m]
    cells = None if step.cells is None else few_boxes(scene.boxes(step.cells))
    return {
        **_frame(scene, frame),
        "place": _place(scene, step.place),
        "rank": step.rank,
        "accounts": [_place(scene, spot) for spot in step.accounts],
        "account_ranks": list(step.account_ranks),
        "ring_m": ring,
        "cells": None if cells is None else _corners(scene, cells),
    }


def _frame(scene: Scene, frame: Frame) -> dict[str, Any]:
    """What the map shows, and the text below it."""
    return {
        "text": frame.text,
        "view": {
            "centre": _place(scene, frame.view.centre),
            "half_m": round(max(frame.view.half_m, _LEAST_VIEW_M), 1),
        },
        "circles": [
            {"centre": _place(scene, circle.centre), "radius_m": round(circle.radius_m, 1)}
            for circle in scene.circles_after(frame.number)
        ],
    }


def few_boxes(boxes: FloatArray) -> FloatArray:
    """Return boxes (west, south, east, north) that cover the same, and little more where there are too many."""
    if len(boxes) <= _MOST_BOXES:
        return boxes
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    side = (high - low).max() / _ROWS_OF_BOXES
    columns, rows = np.ceil((high - low) / side).astype(int)
    covered = np.zeros((rows, columns), dtype=bool)
    # A box that ends exactly on a line does not reach into the next cell.
    first = np.floor((boxes[:, :2] - low) / side + 1e-9).astype(int)
    last = np.ceil((boxes[:, 2:] - low) / side - 1e-9).astype(int)
    for (left, bottom), (right, top) in zip(first, last, strict=True):
        covered[bottom : max(top, bottom + 1), left : max(right, left + 1)] = True
    found = []
    for row, line in enumerate(covered):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
        found += [(start, row, stop, row + 1) for start, stop in edges.reshape(-1, 2)]
    merged: FloatArray = np.tile(low, 2) + side * np.array(found, dtype=np.float64)
    return np.hstack([merged[:, :2], np.minimum(merged[:, 2:], high)])


def _some_people(scene: Scene) -> FloatArray:
    """Those nearest to where the target is believed to be, and a share of the others, as the service has them."""
    order = np.argsort(np.hypot(*(scene.people_m - np.array(scene.seen)).T))
    near, far = order[:_NEAR], order[_NEAR:]
    return scene.people_m[np.append(near, far[:: max(1, math.ceil(len(far) / _FAR))])]


def _corners(scene: Scene, boxes: FloatArray) -> list[list[float]]:
    """South, west, north and east of boxes, in degrees."""
    ends = degrees(boxes.reshape(-1, 2), scene.region).reshape(-1, 4)
    found: list[list[float]] = ends.round(_DECIMALS).tolist()
    return found


def _place(scene: Scene, spot: Point) -> list[float]:
    return _places(scene, np.array([spot]))[0]


def _places(scene: Scene, spots_m: FloatArray) -> list[list[float]]:
    found: list[list[float]] = degrees(spots_m, scene.region).round(_DECIMALS).tolist()
    return found


def degrees(spots_m: FloatArray, region: Region) -> FloatArray:
    """Return latitude and longitude of places in metres, which may lie outside the region."""
    if not len(spots_m):
        return np.empty((0, 2))
    longitude, latitude = exact_projection(*region.centre).transform(spots_m[:, 0], spots_m[:, 1], direction="INVERSE")
    return np.column_stack([latitude, longitude])


# Publish the city as the service does.


def snapped(places_m: FloatArray, noise_m: float) -> FloatArray:
    """Return the centres of the public grid's cells in which places lie."""
    grid = grid_for(noise_m)
    columns_rows = np.floor(places_m / grid.side_m + 0.5)
    centres: FloatArray = columns_rows * grid.side_m
    return centres


def published_m(places_m: FloatArray, protection: Protection, rng: np.random.Generator) -> FloatArray:
    """Publish first reports as the service does: from the cell's centre, within the region's box."""
    if protection.among is not None:
        unit_m = protection.region.metres_per_unit
        words = rng.integers(0, 2**64, (len(places_m), 2), dtype=np.uint64)
        return protection.among.channel.draw(places_m / unit_m, words) * unit_m
    steps, noise = exponential_from_uniforms(rng.random((len(places_m), 3, 2))), protection.planar
    drawn = displaced(snapped(places_m, noise.noise_m), steps, rate_per_m(noise))
    half_extent = np.array(protection.region.half_extent_m)
    return np.clip(drawn, -half_extent, half_extent)
