"""CrowdMap: where everybody can be who was seen in ranked lists from known places.

A list says that, from its place, each person is nearer than the next, and that whoever is not on it is farther than its
last person. All places of everybody that agree with all lists are equally likely; they are sampled by Metropolis moves
of one person at a time. The samples of a person give an estimate and a radius that holds most of them.

Violated rules are allowed at a cost that grows while a map cools, so that a map can be found from a rough beginning,
and so that a service whose answers contradict each other gives a map with many violations and not none at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise

import numpy as np
from scipy.spatial import cKDTree

from nearveil.attacks.oracle import Point
from nearveil.kernels import kernel
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

NOBODY = -1
# People outside of a list who are compared with its last person: those who are nearest as far as is known.
_OUTSIDERS = 6
_LAY_OUT_ROUNDS = 15
# Sweeps after which outsiders are chosen anew, because people have moved.
_SWEEPS_AT_ONCE = 25
# Shares of accepted moves between which the length of moves stays as it is.
_RARELY, _OFTEN = 0.2, 0.5
_LONGER = 1.25
_LEAST_M = 0.1
# Share of moves that are turns about a place: more while people may be on the wrong side of one.
_EARLY_TURNS, _LATE_TURNS = 0.4, 0.1
# Costs of violations, in units of the spacing of people in a list: they are e times less likely for each.
COOLING = (2.0, 0.5, 0.15, 0.05)
WARM = (0.15, 0.05)


@kernel
def _more_violated(distances: FloatArray, members: IntArray, size: int, rank: int, new: float) -> float:
    """By how many metres more the rules of one list about a person are violated at another distance."""
    old = distances[rank]
    if rank >= size:
        low = distances[size - 1]
        return max(low - new, 0.0) - max(low - old, 0.0)
    low = distances[rank - 1] if rank > 0 else 0.0
    violated = max(low - new, 0.0) - max(low - old, 0.0)
    last = rank + 1
    # The next on the list is farther, or everybody outside of it.
    while last < len(members) and members[last] != NOBODY:
        high = distances[last]
        violated += max(new - high, 0.0) - max(old - high, 0.0)
        if last < size:
            break
        last += 1
    return violated


@kernel
def _sweep(
    points: FloatArray,
    places: FloatArray,
    members: IntArray,
    sizes: IntArray,
    distances: FloatArray,
    first: IntArray,
    lists: IntArray,
    ranks: IntArray,
    costs_m: FloatArray,
    steps_m: FloatArray,
    accepted: IntArray,
    half_extent_m: FloatArray,
    turns: float,
    sweeps: int,
    seed: int,
) -> None:
    """Move everybody once per sweep, if the move agrees with the lists; changes points, distances and counts."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that compiled code has
    fresh = np.empty(0)
    for _ in range(sweeps):
        for i in range(len(points)):
            begin, end = first[i], first[i + 1]
            if begin == end:
                continue
            x, y = points[i, 0], points[i, 1]
            if np.random.random() < turns:  # noqa: NPY002
                # A turn about a place where the person is listed leaves that list as it is, and finds the other side.
                q = lists[begin + int(np.random.random() * (end - begin))]  # noqa: NPY002
                angle = 2 * math.pi * np.random.random()  # noqa: NPY002
                dx, dy = x - places[q, 0], y - places[q, 1]
                x = places[q, 0] + math.cos(angle) * dx - math.sin(angle) * dy
                y = places[q, 1] + math.sin(angle) * dx + math.cos(angle) * dy
                turned = True
            else:
                x += steps_m[i] * np.random.normal()  # noqa: NPY002
                y += steps_m[i] * np.random.normal()  # noqa: NPY002
                turned = False
            if abs(x) > half_extent_m[0] or abs(y) > half_extent_m[1]:
                continue
            if len(fresh) < end - begin:
                fresh = np.empty(2 * (end - begin))
            # Drawn before the sum, so that most bad moves are given up early.
            room = -math.log(1.0 - np.random.random())  # noqa: NPY002
            change = 0.0
            for e in range(begin, end):
                q = lists[e]
                new = math.sqrt((x - places[q, 0]) ** 2 + (y - places[q, 1]) ** 2)
                fresh[e - begin] = new
                change += _more_violated(distances[q], members[q], sizes[q], ranks[e], new) / costs_m[q]
            if change > room:
                continue
            points[i, 0], points[i, 1] = x, y
            for e in range(begin, end):
                distances[lists[e], ranks[e]] = fresh[e - begin]
            if not turned:
                accepted[i] += 1


@kernel
def _lay_out(points: FloatArray, which: BoolArray, places: FloatArray, first: IntArray, lists: IntArray,
             radii_m: FloatArray, rounds: int) -> None:  # fmt: skip
    """Move some people to guessed distances from places, as well as they can all be met."""
    for _ in range(rounds):
        for i in range(len(points)):
            if not which[i] or first[i] == first[i + 1]:
                continue
            x, y, total = 0.0, 0.0, 0.0
            for e in range(first[i], first[i + 1]):
                q = lists[e]
                dx, dy = points[i, 0] - places[q, 0], points[i, 1] - places[q, 1]
                distance = math.sqrt(dx * dx + dy * dy) + 1e-9
                weight = 1.0 / (radii_m[e] * radii_m[e] + 1.0)
                x += weight * (places[q, 0] + dx * radii_m[e] / distance)
                y += weight * (places[q, 1] + dy * radii_m[e] / distance)
                total += weight
            points[i, 0], points[i, 1] = x / total, y / total


class CrowdMap:
    """Ranked lists, and samples of where everybody in them can be.

    Parameters
    ----------
    k : int
        How many people a full list has; a person who is not on a full one is farther than its last.
    half_extent_m : (float, float)
        Half width and half height of the public region, which everybody is in.
    chains : int
        Independent beginnings. Where they disagree, what one of them believes is not what the lists say.

    Attributes
    ----------
    people : list of Person
        Everybody who was listed, in the order of the rows of all arrays.
    answers : list of list of int
        The lists, as numbers of people.
    samples : ndarray of shape (samples, people, 2)
        Places that agree with the lists, of the last fit and of all chains.
    """

    def __init__(
        self, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator, *, chains: int = 2
    ) -> None:
        self.k, self._half_extent_m = k, np.array(half_extent_m)
        self.people: list[Person] = []
        self.answers: list[list[int]] = []
        self.samples = np.empty((1, 0, 2))
        self._number: dict[Person, int] = {}
        self._places: list[Point] = []
        self._chains = [_Chain(k, self._half_extent_m, one) for one in rng.spawn(chains)]

    def add(self, place: Point, answer: Sequence[Person]) -> list[int]:
        """Learn a list, and return the rows of the people on it."""
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

    def seen(self) -> IntArray:
        """How many lists each person is on."""
        return np.bincount(_joined(self.answers), minlength=len(self.people))

    def steps_of(self, sweeps: int, cooling: Sequence[float]) -> int:
        """How many sweeps `fit` reports."""
        return len(self._chains) * sweeps * (len(cooling) + 2)

    def fit(
        self, guess_m: FloatArray | None, *, sweeps: int, samples: int, cooling: Sequence[float],
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Find places that agree with all lists, and sample them.

        ``guess_m``, the reach of each list, is needed where nobody is known yet. ``sweeps`` are spent at each
        temperature, and twice as many on the samples.
        """
        if not self.people:
            return

        def run(one: _Chain) -> FloatArray:
            one.enter_new(self.places, self.answers, len(self.people), guess_m)
            one.hold(self.places, self.answers)
            for cost in cooling:
                one.sample(cost, sweeps, 1, _EARLY_TURNS, progress)
            return one.sample(cooling[-1], 2 * sweeps, samples, _LATE_TURNS, progress)

        # Compiled code lets other threads run.
        with ThreadPoolExecutor(len(self._chains)) as threads:
            self.samples = np.concatenate(list(threads.map(run, self._chains)))

    def estimates(self) -> FloatArray:
        """Return the mean of everybody's samples."""
        return np.asarray(self.samples.mean(axis=0))

    def radii_m(self, share: float) -> FloatArray:
        """Return how far from the estimates this share of everybody's samples is at most."""
        away_m = np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0))
        return np.asarray(np.quantile(away_m, share, axis=0))

    def disorder(self) -> float:
        """Share of neighbors in lists whose order the map gets wrong, of those not in the same order everywhere.

        Two people at the same place are always in the same order, which no map can explain and which means nothing.
        """
        pairs = [(q, a, b) for q, answer in enumerate(self.answers) for a, b in pairwise(answer)]
        if not pairs:
            return 0.0
        q, near, far = np.array(pairs).T
        telling = np.isin(near * len(self.people) + far, far * len(self.people) + near)
        places, points = self.places[q], self.samples[-1]
        wrong = np.hypot(*(points[near] - places).T) > np.hypot(*(points[far] - places).T)
        return float(np.mean(wrong[telling])) if telling.any() else 0.0


class _Chain:
    """Places of everybody that are moved, one person at a time, within what the lists allow."""

    def __init__(self, k: int, half_extent_m: FloatArray, rng: np.random.Generator) -> None:
        self._k, self._half_extent_m, self._rng = k, half_extent_m, rng
        self._points, self._steps_m = np.empty((0, 2)), np.empty(0)
        self._places, self._listed, self._sizes = np.empty((0, 2)), np.empty((0, k), dtype=int), np.empty(0, dtype=int)

    def enter_new(
        self, places: FloatArray, answers: Sequence[Sequence[int]], people: int, guess_m: FloatArray | None
    ) -> None:
        """Put those who are new at distances that fit their ranks among those who are known."""
        known = len(self._points)
        new = np.arange(people) >= known
        if not new.any():
            return
        points, steps_m = np.zeros((people, 2)), np.zeros(people)
        points[:known], steps_m[:known] = self._points, self._steps_m
        radii = [
            self._radii_m(place, answer, None if guess_m is None else float(guess_m[q]))
            for q, (place, answer) in enumerate(zip(places, answers, strict=True))
        ]
        sizes = [len(answer) for answer in answers]
        first, lists, radii_m = _by_person(
            np.repeat(np.arange(len(places)), sizes), _joined(answers), np.concatenate(radii), people
        )
        for i in np.flatnonzero(new):
            entries = slice(first[i], first[i + 1])
            nearest = int(np.argmin(radii_m[entries]))
            radius_m = float(radii_m[entries][nearest])
            # Aside of the nearest place: at the place itself no direction is better than another.
            points[i] = places[lists[entries][nearest]] + self._rng.normal(0, radius_m + _LEAST_M, 2)
            steps_m[i] = radius_m / 2 + _LEAST_M
        _lay_out(points, new, places, first, lists, radii_m, _LAY_OUT_ROUNDS)
        self._points = np.clip(points, -self._half_extent_m, self._half_extent_m)
        self._steps_m = steps_m

    def _radii_m(self, place: FloatArray, answer: Sequence[int], guess_m: float | None) -> FloatArray:
        """Guess the distances of a list: between those who are known, and as the root of the rank where nobody is."""
        people = np.array(answer, dtype=int)
        evenly = np.sqrt((np.arange(len(people)) + 0.7) / max(len(people), 1))
        old = people < len(self._points)
        if guess_m is not None or not old.any():
            return evenly * (float(self._half_extent_m.min()) if guess_m is None else guess_m)
        distances_m = np.sort(np.hypot(*(self._points[people[old]] - place).T))
        ranks = np.flatnonzero(old)
        guess = np.interp(np.arange(len(people)), ranks, distances_m)
        return np.asarray(guess * evenly / np.clip(evenly, evenly[ranks[0]], evenly[ranks[-1]]))

    def hold(self, places: FloatArray, answers: Sequence[Sequence[int]]) -> None:
        """Take the lists that places have to agree with."""
        self._places = places
        self._sizes = np.array([len(answer) for answer in answers])
        self._listed = np.full((len(places), self._k), NOBODY)
        self._listed[np.arange(self._k) < self._sizes[:, None]] = _joined(answers)

    def sample(
        self, cost: float, sweeps: int, samples: int, turns: float, progress: Progress | None = None
    ) -> FloatArray:
        """Move everybody for so many sweeps, and return places at regular times."""
        kept = []
        each = max(1, sweeps // samples)
        for number in range(samples):
            for done in range(0, each, _SWEEPS_AT_ONCE):
                if done or number * each % _SWEEPS_AT_ONCE < each:
                    work = self._work(cost)
                self._sweep(work, min(_SWEEPS_AT_ONCE, each - done), turns)
            kept.append(self._points.copy())
            if progress:
                progress(each)
        return np.array(kept)

    def _sweep(self, work: tuple[FloatArray | IntArray, ...], sweeps: int, turns: float) -> None:
        accepted = np.zeros(len(self._points), dtype=np.int64)
        _sweep(self._points, *work, self._steps_m, accepted, self._half_extent_m, turns, sweeps,
               int(self._rng.integers(2**31)))  # fmt: skip
        share = accepted / (sweeps * (1 - turns))
        self._steps_m *= np.where(share < _RARELY, 1 / _LONGER, np.where(share > _OFTEN, _LONGER, 1.0))
        np.clip(self._steps_m, _LEAST_M, self._half_extent_m.max(), out=self._steps_m)

    def _work(self, cost: float) -> tuple[FloatArray | IntArray, ...]:
        """The lists with their outsiders as arrays, and where each person is in them."""
        places, sizes = self._places, self._sizes
        members = np.column_stack([self._listed, self._outsiders()])
        q, rank = np.nonzero(members != NOBODY)
        person = members[q, rank]
        distances = np.zeros(members.shape)
        distances[q, rank] = np.hypot(*(self._points[person] - places[q]).T)
        reach_m = distances[np.arange(len(places)), np.maximum(sizes - 1, 0)]
        first, lists, ranks = _by_person(q, person, rank, len(self._points))
        costs_m = cost * np.maximum(reach_m / np.maximum(sizes, 1), _LEAST_M)
        return places, members, sizes, distances, first, lists, ranks, costs_m

    def _outsiders(self) -> IntArray:
        """The nearest people who are not on each list; nobody where a list is not full, which has everybody."""
        count = min(self._k + _OUTSIDERS, len(self._points))
        _, near = cKDTree(self._points).query(self._places, [*range(1, count + 1)])
        listed = _contains(self._listed, near)
        order = np.argsort(listed, axis=1, kind="stable")
        outside = np.where(np.take_along_axis(listed, order, 1), NOBODY, np.take_along_axis(near, order, 1))
        outside = np.pad(outside, ((0, 0), (0, _OUTSIDERS)), constant_values=NOBODY)[:, :_OUTSIDERS]
        return np.where((self._sizes == self._k)[:, None], outside, NOBODY)


@kernel
def _contains(rows: IntArray, values: IntArray) -> BoolArray:
    """Whether each value is in its row."""
    found = np.zeros(values.shape, dtype=np.bool_)
    for q in range(len(rows)):
        for c in range(values.shape[1]):
            for r in range(rows.shape[1]):
                if rows[q, r] == values[q, c]:
                    found[q, c] = True
                    break
    return found


def _joined(answers: Sequence[Sequence[int]]) -> IntArray:
    return np.fromiter(chain.from_iterable(answers), dtype=np.int64)


def _by_person(
    lists: IntArray, people: IntArray, values: FloatArray | IntArray, count: int
) -> tuple[IntArray, IntArray, FloatArray | IntArray]:
    """Sort entries of lists by person: where each person begins, the lists, the values."""
    order = np.argsort(people, kind="stable")
    first = np.zeros(count + 1, dtype=np.int64)
    first[1:] = np.cumsum(np.bincount(people, minlength=count))
    return first, lists[order], values[order]
