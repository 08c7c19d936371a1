"""Points that explain which of them is the nearest, where a list shows the people of one point only.

Answers then say in which cell of a Voronoi diagram a place is. The edges of a cell are half way to other points, and
where three cells meet, the directions of the edges give the directions to their points: so the diagram tells where its
points are. What the answers leave possible is sampled, and asked about where the samples differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nearveil.attacks._order_fit import minimise
from nearveil.attacks.oracle import Spot, spot_of
from nearveil.kernels import kernel
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray

# In units of the size of a cell: temperatures of a new solution. One that nearly fits begins in the middle.
_COOLING = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_COOL = 3
_PULL = 1e-4
_MOST_STEPS = 100
_TOLERANCE = 1e-5
# If an answer leaves a smaller share of the samples, those that it contradicts are changed rather than replaced.
_LEAST_LEFT = 0.1
# Where a new point is put: so many places are tried for each sample.
_TRIES = 60
# Places considered for each question.
_CANDIDATES = 200
# The worth of a question is the share of the target's variance that it takes away, with a little for anything else that
# it tells: where other points are will tell about the target later. If all are worth less than this, another point is
# looked for.
_ENTROPY = 0.1
_LEAST_WORTH = 0.1
# How far beyond the edge of the target's cell places are considered: the logarithm's standard deviation.
_BEYOND = 0.3
# A place where so large a share of the samples has the target nearest is in its cell, perhaps.
_PERHAPS = 0.3


@kernel
def _way(
    points: FloatArray, direction: FloatArray, places: FloatArray, nearest: IntArray, half_extent_m: FloatArray
) -> tuple[float, float]:
    """How far back and forth points can move, each in its direction, until one leaves the region or an answer fails."""
    low, high = -math.inf, math.inf
    for i in range(len(points)):
        for axis in range(2):
            speed = direction[i, axis]
            if speed != 0.0:
                one = (half_extent_m[axis] - points[i, axis]) / speed
                other = (-half_extent_m[axis] - points[i, axis]) / speed
                low, high = max(low, min(one, other)), min(high, max(one, other))
    for q in range(len(places)):
        near = nearest[q]
        nx, ny = points[near, 0] - places[q, 0], points[near, 1] - places[q, 1]
        ux, uy = direction[near, 0], direction[near, 1]
        for far in range(len(points)):
            vx, vy = direction[far, 0], direction[far, 1]
            if far == near or (ux == 0.0 and uy == 0.0 and vx == 0.0 and vy == 0.0):
                continue
            fx, fy = points[far, 0] - places[q, 0], points[far, 1] - places[q, 1]
            # The difference of the squared distances, a t² + 2 b t + c, is negative and must not become positive.
            a = ux * ux + uy * uy - vx * vx - vy * vy
            b = nx * ux + ny * uy - fx * vx - fy * vy
            c = nx * nx + ny * ny - fx * fx - fy * fy
            root = b * b - a * c
            # Most answers stay true the whole way that is left.
            if root <= 0.0 or (
                a >= 0.0 and (a * low + 2 * b) * low + c <= 0.0 and (a * high + 2 * b) * high + c <= 0.0
            ):
                continue
            half = -b - math.copysign(math.sqrt(root), b)
            for t in (half / a if a != 0.0 else math.inf, c / half if half != 0.0 else 0.0):
                if t >= 0.0:
                    high = min(high, t)
                if t <= 0.0:
                    low = max(low, t)
    return low, high


@kernel
def slide(
    samples: FloatArray,
    directions: FloatArray,
    shares: FloatArray,
    places: FloatArray,
    nearest: IntArray,
    half_extent_m: FloatArray,
) -> None:
    """Move each sample along a direction, to a share of the way on which all answers stay true.

    From place q, point ``nearest[q]`` is the nearest one. Points stay in the region.
    """
    for s in range(len(samples)):
        points, direction = samples[s], directions[s]
        low, high = _way(points, direction, places, nearest, half_extent_m)
        if math.isfinite(high - low) and high > low:
            points += (low + shares[s] * (high - low)) * direction


class Cells:
    """Places with the people of the point that is nearest to each, and samples of where the points may be.

    Parameters
    ----------
    half_extent_m : (float, float)
        All points are in this region.
    samples : int
        How many sets of points are kept. They are spread over what the answers leave possible.
    rounds : int
        How often each is moved after an answer.
    """

    def __init__(
        self, half_extent_m: tuple[float, float], *, samples: int, rounds: int, rng: np.random.Generator
    ) -> None:
        self._half_extent_m, self._rng = np.array(half_extent_m), rng
        self._count, self._rounds = samples, rounds
        self._numbers: dict[tuple[Person, ...], int] = {}
        self._places = np.empty((0, 2))
        self._nearest = np.empty(0, dtype=np.int64)
        # Of shape (samples, points, 2).
        self.samples = np.empty((samples, 0, 2))

    @property
    def people(self) -> list[tuple[Person, ...]]:
        """Who is listed for each point, in the order of the samples; the first one is the target's."""
        return list(self._numbers)

    def add(self, place: Spot, answer: Sequence[Person]) -> None:
        """Learn who is at the point that is nearest to a place. The first answer is about the target's."""
        number = self._numbers.setdefault(tuple(answer), len(self._numbers))
        self._places = np.vstack([self._places, place])
        self._nearest = np.append(self._nearest, number)

    def fit(self) -> bool:
        """Make the samples explain all answers; False if none was found that does."""
        for number in range(self.samples.shape[1], len(self._numbers)):
            self._begin_point(number)
        fits = self._fits(self.samples)
        if fits.sum() < _LEAST_LEFT * self._count:
            for s in np.flatnonzero(~fits):
                self.samples[s] = self._solve(self.samples[s], _COOLING[_COOL:])
            fits = self._fits(self.samples)
        if not fits.any():
            fresh = self.fresh(self._count)
            self.samples[: len(fresh)] = fresh
            fits[: len(fresh)] = True
        if not fits.any():
            return False
        self.samples[~fits] = self.samples[self._rng.choice(np.flatnonzero(fits), int((~fits).sum()))]
        self._walk()
        return True

    def fresh(self, tries: int) -> FloatArray:
        """Points that explain all answers and have nothing to do with the samples, as often as a try succeeds."""
        own = self._nearest == np.arange(len(self._numbers))[:, None]
        middles = own @ self._places / own.sum(axis=1)[:, None]
        scatter_m = 0.5 * self._sizes_m()[:, None]
        tried = np.array(
            [self._solve(middles + scatter_m * self._rng.normal(size=middles.shape), _COOLING) for _ in range(tries)]
        )
        return np.asarray(tried[self._fits(tried)])

    def include(self, solutions: FloatArray) -> None:
        """Put solutions that the samples did not know in the place of some samples."""
        self.samples[self._rng.choice(self._count, len(solutions), replace=False)] = solutions

    def next_place(self) -> Spot:
        """The place from which the nearest point tells most about the target."""
        places = self._edges()
        answers = _nearest_of(self.samples, places)
        target_m = self.samples[:, 0] - self.samples[:, 0].mean(axis=0)
        explained, entropy = np.zeros(len(places)), np.zeros(len(places))
        for number in range(len(self._numbers)):
            is_answer = (answers == number).astype(np.float64)
            counts = is_answer.sum(axis=0)
            explained += ((target_m.T @ is_answer) ** 2).sum(axis=0) / np.maximum(counts, 1)
            entropy -= counts / self._count * np.log(np.maximum(counts, 1) / self._count)
        worth = explained / ((target_m**2).sum() + 1e-9) + _ENTROPY * entropy
        return spot_of(places[np.argmax(worth)]) if worth.max() >= _LEAST_WORTH else self._gap()

    def _edges(self) -> FloatArray:
        """Places about the target's cell where some sample has two points equally near."""
        points = self.samples[self._rng.integers(self._count, size=_CANDIDATES)]
        angles = self._rng.uniform(0, 2 * math.pi, len(points))
        rays = np.column_stack([np.cos(angles), np.sin(angles)])
        lines = points[:, 1:] - points[:, :1]
        along = np.maximum((lines * rays[:, None]).sum(axis=2), 1e-9)
        reach_m = ((lines**2).sum(axis=2) / (2 * along)).min(axis=1, initial=2 * self._half_extent_m.max())
        reach_m *= np.exp(_BEYOND * np.abs(self._rng.normal(size=len(points))))
        places = self._inside(points[:, 0] + rays * reach_m[:, None])
        if points.shape[1] > 1:
            squares = ((points - places[:, None]) ** 2).sum(axis=2)
            two, rows = np.argpartition(squares, 1, axis=1)[:, :2].T, np.arange(len(points))
            line = points[rows, two[1]] - points[rows, two[0]]
            excess = squares[rows, two[1]] - squares[rows, two[0]]
            places = self._inside(places + (excess / (2 * (line**2).sum(axis=1) + 1e-9))[:, None] * line)
        return places

    def _gap(self) -> Spot:
        """A place in what may be the target's cell, as far as can be from all places asked from."""
        middle = self.samples[:, 0].mean(axis=0)
        size_m = np.linalg.norm(self._places[self._nearest == 0] - middle, axis=1).max()
        places = self._inside(middle + 2 * size_m * self._rng.normal(size=(_CANDIDATES, 2)))
        may_be = (_nearest_of(self.samples, places) == 0).mean(axis=0) > _PERHAPS
        gaps_m = np.linalg.norm(places[:, None] - self._places, axis=2).min(axis=1)
        return spot_of(places[np.argmax(np.where(may_be, gaps_m, 1e-3 * gaps_m))])

    def _inside(self, places: FloatArray) -> FloatArray:
        return np.clip(places, -self._half_extent_m, self._half_extent_m)

    def _begin_point(self, number: int) -> None:
        """Put a new point near where it is the nearest, where the other points of each sample allow it, if possible."""
        place = self._places[self._nearest == number][0]
        older = self._nearest < number
        places, nearest = self._places[older], self._nearest[older]
        points = np.empty((self._count, 1, 2))
        for s, sample in enumerate(self.samples):
            reach_m = np.linalg.norm(sample - place, axis=1).min(initial=self._half_extent_m.max())
            radii_m = reach_m * np.sqrt(self._rng.random(_TRIES))
            angles = self._rng.uniform(0, 2 * math.pi, _TRIES)
            tried = self._inside(place + radii_m[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]))
            room_m = np.linalg.norm(sample[nearest] - places, axis=1)
            is_free = (np.linalg.norm(tried[:, None] - places, axis=2) >= room_m).all(axis=1)
            points[s] = tried[np.argmax(is_free)] if is_free.any() else place
        self.samples = np.concatenate([self.samples, points], axis=1)

    def _fits(self, samples: FloatArray) -> BoolArray:
        """Which samples have the right point nearest to every place."""
        return np.asarray((_nearest_of(samples, self._places) == self._nearest).all(axis=1))

    def _sizes_m(self) -> FloatArray:
        """How far it is from some place in each cell to the nearest place that is in another."""
        own = self._nearest == np.arange(len(self._numbers))[:, None]
        gaps_m = np.linalg.norm(self._places[:, None] - self._places, axis=2)
        gaps_m[self._nearest[:, None] == self._nearest] = np.inf
        return np.where(own, gaps_m.min(axis=1), 0.0).max(axis=1)

    def _solve(self, points: FloatArray, cooling: tuple[float, ...]) -> FloatArray:
        """Points near given ones that explain the answers, if some are found."""
        q, far = np.nonzero(self._nearest[:, None] != np.arange(len(points)))
        rules = np.column_stack([q, self._nearest[q], far])
        weights, size_m = self._rng.exponential(1, len(rules)), float(np.median(self._sizes_m()))
        homes = points = np.ascontiguousarray(points)
        for temperature in cooling:
            points = minimise(
                points, self._places, rules, weights, temperature * size_m, homes, _PULL / size_m,
                _MOST_STEPS, _TOLERANCE,
            )  # fmt: skip
            points = self._inside(points)
            if self._fits(points[None])[0]:
                break
        return points

    def _walk(self) -> None:
        """Move each sample within what the answers leave possible."""
        count, points, _ = self.samples.shape
        for number in range(self._rounds):
            if number % 3 == 0:
                # Differences of samples point to where there is room.
                one, other = self._rng.permutation(count), self._rng.permutation(count)
                directions = self.samples[one] - self.samples[other]
            elif number % 3 == 1:
                # One point moves, and all others as its mirror images do: no edge of its cell changes.
                pivot = self._rng.integers(points) if number % 2 else 0
                lines = self.samples - self.samples[:, pivot, None]
                lines /= np.linalg.norm(lines, axis=2, keepdims=True) + 1e-9
                step = self._rng.normal(size=(count, 1, 2))
                directions = step - 2 * (step * lines).sum(axis=2, keepdims=True) * lines
            else:
                is_moved = self._rng.integers(points, size=(count, 1)) == np.arange(points)
                directions = self._rng.normal(size=self.samples.shape) * is_moved[:, :, None]
            shares = self._rng.random(count)
            slide(self.samples, directions, shares, self._places, self._nearest, self._half_extent_m)


def _nearest_of(samples: FloatArray, places: FloatArray) -> IntArray:
    """The number of the point that is nearest to each place, for each sample."""
    x, y = (samples[:, None, :, axis] - places[:, None, axis] for axis in range(2))
    return np.asarray((x * x + y * y).argmin(axis=2))
