"""CrowdMap: where everybody can be who was seen in ranked lists from known places.

A list says that, from its place, each user is nearer than the next, and that users who are not on it are farther than
its last one. Each of these rules costs a softplus of the difference of the two distances, in units of a width that
narrows from fit to fit, as in annealing. Within the narrowest one the posterior is sampled by Langevin steps.

A map is fitted several times, each time from elsewhere. Where samples disagree, lists do not say where a user is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.special import expit

from nearveil.attacks.oracle import Point
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

FITS = 6
"""Fits of a map. More make radii more honest, but take longer. A third of them, the worst, begin again each time."""

MOST_DISORDER = 0.2
"""Lists contradict each other if a map breaks more of what they say. Less takes a bad fit for a contradiction."""

# Widths of the softplus in units of the reach of a list. More find the right arrangement more often, but take longer;
# a narrower last one makes estimates better, but samples move less.
_WIDTHS = (0.3, 0.1, 0.03, 0.01, 0.003)
# Users who always follow each other, in at least so many lists, share a point. Fewer merge neighbors by chance; more
# let users at one point push each other away.
_ALWAYS_TOGETHER = 2
# Samples of a fit, and Langevin steps for each. More make radii more honest, but take longer.
_SAMPLES, _STEPS_EACH = 8, 20

# Rules between neighbors in a list alone would spread an order slowly.
_GAPS = (1, 2, 4, 8, 16, 32)
_MOST_STEPS = 60


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
    samples : ndarray of shape (samples, users, 2)
        Places that agree with the lists, from those fits that are about as good as the best.
    is_steady : bool
        Whether at least half of the fits are.
    reach_m : float
        How far a list usually reaches.
    """

    def __init__(self, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator) -> None:
        self.k, self._half_extent_m, self._rng = k, np.array(half_extent_m), rng
        self.people: list[Person] = []
        self.answers: list[list[int]] = []
        self.samples = np.empty((1, 0, 2))
        self.is_steady, self.reach_m = False, 0.0
        self._number: dict[Person, int] = {}
        self._places: list[Point] = []
        self._fits: list[FloatArray] = []
        self._rules = np.empty((0, 3), dtype=np.int64)
        self._first = np.empty(0, dtype=np.int64)

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

    def estimates(self) -> FloatArray:
        """Return the median of everybody's samples."""
        return np.asarray(np.median(self.samples, axis=0))

    def away_m(self) -> FloatArray:
        """Return how far each sample is from the estimate, of shape (samples, users)."""
        return np.asarray(np.hypot(*np.moveaxis(self.samples - self.estimates(), 2, 0)))

    def radii_m(self, share: float) -> FloatArray:
        """Return how far from the estimates this share of everybody's samples is at most."""
        return np.asarray(np.quantile(self.away_m(), share, axis=0))

    def turned(self, user: int) -> int:
        """Return how many other points are nearer than a user in one list and farther in another."""
        lists = [(self._first[answer], answer.index(user)) for answer in self.answers if user in answer]
        before = {other for points, at in lists for other in points[:at].tolist()}
        return len(before & {other for points, at in lists for other in points[at + 1 :].tolist()})

    def disorder(self) -> float:
        """Return the share of the rules that the best fit breaks, of those about users seen in both orders.

        Two users at one point are always in the same order, which no map can explain and which means nothing.
        """
        _, near, far = self._rules.T
        telling = self._rules[np.isin(near * len(self.people) + far, far * len(self.people) + near)]
        return float(np.mean(self._broken_m(self._fits[-1], telling) > 0)) if len(telling) else 0.0

    def fit(self, progress: Progress | None = None, *, afresh: bool = False) -> None:
        """Find places for everybody from which all lists come out sorted; ``afresh`` forgets what was found before."""
        if not self.people:
            return
        count, places = len(self.people), self.places
        lists, users = np.repeat(np.arange(len(places)), [*map(len, self.answers)]), _joined(self.answers)
        reaches_m = self._reaches_m()
        seen = np.bincount(users, minlength=count)[:, None]
        homes, scales_m = (_sums(users, values[lists], count) / seen for values in (places, reaches_m[:, None]))
        told, self._first = self._told(), self._first_at_point()
        begun_again = FITS if afresh or not self._fits else FITS // 3
        found = []
        for number in range(FITS):
            points, known = homes, np.zeros(count, dtype=np.bool_)
            if number >= begun_again:
                old = self._fits[number]
                points, known = np.vstack([old, homes[len(old) :]]), np.arange(count) < len(old)
            for width in _WIDTHS[number >= begun_again :]:
                # Somewhere about the places where they were listed.
                anywhere = homes + self._rng.normal(0, 0.5, homes.shape) * scales_m
                points = np.where(known[:, None], points, anywhere)
                self._rules = self._merged(np.concatenate([told, self._outside(points)]))
                cost = _Cost(self._rules, places, width, reaches_m, scales_m)
                points = self._inside(cost.least(points))[self._first]
                strains = self._strains_m(points) / scales_m[:, 0]
                # A user on the wrong side of a place fits badly, and begins again.
                known = strains < max(0.3 * float(strains.max()), 0.01)
            samples = self._inside(cost.sample(points, self._rng))[:, self._first]
            found.append((float(strains.mean()), points, samples))
            if progress:
                progress(1)
        found.sort(key=lambda fit: -fit[0])
        self._fits = [points for _, points, _ in found]
        good = [samples for strain, _, samples in found if strain <= 2 * found[-1][0] + _WIDTHS[-1] / 10]
        self.samples, self.is_steady = np.concatenate(good), 2 * len(good) >= FITS
        self.reach_m = float(np.median(reaches_m))

    def _inside(self, points: FloatArray) -> FloatArray:
        return np.clip(points, -self._half_extent_m, self._half_extent_m)

    def _reaches_m(self) -> FloatArray:
        """How far each list reaches: as the last fit has it, within what the lists asked for nearby say."""
        places = self.places
        if len(places) == 1:
            return np.full(1, float(self._half_extent_m.min()))
        away_m, near = cKDTree(places).query(places, [*range(2, min(len(places), 7) + 1)])
        reaches_m = []
        for q, answer in enumerate(self.answers):
            steps = np.array([step_between(answer, self.answers[other]) for other in near[q]])
            telling = is_telling(steps)
            telling[0] |= not telling.any()
            guess_m = min(max(float(np.median(away_m[q][telling] / steps[telling])), 1.0), *self._half_extent_m)
            if self._fits and answer and answer[-1] < len(self._fits[0]):
                lasts = np.array([points[answer[-1]] for points in self._fits])
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
        near = cKDTree(points).query(self.places[full], [*range(1, min(3 * self.k, len(points)) + 1)])[1]
        missing = [np.setdiff1d(row, self.answers[q]) for q, row in zip(full, near, strict=True)]
        return _stacked(
            [(q, np.full(len(row), self.answers[q][-1]), row) for q, row in zip(full, missing, strict=True)]
        )

    def _first_at_point(self) -> IntArray:
        """For each user the first one who seems to share their point.

        They follow each other in every list, in one order that says nothing of distances. Taken for distances, it would
        push the last of them away from all places at once.
        """
        seen, follows = Counter(chain(*self.answers)), Counter(chain(*map(pairwise, self.answers)))
        ends = Counter(answer[-1] for answer in self.answers if len(answer) == self.k)
        together = [
            (one, after)
            for (one, after), times in follows.items()
            if times >= _ALWAYS_TOGETHER and times == seen[after] and times + ends[one] >= seen[one]
        ]
        one, after = np.array(together, dtype=int).reshape(-1, 2).T
        graph = coo_array((np.ones(len(one)), (one, after)), shape=(len(self.people), len(self.people)))
        _, first, point = np.unique(connected_components(graph)[1], return_index=True, return_inverse=True)
        return np.asarray(first[point])

    def _merged(self, rules: IntArray) -> IntArray:
        """One rule for all users at two points: more of the same would make samples agree too well."""
        if len(np.unique(self._first)) == len(self._first):
            return rules
        rules = np.column_stack([rules[:, 0], self._first[rules[:, 1:]]])
        return np.unique(rules[rules[:, 1] != rules[:, 2]], axis=0)

    def _broken_m(self, points: FloatArray, rules: IntArray) -> FloatArray:
        """By how many meters each rule is broken."""
        q, near, far = rules.T
        places = self.places[q]
        return np.maximum(np.hypot(*(points[near] - places).T) - np.hypot(*(points[far] - places).T), 0.0)

    def _strains_m(self, points: FloatArray) -> FloatArray:
        """By how many meters the rules about each user are broken on average."""
        users, broken_m = self._rules[:, 1:].T.ravel(), np.tile(self._broken_m(points, self._rules), 2)
        rules = np.bincount(users, minlength=len(points))
        return np.asarray(np.bincount(users, broken_m, len(points)) / np.maximum(rules, 1))


class _Cost:
    """What breaking rules costs, for users at places in units of how far the lists reach that they are on."""

    def __init__(
        self, rules: IntArray, places: FloatArray, width: float, reaches_m: FloatArray, scales_m: FloatArray
    ) -> None:
        self._width, self._scales_m = width, scales_m
        (q, near, far), count = rules.T, len(scales_m)
        # Many rules are about the same user and list, whose distance is computed once.
        pairs, at = np.unique(np.concatenate([q * count + near, q * count + far]), return_inverse=True)
        self._near, self._far = at[: len(q)], at[len(q) :]
        self._places, self._users = places[pairs // count], pairs % count
        self._widths_m = width * reaches_m[q]

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """The cost and its gradient."""
        aside_m, distances_m, wrong, slopes = self._at(flat)
        # This is log(1 + exp(wrong)), without a second exponential.
        softplus = np.maximum(wrong, 0.0) - np.log(np.maximum(slopes, 1.0 - slopes))
        pushes = self._by_pair(slopes / self._widths_m, -1) / distances_m
        gradient = _sums(self._users, aside_m * pushes[:, None], len(self._scales_m)) * self._scales_m
        return float(softplus.sum()), gradient.ravel()

    def _at(self, flat: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """From places to users, their distances, how wrong each rule is, and the slopes of the softplus there."""
        aside_m = (flat.reshape(-1, 2) * self._scales_m)[self._users] - self._places
        # A millimeter keeps the gradient finite where a user is at the place itself.
        distances_m = np.sqrt(aside_m[:, 0] ** 2 + aside_m[:, 1] ** 2 + 1e-6)
        wrong = (distances_m[self._near] - distances_m[self._far]) / self._widths_m
        return aside_m, distances_m, wrong, expit(wrong)

    def _by_pair(self, values: FloatArray, sign: int) -> FloatArray:
        """Sum a value of each rule over its nearer user, and with this sign over its farther one."""
        near, far = (np.bincount(users, values, len(self._users)) for users in (self._near, self._far))
        return np.asarray(near + sign * far)

    def least(self, points: FloatArray) -> FloatArray:
        """Move points to a minimum."""
        options = {"maxiter": _MOST_STEPS, "gtol": 0.1 / self._width}
        found = minimize(self, (points / self._scales_m).ravel(), jac=True, method="CG", options=options)
        return np.asarray(found.x.reshape(-1, 2) * self._scales_m)

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Sample the posterior about a minimum by Langevin steps with momentum."""
        flat = (points / self._scales_m).ravel()
        slopes = self._at(flat)[3]
        curvatures = self._by_pair(2 * slopes * (1 - slopes), 1)[:, None]
        # Where no rule is near, the constant keeps a step to four widths of the softplus.
        steps = 0.4 * self._width / np.sqrt(_sums(self._users, curvatures, len(points)) + 1 / 16)
        steps, momenta, samples = np.repeat(steps, 2), rng.normal(size=len(flat)), []
        for number in range(1, _SAMPLES * _STEPS_EACH + 1):
            momenta = 0.9 * momenta + math.sqrt(1 - 0.9**2) * rng.normal(size=len(flat)) - steps * self(flat)[1]
            flat = flat + steps * momenta
            if number % _STEPS_EACH == 0:
                samples.append(flat.reshape(-1, 2) * self._scales_m)
        return np.array(samples)


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


def is_telling(steps: FloatArray) -> BoolArray:
    """Whether two lists so far apart tell how far they reach: neither nearly the same nor nearly without overlap."""
    return (steps >= 0.12) & (steps <= 0.8)


def _even_likeness(step: float) -> float:
    """Likeness of two lists where users are spread evenly, for places so far apart in units of a list's reach."""
    depths = (np.arange(100) + 0.5) / 100
    apart = np.minimum(step / np.sqrt(depths), 2)
    return float(np.mean(2 / math.pi * np.arccos(apart / 2) - apart / math.pi * np.sqrt(1 - apart**2 / 4)))


_STEPS = np.linspace(0.02, 2, 100)
_LIKENESSES = np.array([_even_likeness(step) for step in _STEPS])
