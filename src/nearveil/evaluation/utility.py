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
"""Where queries are asked from: anywhere in the region, or from people's true places."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Means over queries under one protocol.

    Attributes
    ----------
    recall : float
        Share of the true k nearest who are in the published list.
    distance_ratio : float
        Sum of true neighbours' distances over sum of the listed people's true distances.
    distance_mse_m2 : float
        Over the true k nearest: mean square of how much farther or nearer than they are they seem to be.
    """

    protocol: QueryProtocol
    k: int
    queries: int
    recall: float
    distance_ratio: float
    distance_mse_m2: float


def query_points(
    true_m: FloatArray, region: Region, protocol: QueryProtocol, count: int, rng: np.random.Generator
) -> FloatArray:
    """Draw query places in metres under a protocol."""
    if protocol == "users":
        return true_m[rng.integers(len(true_m), size=count)]
    south_west = np.array([region.south, region.west])
    degrees = south_west + rng.random((count, 2)) * np.array([region.height_deg, region.width_deg])
    return region.to_metres(degrees)


def measure_utility(
    true_m: FloatArray, published_m: FloatArray, queries_m: FloatArray, *, protocol: QueryProtocol, k: int
) -> Utility:
    """Compare the k nearest among true and among published places, all in metres."""
    return measure_utilities(true_m, published_m, queries_m, protocol=protocol, ks=(k,))[0]


def measure_utilities(
    true_m: FloatArray, published_m: FloatArray, queries_m: FloatArray, *, protocol: QueryProtocol, ks: Sequence[int]
) -> list[Utility]:
    """Do the same for several k at once."""
    most = max(ks)
    if not 1 <= min(ks) <= most <= len(true_m):
        raise UsageError(f"k must lie between 1 and the number of people, {len(true_m):,}")
    true_distance, true_ids = cKDTree(true_m).query(queries_m, k=[*range(1, most + 1)])
    _, listed = cKDTree(published_m).query(queries_m, k=[*range(1, most + 1)])
    listed_distance = np.linalg.norm(true_m[listed] - queries_m[:, None, :], axis=-1)
    published_distance = np.linalg.norm(published_m[true_ids] - queries_m[:, None, :], axis=-1)
    return [
        Utility(
            protocol,
            k,
            len(queries_m),
            recall=_shared(true_ids[:, :k], listed[:, :k]) / k,
            distance_ratio=_ratio(true_distance[:, :k].sum(axis=1), listed_distance[:, :k].sum(axis=1)),
            distance_mse_m2=float(np.mean((published_distance[:, :k] - true_distance[:, :k]) ** 2)),
        )
        for k in ks
    ]


def _shared(first: IntArray, second: IntArray) -> float:
    """How many ids two lists share, on average over their rows; neither has an id twice."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    return float(np.mean(np.sum(both[:, 1:] == both[:, :-1], axis=1)))


def _ratio(needed: FloatArray, listed: FloatArray) -> float:
    return float(np.where(listed > 0, needed / np.where(listed > 0, listed, 1.0), 1.0).mean())
