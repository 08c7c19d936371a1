"""How likely each cell is: the prior, the share of it that is possible, and what the numbers of people suggest."""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel
from nearveil.types import FloatArray

_SAMPLES = 3
# People come in clusters, so counts of them tell less than they would of people who are spread at random.
_TEMPER = 0.7


@kernel
def cell_weights(
    cells: FloatArray,
    rings: FloatArray,
    hints: FloatArray,
    misses: FloatArray,
    crowds: FloatArray,
    start: FloatArray,
    k: int,
    tau_m: float,
) -> FloatArray:
    """Weight of each cell: prior times the share that satisfies the rings times what the counts suggest.

    The prior is log-uniform in the distance from the start. ``hints`` has rows (x, y, people ahead, spread): as many
    people stand before the target as the density times the area, so distances go with the root of the counts.
    """
    weights = np.zeros(len(cells))
    for i in range(len(cells)):
        total = 0.0
        for a in range(_SAMPLES):
            for b in range(_SAMPLES):
                x = cells[i, 0] + cells[i, 2] * ((2 * a + 1) / _SAMPLES - 1.0)
                y = cells[i, 1] + cells[i, 2] * ((2 * b + 1) / _SAMPLES - 1.0)
                if _satisfies(x, y, rings):
                    distance = max(math.hypot(x - start[0], y - start[1]), 0.5 * tau_m)
                    score = _hint_score(x, y, hints) + _miss_score(x, y, misses, k) + _crowd_score(x, y, crowds)
                    total += math.exp(score) / (distance * distance)
        area = 4.0 * cells[i, 2] * cells[i, 2]
        # A cell that no sample speaks for is possible all the same: give it a little.
        floor = 1e-6 / max((cells[i, 0] - start[0]) ** 2 + (cells[i, 1] - start[1]) ** 2, 0.25 * tau_m * tau_m)
        weights[i] = area * max(total / (_SAMPLES * _SAMPLES), floor)
    return weights / weights.sum()


@kernel
def _satisfies(x: float, y: float, rings: FloatArray) -> bool:
    for j in range(len(rings)):
        distance = math.hypot(x - rings[j, 0], y - rings[j, 1])
        if distance < rings[j, 2] or distance > rings[j, 3]:
            return False
    return True


@kernel
def _hint_score(x: float, y: float, hints: FloatArray) -> float:
    """Log-likelihood of the counts: log(count / distance²) is nearly the same from everywhere around the target."""
    if len(hints) < 2:
        return 0.0
    mean = weight_sum = 0.0
    for j in range(len(hints)):
        distance = max(math.hypot(x - hints[j, 0], y - hints[j, 1]), 10.0)
        weight = 1.0 / hints[j, 3] ** 2
        mean += weight * (math.log(hints[j, 2] + 0.5) - 2.0 * math.log(distance))
        weight_sum += weight
    mean /= weight_sum
    score = 0.0
    for j in range(len(hints)):
        distance = max(math.hypot(x - hints[j, 0], y - hints[j, 1]), 10.0)
        value = math.log(hints[j, 2] + 0.5) - 2.0 * math.log(distance)
        score -= 0.5 * ((value - mean) / hints[j, 3]) ** 2
    return score


@kernel
def chance_to_be_listed(people_ahead: float, k: int) -> float:
    """How likely somebody with so many people expected ahead is listed: counts vary like Poisson numbers."""
    return 1.0 / (1.0 + math.exp((people_ahead + 0.5 - k) / (0.3 * math.sqrt(people_ahead + 1.0) + 0.2)))


@kernel
def _miss_score(x: float, y: float, misses: FloatArray, k: int) -> float:
    """Log-likelihood of not having been listed, tempered: crowds vary from street to street."""
    score = 0.0
    for j in range(len(misses)):
        ahead = misses[j, 2] * ((x - misses[j, 0]) ** 2 + (y - misses[j, 1]) ** 2)
        score += 0.5 * math.log(max(1.0 - chance_to_be_listed(ahead, k), 0.02))
    return score


@kernel
def _crowd_score(x: float, y: float, crowds: FloatArray) -> float:
    """Log-likelihood of a target with n people before it, where so many are known to be within two radii.

    Rows (x, y, n, inner radius, people within it, outer radius, people within it). People are spread over area: of
    those between the radii the target is the (n + 1 - within)-th, a binomial count; without an outer radius the crowd
    within the inner one tells how far the missing ones reach. Tempered, as people come in clusters.
    """
    score = 0.0
    for j in range(len(crowds)):
        squared = (x - crowds[j, 0]) ** 2 + (y - crowds[j, 1]) ** 2
        ahead, inner, within, outer = crowds[j, 2], crowds[j, 3], crowds[j, 4], crowds[j, 5]
        if outer < np.inf:
            share = (squared - inner * inner) / (outer * outer - inner * inner)
            beyond = crowds[j, 6] - 1.0 - ahead
        else:
            share = 1.0 - inner * inner / max(squared, 1.0)
            beyond = within
        share = min(max(share, 0.01), 0.99)
        before = ahead - within
        score += before * math.log(share) + beyond * math.log(1.0 - share)
        # Relative to its best, so that no row outweighs the others by its constant.
        if before + beyond > 0.0:
            top = min(max(before / (before + beyond), 0.01), 0.99)
            score -= before * math.log(top) + beyond * math.log(1.0 - top)
        if crowds[j, 8] > 0.0 and squared > crowds[j, 7] ** 2:
            score += _log_tail(ahead, crowds[j, 8], crowds[j, 7] ** 2 / squared)
    return _TEMPER * score


@kernel
def _log_tail(n: float, least: float, share: float) -> float:
    """Log-probability that of n people at least so many are in a part of the area."""
    term = n * math.log(share)
    total = 0.0
    for inside in range(int(n), int(least) - 1, -1):
        total += math.exp(max(term, -600.0))
        if inside > 0:
            term += math.log(inside / (n - inside + 1.0) * (1.0 - share) / share)
    return max(math.log(total), -100.0)
