"""Utility: recall and distance ratio for those who ask, and how far people were moved.

Every number is measured under a protocol that has a name: where questions come from, and how the region is scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.nearby.index import nearest_rows
from nearveil.region import Region, Scaling
from nearveil.types import FloatArray, IntArray

QueryProtocol = Literal["uniform", "users"]
"""Where queries are asked from: anywhere in the region, or from people's true places.

A person who asks under `users` is not among their own neighbours, neither truly nor in the published list.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Places that are asked from.

    Attributes
    ----------
    places_m : ndarray of shape (n, 2)
        In metres.
    askers : ndarray of shape (n,) or None
        Who asks, by row of the population, under ``users``; None under ``uniform``, where none of them does.
    """

    places_m: FloatArray
    askers: IntArray | None = None

    @property
    def protocol(self) -> QueryProtocol:
        """By which they were drawn."""
        return "uniform" if self.askers is None else "users"


@dataclass(frozen=True, slots=True)
class Utility:
    """Means over queries under one protocol.

    Attributes
    ----------
    recall : float
        Share of the true k nearest who are in the published list.
    distance_ratio : float
        Sum of true neighbours' distances over sum of the listed people's true distances: the mean of all queries' own.
    pooled_distance_ratio : float
        The same with both sums taken over all queries first, so that far neighbours weigh more.
    distance_mse_m2 : float
        Over the true k nearest: mean square of how much farther or nearer than they are they seem to be.
    """

    protocol: QueryProtocol
    k: int
    queries: int
    recall: float
    distance_ratio: float
    pooled_distance_ratio: float
    distance_mse_m2: float


def draw_queries(
    true_m: FloatArray, region: Region, protocol: QueryProtocol, count: int, rng: np.random.Generator
) -> Queries:
    """Draw queries under a protocol, for people at ``true_m`` in metres."""
    if protocol == "users":
        askers = rng.integers(len(true_m), size=count)
        return Queries(true_m[askers], askers)
    south_west = np.array([region.south, region.west])
    degrees = south_west + rng.random((count, 2)) * np.array([region.height_deg, region.width_deg])
    return Queries(region.to_metres(degrees))


def measure_utility(true_m: FloatArray, published_m: FloatArray, queries: Queries, *, k: int) -> Utility:
    """Compare the k nearest among true and among published places, all in metres."""
    return measure_utilities(true_m, published_m, queries, ks=(k,))[0]


def measure_utilities(
    true_m: FloatArray, published_m: FloatArray, queries: Queries, *, ks: Sequence[int]
) -> list[Utility]:
    """Do the same for several k at once."""
    most, others = max(ks), len(true_m) - (queries.askers is not None)
    if not 1 <= min(ks) <= most <= others:
        besides = "" if queries.askers is None else " besides the one who asks"
        raise UsageError(f"k must lie between 1 and the number of people{besides}, {others:,}")
    from_m = queries.places_m[:, None, :]
    true_ids, listed = (
        nearest_rows(places_m, queries.places_m, most, queries.askers) for places_m in (true_m, published_m)
    )
    true_distance, listed_distance = (np.linalg.norm(true_m[ids] - from_m, axis=-1) for ids in (true_ids, listed))
    published_distance = np.linalg.norm(published_m[true_ids] - from_m, axis=-1)
    found = []
    for k in ks:
        needed_m, listed_m = (distance[:, :k].sum(axis=1) for distance in (true_distance, listed_distance))
        found.append(
            Utility(
                queries.protocol,
                k,
                len(queries.places_m),
                recall=_shared(true_ids[:, :k], listed[:, :k]) / k,
                distance_ratio=float(_ratio(needed_m, listed_m).mean()),
                pooled_distance_ratio=float(_ratio(needed_m.sum(), listed_m.sum())),
                distance_mse_m2=float(np.mean((published_distance[:, :k] - true_distance[:, :k]) ** 2)),
            )
        )
    return found


def _shared(first: IntArray, second: IntArray) -> float:
    """How many ids two lists share, on average over their rows; neither has an id twice."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.mean(np.sum(both[:, 1:] == both[:, :-1], axis=1)))


def _ratio(needed_m: FloatArray, listed_m: FloatArray) -> FloatArray:
    """Needed over listed; 1 where all are at the place asked from."""
    ratio: FloatArray = np.where(listed_m > 0, needed_m / np.where(listed_m > 0, listed_m, 1.0), 1.0)
    return ratio


# Protocols: how things are measured, by name.


RegionProtocol = Literal["paper", "isotropic"]
"""How the square is laid over the region: each axis scaled on its own, or both alike."""

ColluderProtocol = Literal["exact", "published"]
"""Whether the service knows an attacker's accounts where they are, or publishes them like everybody else's."""

QUERY_TEXT: dict[QueryProtocol, str] = {
    "uniform": "queries uniform in the region",
    "users": "queries from where people truly are (a person who asks is not their own neighbour)",
}
REGION_TEXT: dict[RegionProtocol, str] = {
    "paper": "the paper's region (each axis scaled on its own)",
    "isotropic": "isotropic region (both axes scaled alike)",
}
COLLUDER_TEXT: dict[ColluderProtocol, str] = {
    "exact": "the attacker's accounts known exactly",
    "published": "the attacker's accounts published like everybody else's",
}
SCALING_OF: dict[RegionProtocol, Scaling] = {"paper": "per-axis", "isotropic": "isotropic"}


# How far people were moved, in metres on the ground.


_SEMI_MAJOR_M = 6_378_137.0
_ECCENTRICITY_SQUARED = 0.006_694_379_990_14
_HALF_DEGREE = math.pi / 360.0
# Of chords up to 0.03, 1.7 degrees, a few terms of a series give the arc to the last bit.
_SMALL_SQUARE = 0.03**2
_ROWS_AT_ONCE = 128

_KEPT_ROWS = 1 << 20
# A bin is what 8 bits of the fraction of a number tell apart: lengths that differ by 0.4 % at most.
_BIN_SHIFT = 52 - 8
# From a millimetre to half way around the earth, in powers of two; all that is nearer shares a bin.
_FIRST_BIN = (1023 - 10) << 8
_BINS = (10 + 25) << 8


@dataclass(frozen=True, slots=True)
class Displacement:
    """Distance between true and published places: a figure about true data, for the operator."""

    mean_m: float
    p50_m: float
    p95_m: float


class DisplacementSum:
    """Summarises any number of distances: exactly, but for quantiles of more than a million, right to 0.4 %."""

    def __init__(self) -> None:
        self._count = 0
        self._sum_m = 0.0
        self._kept: list[FloatArray] = []
        self._binned: IntArray | None = None

    def add(self, distances_m: FloatArray) -> None:
        """Take in more distances."""
        self._count += len(distances_m)
        self._sum_m += float(distances_m.sum())
        if self._binned is None:
            self._kept.append(distances_m)
            if self._count <= _KEPT_ROWS:
                return
            self._binned = np.zeros(_BINS, dtype=np.int64)
            distances_m, self._kept = np.concatenate(self._kept), []
        bins = (np.ascontiguousarray(distances_m).view(np.int64) >> _BIN_SHIFT) - _FIRST_BIN
        self._binned += np.bincount(np.clip(bins, 0, _BINS - 1), minlength=_BINS)

    def summary(self) -> Displacement:
        """Mean, median and 95th percentile of all distances."""
        p50, p95 = self._quantiles()
        return Displacement(self._sum_m / self._count, p50, p95)

    def _quantiles(self) -> tuple[float, float]:
        if self._binned is None:
            p50, p95 = np.percentile(np.concatenate(self._kept), [50, 95])
            return float(p50), float(p95)
        bins = np.searchsorted(np.cumsum(self._binned), [0.5 * self._count, 0.95 * self._count])
        low, high = ((number + _FIRST_BIN << _BIN_SHIFT).view(np.float64) for number in (bins, bins + 1))
        p50, p95 = (low + high) / 2
        return float(p50), float(p95)


def summarise_displacement(true: FloatArray, published: FloatArray) -> Displacement:
    """Return mean, median and 95th percentile of the distances between two sets of places in degrees."""
    distances = ground_distance_m(true, published)
    p50, p95 = np.percentile(distances, [50, 95])
    return Displacement(float(distances.mean()), float(p50), float(p95))


def ground_distance_m(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return distances in metres between places in degrees, row by row.

    On a sphere with the ellipsoid's radii of curvature half way between them: within 0.01 % up to 300 km, and within
    1 % anywhere.
    """
    distances: FloatArray = _ground_distances(np.asarray(first, np.float64), np.asarray(second, np.float64))
    return distances


@kernel
def _ground_distances(first: FloatArray, second: FloatArray) -> FloatArray:
    # Loops over a few rows without calls and branches, so that one instruction serves several of them.
    out = np.empty(len(first))
    d_phi, middle, d_lambda = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    length, square = np.empty(_ROWS_AT_ONCE), np.empty(_ROWS_AT_ONCE)
    for start in range(0, len(first), _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, len(first) - start)
        for lane in range(count):
            d_phi[lane] = second[start + lane, 0] - first[start + lane, 0]
            middle[lane] = second[start + lane, 0] + first[start + lane, 0]
            d_lambda[lane] = second[start + lane, 1] - first[start + lane, 1]
        for lane in range(count):
            turned = d_lambda[lane] - 360.0 * np.rint(d_lambda[lane] * (1 / 360))
            east, north = _sine(turned * _HALF_DEGREE), _sine(d_phi[lane] * _HALF_DEGREE)
            slope = _sine(middle[lane] * _HALF_DEGREE)
            # The product of the cosines of both latitudes, by those of half their sum and half their difference.
            eastward = max(1.0 - slope * slope - north * north, 0.0) * east * east
            curvature = 1.0 - _ECCENTRICITY_SQUARED * slope * slope
            # Haversine, with the radius of each direction weighted by its share in the square of the chord.
            northward = north * np.divide(1.0 - _ECCENTRICITY_SQUARED, curvature)
            length[lane] = 2.0 * _SEMI_MAJOR_M * np.sqrt(np.divide(northward * northward + eastward, curvature))
            square[lane] = north * north + eastward
        for lane in range(count):
            out[start + lane] = length[lane] * _arc_per_chord(square[lane])
        for lane in range(count):
            if square[lane] > _SMALL_SQUARE:
                chord = math.sqrt(min(square[lane], 1.0))
                out[start + lane] = length[lane] * np.divide(math.asin(chord), chord)
    return out


@inlined_kernel
def _sine(x: float) -> float:
    """The sine of an angle of at most a quarter turn, by its series."""
    z = x * x
    tail = 1.0 - z * (1 / 210) * (1.0 - z * (1 / 272) * (1.0 - z * (1 / 342) * (1.0 - z * (1 / 420))))
    middle = 1.0 - z * (1 / 72) * (1.0 - z * (1 / 110) * (1.0 - z * (1 / 156) * tail))
    return x * (1.0 - z * (1 / 6) * (1.0 - z * (1 / 20) * (1.0 - z * (1 / 42) * middle)))


@inlined_kernel
def _arc_per_chord(square: float) -> float:
    """The arc over its chord, given the chord's square, if that is small."""
    return 1.0 + square * (1 / 6 + square * (3 / 40 + square * (15 / 336 + square * (105 / 3456))))
