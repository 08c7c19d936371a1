"""Meters around a location, for tests of Veil."""

import numpy as np

from nearveil.sphere import unit_vectors
from nearveil.types import FloatArray
from nearveil.veil import R


class Plane:
    """The sphere as seen from above a center: meters east and north of it."""

    def __init__(self, center: tuple[float, float]) -> None:
        up, lam = unit_vectors(np.array([center]))[0], np.radians(center[1])
        east = np.array([-np.sin(lam), np.cos(lam), 0])
        self._axes = np.array([east, np.cross(up, east), up])

    def meters(self, degrees: FloatArray) -> FloatArray:
        flat: FloatArray = unit_vectors(degrees) @ self._axes[:2].T * R
        return flat

    def degrees(self, meters: FloatArray) -> FloatArray:
        x, y, z = (np.column_stack([meters / R, np.sqrt(1 - ((meters / R) ** 2).sum(axis=1))]) @ self._axes).T
        return np.degrees(np.column_stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)]))
