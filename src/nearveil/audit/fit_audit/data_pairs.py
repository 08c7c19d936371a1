"""Data with and without one person, chosen so that the person shows as much as they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.errors import UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.region import Region
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class DataPair:
    """Two data sets that differ in one person.

    Attributes
    ----------
    name : str
        What makes the pair a hard one.
    without : ndarray of shape (n, 2)
        Everybody but the person, in degrees.
    person : ndarray of shape (2,)
        The person's place, in degrees.
    """

    name: str
    without: FloatArray
    person: FloatArray

    @property
    def with_person(self) -> FloatArray:
        """The larger of the two data sets; the person comes last."""
        return np.vstack([self.without, self.person])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `data_from_dict` makes the pair again. The people are made up."""
        return {"name": self.name, "without": self.without.tolist(), "person": self.person.tolist()}


def data_from_dict(document: dict[str, Any]) -> DataPair:
    """Make a pair of data sets again from `DataPair.to_dict`."""
    without, person = (np.array(document[part], dtype=np.float64) for part in ("without", "person"))
    if without.ndim != 2 or without.shape[1] != 2 or person.shape != (2,):
        raise ValueError("data")
    return DataPair(str(document["name"]), without, person)


def worst_case_data(region: Region, people: int) -> tuple[DataPair, ...]:
    """Return pairs in which one person moves something learned from the data as far as they can.

    Somebody far from all others has a cluster of their own, along one diagonal of the region or the other, wherever
    the clusters begin; at a corner the sums of coordinates change most; where all are at one place, they change along
    with the count only. No data set has all its people at one place: a fit
    may refuse those, and what it refuses tells nothing apart.

    Parameters
    ----------
    people : int
        How many there are without the person: few, so that one counts, and at least as many as the fit needs.
    """
    if people < 2:
        raise UsageError("a fit is audited on at least 2 people besides the one; give more people")
    crowd = np.linspace(-0.01, 0.01, people)
    corner = _widest_corner(region)
    middle = np.full(2, 0.5)
    south_west, north_west = np.array([0.1, 0.1]), np.array([0.9, 0.1])
    settings = (
        ("alone in the north-east", south_west + crowd[:, None], 1 - south_west),
        ("alone in the south-east", north_west + crowd[:, None], 1 - north_west),
        ("at a corner", middle + np.outer(crowd, [1.0, -1.0]), corner),
        ("at the place of all others but one", np.vstack([np.tile(south_west, (people - 1, 1)), middle]), south_west),
    )
    return tuple(DataPair(name, _places(region, others), _places(region, place)) for name, others, place in settings)


def _places(region: Region, shares: FloatArray) -> FloatArray:
    """Degrees of places given as shares of the region's height and width, from the south and the west."""
    latitude = region.south + shares[..., 0] * region.height_deg
    longitude = wrap_longitude(region.west + shares[..., 1] * region.width_deg)
    return np.stack([latitude, longitude], axis=-1)


def _widest_corner(region: Region) -> FloatArray:
    """Of the eastern corners, as shares, the one that lies farther out: sums of coordinates change most there."""
    corners = np.array([[0.0, 1.0], [1.0, 1.0]])
    reach = np.abs(region.to_square(_places(region, corners))).sum(axis=1)
    widest: FloatArray = corners[int(np.argmax(reach))]
    return widest
