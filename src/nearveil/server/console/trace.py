"""A demonstration as the page gets it: every step in degrees and in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.geodesy import exact_projection
from nearveil.region import Region
from nearveil.report.attack_scene import Frame, Scene, frames_of, length, verdict
from nearveil.types import FloatArray

_DECIMALS = 6
_MOST_BOXES = 250
_ROWS_OF_BOXES = 40
_NEAR, _FAR = 700, 800
_LEAST_VIEW_M = 250.0


def told(scene: Scene) -> dict[str, Any]:
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
        "result": {**_frame(scene, result), "words": result_words(scene)},
    }


def result_words(scene: Scene) -> str:
    """Say what came of it to somebody who knows nothing of outcomes and certificates."""
    result, several = scene.result, scene.result.queries != 1
    asked = f"After {result.queries} question{'s' if several else ''} the attacker"
    if result.estimate is None:
        return f"{asked} gives up: {result.outcome}."
    words = f"{asked} points to a place {length(math.dist(result.estimate, scene.truth))} from the person"
    if scene.published is not None:
        words += f", and {length(math.dist(result.estimate, scene.published))} from where the service publishes them"
    return f"{words}. {verdict(scene).capitalize()}."


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
        "accounts": [_place(scene, spot) for spot in step.colluders],
        "account_ranks": list(step.colluder_ranks),
        "ring_m": ring,
        "cells": None if cells is None else _corners(scene, cells),
    }


def _frame(scene: Scene, frame: Frame) -> dict[str, Any]:
    """What the map shows, and the words below it."""
    return {
        "words": frame.words,
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


def _place(scene: Scene, spot: Spot) -> list[float]:
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
