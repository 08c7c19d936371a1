"""Pairs of places that a mechanism's own density says lose most, found by looking at all pairs of a lattice."""

from __future__ import annotations

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.region_pairs import as_place
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray

_PLACES_PER_SIDE = 16
_OUTPUTS_PER_SIDE = 32
_MOST = 3
# Looking for losses a little below the claim finds a pair to try also where the claim is true.
_SHARE_OF_CLAIM = 0.8


def density_pairs(mechanism: Mechanism, epsilon: float) -> list[Pair]:
    """Return the pairs with most probability of a loss near or above ``epsilon``, by the mechanism's density.

    The density may be wrong: it only says where to look.
    """
    region = mechanism.resolved_region
    half = np.array(region.half_extent_m if mechanism.frame == "metres" else region.half_extent_square)
    places = _lattice(half, _PLACES_PER_SIDE)
    # The places themselves are outputs too: where a cell is published, each place's own cell must be among them.
    outputs = np.vstack([_lattice(half, _OUTPUTS_PER_SIDE), places])
    density = np.exp(np.array([mechanism.log_density(place, outputs) for place in places]))
    density /= np.maximum(density.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    excess = np.array([_excess(row, density, epsilon * _SHARE_OF_CLAIM) for row in density])
    degrees = mechanism.leave(places)
    pairs = []
    for _ in range(_MOST):
        first, second = np.unravel_index(int(np.argmax(excess)), excess.shape)
        if excess[first, second] <= 0:
            break
        ends = (as_place(region, degrees[first]), as_place(region, degrees[second]))
        pairs.append(Pair(*ends, "where the mechanism's own density differs most"))
        excess[[first, second], :] = excess[:, [first, second]] = -1.0
    return pairs


def _excess(row: FloatArray, density: FloatArray, epsilon: float) -> FloatArray:
    """Return sum of max(0, p - e^ε q) over the outputs, p one place's row and q every place's."""
    excess: FloatArray = np.maximum(row - np.exp(epsilon) * density, 0.0).sum(axis=1)
    return excess


def _lattice(half: FloatArray, per_side: int) -> FloatArray:
    steps = (np.arange(per_side) + 0.5) / per_side * 2 - 1
    grid: FloatArray = np.stack(np.meshgrid(steps * half[0], steps * half[1]), axis=-1).reshape(-1, 2)
    return grid
