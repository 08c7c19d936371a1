"""CrowdMap: where everybody can be who was seen in ranked lists from known locations.

A list says that, from its place, each user is nearer than the next, and that users who are not on it are farther than
its last one. Each rule costs a softplus of the difference of the two distances, so a rule that barely holds still
pushes: solutions stay off the edges of what is possible. The softplus starts wide and narrows, as in annealing.

A map has several solutions. Each weighs the rules at random and begins elsewhere, so solutions spread over what the
lists leave open. Where they disagree, the lists do not say where a user is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import expit

from nearveil.attacks.oracle import Point
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

# Widths of the softplus in units of the reach of a list. More steps find the right arrangement more often, but take
# longer. A solution that is known already skips the first.
_COOLING = (0.3, 0.1, 0.03, 0.01)
# How many solutions disagree. More give a steadier spread, but take longer; a third of them, the worst, begins again.
SOLUTIONS = 6
# From places close to each other, all distances far away look alike. A stronger pull towards the places where a user
# was listed keeps them nearer, but makes the estimate wrong by more.
_PULL = 0.01
# Users who always follow each other, in at least so many lists, share a point. With fewer, neighbors are merged by
# chance; with more, users at one point push each other away.
_ALWAYS_TOGETHER = 4

# A solution counts if it breaks rules by at most twice as much as the best, and by this much, in units of the reach.
_CREDIBLE = 3e-4
# Steps between two lists, in units of their reach, that tell how far it is.
TELLING = (0.12, 0.8)
import os
W1, HH, EACH, SAMP = int(os.environ.get('W1', 1)), float(os.environ.get('HH', .4)), int(os.environ.get('EACH', 20)), int(os.environ.get('SAMP', 8))
OUTS = 3
GT = float(os.environ.get('GT', 0.1))
_NEIGHBORS = 6
MOST_DISORDER = 0.2
# Rules between neighbors in a list alone would spread an order slowly.
_GAPS = (1, 2, 4, 8, 16, 32)
_LAY_OUT_ROUNDS, _MOST_STEPS = 15, 60


class CrowdMap:
    """Ranked lists, and where everybody on them can be.

    Parameters
    ----------
    k : int
        Length of a full list. A user who is not on a full list is farther than its last one.
    half_extent_m : (float, float)
        Half width and half height of the public region, which has everybody.

    Attributes
    ----------
    people : list of Person
        Everybody who was listed, in the order of the rows of all arrays.
    answers : list of list of int
        The lists, as rows.
    samples : ndarray of shape (solutions, users, 2)
        Those solutions of the last fit that are about as good as the best.
    """

    def __init__(self, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator) -> None:
        self.k, self._half_extent_m, self._rng = k, np.array(half_extent_m), rng
        self.people: list[Person] = []
        self.answers: list[list[int]] = []
        self.samples = np.empty((1, 0, 2))
        self._number: dict[Person, int] = {}
        self._places: list[Point] = []
        self._solutions: list[FloatArray] = []
        self._rules = np.empty((0, 3), dtype=np.int64)
        self._reach_m = np.empty(0)

    def add(self, place: Point, answer: Sequence[Person]) -> list[int]:
        """Learn a list, and return the rows of the users on it."""
        for person in answer:
            if person not in self._number:
                self._number[person] = len(self.people)
                self.people.append(person)
        self._places.append(place)
        self.answers.append(self.numbers(answer))
        return self.answers[-1]

    def numbers(self, answer: Sequence[Person]) -> list[int]:
        """Return the rows of those on a list who are known."""
        return [self._number[person] for person in answer if person in self._number]

    @property
    def places(self) -> FloatArray:
        """Where lists were asked for."""
        return np.array(self._places).reshape(-1, 2)

    @property
    def is_sure(self) -> bool:
        """Whether at least half of the solutions are about as good as the best."""
        return 2 * self.good >= SOLUTIONS

    def reach_m(self) -> float:
        """Return how far a list usually reaches."""
        return float(np.median(self._reach_m))

    def estimates(self) -> FloatArray:
        """Return the median of everybody's samples."""
        return np.asarray(np.median(self.samples, axis=0))

    def away_m(self) -> FloatArray:
        """Return how far each sample is from the estimate, of shape (solutions, users)."""
        return np.asarray(np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0)))

    def radii_m(self, share: float) -> FloatArray:
        """Return how far from the estimate a user is with this probability, if errors are Gaussian."""
        square_m = (self.away_m() ** 2).sum(axis=0) / max(len(self.samples) - 1, 1)
        return np.asarray(np.sqrt(square_m * -math.log(1 - share)))

    def points_apart(self) -> int:
        """Return how many different points users have who were seen often enough to tell."""
        often = np.bincount(_joined(self.answers), minlength=len(self.people)) >= _ALWAYS_TOGETHER
        return len(np.unique(self._first_at_point()[often]))

    def disorder(self) -> float:
        """Return the share of the rules that the best solution breaks, of those about pairs seen in both orders.

        Two users at one point are always in the same order, which no map can explain and which means nothing.
        """
        q, near, far = self._rules.T
        telling = np.isin(near * len(self.people) + far, far * len(self.people) + near)
        if not telling.any():
            return 0.0
        nearer_m, farther_m = self._distances_m(self._solutions[-1], self._rules[telling])
        return float(np.mean(nearer_m > farther_m))

    def fit(self, progress: Progress | None = None, *, afresh: bool = False) -> None:
        """Find places for everybody from which all lists come out sorted; ``afresh`` forgets what was found before."""
        if not self.people:
            return
        count, places = len(self.people), self.places
        lists, users = np.repeat(np.arange(len(places)), [*map(len, self.answers)]), _joined(self.answers)
        seen = np.bincount(users, minlength=count)[:, None]
        self._reach_m = self._reaches_m()
        homes = _sums(users, places[lists], count) / seen
        scales_m = _sums(users, self._reach_m[lists, None], count) / seen
        told, first = self._told(), self._first_at_point()
        begun_again = SOLUTIONS if afresh or not self._solutions else SOLUTIONS // 3
        found = []
        for number in range(SOLUTIONS):
            points, known = homes, np.zeros(count, dtype=np.bool_)
            if number >= begun_again:
                old = self._solutions[number]
                points, known = np.vstack([old, homes[len(old) :]]), np.arange(count) < len(old)
            own_homes = self._scattered(homes, scales_m)
            for width in _COOLING[number >= begun_again :]:
                points = np.where(known[:, None], points, self._scattered(homes, scales_m))
                points = self._lay_out(points, known)
                self._rules = self._merged(np.concatenate([told, self._outside(points)]), first)
                drawn = self._sort(points, width, own_homes, scales_m, SAMP if width == _COOLING[-1] else 0)[:, first]
                points = drawn[0]
                strains = self._strains_m(points) / scales_m[:, 0]
                # A user on the wrong side of a place fits badly, and is laid out again.
                known = strains < max(0.3 * float(strains.max()), 0.01)
            found.append((float(strains.mean()), number, points, drawn[1:] if SAMP else drawn))
            if progress:
                progress(1)
        found.sort(reverse=True)
        self._solutions = [points for _, _, points, _ in found]
        self.good = sum(f[0] <= 2 * found[-1][0] + _CREDIBLE for f in found)
        self.samples = np.concatenate([drawn for strain, _, _, drawn in found if strain <= 2 * found[-1][0] + _CREDIBLE])

    def _scattered(self, homes: FloatArray, scales_m: FloatArray) -> FloatArray:
        return homes + self._rng.normal(0, 0.5, homes.shape) * scales_m

    def _reaches_m(self) -> FloatArray:
        """How far each list reaches: as the last fit has it, within what the lists asked for nearby say."""
        places = self.places
        if len(places) == 1:
            return np.full(1, float(self._half_extent_m.min()))
        away_m, near = cKDTree(places).query(places, [*range(2, min(len(places), _NEIGHBORS + 1) + 1)])
        reaches_m = []
        for q, answer in enumerate(self.answers):
            steps = np.array([step_between(answer, self.answers[other]) for other in near[q]])
            telling = (steps >= TELLING[0]) & (steps <= TELLING[1])
            telling[0] |= not telling.any()
            guess_m = min(max(float(np.median(away_m[q][telling] / steps[telling])), 1.0), *self._half_extent_m)
            if self._solutions and answer and answer[-1] < len(self._solutions[0]):
                lasts = np.array([points[answer[-1]] for points in self._solutions])
                guess_m = float(np.clip(np.median(np.hypot(*(lasts - places[q]).T)), guess_m / 2, guess_m))
            reaches_m.append(guess_m)
        return np.array(reaches_m)

    def _told(self) -> IntArray:
        """Rows (list, nearer user, farther user) of all that the lists say of the users on them."""
        pairs = [
            (q, answer[:-gap], answer[gap:])
            for q, answer in enumerate(map(np.array, self.answers))
            for gap in _GAPS
            if gap < len(answer)
        ]
        return _stacked(pairs)

    def _outside(self, points: FloatArray) -> IntArray:
        """The rules about users who are not on full lists: of those near enough to matter."""
        full = [q for q, answer in enumerate(self.answers) if len(answer) == self.k]
        if not full:
            return _stacked([])
        near = cKDTree(points).query(self.places[full], [*range(1, min(OUTS * self.k, len(points)) + 1)])[1]
        missing = [np.setdiff1d(row, self.answers[q]) for q, row in zip(full, near, strict=True)]
        return _stacked(
            [(q, np.full(len(row), self.answers[q][-1]), row) for q, row in zip(full, missing, strict=True)]
        )

    def _merged(self, rules: IntArray, first: IntArray) -> IntArray:
        """One rule for all users at two points: more of the same would make solutions agree too well."""
        if (first == np.arange(len(first))).all():
            return rules
        rules = np.column_stack([rules[:, 0], first[rules[:, 1:]]])
        return np.unique(rules[rules[:, 1] != rules[:, 2]], axis=0)

    def _first_at_point(self) -> IntArray:
        """For each user the first one who seems to share their point.

        They follow each other in every list, in one order that says nothing of distances. Taken for distances, it would
        push the last of them away from all places at once.
        """
        seen = Counter(chain.from_iterable(self.answers))
        follows = Counter(pair for answer in self.answers for pair in pairwise(answer))
        ends = Counter(answer[-1] for answer in self.answers if len(answer) == self.k)
        leader = {
            after: before
            for (before, after), times in follows.items()
            if times >= _ALWAYS_TOGETHER and times == seen[after] and times + ends[before] >= seen[before]
        }
        first = np.arange(len(self.people))
        for number in leader:
            while first[number] in leader:
                first[number] = leader[int(first[number])]
        return first

    def _sort(self, points: FloatArray, width: float, homes: FloatArray, scales_m: FloatArray, samples: int) -> FloatArray:
        """Move points to a minimum of what the rules cost, each with a random weight; then sample."""
        count = len(points)
        q, near, far = self._rules.T
        pairs, at = np.unique(np.concatenate([q * count + near, q * count + far]), return_inverse=True)
        near, far = at[: len(q)], at[len(q) :]
        places, users = self.places[pairs // count], pairs % count
        widths_m = width * self._reach_m[q]
        weights = self._rng.exponential(1, len(q))

        def parts(flat):
            moved = flat.reshape(-1, 2) * scales_m
            aside = moved[users] - places
            distances_m = np.sqrt(aside[:, 0] ** 2 + aside[:, 1] ** 2 + 1e-6)
            wrong = (distances_m[near] - distances_m[far]) / widths_m
            return moved, aside, distances_m, wrong, expit(wrong)

        def cost(flat: FloatArray) -> tuple[float, FloatArray]:
            moved, aside, distances_m, wrong, slopes = parts(flat)
            softplus = np.maximum(wrong, 0.0) - np.log(np.maximum(slopes, 1.0 - slopes))
            slopes = slopes * weights / widths_m
            pushes = np.bincount(near, slopes, len(pairs)) - np.bincount(far, slopes, len(pairs))
            pull = _PULL / width * (moved - homes) / scales_m
            gradient = _sums(users, aside * (pushes / distances_m)[:, None], count) * scales_m + pull
            total = (weights * softplus).sum() + 0.5 * (pull * (moved - homes) / scales_m).sum()
            return float(total), gradient.ravel()

        options = {"maxiter": _MOST_STEPS, "gtol": GT / width}
        u = minimize(cost, (points / scales_m).ravel(), jac=True, method="CG", options=options).x
        best = np.clip(u.reshape(-1, 2) * scales_m, -self._half_extent_m, self._half_extent_m)
        if not samples:
            return best[None]
        weights = np.ones(len(q)) if W1 else weights
        s = parts(u)[4]
        curve = s * (1 - s) / width**2
        stiff = np.bincount(users[near], curve, count) + np.bincount(users[far], curve, count)
        h = np.repeat(HH / np.sqrt(2 * stiff + 1 / width**2), 2)
        v = self._rng.normal(size=len(u))
        kept = []
        for n in range(samples * EACH):
            v = 0.9 * v + math.sqrt(1 - 0.81) * self._rng.normal(size=len(u)) - h * cost(u)[1]
            u = u + h * v
            if n % EACH == EACH - 1:
                kept.append(np.clip(u.reshape(-1, 2) * scales_m, -self._half_extent_m, self._half_extent_m))
        return np.array([best, *kept])

    def _distances_m(self, points: FloatArray, rules: IntArray) -> tuple[FloatArray, FloatArray]:
        """Distances of the nearer and the farther user of each rule."""
        q, near, far = rules.T
        places = self.places[q]
        return np.hypot(*(points[near] - places).T), np.hypot(*(points[far] - places).T)

    def _strains_m(self, points: FloatArray) -> FloatArray:
        """By how many meters the rules about each user are broken on average; rules that hold count as zero."""
        nearer_m, farther_m = self._distances_m(points, self._rules)
        broken_m = np.tile(np.maximum(nearer_m - farther_m, 0.0), 2)
        users = np.concatenate([self._rules[:, 1], self._rules[:, 2]])
        rules = np.bincount(users, minlength=len(points))
        return np.asarray(np.bincount(users, broken_m, len(points)) / np.maximum(rules, 1))

    def _lay_out(self, points: FloatArray, known: BoolArray) -> FloatArray:
        """Put users who are not known at distances that fit their ranks among those who are."""
        guesses = []
        for q, answer in enumerate(map(np.array, self.answers)):
            if not len(answer) or known[answer].all():
                continue
            ranks, old = np.arange(len(answer)), np.flatnonzero(known[answer])
            # Where nobody is known, users are taken to be spread evenly, so distance grows as the root of the rank.
            evenly = np.sqrt((ranks + 0.7) / len(answer))
            radii_m = evenly * self._reach_m[q]
            if len(old):
                distances_m = np.sort(np.hypot(*(points[answer[old]] - self.places[q]).T))
                radii_m = np.interp(ranks, old, distances_m) * evenly / np.clip(evenly, evenly[old[0]], evenly[old[-1]])
            guesses.append(np.column_stack([np.full(len(answer), q), answer, radii_m])[~known[answer]])
            if len(answer) == self.k:
                absent = np.setdiff1d(np.flatnonzero(~known), answer)
                guesses.append(np.column_stack([np.full(len(absent), q), absent, np.full(len(absent), -radii_m.max())]))
        if not guesses:
            return points
        lists, users, radii_m = np.concatenate(guesses).T
        users, places = users.astype(int), self.places[lists.astype(int)]
        for _ in range(_LAY_OUT_ROUNDS):
            aside = points[users] - places
            distances_m = np.hypot(*aside.T)[:, None] + 1e-9
            goals = places + aside * np.abs(radii_m)[:, None] / distances_m
            # A negative radius is a least one.
            counts = ((radii_m > 0) | (distances_m[:, 0] < -radii_m)).astype(float)[:, None]
            total = _sums(users, counts, len(points))
            points = np.where(total > 0, _sums(users, goals * counts, len(points)) / np.maximum(total, 1), points)
        return points


def _joined(answers: Sequence[Sequence[int]]) -> IntArray:
    return np.fromiter(chain.from_iterable(answers), dtype=np.int64)


def _stacked(rules: Sequence[tuple[int, IntArray, IntArray]]) -> IntArray:
    rows = [np.column_stack([np.full(len(near), q), near, far]) for q, near, far in rules]
    return np.concatenate([np.empty((0, 3), dtype=np.int64), *rows])


def _sums(index: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sum rows by index."""
    return np.column_stack([np.bincount(index, column, count) for column in values.T])


def step_between(a: Sequence[Person], b: Sequence[Person]) -> float:
    """Return how far apart two lists were asked for, in units of their reach, where users are spread evenly."""
    length, rank = min(len(a), len(b)), {person: number for number, person in enumerate(b)}
    later = [max(number, rank[person]) for number, person in enumerate(a) if person in rank]
    # The share of users that the beginnings of both have in common, averaged over their lengths.
    shares = 1 / np.arange(1, length + 1)
    alike = sum(float(shares[number:].sum()) for number in later) / length if length else 0.0
    return float(np.interp(-alike, -_LIKENESSES, _STEPS))


def _even_likeness(step: float) -> float:
    """Likeness of two lists where users are spread evenly, for places so far apart in units of a list's reach."""
    depths = (np.arange(100) + 0.5) / 100
    apart = np.minimum(step / np.sqrt(depths), 2)
    return float(np.mean(2 / math.pi * np.arccos(apart / 2) - apart / math.pi * np.sqrt(1 - apart**2 / 4)))


_STEPS = np.linspace(0.02, 2, 100)
_LIKENESSES = np.array([_even_likeness(step) for step in _STEPS])
