"""Where the target can be, and by which rule the service may answer: square cells times hypotheses.

An answer is `Evidence`: under each hypothesis the target's distance from a point lies between two bounds, exactly or
with some error. Where it is exact, a cell stays as long as any point of it satisfies the bounds. So the cells are an
outer approximation of what is possible, and a circle around them is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearveil.attacks.oracle import Point, point_of
from nearveil.types import FloatArray, IntArray

# More cells make a sharper belief, and slower queries.
MOST_CELLS = 1500
# Cells are cut until this part of tau: finer ones make a certificate little earlier, and cost time.
_FINEST = 1 / 40
# Cells that weigh less are forgotten, where nothing is certain.
_NEGLIGIBLE = 1e-10
# Share of answers that no hypothesis explains: more of them forgive more, and need more queries.
NONSENSE = 0.02
# A radius holds the target in 95 % of cases; a little more here, as the hypotheses are not the whole truth.
_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Prior:
    """Where the target is before anything is asked: anywhere in the region, or rather near a point.

    Near a point means log-uniform: as likely between 1 and 2 km from it as between 2 and 4.
    """

    half_extent_m: tuple[float, float]
    tau_m: float
    near: Point | None = None

    def log_density(self, points: FloatArray) -> FloatArray:
        """Log of how likely points of the region are, up to a constant."""
        if self.near is None:
            return np.zeros(len(points))
        return np.asarray(-2 * np.log(np.maximum(distances_m(points, self.near), self.tau_m / 2)))

    def cells(self) -> FloatArray:
        """Squares (x, y, half side) that cover the region; smaller near the point."""
        extent, middle = np.array(self.half_extent_m), np.array(self.near or (0.0, 0.0))
        cells = np.array([[*middle, float(extent.max() + np.abs(middle).max())]])
        while True:
            cells = cells[~(np.abs(cells[:, :2]) - cells[:, 2:] > extent).any(axis=1)]
            away_m = distances_m(cells, (float(middle[0]), float(middle[1])))
            largest_m = extent.min() / 12 if self.near is None else np.maximum(away_m / 4, self.tau_m / 4)
            large = cells[:, 2] > largest_m
            if not large.any():
                return cells
            cells = np.vstack([cells[~large], split(cells[large])])


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one answer says of the distance from a point: bounds and their errors, one for each hypothesis.

    Attributes
    ----------
    low_m, high_m : ndarray
        The target is at a distance between these.
    error_m, error_share : ndarray
        Standard deviation of the bounds, in meters and as a share of the distance. Without any they are exact.
    is_listed, chance_to_see :
        Whether the target was listed, and a function that gives the chance of that for cells at distances.
    left_out : float
        Share of users that lists leave out by chance.
    """

    point: Point
    low_m: FloatArray
    high_m: FloatArray
    error_m: FloatArray | float = 0.0
    error_share: FloatArray | float = 0.0
    is_listed: bool = True
    chance_to_see: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    left_out: float = 0.0

    def log_likelihood(self, cells: FloatArray) -> FloatArray:
        """Log-likelihood: a row for each cell, a column for each hypothesis; minus infinity where it cannot be."""
        away_m, half_m = distances_m(cells, self.point)[:, None], cells[:, 2:]
        error_m = np.hypot(self.error_m, math.sqrt(2) * self.error_share * away_m)
        spread_m = np.hypot(error_m, 0.6 * half_m)
        inside = below(self.high_m, away_m, spread_m) - below(self.low_m, away_m, spread_m)
        sides_m = np.abs(cells[:, :2] - self.point)
        nearest_m = np.hypot(*np.maximum(sides_m - half_m, 0.0).T)[:, None]
        farthest_m = np.hypot(*(sides_m + half_m).T)[:, None]
        possible = (farthest_m >= self.low_m) & (nearest_m <= self.high_m)
        # A cell whose middle is outside is possible all the same: give it a little.
        exact = np.where(possible, np.maximum(inside, 1e-3), 0.0)
        chance = np.where(error_m == 0, exact, (1 - NONSENSE) * np.maximum(inside, 0.0) + NONSENSE / 2)
        if self.chance_to_see is not None:
            seen = self.chance_to_see(cells, away_m[:, 0])[:, None]
            kept = (1 - self.left_out) * chance
            chance = kept * seen if self.is_listed else self.left_out + kept * (1 - seen)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(chance))


class Belief:
    """The cells that are possible under some hypothesis, refined where they weigh much.

    ``weights`` has a row for each cell and a column for each hypothesis.
    """

    def __init__(self, prior: Prior, log_chances: FloatArray) -> None:
        self.prior, self.log_chances = prior, log_chances
        self.cells = prior.cells()
        self._logs = np.zeros((len(self.cells), len(log_chances)))
        self._evidence: list[Evidence] = []
        self._is_exact = True
        self._hint: Callable[[FloatArray], FloatArray] | None = None
        self._weigh()

    def learn(
        self, evidence: Sequence[Evidence], *, log_chances: FloatArray | None = None,
        hint: Callable[[FloatArray], FloatArray] | None = None, again: bool = False,
    ) -> bool:  # fmt: skip
        """Take in answers; False if nothing is possible any more.

        ``log_chances`` and ``hint`` replace those of before: how likely hypotheses are, and cells by all answers.
        """
        if again:
            # Bounds of answers before are narrower now.
            self._evidence, self._logs = [], np.zeros_like(self._logs)
        self._evidence += evidence
        self._hint = hint
        if log_chances is not None:
            self.log_chances = log_chances
        for one in evidence:
            self._logs = self._logs + one.log_likelihood(self.cells)
            self._is_exact &= not np.any(one.error_m) and not np.any(one.error_share)
        while self._weigh():
            # Where bounds have errors nothing is impossible, but some of it does not matter.
            least = 0.0 if self._is_exact else _NEGLIGIBLE
            keep = np.isfinite(self._logs).any(axis=1) & (self.mass >= least)
            self.cells, self._logs, mass = self.cells[keep], self._logs[keep], self.mass[keep]
            fine = self.cells[:, 2] <= self.prior.tau_m * _FINEST
            cut = ~fine & (mass > 2 / MOST_CELLS)
            if len(self.cells) < MOST_CELLS // 4:
                cut |= ~fine
            if not cut.any() or len(self.cells) > MOST_CELLS:
                self._weigh()
                return True
            parts = split(self.cells[cut])
            logs = sum((one.log_likelihood(parts) for one in self._evidence), np.zeros((1, 1)))
            self.cells = np.vstack([self.cells[~cut], parts])
            self._logs = np.vstack([self._logs[~cut], np.broadcast_to(logs, (len(parts), self._logs.shape[1]))])
        return False

    def _weigh(self) -> bool:
        """Weigh cells and hypotheses; False if none is possible."""
        prior = 2 * np.log(self.cells[:, 2]) + self.prior.log_density(self.cells[:, :2])
        if self._hint is not None:
            prior = prior + self._hint(self.cells)
        logs = self._logs + prior[:, None] + self.log_chances
        if not np.isfinite(logs).any():
            return False
        weights = np.exp(logs - logs.max())
        self.weights = weights / weights.sum()
        return True

    @property
    def mass(self) -> FloatArray:
        """How likely each cell is."""
        return np.asarray(self.weights.sum(axis=1))

    @property
    def likeliest(self) -> int:
        """The number of the likeliest hypothesis."""
        return int(self.weights.sum(axis=0).argmax())

    def explains_most(self) -> bool:
        """Whether at most a fifth of the answers are unlikely at the likeliest point under its hypothesis."""
        row, column = np.unravel_index(np.argmax(self.weights), self.weights.shape)
        cell = self.cells[row : row + 1]
        bounds = [replace(one, chance_to_see=None) for one in self._evidence if one.is_listed]
        logs = np.array([one.log_likelihood(cell)[0, column] for one in bounds])
        return bool(np.mean(logs < math.log(0.05)) <= 0.2)

    @property
    def possible(self) -> list[int]:
        """Numbers of the hypotheses that explain all answers."""
        return np.flatnonzero(self.weights.any(axis=0)).tolist()

    def reach_m(self, point: Point) -> float:
        """Greatest distance from a point to anything that is possible."""
        return float((distances_m(self.cells, point) + math.sqrt(2) * self.cells[:, 2]).max())

    def mean(self) -> Point:
        """The expected point."""
        return point_of(self.mass @ self.cells[:, :2])

    def share_within(self, point: Point, radius_m: float) -> float:
        """How likely the target is within a radius of a point."""
        near = distances_m(self.cells, point) + 0.5 * self.cells[:, 2] <= radius_m
        return float(self.mass[near].sum())

    def radius_at(self, point: Point, share: float = _SHARE) -> float:
        """The radius around a point that holds the target with a probability."""
        reach_m = distances_m(self.cells, point) + 0.7 * self.cells[:, 2]
        order = np.argsort(reach_m)
        last = int(np.searchsorted(np.cumsum(self.mass[order]), share))
        return float(reach_m[order[min(last, len(order) - 1)]])

    def enclosing_circle(self) -> tuple[Point, float]:
        """A small circle around everything that is possible: its center, and a radius that holds it all."""
        center, radius_m = circle_around(self.cells)
        # A ring around a point is a circle already.
        rings = [(float(np.max(one.high_m)), one.point) for one in self._evidence if self._is_exact]
        least_m, point = min(rings, default=(math.inf, center))
        return (point, least_m) if least_m < radius_m else (center, radius_m)

    def sample(self, count: int, rng: np.random.Generator, *, tilt: float = 0.0) -> Sample:
        """Draw points and hypotheses, each for the same share of the weights.

        ``tilt`` is the share of them that is spread over everything possible: what is unlikely must be ruled out, too.
        """
        even = np.where(self.weights > 0, 1.0, 0.0) * self._spread_evenly()[:, None]
        weights = ((1 - tilt) * self.weights + tilt * even / even.sum()).ravel()
        shares = (np.arange(count) + rng.random()) / count
        chosen = np.minimum(np.searchsorted(np.cumsum(weights), shares * weights.sum()), len(weights) - 1)
        rows, columns = np.divmod(chosen, self.weights.shape[1])
        cells = self.cells[rows]
        points = cells[:, :2] + rng.uniform(-1, 1, (count, 2)) * cells[:, 2:]
        return Sample(points, columns, cells[:, 2], self.weights.ravel()[chosen] / weights[chosen] / count)

    def _spread_evenly(self) -> FloatArray:
        """Weight of cells if all parts of what is possible were as likely: squares of about tau have the same."""
        tau_m = self.prior.tau_m
        _, radius_m = self.enclosing_circle()
        side_m = min(max(radius_m / 3, tau_m / 6), 1.5 * tau_m)
        columns, rows = np.floor(self.cells[:, :2] / side_m).astype(np.int64).T
        _, square, inside = np.unique((columns << 32) + rows, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / inside[square])


@dataclass(frozen=True, slots=True)
class Sample:
    """Points where the target may be, each with a hypothesis, the half side of its cell, and how likely it is."""

    points: FloatArray
    hypothesis: IntArray
    half_m: FloatArray
    weight: FloatArray


def circle_around(cells: FloatArray) -> tuple[Point, float]:
    """A small circle that holds cells: ever shorter steps towards the farthest corner lead to the smallest."""
    centers, half_m = cells[:, :2], cells[:, 2:]
    at = ((centers - half_m).min(axis=0) + (centers + half_m).max(axis=0)) / 2
    best, radius_m = at, math.inf
    for turn in range(2, 42):
        far = np.abs(centers - at) + half_m
        farthest = int((far**2).sum(axis=1).argmax())
        if (reach_m := math.hypot(*far[farthest])) < radius_m:
            best, radius_m = at, reach_m
        corner = centers[farthest] + np.where(centers[farthest] >= at, half_m[farthest], -half_m[farthest])
        at = at + (corner - at) / turn
    return point_of(best), float(radius_m)


def below(edge_m: FloatArray | float, away_m: FloatArray, spread_m: FloatArray) -> FloatArray:
    """Chance that a distance with an error is below an edge; a logistic curve in place of the normal one."""
    edge_m = np.broadcast_to(edge_m, np.broadcast_shapes(np.shape(edge_m), away_m.shape, spread_m.shape))
    gap = np.where(np.isfinite(edge_m), edge_m - away_m, np.sign(edge_m) * 1e12)
    return np.asarray(1 / (1 + np.exp(-1.702 * np.clip(gap / np.maximum(spread_m, 1e-6), -60, 60))))


def distances_m(points: FloatArray, point: Point) -> FloatArray:
    """Distances of rows (x, y, ...) from a point."""
    return np.asarray(np.hypot(points[:, 0] - point[0], points[:, 1] - point[1]))


def split(cells: FloatArray) -> FloatArray:
    """Cut every cell into four."""
    quarter_m = cells[:, 2:] / 2
    corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float64)
    centers = cells[:, None, :2] + corners * quarter_m[:, None]
    halves = np.broadcast_to(quarter_m[:, None], (len(cells), 4, 1))
    return np.concatenate([centers, halves], axis=2).reshape(-1, 3)
