"""Pairs of places that a mechanism promises to keep alike, and up to which loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.privacy.guarantee import Notion
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PromisedPair:
    """Two places in the mechanism's frame and the largest loss promised between them."""

    first: FloatArray
    second: FloatArray
    epsilon: float


def promised_pairs(mechanism: Mechanism, places: FloatArray, most: int = 6) -> list[PromisedPair]:
    """Return pairs among ``places`` (in the frame) and the region's corners that the guarantee speaks of."""
    guarantee = mechanism.guarantee
    corners = _corners(mechanism)
    candidates = np.vstack([corners, places])
    if guarantee.notion is Notion.LOCAL:
        return [PromisedPair(a, b, guarantee.epsilon) for a, b in _pairs(candidates, most)]
    if guarantee.notion is Notion.METRIC:
        # Distances in the projection are no shorter than on the ground, but for its stretch.
        stretch = mechanism.resolved_region.largest_stretch
        pairs = [*_pairs(candidates, most), *((place, place + step) for place in places[:2] for step in _STEPS_M)]
        return [PromisedPair(a, b, guarantee.epsilon * float(np.hypot(*(a - b))) / stretch) for a, b in pairs]
    if guarantee.notion is Notion.INTERVAL and isinstance(mechanism, DPRS):
        return _within_intervals(mechanism, candidates, guarantee.epsilon, most)
    raise UsageError(f"there are no pairs to try for a guarantee of the notion {guarantee.notion}")


_STEPS_M = ((50.0, 0.0), (0.0, 400.0))


def _corners(mechanism: Mechanism) -> FloatArray:
    region = mechanism.resolved_region
    half = np.array(region.half_extent_m if mechanism.frame == "metres" else region.half_extent_square)
    corners: FloatArray = np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]) * half
    return corners


def _pairs(places: FloatArray, most: int) -> list[tuple[FloatArray, FloatArray]]:
    return list(combinations(places, 2))[:most]


def _within_intervals(mechanism: DPRS, places: FloatArray, epsilon: float, most: int) -> list[PromisedPair]:
    intervals = mechanism.current_intervals
    nearest = nearest_centre_table(np.ascontiguousarray(intervals.centres), intervals.region.half_extent_square)
    disc = nearest(np.ascontiguousarray(places))
    found = [
        PromisedPair(places[i], places[j], epsilon)
        for i, j in combinations(range(len(places)), 2)
        if disc[i] == disc[j]
    ]
    # The pairs farthest apart lose most.
    found.sort(key=lambda pair: -float(np.abs(pair.first - pair.second).sum()))
    return found[:most]
