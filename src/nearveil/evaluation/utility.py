"""Utility: recall and distance ratio for those who ask, and how far users were moved.

Every number is measured under a protocol that has a name: where questions come from, and how the region is scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearveil.errors import UsageError
from nearveil.nearby.index import nearest_rows
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

QueryProtocol = Literal["uniform", "users"]
"""Where queries are asked from: anywhere in the region, or from users' true locations.

A user who asks under `users` is not among their own neighbors, neither truly nor in the published list.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Locations that are asked from, in meters, and under `users` the rows of those who ask."""

    places_m: FloatArray
    askers: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Utility:
    """Means over queries.

    ``recall`` is the share of the true k nearest who are in the published list; ``distance_ratio`` the sum of their
    distances over that of the listed users' true distances, the mean of all queries' own, or pooled: with both sums
    over all queries first. ``distance_mse_m2``: how much farther or nearer than they are the true k nearest seem to be.
    """

    recall: float
    distance_ratio: float
    pooled_distance_ratio: float
    distance_mse_m2: float


def draw_queries(
    true_m: FloatArray, region: Region, protocol: QueryProtocol, count: int, rng: np.random.Generator
) -> Queries:
    """Draw queries under a protocol, for users at ``true_m`` in meters."""
    if protocol == "users":
        askers = rng.integers(len(true_m), size=count)
        return Queries(true_m[askers], askers)
    south_west = np.array([region.south, region.west])
    degrees = south_west + rng.random((count, 2)) * np.array([region.height_deg, region.width_deg])
    return Queries(region.to_metres(degrees))


def measure_utilities(
    true_m: FloatArray, published_m: FloatArray, queries: Queries, *, ks: Sequence[int]
) -> list[Utility]:
    """Compare the k nearest among true and among published locations, all in meters, for each k."""
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
        # Neither list has an id twice.
        both = np.sort(np.concatenate([true_ids[:, :k], listed[:, :k]], axis=1), axis=1)
        recall = float((both[:, 1:] == both[:, :-1]).sum(axis=1).mean()) / k
        ratio, pooled = float(_ratio(needed_m, listed_m).mean()), float(_ratio(needed_m.sum(), listed_m.sum()))
        squared = float(np.mean((published_distance[:, :k] - true_distance[:, :k]) ** 2))
        found.append(Utility(recall, ratio, pooled, squared))
    return found


def _ratio(needed_m: FloatArray, listed_m: FloatArray) -> FloatArray:
    """Needed over listed; 1 where all are at the place asked from."""
    ratio: FloatArray = np.where(listed_m > 0, needed_m / np.where(listed_m > 0, listed_m, 1.0), 1.0)
    return ratio
