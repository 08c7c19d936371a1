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
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from nearveil.attacks.oracle import Spot
from nearveil.kernels import kernel
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray

NOBODY = -1
# People outside of a list who are compared with its last person: those who are nearest as far as is known.
_OUTSIDERS = 6
_LAY_OUT_ROUNDS = 15
# Sweeps after which outsiders are chosen anew, because people have moved.
_SWEEPS_AT_ONCE = 25
# Shares of accepted moves between which the length of moves stays as it is.
_RARELY, _OFTEN = 0.2, 0.5
_LONGER = 1.25
# Costs of violations, in units of the spacing of people in a list: they are e times less likely for each.
COOLING = (2.0, 0.5, 0.15, 0.05)
WARM = (0.15, 0.05)


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
    width = members.shape[1]
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
                q, rank = lists[e], ranks[e]
                size = sizes[q]
                old = distances[q, rank]
                new = math.sqrt((x - places[q, 0]) ** 2 + (y - places[q, 1]) ** 2)
                fresh[e - begin] = new
                if rank < size:
                    low = distances[q, rank - 1] if rank > 0 else 0.0
                    violated = max(low - new, 0.0) - max(low - old, 0.0)
                    if rank + 1 < size:
                        high = distances[q, rank + 1]
                        violated += max(new - high, 0.0) - max(old - high, 0.0)
                    else:
                        for r in range(size, width):
                            if members[q, r] == NOBODY:
                                break
                            high = distances[q, r]
                            violated += max(new - high, 0.0) - max(old - high, 0.0)
                else:
                    low = distances[q, size - 1]
                    violated = max(low - new, 0.0) - max(low - old, 0.0)
                change += violated / costs_m[q]
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
    """Ranked lists, and places of everybody in them.

    Parameters
    ----------
    k : int
        How many people a full list has; a person who is not on a full one is farther than its last.
    half_extent_m : (float, float)
        Half width and half height of the public region, which everybody is in.

    Attributes
    ----------
    people : list of Person
        Everybody who was listed, in the order of the rows of all arrays.
    points : ndarray of shape (people, 2)
        Places that agree with the lists, the last ones sampled.
    samples : ndarray of shape (samples, people, 2)
        Places that agree with the lists, of the last fit.
    """

    def __init__(self, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator) -> None:
        self._k, self._half_extent_m, self._rng = k, np.array(half_extent_m), rng
        self.people: list[Person] = []
        self._number: dict[Person, int] = {}
        self._places: list[Spot] = []
        self._answers: list[list[int]] = []
        self.points = np.empty((0, 2))
        self.samples = np.empty((1, 0, 2))
        self._steps_m = np.empty(0)

    def add(self, place: Spot, answer: Sequence[Person]) -> None:
        """Learn a list."""
        numbers = []
        for person in answer:
            if person not in self._number:
                self._number[person] = len(self.people)
                self.people.append(person)
            numbers.append(self._number[person])
        self._places.append(place)
        self._answers.append(numbers)

    @property
    def places(self) -> FloatArray:
        """Where lists were asked for."""
        return np.array(self._places).reshape(-1, 2)

    @property
    def answers(self) -> Sequence[Sequence[int]]:
        """The lists, as numbers of people."""
        return self._answers

    def seen(self) -> IntArray:
        """How many lists each person is on."""
        return np.bincount(np.concatenate([np.empty(0, int), *self._answers]).astype(int), minlength=len(self.people))

    def fit(self, guess_m: FloatArray | None = None, *, sweeps: int, samples: int, cooling: Sequence[float]) -> None:
        """Find places that agree with all lists, and sample them.

        ``guess_m``, the reach of each list, is needed where nobody is known yet. ``sweeps`` are spent at each
        temperature, and twice as many on the samples.
        """
        self._enter_new(guess_m)
        for cost in cooling[:-1]:
            self._sample(cost, sweeps, 1, turns=0.5)
        self._sample(cooling[-1], sweeps, 1, turns=0.2)
        self.samples = self._sample(cooling[-1], 2 * sweeps, samples, turns=0.1)

    def estimates(self) -> FloatArray:
        """Return the mean of everybody's samples."""
        return np.asarray(self.samples.mean(axis=0))

    def radii_m(self, share: float) -> FloatArray:
        """Return how far from the estimates this share of everybody's samples is at most."""
        away_m = np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0))
        return np.asarray(np.quantile(away_m, share, axis=0))

    def reaches_m(self) -> tuple[FloatArray, FloatArray]:
        """Return how far lists reach, and how far they reach at least as far as is known; not full ones everywhere."""
        lasts = np.array([answer[-1] if answer else 0 for answer in self._answers])
        full = np.array([len(answer) >= self._k for answer in self._answers])
        reach_m = np.hypot(*np.moveaxis(self.samples[:, lasts] - self.places, 2, 0))
        everywhere = np.where(full, 0.0, math.inf)
        return reach_m.mean(axis=0) + everywhere, reach_m.min(axis=0) + everywhere

    def disorder(self) -> float:
        """Share of neighbours in lists whose order the map gets wrong, of those not in the same order everywhere.

        Two people at the same place are always in the same order, which no map can explain and which means nothing.
        """
        pairs = [(q, a, b) for q, answer in enumerate(self._answers) for a, b in pairwise(answer)]
        if not pairs:
            return 0.0
        q, near, far = np.array(pairs).T
        telling = np.isin(near * len(self.people) + far, far * len(self.people) + near)
        places = self.places[q]
        wrong = np.hypot(*(self.points[near] - places).T) > np.hypot(*(self.points[far] - places).T)
        return float(np.mean(wrong[telling])) if telling.any() else 0.0

    def _enter_new(self, guess_m: FloatArray | None) -> None:
        """Put those who are new at distances that fit their ranks among those who are known."""
        known = len(self.points)
        new = np.arange(len(self.people)) >= known
        if not new.any():
            return
        places = self.places
        points, steps_m = np.zeros((len(self.people), 2)), np.zeros(len(self.people))
        points[:known], steps_m[:known] = self.points, self._steps_m
        radii = [self._radii_m(q, known, None if guess_m is None else float(guess_m[q])) for q in range(len(places))]
        first, lists, radii_m = _by_person(
            np.repeat(np.arange(len(places)), [len(answer) for answer in self._answers]),
            np.concatenate([np.empty(0, int), *self._answers]).astype(int),
            np.concatenate([np.empty(0), *radii]),
            len(self.people),
        )
        # The nearest place of each, and a little aside: at the place itself no direction is better than another.
        for i in np.flatnonzero(new):
            entries = slice(first[i], first[i + 1])
            nearest = int(np.argmin(radii_m[entries]))
            radius_m = float(radii_m[entries][nearest])
            points[i] = places[lists[entries][nearest]] + self._rng.normal(0, radius_m + 0.1, 2)
            steps_m[i] = radius_m / 2 + 0.1
        _lay_out(points, new, places, first, lists, radii_m, _LAY_OUT_ROUNDS)
        self.points = np.clip(points, -self._half_extent_m, self._half_extent_m)
        self._steps_m = steps_m

    def _radii_m(self, question: int, known: int, guess_m: float | None) -> FloatArray:
        """Guess the distances of a list: between those who are known, and as the root of the rank where nobody is."""
        answer = np.array(self._answers[question], dtype=int)
        evenly = np.sqrt((np.arange(len(answer)) + 0.7) / max(len(answer), 1))
        old = answer < known
        if guess_m is not None or not old.any():
            return evenly * (float(self._half_extent_m.min()) if guess_m is None else guess_m)
        distances_m = np.sort(np.hypot(*(self.points[answer[old]] - self._places[question]).T))
        ranks = np.flatnonzero(old)
        guess = np.interp(np.arange(len(answer)), ranks, distances_m)
        return np.asarray(guess * evenly / np.clip(evenly, evenly[ranks[0]], evenly[ranks[-1]]))

    def _sample(self, cost: float, sweeps: int, samples: int, *, turns: float) -> FloatArray:
        """Move everybody for so many sweeps, and return places at regular times."""
        kept = []
        each = max(1, sweeps // samples)
        at_once = max(1, min(each, _SWEEPS_AT_ONCE))
        done, due = 0, each
        while len(kept) < samples:
            if done % _SWEEPS_AT_ONCE < at_once or done == 0:
                work = self._work(cost)
            now = min(at_once, due - done)
            accepted = np.zeros(len(self.points), dtype=np.int64)
            _sweep(self.points, *work, self._steps_m, accepted, self._half_extent_m, turns, now,
                   int(self._rng.integers(2**31)))  # fmt: skip
            share = accepted / (now * (1 - turns))
            self._steps_m *= np.where(share < _RARELY, 1 / _LONGER, np.where(share > _OFTEN, _LONGER, 1.0))
            np.clip(self._steps_m, 0.01, self._half_extent_m.max(), out=self._steps_m)
            done += now
            if done >= due:
                kept.append(self.points.copy())
                due += each
        return np.array(kept)

    def _work(self, cost: float) -> tuple[FloatArray | IntArray, ...]:
        """The lists with their outsiders as arrays, and where each person is in them."""
        places = self.places
        members = np.full((len(places), self._k + _OUTSIDERS), NOBODY, dtype=np.int64)
        sizes = np.array([len(answer) for answer in self._answers])
        for q, answer in enumerate(self._answers):
            members[q, : len(answer)] = answer
        self._find_outsiders(places, members, sizes)
        q, rank = np.nonzero(members != NOBODY)
        person = members[q, rank]
        distances = np.zeros(members.shape)
        distances[q, rank] = np.hypot(*(self.points[person] - places[q]).T)
        reach_m = distances[np.arange(len(places)), np.maximum(sizes - 1, 0)]
        first, by_person, ranks = _by_person(q, person, rank, len(self.people))
        costs_m = cost * np.maximum(reach_m / np.maximum(sizes, 1), 0.1)
        return places, members, sizes, distances, first, by_person, ranks, costs_m

    def _find_outsiders(self, places: FloatArray, members: IntArray, sizes: IntArray) -> None:
        """Enter behind each full list the nearest people who are not on it."""
        count = min(self._k + _OUTSIDERS, len(self.people))
        _, near = cKDTree(self.points).query(places, count)
        near = near.reshape(len(places), count)
        listed = (near[:, :, None] == members[:, None, : self._k]).any(axis=2)
        order = np.argsort(listed, axis=1, kind="stable")
        outside = np.where(np.take_along_axis(listed, order, 1), NOBODY, np.take_along_axis(near, order, 1))
        outside = outside[:, :_OUTSIDERS]
        full = sizes == self._k
        rows = members[full]
        rows[:, self._k : self._k + outside.shape[1]] = outside[full]
        members[full] = rows


def _by_person(
    lists: IntArray, people: IntArray, values: FloatArray | IntArray, count: int
) -> tuple[IntArray, IntArray, FloatArray | IntArray]:
    """Sort entries of lists by person: where each person begins, the lists, the values."""
    order = np.argsort(people, kind="stable")
    first = np.zeros(count + 1, dtype=np.int64)
    first[1:] = np.cumsum(np.bincount(people, minlength=count))
    return first, lists[order], values[order]
