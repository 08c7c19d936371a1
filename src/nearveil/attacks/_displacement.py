"""How far a service has the accounts of an attacker from where they were put, as the order of the accounts tells.

Two accounts at different distances from the place asked from are listed in that order, unless one of them is displaced
by more than the difference, or lists are ordered by bands. So every two accounts that follow each other in a list tell
a little about displacements. They tell more than the target's ranks do: where it is, is to be learned from the same
ranks, and on a grid answers agree with each other though all are displaced alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from nearveil.attacks.base import Answered
from nearveil.types import FloatArray

# Share of pairs whose order nothing explains.
_NONSENSE = 0.02


def account_pairs(history: Iterable[Answered]) -> FloatArray:
    """Return the distances of accounts that follow each other in a list: rows of the first and the second."""
    pairs: list[tuple[float, float]] = []
    for answered in history:
        radius_of = {account: math.dist(answered.place, spot) for account, spot in answered.accounts.items()}
        pairs += pairwise(radius_of[person] for person in answered.answer if person in radius_of)
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def log_likelihood_of_order(pairs: FloatArray, displaced_m: FloatArray, bands_m: FloatArray) -> FloatArray:
    """Log-likelihood of the order of accounts, one for each hypothesis: a standard deviation and a width of bands."""
    width_m, spread_m = bands_m[:, None], displaced_m[:, None]
    bands = np.floor(pairs.T[:, None, :] / np.where(width_m > 0, width_m, 1.0))
    first_m, second_m = np.where(width_m > 0, width_m * bands, pairs.T[:, None, :])
    # A displacement sideways makes an account farther away, the more so the nearer it was put.
    gaps = np.hypot(second_m, spread_m) - np.hypot(first_m, spread_m)
    chances = 1 / (1 + np.exp(-1.702 * np.clip(gaps / (math.sqrt(2) * spread_m), -300, 300)))
    return np.asarray(np.log((1 - _NONSENSE) * chances + _NONSENSE / 2).sum(axis=1))
