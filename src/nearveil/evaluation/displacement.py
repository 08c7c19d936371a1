"""How far people were moved, in metres on the ground."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.kernels import COMPILED, inlined_kernel, kernel
from nearveil.types import FloatArray, IntArray

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
    measure = _ground_distances if COMPILED else _ground_distances_numpy
    distances: FloatArray = measure(np.asarray(first, np.float64), np.asarray(second, np.float64))
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


def _ground_distances_numpy(first: FloatArray, second: FloatArray) -> FloatArray:
    d_lambda = second[:, 1] - first[:, 1]
    d_lambda -= 360.0 * np.rint(d_lambda * (1 / 360))
    northward = np.sin((second[:, 0] - first[:, 0]) * _HALF_DEGREE) ** 2
    middle = np.sin((second[:, 0] + first[:, 0]) * _HALF_DEGREE) ** 2
    eastward = np.maximum(1.0 - middle - northward, 0.0) * np.sin(d_lambda * _HALF_DEGREE) ** 2
    curvature = 1.0 - _ECCENTRICITY_SQUARED * middle
    north_share = (1.0 - _ECCENTRICITY_SQUARED) / curvature
    chord = northward + eastward
    moved = np.where(chord > 0.0, chord, 1.0)
    share = (northward * north_share**2 + eastward) / (moved * curvature)
    distances: FloatArray = 2.0 * _SEMI_MAJOR_M * np.sqrt(share) * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
    return distances
