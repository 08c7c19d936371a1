"""Places that explain ranked lists: how badly an order is violated, and how to find places that violate it least.

A rule (place, near, far) says that from a place one person is nearer than another. Its loss is a softplus of the
difference of their distances, so that a rule which barely holds still pushes: solutions stay off the edges of what is
possible. The minimiser is compiled together with the loss, because one evaluation takes less time than a call from
Python.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.kernels import kernel
from nearveil.types import FloatArray, IntArray

# Softplus is below 1e-5 there, and most rules are: not worth an exponential.
_SURE = -12.0
_MEMORY = 8
_HALVINGS = 20


@kernel
def order_loss(
    points: FloatArray,
    places: FloatArray,
    rules: IntArray,
    weights: FloatArray,
    temperature_m: float,
    homes: FloatArray,
    pull: float,
    gradient: FloatArray,
) -> float:
    """Weighted softplus of all violations, with a weak pull of everybody to a home; fills in the gradient."""
    gradient[:] = 0.0
    n_places, n_points = len(places), len(points)
    distances = np.empty((n_places, n_points))
    slopes = np.zeros((n_places, n_points))
    for q in range(n_places):
        for i in range(n_points):
            dx, dy = points[i, 0] - places[q, 0], points[i, 1] - places[q, 1]
            # A millimetre keeps the gradient finite where a person is at the place itself.
            distances[q, i] = math.sqrt(dx * dx + dy * dy + 1e-6)
    total = 0.0
    for c in range(len(rules)):
        q, near, far = rules[c, 0], rules[c, 1], rules[c, 2]
        z = (distances[q, near] - distances[q, far]) / temperature_m
        if z < _SURE:
            continue
        e = math.exp(-abs(z))
        total += weights[c] * temperature_m * (max(z, 0.0) + math.log1p(e))
        slope = weights[c] * (1.0 if z > 0 else e) / (1.0 + e)
        slopes[q, near] += slope
        slopes[q, far] -= slope
    for i in range(n_points):
        for q in range(n_places):
            if slopes[q, i] != 0.0:
                share = slopes[q, i] / distances[q, i]
                gradient[i, 0] += share * (points[i, 0] - places[q, 0])
                gradient[i, 1] += share * (points[i, 1] - places[q, 1])
        for axis in range(2):
            away = points[i, axis] - homes[i, axis]
            total += 0.5 * pull * away * away
            gradient[i, axis] += pull * away
    return total


@kernel
def strains_m(points: FloatArray, places: FloatArray, rules: IntArray) -> FloatArray:
    """By how many metres the rules about each person are violated on average; rules that hold count as zero."""
    sums, counts = np.zeros(len(points)), np.zeros(len(points))
    for c in range(len(rules)):
        q, near, far = rules[c, 0], rules[c, 1], rules[c, 2]
        nearer = math.hypot(points[near, 0] - places[q, 0], points[near, 1] - places[q, 1])
        farther = math.hypot(points[far, 0] - places[q, 0], points[far, 1] - places[q, 1])
        for i in (near, far):
            sums[i] += max(nearer - farther, 0.0)
            counts[i] += 1
    return sums / np.maximum(counts, 1)


@kernel
def _descent(
    gradient: FloatArray, steps: FloatArray, changes: FloatArray, curvatures: FloatArray, count: int
) -> FloatArray:
    """Direction of the next L-BFGS step, from the last steps and the changes of the gradient along them."""
    direction = -gradient
    oldest = max(0, count - _MEMORY)
    shares = np.zeros(_MEMORY)
    for number in range(count - 1, oldest - 1, -1):
        m = number % _MEMORY
        shares[m] = np.dot(steps[m], direction) / curvatures[m]
        direction -= shares[m] * changes[m]
    last = (count - 1) % _MEMORY
    direction *= curvatures[last] / np.dot(changes[last], changes[last])
    for number in range(oldest, count):
        m = number % _MEMORY
        direction += (shares[m] - np.dot(changes[m], direction) / curvatures[m]) * steps[m]
    return direction


@kernel
def minimise(
    points: FloatArray,
    places: FloatArray,
    rules: IntArray,
    weights: FloatArray,
    temperature_m: float,
    homes: FloatArray,
    pull: float,
    most_steps: int,
    tolerance: float,
) -> FloatArray:
    """Places with a small loss, by L-BFGS from given ones, until a step gains less than a share of the loss."""
    size = points.size
    here = points.copy()
    gradient, next_gradient = np.zeros(points.shape), np.zeros(points.shape)
    steps, changes, curvatures = np.zeros((_MEMORY, size)), np.zeros((_MEMORY, size)), np.zeros(_MEMORY)
    loss = order_loss(here, places, rules, weights, temperature_m, homes, pull, gradient)
    count = 0
    for _ in range(most_steps):
        flat = gradient.ravel()
        direction = -flat
        if count > 0:
            direction = _descent(flat, steps, changes, curvatures, count)
        descent = np.dot(direction, flat)
        if count == 0 or descent >= 0.0:
            # Nothing is known of the curvature: the person pushed most moves by the temperature.
            count = 0
            direction = -flat * (temperature_m / (np.abs(flat).max() + 1e-300))
            descent = np.dot(direction, flat)
        length, gain = 1.0, -1.0
        there = here
        for _ in range(_HALVINGS):
            there = here + length * direction.reshape(points.shape)
            gain = loss - order_loss(there, places, rules, weights, temperature_m, homes, pull, next_gradient)
            if gain >= -1e-4 * length * descent:
                break
            length *= 0.5
        if gain <= 0.0:
            break
        change = next_gradient.ravel() - flat
        curvature = length * np.dot(direction, change)
        if curvature > 1e-12:
            m = count % _MEMORY
            steps[m], changes[m], curvatures[m] = length * direction, change, curvature
            count += 1
        here, gradient, loss = there, next_gradient.copy(), loss - gain
        if gain < tolerance * loss:
            break
    return here


@kernel
def lay_out(points: FloatArray, places: FloatArray, radii: FloatArray, rounds: int) -> FloatArray:
    """Move people to guessed distances from places, as well as they can all be met.

    ``radii`` has a row for each place and a column for each person; a negative one means "at least as far as this",
    and NaN that nothing is known.
    """
    here = points.copy()
    for _ in range(rounds):
        for i in range(len(here)):
            x, y, count = 0.0, 0.0, 0
            for q in range(len(places)):
                dx, dy = here[i, 0] - places[q, 0], here[i, 1] - places[q, 1]
                distance = math.sqrt(dx * dx + dy * dy) + 1e-9
                radius = radii[q, i]
                if math.isnan(radius) or (radius < 0.0 and distance > -radius):
                    continue
                x += places[q, 0] + dx * abs(radius) / distance
                y += places[q, 1] + dy * abs(radius) / distance
                count += 1
            if count > 0:
                here[i, 0], here[i, 1] = x / count, y / count
    return here
