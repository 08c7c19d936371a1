"""Pairs of places by the region alone: its corners and edges, near and far, across the lines of a quadtree."""

from __future__ import annotations

import math

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Place
from nearveil.region import Region
from nearveil.types import FloatArray

# Enough digits for a tenth of a millimetre, and few enough for people and CSV files.
_DECIMALS = 9
_NEAR_M = (50.0, 500.0)
_STEP_M = 30.0
# Losses at which a wrong scale, or noise that is confined and not paid for, shows best.
_TELLING_LOSSES = (0.5, 1.0, 2.0, 4.0)
_AROUND_LOSSES = (0.5, 1.0, 2.0)
_DIAGONAL = np.array([1.0, 1.0]) / math.sqrt(2)
# Mostly east and a little north: two places that are a whole number of metres apart on an axis have the same low
# digits there, and a mechanism that leaves the low digits alone would go unseen.
_ASKEW = np.array([math.cos(0.3), math.sin(0.3)])


def as_place(region: Region, degrees: FloatArray) -> Place:
    """Return a place of the region with a readable number of digits."""
    latitude, longitude = region.clip(np.round(degrees, _DECIMALS)[None, :])[0]
    return float(latitude), float(longitude)


def region_pairs(region: Region) -> list[Pair]:
    """Return corners, middle and edges, near and far pairs, and pairs across the lines that cut the region in four."""
    half = np.array(region.half_extent_m)
    origin = np.zeros(2)
    pairs = [
        *_corner_pairs(region),
        _between(region, origin, half * [1, 0], "the middle of the region and its eastern edge"),
        _between(region, half * [-1, 0], half * [1, 0], "at opposite edges of the region"),
    ]
    pairs += [
        _between(region, origin, origin + near_m * _DIAGONAL, "near the middle of the region")
        for near_m in _NEAR_M
        if near_m < half.min()
    ]
    for name, line in (("the line that halves the region", 0.0), ("a line that quarters the region", -half[0] / 2)):
        step = np.array([min(_STEP_M, half[0] / 8), 0.0])
        # Off the other axis' lines, so that only one line is crossed.
        at = np.array([line, 0.3 * half[1]])
        pairs.append(_between(region, at - step, at + step, f"on either side of {name}"))
    return pairs


def pairs_by_distance(region: Region, epsilon_per_m: float) -> list[Pair]:
    """Return pairs at distances where a claim per metre can be tested: in the middle, at an edge, in a corner."""
    half = np.array(region.half_extent_m)
    corner = region.to_metres([(region.south, region.west)])[0]
    edge = region.to_metres([(region.centre[0], region.west)])[0]
    pairs = []
    for loss in _TELLING_LOSSES:
        distance = loss / epsilon_per_m if epsilon_per_m > 0 else math.inf
        if distance < half.min():
            pairs += [
                _between(region, np.zeros(2), distance * _ASKEW, "in the middle of the region"),
                _between(region, edge, edge + distance * _ASKEW, "at an edge of the region and inwards from it"),
                _between(
                    region, corner, corner + distance * _DIAGONAL, "in a corner of the region and inwards from it"
                ),
            ]
    return pairs


def pairs_around(region: Region, place: Place, epsilon_per_m: float | None, kind: str) -> list[Pair]:
    """Return pairs of a place and others around it, towards the middle of the region.

    They lie at distances where a claim per metre can be tested; without one near by, and in the farthest corner.
    """
    at = region.to_metres([place])[0]
    away = float(np.hypot(*at))
    inwards = -at / away if away > 0 else np.array([1.0, 0.0])
    askew = np.array([[_ASKEW[0], -_ASKEW[1]], [_ASKEW[1], _ASKEW[0]]]) @ inwards
    if epsilon_per_m is None:
        distances = [*_NEAR_M]
    else:
        distances = [loss / epsilon_per_m for loss in _AROUND_LOSSES] if epsilon_per_m > 0 else []
    within = max(away, min(region.half_extent_m))
    pairs = [_between(region, at, at + distance * askew, kind) for distance in distances if distance < within]
    if epsilon_per_m is None:
        corners = [
            (latitude, longitude)
            for latitude in (region.south, region.north)
            for longitude in (region.west, region.east)
        ]
        farthest = max(corners, key=lambda corner: float(np.hypot(*(region.to_metres([corner])[0] - at))))
        pairs.append(Pair(as_place(region, np.array(place)), farthest, kind))
    return pairs


def _corner_pairs(region: Region) -> list[Pair]:
    south_west, south_east = (region.south, region.west), (region.south, region.east)
    north_west, north_east = (region.north, region.west), (region.north, region.east)
    return [
        Pair(south_west, north_east, "in opposite corners of the region"),
        Pair(south_east, north_west, "in opposite corners of the region"),
        Pair(south_west, south_east, "in neighbouring corners of the region"),
        Pair(region.centre, north_west, "in the middle and a corner of the region"),
    ]


def _between(region: Region, first_m: FloatArray, second_m: FloatArray, kind: str) -> Pair:
    first, second = region.from_metres(np.vstack([first_m, second_m]))
    return Pair(as_place(region, first), as_place(region, second), kind)
