"""Where the target can be: an outer approximation by square cells, and how likely each is.

Hard knowledge is a list of rings: at distance between ``low`` and ``high`` from a place. A cell stays as long as some
point of it may satisfy every ring, so the target is always in one of them. Soft knowledge, from how many people stand
before the target in a list, only moves weight between cells.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.attacks.rings import Rings
from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray

_MOST_CELLS = 800
_SAMPLES = 3
_TEMPER = 0.7
_NO_RINGS, _NO_HINTS, _NO_MISSES, _NO_CROWDS = (np.empty((0, columns)) for columns in (4, 4, 3, 9))


@kernel
def nearest_and_farthest(qx: float, qy: float, x: float, y: float, half: float) -> tuple[float, float]:
    """Least and greatest distance from a place to a square."""
    dx, dy = abs(qx - x), abs(qy - y)
    return math.hypot(max(dx - half, 0.0), max(dy - half, 0.0)), math.hypot(dx + half, dy + half)


@kernel
def possible_cells(cells: FloatArray, rings: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Which cells can hold the target, and which of them lie wholly within every ring.

    ``rings`` has rows (x, y, low, high).
    """
    possible = np.ones(len(cells), dtype=np.bool_)
    whole = np.ones(len(cells), dtype=np.bool_)
    for i in range(len(cells)):
        for j in range(len(rings)):
            near, far = nearest_and_farthest(rings[j, 0], rings[j, 1], cells[i, 0], cells[i, 1], cells[i, 2])
            if far < rings[j, 2] or near > rings[j, 3]:
                possible[i] = False
                whole[i] = False
                break
            if near < rings[j, 2] or far > rings[j, 3]:
                whole[i] = False
    return possible, whole


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


def split_cells(cells: FloatArray) -> FloatArray:
    """Cut every cell into four."""
    quarter = cells[:, 2:] / 2
    corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float64)
    centres = cells[:, None, :2] + corners * quarter[:, None, :]
    sizes = np.broadcast_to(quarter[:, None, :], (len(cells), 4, 1))
    return np.concatenate([centres, sizes], axis=2).reshape(-1, 3)


class Belief:
    """The cells, refined where it matters."""

    def __init__(self, start: tuple[float, float], half_extent_m: tuple[float, float], k: int, tau_m: float) -> None:
        self.start = np.array(start)
        self.k = k
        self.tau_m = tau_m
        self._half_extent = np.array(half_extent_m)
        self.cells = self._first_cells()
        self._rings = _NO_RINGS
        self.weights = self._weigh(self.cells, None)

    def _first_cells(self) -> FloatArray:
        """Cells over the whole region, small near the start and larger in proportion to the distance from it."""
        reach = float(np.abs(self.start).max() + self._half_extent.max())
        cells = np.array([[self.start[0], self.start[1], reach]])
        while True:
            outside = (np.abs(cells[:, :2]) - cells[:, 2:] > self._half_extent).any(axis=1)
            cells = cells[~outside]
            distance = np.hypot(*(cells[:, :2] - self.start).T)
            large = cells[:, 2] > np.maximum(0.25 * distance, self.tau_m / 4)
            if not large.any():
                return cells
            cells = np.vstack([cells[~large], split_cells(cells[large])])

    def _weigh(self, cells: FloatArray, knowledge: Rings | None) -> FloatArray:
        if knowledge is None:
            return cell_weights(cells, _NO_RINGS, _NO_HINTS, _NO_MISSES, _NO_CROWDS, self.start, self.k, self.tau_m)
        crowds = knowledge.crowds
        hints = np.array([(*place, float(ahead), 0.5) for place, ahead in knowledge.ahead().items()]).reshape(-1, 4)
        return cell_weights(
            cells,
            self._rings,
            hints,
            crowds.misses(),
            crowds.around(knowledge.ahead()),
            self.start,
            self.k,
            self.tau_m,
        )

    def learn(self, knowledge: Rings) -> bool:
        """Take in all knowledge so far; False if no place satisfies it."""
        self._rings = rings = knowledge.of_target()
        cells = self.cells[possible_cells(self.cells, rings)[0]]
        while len(cells):
            possible, whole = possible_cells(cells, rings)
            cells, whole = cells[possible], whole[possible]
            if not len(cells):
                break
            weights = self._weigh(cells, knowledge)
            fine = cells[:, 2] <= self.tau_m / 40
            # Cut what weighs much or lies across a ring.
            wanted = ~fine & ((weights > 2.0 / _MOST_CELLS) | (~whole & (weights > 0.1 / _MOST_CELLS)))
            wanted |= ~fine & ~whole & (len(cells) < _MOST_CELLS // 4)
            if not wanted.any() or len(cells) > _MOST_CELLS:
                break
            cells = np.vstack([cells[~wanted], split_cells(cells[wanted])])
        if not len(cells):
            return False
        self.cells = cells
        self.weights = self._weigh(cells, knowledge)
        return True

    def mean(self) -> tuple[float, float]:
        """The place to expect the target at."""
        x, y = self.weights @ self.cells[:, :2]
        return float(x), float(y)

    def enclosing_circle(self) -> tuple[tuple[float, float], float]:
        """A circle around everything that is possible: centre, and a radius that surely holds it all."""
        corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
        points = (self.cells[:, None, :2] + self.cells[:, None, 2:] * corners).reshape(-1, 2)
        centre = (points.min(axis=0) + points.max(axis=0)) / 2
        # Ever shorter steps towards the farthest point lead to the smallest circle; any centre gives a true radius.
        best, best_radius = centre, float(np.hypot(*(points - centre).T).max())
        if len(self._rings) and self._rings[:, 3].min() < best_radius:
            # A ring around a place is a circle already.
            tightest = self._rings[np.argmin(self._rings[:, 3])]
            best, best_radius = tightest[:2], float(tightest[3])
        for turn in range(1, 40):
            distances = np.hypot(*(points - centre).T)
            farthest = int(np.argmax(distances))
            if distances[farthest] < best_radius:
                best, best_radius = centre, float(distances[farthest])
            centre = centre + (points[farthest] - centre) / (turn + 1)
        return (float(best[0]), float(best[1])), best_radius
