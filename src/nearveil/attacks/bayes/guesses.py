"""The best guesses of a place from weighted candidates: one for each way of counting an error."""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel
from nearveil.types import FloatArray, IntArray

_MOST_STEPS = 300
_CLOSE_M = 0.05
_SEEDS = 12
_MOST_TRIED = 1500
_MOST_CELLS_ACROSS = 500
_FINEST_SHARE = 1 / 32
_HEAVY = 0.01


@kernel
def mean_distance(places: FloatArray, weights: FloatArray, x: float, y: float) -> float:
    """Mean distance from a place to the candidates; the weights sum to 1."""
    total = 0.0
    for i in range(len(places)):
        total += weights[i] * math.hypot(places[i, 0] - x, places[i, 1] - y)
    return total


@kernel
def geometric_median(places: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """The place with the least mean distance (Weiszfeld's steps, with Vardi and Zhang's rule at a candidate)."""
    heaviest = np.argmax(weights)
    x = y = 0.0
    for i in range(len(places)):
        x += weights[i] * places[i, 0]
        y += weights[i] * places[i, 1]
    # Steps towards a candidate that is the median get ever shorter: look there first.
    if _pull(places, weights, places[heaviest, 0], places[heaviest, 1])[3] <= 0.0:
        return places[heaviest, 0], places[heaviest, 1]
    for _ in range(_MOST_STEPS):
        step_x, step_y, stiffness, excess = _pull(places, weights, x, y)
        if excess <= 0.0 or stiffness == 0.0:
            break
        share = excess / max(math.hypot(step_x, step_y), 1e-300)
        step_x, step_y = share * step_x / stiffness, share * step_y / stiffness
        x, y = x + step_x, y + step_y
        if math.hypot(step_x, step_y) < _CLOSE_M:
            break
    return x, y


@kernel
def _pull(places: FloatArray, weights: FloatArray, x: float, y: float) -> tuple[float, float, float, float]:
    """Sum of unit vectors to the candidates, sum of 1/distance, and what the pull exceeds the weight here by."""
    pull_x = pull_y = stiffness = here = 0.0
    for i in range(len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        distance = math.hypot(dx, dy)
        if distance < 1e-6:
            here += weights[i]
        else:
            pull_x += weights[i] * dx / distance
            pull_y += weights[i] * dy / distance
            stiffness += weights[i] / distance
    return pull_x, pull_y, stiffness, math.hypot(pull_x, pull_y) - here


def best_disc(places: FloatArray, weights: FloatArray, radius_m: float) -> tuple[float, float, float]:
    """Return the centre of a disc of that radius with the most weight, and the weight.

    Centres tried are the candidates in the heaviest neighbourhoods, places half way between the best of them and
    others, then places around those in ever smaller steps: in practice within a percent or two of the best.
    """
    order = np.argsort(places[:, 0])
    places, weights = np.ascontiguousarray(places[order]), weights[order]
    x, y, weight = _best_disc(places, weights, radius_m, _by_neighbourhood(places, weights, radius_m))
    return float(x), float(y), float(weight)


def _by_neighbourhood(places: FloatArray, weights: FloatArray, radius_m: float) -> IntArray:
    """The candidates with the heaviest neighbourhoods: the nine cells that hold the disc around them."""
    lowest = places.min(axis=0)
    # Cells may be larger than the disc, where the region is so large that there would be too many.
    cell_m = max(radius_m, float((places.max(axis=0) - lowest).max()) / _MOST_CELLS_ACROSS)
    column, row = ((places - lowest) / cell_m).astype(np.int64).T + 1
    shape = (int(column.max()) + 2, int(row.max()) + 2)
    sums = np.bincount(column * shape[1] + row, weights, minlength=shape[0] * shape[1]).reshape(shape)
    sums[1:-1] = sums[:-2] + sums[1:-1] + sums[2:]
    sums[:, 1:-1] = sums[:, :-2] + sums[:, 1:-1] + sums[:, 2:]
    found: IntArray = np.argsort(-sums[column, row], kind="stable")[:_MOST_TRIED]
    return found


@kernel
def _best_disc(places: FloatArray, weights: FloatArray, radius: float, tried: IntArray) -> tuple[float, float, float]:
    around = np.empty(len(tried))
    for i in range(len(tried)):
        around[i] = _weight_in_disc(places, weights, places[tried[i], 0], places[tried[i], 1], radius)
    best_x = best_y = best = 0.0
    for i in _apart(places[tried], around, 0.5 * radius):
        x, y = _best_midpoint(places, weights, places[tried[i], 0], places[tried[i], 1], radius, around[i])
        x, y, weight = _climb(places, weights, x, y, radius)
        if weight > best:
            best_x, best_y, best = x, y, weight
    return best_x, best_y, best


@kernel
def _apart(places: FloatArray, scores: FloatArray, gap: float) -> IntArray:
    """The places with the highest scores that are not near one with a higher score."""
    found = np.empty(_SEEDS, dtype=np.int64)
    count = 0
    for i in np.argsort(-scores):
        near = False
        for j in range(count):
            near |= math.hypot(places[i, 0] - places[found[j], 0], places[i, 1] - places[found[j], 1]) < gap
        if not near:
            found[count] = i
            count += 1
            if count == _SEEDS:
                break
    return found[:count]


@kernel
def _best_midpoint(
    places: FloatArray, weights: FloatArray, x: float, y: float, radius: float, best: float
) -> tuple[float, float]:
    """Of a place and the places half way to the heavier candidates around it, the one whose disc holds most."""
    best_x, best_y, heavy = x, y, _HEAVY * best
    for i in range(np.searchsorted(places[:, 0], x - 2 * radius), len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        if dx > 2 * radius:
            break
        if weights[i] > heavy and dx * dx + dy * dy <= 4 * radius * radius:
            weight = _weight_in_disc(places, weights, x + dx / 2, y + dy / 2, radius)
            if weight > best:
                best_x, best_y, best = x + dx / 2, y + dy / 2, weight
    return best_x, best_y


@kernel
def _climb(places: FloatArray, weights: FloatArray, x: float, y: float, radius: float) -> tuple[float, float, float]:
    """Move to the best of eight neighbours while that gains; halve the step when none does."""
    best = _weight_in_disc(places, weights, x, y, radius)
    step = 0.75 * radius
    while step > _FINEST_SHARE * radius:
        from_x, from_y, before = x, y, best
        for turn in range(8):
            to_x = from_x + step * math.cos(turn * math.pi / 4)
            to_y = from_y + step * math.sin(turn * math.pi / 4)
            weight = _weight_in_disc(places, weights, to_x, to_y, radius)
            if weight > best:
                x, y, best = to_x, to_y, weight
        if best <= before * (1 + 1e-9):
            step *= 0.5
    return x, y, best


@kernel
def _weight_in_disc(places: FloatArray, weights: FloatArray, x: float, y: float, radius: float) -> float:
    """Weight within the disc; the places are sorted by x."""
    total = 0.0
    for i in range(np.searchsorted(places[:, 0], x - radius), len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        if dx > radius:
            break
        if dx * dx + dy * dy <= radius * radius:
            total += weights[i]
    return total
