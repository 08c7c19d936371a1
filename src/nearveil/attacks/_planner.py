"""Which question to ask next: what a place, and radii for the accounts, can be expected to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.attacks._belief import Belief, Rings, chance_to_be_listed
from nearveil.attacks.oracle import Point, point_of
from nearveil.kernels import kernel
from nearveil.types import FloatArray, IntArray

# Worth of ending the attack, in bits: about what one more question would bring.
_WORTH_OF_ENDING = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """The belief as the planner sees it.

    Attributes
    ----------
    cells, weights
        The possible cells and how likely they are.
    planning_weights : ndarray
        The same, tilted towards unlikely cells once the likely ones are together: they must be ruled out as well.
    bucket : ndarray
        Cells that need not be distinguished share a number.
    guesses : ndarray
        Log of how crowded it is around a target in each cell, before anything is known of its neighbors.
    buckets : int
        Number of buckets.
    """

    cells: FloatArray
    weights: FloatArray
    planning_weights: FloatArray
    bucket: IntArray
    start: FloatArray
    densities: FloatArray
    crowded: FloatArray
    k: int
    tau_m: float

    guesses: FloatArray
    buckets: int

    def seen_from(self, q: FloatArray, known_ahead: int) -> PlaceOutlook:
        """See the belief from a place; ``known_ahead`` as in `Rings.ahead`, or -1."""
        # How crowded it is around q, according to earlier questions near it.
        gaps = np.hypot(*(self.densities[:, :2] - q).T)
        nearness = np.exp(-gaps / (0.5 * np.maximum(self.densities[:, 3], self.tau_m)))
        known_density = float(nearness @ np.log(self.densities[:, 2]))
        # A disc known to hold k people, seen from q: k people within its radius and the way there.
        reach = np.hypot(*(self.crowded[:, :2] - q).T) + self.crowded[:, 2]
        floor = self.k / float(reach.min()) ** 2 if len(reach) else 0.0
        distances = np.hypot(*(self.cells[:, :2] - q).T)
        order = np.argsort(distances)
        return PlaceOutlook(
            view=self,
            distances=distances,
            density=_density(self.guesses, known_density, float(nearness.sum()), floor),
            ordered_distances=distances[order],
            cumulative_weights=np.cumsum(self.planning_weights[order]),
            known_ahead=known_ahead,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlaceOutlook:
    """The belief as seen from a place: what does not depend on the radii that are tried there."""

    view: Outlook
    distances: FloatArray
    density: FloatArray
    ordered_distances: FloatArray
    cumulative_weights: FloatArray
    known_ahead: int

    def quantile_radii(self, shares: FloatArray) -> FloatArray:
        """Distances below which the target lies with the given probabilities."""
        return np.maximum(np.interp(shares, self.cumulative_weights, self.ordered_distances), 0.5)

    def score(self, radii: FloatArray) -> float:
        """Expected worth of a question, in bits."""
        view = self.view
        return float(
            _score(
                radii,
                self.distances,
                self.density,
                view.cells,
                view.weights,
                view.planning_weights,
                view.bucket,
                view.buckets,
                self.known_ahead,
                view.k,
                view.tau_m,
            )
        )


def outlook(belief: Belief, rings: Rings) -> Outlook:
    """See the belief as a planner does."""
    tau = belief.tau_m
    _, radius = belief.enclosing_circle()
    side = min(max(radius / 3, tau / 6), 1.5 * tau)
    columns, rows = np.floor(belief.cells[:, :2] / side).astype(np.int64).T
    # One number for each pair of them, in the same order: NumPy takes ten times as long for rows of two.
    _, bucket = np.unique((columns << 32) + rows, return_inverse=True)
    together = float(belief.weights[np.hypot(*(belief.cells[:, :2] - belief.mean()).T) < tau].sum())
    occupied = np.bincount(bucket)
    even = 1.0 / (occupied[bucket] * len(occupied))
    tilt = 0.1 + 0.6 * together
    return Outlook(
        cells=belief.cells,
        weights=belief.weights,
        planning_weights=(1 - tilt) * belief.weights + tilt * even,
        bucket=bucket,
        start=belief.start,
        densities=rings.crowds.densities(),
        crowded=rings.crowds.crowded(),
        k=belief.k,
        tau_m=tau,
        guesses=_density_guesses(belief.cells, belief.start, float(rings.ahead_at_start), tau),
        buckets=len(occupied),
    )


@kernel
def _density_guesses(cells: FloatArray, start: FloatArray, ahead_at_start: float, tau_m: float) -> FloatArray:
    """Log of how crowded it is around a target in each cell, by the number of people before it at the start."""
    guesses = np.empty(len(cells))
    for i in range(len(cells)):
        from_start = max(math.hypot(cells[i, 0] - start[0], cells[i, 1] - start[1]), 0.25 * tau_m)
        guesses[i] = math.log(ahead_at_start + 0.5) - 2.0 * math.log(from_start)
    return guesses


@kernel
def _density(guesses: FloatArray, known_density: float, known_weight: float, floor: float) -> FloatArray:
    density = np.empty(len(guesses))
    for i in range(len(guesses)):
        density[i] = max(math.exp((0.3 * guesses[i] + known_density) / (0.3 + known_weight)), floor)
    return density


@kernel
def _score(
    radii: FloatArray,
    distances: FloatArray,
    densities: FloatArray,
    cells: FloatArray,
    weights: FloatArray,
    planning_weights: FloatArray,
    bucket: IntArray,
    buckets: int,
    known_ahead: int,
    k: int,
    tau_m: float,
) -> float:
    """Information between the answer and the bucket of the target, plus the worth of ending.

    For each cell: how many people would stand before a target there (their number goes with the square of the
    distance), whether it would still be listed behind the nearer accounts, and if not, which accounts would be.
    Answers are distinguished by the bounds they give: in which ring between accounts the target is, or beyond which
    account. An answer without bounds brings nothing.
    """
    count = len(radii)
    rings = count + 1
    # Outcomes: ring 0 … count; beyond account 1 … count - 1 (beyond the last is the last ring).
    outcomes = 2 * count
    mass = np.zeros((buckets, outcomes))
    likely = np.zeros(outcomes)
    boxes = np.empty((outcomes, 4))
    boxes[:, :2] = np.inf
    boxes[:, 2:] = -np.inf
    nothing = 0.0
    for i in range(len(cells)):
        x, y, half = cells[i, 0], cells[i, 1], cells[i, 2]
        distance, density = distances[i], densities[i]
        nearer = listed = 0
        for j in range(count):
            if radii[j] < distance:
                nearer += 1
                # At least as many people as before the target, if that is known, are no nearer than the account.
                people = min(density * radii[j] * radii[j], float(known_ahead) if known_ahead >= 0 else np.inf)
                if people + j + 1 <= k:
                    listed += 1
        if known_ahead >= 0:
            seen = 1.0 if known_ahead + nearer < k else 0.0
        else:
            seen = chance_to_be_listed(density * distance * distance + nearer, k)
        # Not listed, and no account nearer that is: nothing is learned.
        outcome_hidden = -1 if listed == 0 else (count if listed == count else rings + listed - 1)
        mass[bucket[i], nearer] += planning_weights[i] * seen
        likely[nearer] += weights[i] * seen
        if outcome_hidden >= 0:
            mass[bucket[i], outcome_hidden] += planning_weights[i] * (1.0 - seen)
            likely[outcome_hidden] += weights[i] * (1.0 - seen)
        else:
            nothing += planning_weights[i] * (1.0 - seen)
        # A cell across a radius can be on either side.
        _widen(boxes, nearer, x, y, half)
        if nearer > 0 and distance - 1.5 * half < radii[nearer - 1]:
            _widen(boxes, nearer - 1, x, y, half)
        if nearer < count and distance + 1.5 * half > radii[nearer]:
            _widen(boxes, nearer + 1, x, y, half)
    worth = _information(mass) * (1.0 - nothing)
    for outcome in range(rings):
        half_diagonal = 0.5 * math.hypot(boxes[outcome, 2] - boxes[outcome, 0], boxes[outcome, 3] - boxes[outcome, 1])
        if half_diagonal <= tau_m or (outcome == 0 and radii[0] <= tau_m):
            worth += _WORTH_OF_ENDING * likely[outcome]
    return worth


@kernel
def _widen(boxes: FloatArray, outcome: int, x: float, y: float, half: float) -> None:
    boxes[outcome, 0] = min(boxes[outcome, 0], x - half)
    boxes[outcome, 1] = min(boxes[outcome, 1], y - half)
    boxes[outcome, 2] = max(boxes[outcome, 2], x + half)
    boxes[outcome, 3] = max(boxes[outcome, 3], y + half)


@kernel
def _information(mass: FloatArray) -> float:
    """Mutual information, in bits, between rows and columns of a table."""
    total = mass.sum()
    if total <= 0.0:
        return 0.0
    bits = 0.0
    for column in range(mass.shape[1]):
        share = mass[:, column].sum() / total
        if share > 1e-12:
            bits -= share * math.log2(share)
    for row in range(mass.shape[0]):
        row_sum = mass[row].sum()
        if row_sum > 1e-15:
            for column in range(mass.shape[1]):
                if mass[row, column] > 1e-15:
                    bits += mass[row, column] / total * math.log2(mass[row, column] / row_sum)
    return bits


# The planner: tries many questions on the belief and picks the most telling.


_SAMPLED_PLACES = 14


class Planner:
    """Chooses the next place and radii."""

    def __init__(self, belief: Belief, rings: Rings) -> None:
        self._belief, self._rings = belief, rings
        self._places: list[Point] = [(float(belief.start[0]), float(belief.start[1]))]
        self._barren: list[Point] = []
        self._stale: Point | None = None
        self._trust, self._familiar = 1.0, True
        self._radius_m, self._cells = math.inf, len(belief.cells)
        self._rng = np.random.default_rng(1)
        self.no_radii = np.empty(0)

    def observe(self, place: Point) -> None:
        """Remember a place, and whether asking there gave information."""
        _, radius_m = self._belief.enclosing_circle()
        cells = len(self._belief.cells)
        useful = radius_m < 0.97 * self._radius_m or cells < 0.9 * self._cells
        self._radius_m, self._cells = radius_m, cells
        self._stale = None if useful else place
        if useful:
            self._places.append(place)
        elif not self._familiar:
            self._barren.append(place)
        if not self._familiar:
            # The guess of what is visible from elsewhere has just proved right or wrong: trust it more or less.
            self._trust = min(1.0, 1.3 * self._trust) if useful else max(0.6 * self._trust, 0.2)

    def first_radii(self, accounts: int) -> FloatArray:
        """Radii for the first question, when nothing is known but that the target is listed."""
        if accounts == 0:
            return self.no_radii
        even = np.arange(1, accounts + 1) / (accounts + 1)
        return self._outlook().seen_from(self._belief.start, -1).quantile_radii(even)

    def next_question(self, accounts: int) -> tuple[Point, FloatArray]:
        """The place and the radii that promise most."""
        view, ahead = self._outlook(), self._rings.ahead()
        best_score, best_place, best_radii = -1.0, self._places[0], np.array([view.tau_m])
        for place in self._candidates(view):
            known = ahead.get(place, -1)
            seen = view.seen_from(np.array(place), known)
            for radii in _radii(seen, accounts):
                score = seen.score(radii) * (1.0 if known >= 0 else self._trust)
                if score > best_score:
                    best_score, best_place, best_radii = score, place, radii
        self._familiar = best_place in ahead
        return best_place, best_radii

    def _outlook(self) -> Outlook:
        return outlook(self._belief, self._rings)

    def _candidates(self, view: Outlook) -> list[Point]:
        """Places seen before, the mean, samples of the belief, and points along its principal axes."""
        centres, weights = view.cells[:, :2], view.planning_weights
        mean = weights @ centres
        spread = (centres - mean) * np.sqrt(weights)[:, None]
        _, sizes, axes = np.linalg.svd(spread, full_matrices=False)
        along = [
            mean + factor * size * axis for size, axis in zip(sizes, axes, strict=False) for factor in (-2, -1, 1, 2)
        ]
        number = min(_SAMPLED_PLACES, len(centres))
        chosen = centres[self._rng.choice(len(centres), size=number, p=weights / weights.sum())]
        likely = np.array(self._belief.mean())
        places = [*self._places[-3:], self._places[0]]
        # More is known where the target has been seen already: go there rather than right beside.
        seen = list(self._rings.ahead())
        for point in (mean, likely, *along, *chosen):
            place = point_of(point)
            nearest = min(seen, key=lambda other: math.dist(place, other))
            places.append(nearest if math.dist(place, nearest) < 0.2 * view.tau_m else place)
        return [place for place in dict.fromkeys(places) if self._is_worth_asking(place, view.tau_m)]

    def _is_worth_asking(self, place: Point, tau_m: float) -> bool:
        return place != self._stale and not any(math.dist(place, other) < 0.05 * tau_m for other in self._barren)


def _radii(seen: PlaceOutlook, accounts: int) -> list[FloatArray]:
    """Sets of radii worth trying at a place: spread over quantiles, and one that may end the attack."""
    sets = []
    for count in range(1, accounts + 1):
        even = np.arange(1, count + 1) / (count + 1)
        sets += [seen.quantile_radii(even**stretch) for stretch in (0.6, 1.0, 1.6)]
    sets.append(np.array([0.999 * seen.view.tau_m]))
    return sets
