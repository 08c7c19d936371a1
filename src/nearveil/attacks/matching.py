"""All users at once: all published locations matched to all addresses, each user at one address.

An attacker who looks at one user alone asks which addresses explain that user's published location. One who has all
published locations knows more: where two users could be at one address, only one of them is.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from nearveil.attacks.channels import Channel, channel_of
from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray, IntArray

_PAIRS_AT_ONCE = 4_000_000
# Of each user at most so many addresses are listed, none less likely than the likeliest by so much. Others have the
# same small weight: then everybody has an address in some matching.
_MOST_LISTED, _LEAST_SHARE, _ELSEWHERE = 1_000, 1e-3, 1e-12
_MOST_ROUNDS, _CLOSE = 300, 1e-3


def match_everybody(mechanism: Mechanism | Channel, addresses: FloatArray, published: FloatArray) -> IntArray:
    """Return, for each published location, the row of its likeliest address when all are matched at once.

    Likelihoods are balanced, as by Sinkhorn, until all users have one address each, and each address its users.
    ``addresses`` are the homes of all users in degrees, in any order; an address of several users is in several rows,
    of which the first is returned. There may be fewer published locations. The mechanism must have a density.
    """
    channel = channel_of(mechanism)
    if not channel.prepares_fast:
        raise UsageError("matching all users at once needs a mechanism with a density, such as planar-laplace")
    homes, locations = (channel.region.check(points) for points in (addresses, published))
    if len(locations) > len(homes):
        raise UsageError("there are more published locations than addresses; give an address of two users twice")
    distinct, first_row, residents = np.unique(homes, axis=0, return_index=True, return_counts=True)
    likelihood = channel.at(channel.region.to_metres(distinct))
    parts = np.array_split(locations, -(-len(locations) * len(distinct) // _PAIRS_AT_ONCE))
    weights = vstack([_listed(likelihood(part).T) for part in parts], format="csr")
    prices, empty = np.ones(len(distinct)), len(homes) - len(locations)
    for _ in range(_MOST_ROUNDS):
        slots = residents * prices
        shares = 1 / (weights @ slots + _ELSEWHERE * slots.sum())
        # An address that stays empty is taken by a user to whom all are alike.
        wanted = prices * (weights.T @ shares + _ELSEWHERE * shares.sum() + empty / slots.sum())
        prices = prices / wanted
        if np.abs(wanted - 1) @ residents < _CLOSE * len(homes):
            break
    likeliest = weights.multiply(residents * prices).tocsr().argmax(axis=1)
    return first_row[np.asarray(likeliest).reshape(-1)]


def _listed(logs: FloatArray) -> csr_array:
    """The likeliest addresses of each user, with weights of which the largest is 1."""
    weights = np.exp(logs - np.maximum(logs.max(axis=1, keepdims=True), np.finfo(float).min))
    last = min(_MOST_LISTED, weights.shape[1])
    weights[weights < np.maximum(np.partition(weights, -last, axis=1)[:, [-last]], _LEAST_SHARE)] = 0.0
    return csr_array(weights)
