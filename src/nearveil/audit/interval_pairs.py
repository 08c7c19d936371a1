"""Pairs of places by the intervals: within one, and on either side of a border between two."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.region_pairs import as_place
from nearveil.mechanisms.intervals import Intervals, cell_polygons, l1_diameter
from nearveil.types import BoolArray, FloatArray, IntArray

_DIAGONAL = np.array([1.0, 1.0]) / math.sqrt(2)
_ACROSS_M = (60.0, 1.0)
# A cell's own corners belong to its neighbours as well.
_INWARDS = 1e-4


def interval_pairs(intervals: Intervals) -> list[Pair]:
    """Return pairs across borders of the median and the smallest interval, and within them and the largest.

    What reads best as a witness comes first: where several pairs are equally suspect, the first is taken.
    """
    by_radius = _inside_the_region(intervals)
    some = {"median": by_radius[len(by_radius) // 2], "smallest": by_radius[0], "largest": by_radius[-1]}
    across = [pair for name in ("median", "smallest") for pair in _across(intervals, int(some[name]), name)]
    polygons = cell_polygons(intervals)
    widest = int(np.argmax([l1_diameter(polygon) for polygon in polygons]))
    within = [_cell_ends(intervals, widest, polygons, "widest interval")]
    for name, index in some.items():
        within += [
            *_within(intervals, int(index), name),
            _cell_ends(intervals, int(index), polygons, f"{name} interval"),
        ]
    # At the region's edge, which bends on the map, a cell's corner may have been moved into a neighbour.
    kept = [pair for pair in with_intervals(within, intervals) if pair.same_interval]
    return [*with_intervals(across, intervals), *kept]


def with_intervals(pairs: list[Pair], intervals: Intervals) -> list[Pair]:
    """Return the same pairs, each with the answer to whether its places share an interval."""
    places = intervals.region.to_square([place for pair in pairs for place in (pair.first, pair.second)])
    own = nearest_centre(intervals, places).reshape(-1, 2)
    return [
        replace(pair, same_interval=bool(first == second)) for pair, (first, second) in zip(pairs, own, strict=True)
    ]


def nearest_centre(intervals: Intervals, places: FloatArray) -> IntArray:
    """Index of the centre nearest to each place of the square."""
    squared = ((places[:, None, :] - intervals.centres[None, :, :]) ** 2).sum(axis=-1)
    nearest: IntArray = np.argmin(squared, axis=1)
    return nearest


def _inside_the_region(intervals: Intervals) -> IntArray:
    """Intervals by radius, those whose discs lie in the region if there are any."""
    half = np.array(intervals.region.half_extent_square)
    inside: BoolArray = np.all(np.abs(intervals.centres) + intervals.radii[:, None] <= half, axis=1)
    order: IntArray = np.argsort(intervals.radii, kind="stable")
    return order[inside[order]] if inside.any() else order


def _within(intervals: Intervals, index: int, name: str) -> list[Pair]:
    centre, reach = intervals.centres[index], intervals.radii[index]
    east = np.array([reach, 0.0])
    # Laplace noise is counted along the axes, so that the ends of a diagonal are farthest apart.
    diagonal = reach * _DIAGONAL
    return [
        _pair(intervals, centre - diagonal, centre + diagonal, f"at the ends of a diagonal of the {name} interval"),
        _pair(intervals, centre - east, centre + east, f"at opposite edges of the {name} interval"),
        _pair(intervals, centre, centre + diagonal, f"at the centre and the edge of the {name} interval"),
    ]


def _cell_ends(intervals: Intervals, index: int, polygons: list[FloatArray], name: str) -> Pair:
    """The two corners of a cell that are farthest apart; the disc need not reach them."""
    corners = polygons[index] + _INWARDS * (intervals.centres[index] - polygons[index])
    apart = np.abs(corners[:, None, :] - corners[None, :, :]).sum(axis=-1)
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return _pair(intervals, corners[first], corners[second], f"in far corners of the {name}")


def _across(intervals: Intervals, index: int, name: str) -> list[Pair]:
    """Places on the line between two neighbouring centres, on either side of the border between them."""
    distances = np.hypot(*(intervals.centres - intervals.centres[index]).T)
    other = int(np.argsort(distances)[1])
    middle = (intervals.centres[index] + intervals.centres[other]) / 2
    step = (intervals.centres[other] - intervals.centres[index]) / distances[other]
    kind = f"on either side of a border between two intervals (the {name} one and its neighbour)"
    # Not beyond the centres themselves, where they are that near.
    gaps = [min(gap_m / intervals.region.metres_per_unit, distances[other]) for gap_m in _ACROSS_M]
    return [_pair(intervals, middle - gap / 2 * step, middle + gap / 2 * step, kind) for gap in gaps]


def _pair(intervals: Intervals, first: FloatArray, second: FloatArray, kind: str) -> Pair:
    region = intervals.region
    ends = region.from_square(np.vstack([first, second]))
    return Pair(as_place(region, ends[0]), as_place(region, ends[1]), kind)
