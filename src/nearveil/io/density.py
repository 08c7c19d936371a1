"""Density: public data on where people in general are, as points or as a grid with counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from nearveil.errors import DataError
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Numbers of people at places, each a point or the middle of a box of degrees.

    Attributes
    ----------
    points : ndarray of shape (n, 2)
        Latitude, longitude.
    counts : ndarray of shape (n,)
        How many people each stands for.
    height_deg, width_deg : ndarray of shape (n,)
        Extent of each box in latitude and longitude; 0 for a point.
    """

    points: FloatArray
    counts: FloatArray
    height_deg: FloatArray
    width_deg: FloatArray

    def __post_init__(self) -> None:
        if not len(self.points):
            raise DataError("the density has no rows; give at least one")
        if not np.isfinite(self.counts).all():
            raise DataError("a count of the density is missing or not a finite number")
        if (self.counts < 0).any():
            raise DataError("a count of the density is negative; counts are numbers of people, 0 or more")
        if not self.counts.sum() > 0:
            raise DataError("all counts of the density are 0; check its column of counts")

    @classmethod
    def of_points(cls, points: FloatArray) -> Self:
        """Return the density of places, one person each."""
        nothing = np.zeros(len(points))
        return cls(points, np.ones(len(points)), nothing, nothing)
