"""Utility as a user of a nearby service feels it: recall and distance ratio, and how far people were moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

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
    """

    protocol: QueryProtocol
    k: int
    queries: int
    recall: float
    distance_ratio: float


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
    if not 1 <= k <= len(true_m):
        raise UsageError(f"k must lie between 1 and the number of people, {len(true_m):,}")
    true_distance, true_ids = cKDTree(true_m).query(queries_m, k=[*range(1, k + 1)], workers=-1)
    _, listed = cKDTree(published_m).query(queries_m, k=[*range(1, k + 1)], workers=-1)
    recall = np.mean([len(np.intersect1d(a, b, assume_unique=True)) for a, b in zip(true_ids, listed, strict=True)]) / k
    listed_distance = np.linalg.norm(true_m[listed] - queries_m[:, None, :], axis=-1).sum(axis=1)
    needed = true_distance.sum(axis=1)
    ratio = np.where(listed_distance > 0, needed / np.where(listed_distance > 0, listed_distance, 1.0), 1.0)
    return Utility(protocol, k, len(queries_m), float(recall), float(ratio.mean()))
