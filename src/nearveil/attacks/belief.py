"""Where the target can be: an outer approximation by square cells, and how likely each is.

Hard knowledge is a list of rings: at distance between ``low`` and ``high`` from a place. A cell stays as long as some
point of it may satisfy every ring, so the target is always in one of them. Soft knowledge, from how many people stand
before the target in a list, only moves weight between cells.
"""

from __future__ import annotations

import math

import numpy as np

from nearveil.attacks.cell_weights import cell_weights
from nearveil.attacks.rings import Rings
from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray

_MOST_CELLS = 800
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
