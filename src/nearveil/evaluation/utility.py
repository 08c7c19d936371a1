"""Utility as a user of a nearby service feels it: recall and distance ratio, and how far people were moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

QueryProtocol = Literal["uniform", "users"]
"""Where queries are asked from: anywhere in the region, or from people's true places.

Whoever asks under `users` is not among their own neighbours, neither truly nor in the published list.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Places that are asked from.

    Attributes
    ----------
    places_m : ndarray of shape (n, 2)
        In metres.
    askers : ndarray of shape (n,) or None
        Who asks, by row of the population, under ``users``; None under ``uniform``, where nobody of them does.
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
    true_ids, listed = (_nearest(places_m, queries, most) for places_m in (true_m, published_m))
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


def _nearest(places_m: FloatArray, queries: Queries, k: int) -> IntArray:
    """The k nearest to every query, the one who asks left out."""
    if queries.askers is None:
        return cKDTree(places_m).query(queries.places_m, k=[*range(1, k + 1)])[1]
    _, ids = cKDTree(places_m).query(queries.places_m, k=[*range(1, k + 2)])
    others = ids != queries.askers[:, None]
    # An asker who is not among them takes no place: then the last is one too many.
    others[others.all(axis=1), -1] = False
    return ids[others].reshape(len(ids), k)


def _shared(first: IntArray, second: IntArray) -> float:
    """How many ids two lists share, on average over their rows; neither has an id twice."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.mean(np.sum(both[:, 1:] == both[:, :-1], axis=1)))


def _ratio(needed_m: FloatArray, listed_m: FloatArray) -> FloatArray:
    """Needed over listed; 1 where all are at the place asked from."""
    ratio: FloatArray = np.where(listed_m > 0, needed_m / np.where(listed_m > 0, listed_m, 1.0), 1.0)
    return ratio
