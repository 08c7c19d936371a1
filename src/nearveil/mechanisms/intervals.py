"""Intervals: private discs that users are moved inside of, with the budget that was spent on them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.privacy.accounting import LaplaceAnswers, Noise, fit_epsilon, pure_fit_epsilon
from nearveil.privacy.guarantee import SEEDED_INTERVALS_NOTE, Basis, Guarantee, PrivacyDefinition
from nearveil.randomness import EXPONENTIAL_REACH
from nearveil.region import Region
from nearveil.types import FloatArray

FORMAT = "nearveil-intervals"
FORMAT_VERSION = 1

Method = Literal["pic", "private-grid", "public"]

_NO_INTERVALS = "this is not an intervals file, or it is damaged; make one with 'nearveil fit'"

PAPER_CENTRES = 800
"""The m with which our numbers come nearest to the paper's, which gives none; and the most where no number is given."""

PEOPLE_PER_CENTRE = 20


def centres_for(people: float) -> int:
    """Return how many centers to make where no number is given: one for every 20 users, from 2 to 800.

    The number is published with the centers, so the number of users must be public or noisy.

    Examples
    --------
    >>> centres_for(100), centres_for(1_000), centres_for(25_000)
    (5, 50, 800)
    """
    return int(min(max(people / PEOPLE_PER_CENTRE, 2), PAPER_CENTRES))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Discs in the square of a region. Holds nothing private: no count, no label, no sum.

    Attributes
    ----------
    region : Region
        The region whose square the discs live in.
    centres, radii : ndarray
        Shape (m, 2) and (m,), in units of the square. The radii follow from the centers and gamma.
    method : {"pic", "private-grid", "public"}
        How the centers were found: private k-means, k-means on one noisy histogram, or anywhere, without data.
    answers : tuple of LaplaceAnswers
        What all users in the data were asked for, which is what the intervals cost them; empty if no data was used.
    unit : {"user", "row"}
        Whose data the budget counts: a row's, where a user may have had several.
    gamma : float
        Radius as a share of the distance to the nearest other centre.
    seeded : bool
        Whether the noise came from a seed, which undoes its protection for anyone who knows the seed.
    """

    region: Region
    centres: FloatArray
    method: Method
    answers: tuple[LaplaceAnswers, ...]
    gamma: float
    seeded: bool
    unit: Literal["user", "row"] = "user"
    radii: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or self.centres.shape[1] != 2 or len(self.centres) < 2:
            raise UsageError("intervals need at least two centres, all different")
        if not (np.abs(self.centres) <= np.array(self.region.half_extent_square) * (1 + 1e-12)).all():
            raise UsageError("the centres of intervals must lie in their region")
        # Slow to load, and many commands never need it.
        from scipy.spatial import cKDTree  # noqa: PLC0415

        distances, _ = cKDTree(self.centres).query(self.centres, k=2)
        object.__setattr__(self, "radii", check_gamma(self.gamma) * np.ascontiguousarray(distances[:, 1]))
        if not (self.radii > 0).all():
            raise UsageError("intervals need at least two centres, all different")
        for array in (self.centres, self.radii):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.radii)

    @property
    def radii_m(self) -> FloatArray:
        """Radii in meters (per-axis scaling: along the longer axis)."""
        return self.radii * self.region.metres_per_unit

    @property
    def is_free(self) -> bool:
        """Whether they were made without anybody's data."""
        return not self.answers

    def fit_cost(self, delta: float) -> tuple[float, float]:
        """Return epsilon and delta between fitting with and without one user, about the given delta at most."""
        if not self.answers:
            return 0.0, 0.0
        # Plain composition needs no delta but for what the finite range of the noise adds.
        unreachable = sum(4 * part.count * math.exp(1 / part.scale - EXPONENTIAL_REACH) for part in self.answers)
        pure, epsilon = pure_fit_epsilon(self.answers), fit_epsilon(self.answers, delta=delta)
        # A delta that saves next to nothing is not worth having.
        saved = epsilon < 0.99 * pure
        return (epsilon, min(1.0, delta + unreachable)) if saved else (pure, min(1.0, unreachable))

    def guarantee(self, delta: float) -> Guarantee:
        """Return what holds for the intervals themselves, once they are published."""
        epsilon, delta = self.fit_cost(delta)
        promise, not_covered, because = "the discs were made without any user's data", "", "no data, no cost"
        if self.answers:
            asked = " and ".join(f"{part.count} with scale {part.scale:.4g}" for part in self.answers)
            because = (
                f"all sums and counts that a user is in, each of which one changes by 1, have Laplace noise: {asked}"
            )
            promise = "how much the discs can depend on any one row fitted on is bounded by epsilon"
            not_covered = "the discs show where users in general are; replacing the location of one row counts twice"
        found = Guarantee(
            title="The intervals",
            definition=PrivacyDefinition.CENTRAL,
            epsilon=epsilon,
            unit="per user",
            delta=delta,
            neighbors="the data fitted on, with and without one row, both with enough users, not all at one location",
            promise=promise,
            not_covered=not_covered,
            basis=Basis.THEOREM,
            because=because,
            notes=(SEEDED_INTERVALS_NOTE,) if self.seeded else (),
        )
        return found if self.unit == "user" else found.counted_per_row()

    # -- one JSON file ---------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Write the intervals as one JSON document; `intervals_from_json` reads it back."""
        return json.dumps(self.to_document(), indent=1)

    def to_document(self) -> dict[str, Any]:
        """Return the intervals as plain values for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "region": asdict(self.region),
            "method": self.method,
            "budget": {
                "unit": self.unit,
                "epsilon": pure_fit_epsilon(self.answers),
                "laplace_answers": [{"count": part.count, "scale": part.scale} for part in self.answers],
            },
            "gamma": self.gamma,
            "seeded": self.seeded,
            "centres": self.centres.tolist(),
            "radii": self.radii.tolist(),
        }


def intervals_from_json(text: str) -> Intervals:
    """Read intervals that `Intervals.to_json` wrote."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(_NO_INTERVALS) from None
    return intervals_from_document(document)


def intervals_from_document(document: Any) -> Intervals:
    """Read what `Intervals.to_document` gave."""
    try:
        budget, asked = document["budget"], document["budget"]["laplace_answers"]
        intervals = Intervals(
            region=Region(**document["region"]),
            centres=np.array(document["centres"], dtype=np.float64),
            method=document["method"],
            answers=tuple(LaplaceAnswers(int(part["count"]), float(part["scale"])) for part in asked),
            gamma=float(document["gamma"]),
            seeded=bool(document["seeded"]),
            unit=budget["unit"],
        )
        is_sound = (
            (document["format"], document["version"]) == (FORMAT, FORMAT_VERSION)
            and intervals.method in get_args(Method)
            and intervals.unit in ("user", "row")
            # Intervals from data that was never asked, or public ones that cost something, cannot be.
            and (intervals.method == "public") == intervals.is_free
            and np.allclose(intervals.radii, document["radii"], rtol=1e-9)
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        is_sound = False
    if not is_sound:
        raise DataError(_NO_INTERVALS)
    return intervals


def check_gamma(gamma: float) -> float:
    """Return gamma if discs of that size can be used."""
    if not (isinstance(gamma, int | float) and 0.01 <= gamma <= 0.8):
        raise UsageError("gamma must lie between 0.01 and 0.8; up to 0.5 the discs do not overlap")
    return float(gamma)


def cell_polygons(intervals: Intervals) -> list[FloatArray]:
    """Return, for each interval, the corners of its cell: where its center is the nearest, within the region."""
    centres, half = intervals.centres, np.array(intervals.region.half_extent_square)
    # Mirror images in the four sides make the sides part of the Voronoi diagram, which clips every cell exactly.
    images = [centres * (1 - 2 * axis) + 2 * side * half * axis for axis in np.eye(2) for side in (-1, 1)]
    from scipy.spatial import Voronoi, cKDTree  # noqa: PLC0415

    diagram = Voronoi(np.unique(np.vstack([centres, *images]), axis=0), qhull_options="Qbb Qc Qz")
    _, own = cKDTree(diagram.points).query(centres)
    return [np.clip(diagram.vertices[diagram.regions[diagram.point_region[point]]], -half, half) for point in own]


def diameter(polygon: FloatArray, noise: Noise) -> float:
    """Return the largest distance between two points of a polygon, for Laplace noise in the L1 norm."""
    from scipy.spatial.distance import pdist  # noqa: PLC0415

    return float(pdist(polygon, "cityblock" if noise == "laplace" else "euclidean").max())
