"""CrowdMap: where everybody can be who was seen in ranked lists from known places.

A list says that, from its place, each user is nearer than the next, and that users who are not on it are farther than
its last one. Each of these rules costs a softplus of the difference of the two distances, in units of a width that
narrows from fit to fit, as in annealing. Within the narrowest one the posterior is sampled by Langevin steps.

A map is fitted several times. Fits begin elsewhere and weigh the rules at random, so they also spread over what the
lists leave open. Where samples disagree, the lists do not say where a user is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.optimize import minimize
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
# Pull towards the places where a user was listed. From places close to each other, all that is far away looks alike:
# more keeps users near who are seen from there only, but makes estimates wrong by more.
_PULL = 0.01
# Users who always follow each other, in at least so many lists, share a point. Fewer merge neighbors by chance; more
# let users at one point push each other away.
_ALWAYS_TOGETHER = 4
# Samples of a fit, and Langevin steps for each. More make radii more honest, but take longer.
_SAMPLES, _STEPS_EACH = 8, 20

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

    def points_apart(self) -> int:
        """Return how many different points users have who were seen often enough to tell."""
        often = np.bincount(_joined(self.answers), minlength=len(self.people)) >= _ALWAYS_TOGETHER
        return len(np.unique(self._first_at_point()[often]))

    def disorder(self) -> float:
        """Return the share of the rules that the best fit breaks, of those about users seen in both orders.

        Two users at one point are always in the same order, which no map can explain and which means nothing.
        """
        q, near, far = self._rules.T
        telling = self._rules[np.isin(near * len(self.people) + far, far * len(self.people) + near)]
        return float(np.mean(self._broken_m(self._fits[-1], telling) > 0)) if len(telling) else 0.0

    def fit(self, progress: Progress | None = None, *, afresh: bool = False) -> None:
        """Find places for everybody from which all lists come out sorted; ``afresh`` forgets what was found before."""
        if not self.people:
            return
        count, places = len(self.people), self.places
        lists, users = np.repeat(np.arange(len(places)), [*map(len, self.answers)]), _joined(self.answers)
        seen = np.bincount(users, minlength=count)[:, None]
        reaches_m = self._reaches_m()
        homes = _sums(users, places[lists], count) / seen
        scales_m = _sums(users, reaches_m[lists, None], count) / seen
        told, first = self._told(), self._first_at_point()
        begun_again = FITS if afresh or not self._fits else FITS // 3
        found = []
        for number in range(FITS):
            points, known = homes, np.zeros(count, dtype=np.bool_)
            if number >= begun_again:
                old = self._fits[number]
                points, known = np.vstack([old, homes[len(old) :]]), np.arange(count) < len(old)
            own_homes = self._scattered(homes, scales_m)
            for width in _WIDTHS[number >= begun_again :]:
                points = np.where(known[:, None], points, self._scattered(homes, scales_m))
                points = self._lay_out(points, known, reaches_m)
                self._rules = self._merged(np.concatenate([told, self._outside(points)]), first)
                cost = _Cost(self._rules, places, width, reaches_m, own_homes, scales_m)
                points = self._inside(cost.least(points, self._rng))[first]
                strains = self._strains_m(points) / scales_m[:, 0]
                # A user on the wrong side of a place fits badly, and is laid out again.
                known = strains < max(0.3 * float(strains.max()), 0.01)
            samples = self._inside(cost.sample(points, self._rng))[:, first]
            found.append((float(strains.mean()), number, points, samples))
            if progress:
                progress(1)
        found.sort(key=lambda fit: -fit[0])
        self._fits = [points for _, _, points, _ in found]
        good = [samples for strain, _, _, samples in found if strain <= 2 * found[-1][0] + _WIDTHS[-1] / 10]
        self.samples, self.is_steady = np.concatenate(good), 2 * len(good) >= FITS
        self.reach_m = float(np.median(reaches_m))

    def _inside(self, points: FloatArray) -> FloatArray:
        return np.clip(points, -self._half_extent_m, self._half_extent_m)

    def _scattered(self, homes: FloatArray, scales_m: FloatArray) -> FloatArray:
        return homes + self._rng.normal(0, 0.5, homes.shape) * scales_m

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

    def _lay_out(self, points: FloatArray, known: BoolArray, reaches_m: FloatArray) -> FloatArray:
        """Put users who are not known at distances that fit their ranks among those who are."""
        guesses = []
        for q, answer in enumerate(map(np.array, self.answers)):
            if not len(answer) or known[answer].all():
                continue
            ranks, old = np.arange(len(answer)), np.flatnonzero(known[answer])
            # Where nobody is known, users are taken to be spread evenly, so distance grows as the root of the rank.
            evenly = np.sqrt((ranks + 0.7) / len(answer))
            radii_m = evenly * reaches_m[q]
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


class _Cost:
    """What breaking rules costs, for users at places in units of how far the lists reach that they are on."""

    def __init__(
        self, rules: IntArray, places: FloatArray, width: float, reaches_m: FloatArray, homes: FloatArray,
        scales_m: FloatArray,
    ) -> None:  # fmt: skip
        self._count, self._width, self._homes, self._scales_m = len(homes), width, homes, scales_m
        q, near, far = rules.T
        # Many rules are about the same user and list, whose distance is computed once.
        pairs, at = np.unique(np.concatenate([q * len(homes) + near, q * len(homes) + far]), return_inverse=True)
        self._near, self._far = at[: len(q)], at[len(q) :]
        self._places, self._users = places[pairs // len(homes)], pairs % len(homes)
        self._widths_m = width * reaches_m[q]
        self._weights = np.ones(len(q))

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """The cost and its gradient."""
        aside_m, distances_m, wrong, slopes = self._rules_at(flat)
        # This is log(1 + exp(wrong)), without a second exponential.
        softplus = np.maximum(wrong, 0.0) - np.log(np.maximum(slopes, 1.0 - slopes))
        slopes *= self._weights / self._widths_m
        pushes = np.bincount(self._near, slopes, len(self._users)) - np.bincount(self._far, slopes, len(self._users))
        gradient = _sums(self._users, aside_m * (pushes / distances_m)[:, None], self._count) * self._scales_m
        from_home = flat.reshape(-1, 2) - self._homes / self._scales_m
        pull = _PULL / self._width * from_home
        return float((self._weights * softplus).sum() + 0.5 * (pull * from_home).sum()), (gradient + pull).ravel()

    def _rules_at(self, flat: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """From places to users, their distances, how wrong each rule is, and the slopes of the softplus there."""
        aside_m = (flat.reshape(-1, 2) * self._scales_m)[self._users] - self._places
        # A millimeter keeps the gradient finite where a user is at the place itself.
        distances_m = np.sqrt((aside_m**2).sum(axis=1) + 1e-6)
        wrong = (distances_m[self._near] - distances_m[self._far]) / self._widths_m
        return aside_m, distances_m, wrong, expit(wrong)

    def least(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move points to a minimum, with random weights of the rules."""
        self._weights = rng.exponential(1, len(self._near))
        options = {"maxiter": _MOST_STEPS, "gtol": 0.1 / self._width}
        found = minimize(self, (points / self._scales_m).ravel(), jac=True, method="CG", options=options)
        self._weights = np.ones(len(self._near))
        return np.asarray(found.x.reshape(-1, 2) * self._scales_m)

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Sample the posterior about a minimum by Langevin steps with momentum."""
        flat = (points / self._scales_m).ravel()
        slopes = self._rules_at(flat)[3]
        curvatures = np.bincount(
            np.concatenate([self._users[self._near], self._users[self._far]]),
            np.tile(2 * slopes * (1 - slopes), 2),
            self._count,
        )
        # A user whom no rule touches would fly away without the constant.
        steps = np.repeat(0.4 * self._width / np.sqrt(curvatures + 1 / 16), 2)
        momenta, samples = rng.normal(size=len(flat)), []
        for _ in range(_SAMPLES):
            for _ in range(_STEPS_EACH):
                momenta = 0.9 * momenta + math.sqrt(1 - 0.9**2) * rng.normal(size=len(flat)) - steps * self(flat)[1]
                flat = flat + steps * momenta
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
