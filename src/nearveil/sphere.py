"""Distances and steps on the sphere, for locations in degrees: rows of (latitude, longitude)."""

from __future__ import annotations

import numpy as np

from nearveil.geodesy import wrap_longitude
from nearveil.types import FloatArray

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the earth."""


def unit_vectors(degrees: FloatArray) -> FloatArray:
    """Return locations as points of the unit sphere, the last axis (x, y, z)."""
    latitude, longitude = np.radians(degrees[..., 0]), np.radians(degrees[..., 1])
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=-1)


def great_circle_m(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the great-circle distances of locations, broadcast against each other."""
    here, there = unit_vectors(np.asarray(first)), unit_vectors(np.asarray(second))
    # By the straight line, which is exact for near locations; one axis at a time, as there may be millions of pairs.
    squared = sum((here[..., axis] - there[..., axis]) ** 2 for axis in range(3))
    distances: FloatArray = 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(0.5 * np.sqrt(squared), 1.0))
    return distances


def moved(degrees: FloatArray, bearing: FloatArray, distance_m: FloatArray) -> FloatArray:
    """Return where great circles lead: ``bearing`` in radians clockwise from north, longitudes in [-180, 180)."""
    sine, cosine = _sine_and_cosine(np.radians(degrees[..., 0]))
    far, near = _sine_and_cosine(distance_m / EARTH_RADIUS_M)
    east, north = _sine_and_cosine(bearing)
    ahead, aside = far * north, far * east
    up = sine * near + cosine * ahead
    out = cosine * near - sine * ahead
    moved_to = np.empty((*up.shape, 2))
    moved_to[..., 0] = np.degrees(np.arctan2(up, np.sqrt(out * out + aside * aside)))
    moved_to[..., 1] = wrap_longitude(degrees[..., 1] + np.degrees(np.arctan2(aside, out)))
    return moved_to


def _sine_and_cosine(angle: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both by the tangent of half the angle, which NumPy computes several at a time."""
    half = np.tan(angle * 0.5)
    squared = half * half
    scale = 1.0 / (1.0 + squared)
    return 2.0 * half * scale, (1.0 - squared) * scale
