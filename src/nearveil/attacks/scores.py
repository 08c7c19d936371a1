"""How well the best attacker does: how wrong its guesses are, and whom it names, for the operator who knows the truth.

`score_attacker` compares a `BayesAttacker`'s guesses of locations with the truth. `score_naming` lets an attacker who
knows every address guess which one is the target's.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from nearveil.attacks.bayes import BayesAttacker
from nearveil.attacks.channels import Channel, DensityChannel, channel_of, edge_sides, likelihoods
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import is_own
from nearveil.types import FloatArray, IntArray


def score_attacker(attacker: BayesAttacker, true: FloatArray, published: FloatArray) -> dict[str, FloatArray]:
    """Attack users whose true locations are known, and return how far each guess is from the truth, in meters.

    The guesses are ``mean``, ``median`` and ``best_disc``, beside the published location itself (the mean, if several)
    as ``read_off``. Quote the mean error of the median, and the share that the best disc has within tau. ``true`` has
    the shape (n, 2), ``published`` the same, or (r, n, 2) for r releases of users who stay put.
    """
    region, releases = attacker.prior.region, np.asarray(published, dtype=np.float64)
    guesses = np.array([(each.mean, each.median, each.best_disc) for each in attacker.estimate_many(releases)])
    read_off_m = region.to_metres(releases.reshape(-1, 2)).reshape(-1, len(guesses), 2).mean(axis=0)
    errors_m = np.linalg.norm([*guesses.transpose(1, 0, 2), read_off_m] - region.to_metres(true), axis=-1)
    return dict(zip(("mean", "median", "best_disc", "read_off"), errors_m, strict=True))


# Who is named: the attacker knows every address, but not who lives where, and its first guess is an address.


NAMING_TARGETS, TENTHS = 2_000, 10
_SPARSENESS_NEIGHBOR, _USERS_PER_NEIGHBOR = 50, 20
_ALIKE = 1e-9


def score_naming(
    mechanism: Mechanism | Channel, true: FloatArray, published: FloatArray, *, targets: IntArray | None = None
) -> FloatArray:
    """Return how likely each target is named: the first guess of an address is the right one, ties shared evenly.

    ``true`` are the locations of all users, the addresses; several users at one address are one with more weight.
    ``published`` has the shape (n, 2), or (r, n, 2) for r releases of users who stay put; ``targets`` are the rows of
    the users to name, all by default.
    """
    locations = np.asarray(true, dtype=np.float64)
    rows = np.arange(len(locations)) if targets is None else np.asarray(targets, dtype=np.int64)
    releases = np.asarray(published, dtype=np.float64)[..., rows, :].reshape(-1, len(rows), 2)
    channel = channel_of(mechanism)
    addresses, lives_at, residents = np.unique(locations, axis=0, return_inverse=True, return_counts=True)
    own, places_m = lives_at.reshape(-1)[rows], channel.region.to_metres(addresses)
    chances, rest = np.empty(len(rows)), np.arange(len(rows))
    own_law = channel.mechanism if isinstance(channel, DensityChannel) and is_own(channel.mechanism) else None
    decay_per_m = None if own_law is None else own_law.decay_per_m
    if decay_per_m is not None and len(releases) == 1:
        # The density falls with the distance alone, except where locations beyond the region were clamped.
        is_clamped = (edge_sides(releases[0], channel.region) != 0).any(axis=1)
        near, rest = np.flatnonzero(~is_clamped), np.flatnonzero(is_clamped)
        published_m = channel.region.to_metres(releases[0, near])
        chances[near] = _nearest_address(places_m, residents, published_m, decay_per_m) == own[near]
    for target, logs in zip(rest, likelihoods(channel.at(places_m), releases[:, rest]), strict=True):
        weighted = logs + np.log(residents)
        is_first = weighted >= weighted.max() - _ALIKE
        chances[target] = is_first[own[target]] / is_first.sum()
    return chances


def _nearest_address(places_m: FloatArray, residents: IntArray, published_m: FloatArray, rate_per_m: float) -> IntArray:
    """The likeliest address by the distance and how many users live there: of those with equally many, the nearest."""
    found, best = np.zeros(len(published_m), dtype=np.int64), np.full(len(published_m), -np.inf)
    for users in np.unique(residents):
        rows = np.flatnonzero(residents == users)
        away_m, nearest = cKDTree(places_m[rows]).query(published_m)
        logs = math.log(users) - rate_per_m * away_m
        # No two addresses are as far away to the last digit, but by chance.
        found, best = np.where(logs > best, rows[nearest], found), np.maximum(logs, best)
    return found


def density_tenths(places_m: FloatArray) -> IntArray:
    """Return each user's tenth of density: 0 for the densest, 9 for the sparsest.

    By the distance to the 50th neighbor; where there are fewer than 1,000 users, to that of a twentieth of them.
    """
    users = len(places_m)
    neighbor = min(_SPARSENESS_NEIGHBOR, max(1, users // _USERS_PER_NEIGHBOR), max(1, users - 1))
    away_m = np.asarray(cKDTree(places_m).query(places_m, k=[neighbor + 1])[0]).reshape(-1)
    rank = np.empty(users, dtype=np.int64)
    rank[np.argsort(away_m, kind="stable")] = np.arange(1, users + 1)
    # The last tenth has a user in it, however few there are.
    return (rank * TENTHS - 1) // users


def naming_targets(tenths: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw users to name, equally many of each of the `density_tenths`; all where there are no more."""
    if len(tenths) <= count:
        return np.arange(len(tenths))
    size = -(-count // TENTHS)
    return np.concatenate([rng.choice(np.flatnonzero(tenths == tenth), size, replace=False) for tenth in range(TENTHS)])
