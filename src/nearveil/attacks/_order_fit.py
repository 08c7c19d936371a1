"""Places that explain ranked lists: how badly an order is violated, and how to find places that violate it least.

A rule (place, near, far) says that from a place one person is nearer than another. Its loss is a softplus of the
difference of their distances, so that a rule which barely holds still pushes: solutions stay off the edges of what is
possible. The minimiser is compiled together with the loss, because one evaluation takes less time than a call from
Python.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nearveil.attacks.oracle import Point
from nearveil.kernels import kernel
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray, IntArray

# Softplus is below 1e-5 there, and most rules are: not worth an exponential.
_SURE = -12.0
_MEMORY = 8
_HALVINGS = 20


@kernel
def order_loss(
    points: FloatArray,
    places: FloatArray,
    rules: IntArray,
    weights: FloatArray,
    temperature_m: float,
    homes: FloatArray,
    pull: float,
    gradient: FloatArray,
) -> float:
    """Weighted softplus of all violations, with a weak pull of everybody to a home; fills in the gradient."""
    gradient[:] = 0.0
    n_places, n_points = len(places), len(points)
    distances = np.empty((n_places, n_points))
    slopes = np.zeros((n_places, n_points))
    for q in range(n_places):
        for i in range(n_points):
            dx, dy = points[i, 0] - places[q, 0], points[i, 1] - places[q, 1]
            # A millimetre keeps the gradient finite where a person is at the place itself.
            distances[q, i] = math.sqrt(dx * dx + dy * dy + 1e-6)
    total = 0.0
    for c in range(len(rules)):
        q, near, far = rules[c, 0], rules[c, 1], rules[c, 2]
        z = (distances[q, near] - distances[q, far]) / temperature_m
        if z < _SURE:
            continue
        e = math.exp(-abs(z))
        total += weights[c] * temperature_m * (max(z, 0.0) + math.log1p(e))
        slope = weights[c] * (1.0 if z > 0 else e) / (1.0 + e)
        slopes[q, near] += slope
        slopes[q, far] -= slope
    for i in range(n_points):
        for q in range(n_places):
            if slopes[q, i] != 0.0:
                share = slopes[q, i] / distances[q, i]
                gradient[i, 0] += share * (points[i, 0] - places[q, 0])
                gradient[i, 1] += share * (points[i, 1] - places[q, 1])
        for axis in range(2):
            away = points[i, axis] - homes[i, axis]
            total += 0.5 * pull * away * away
            gradient[i, axis] += pull * away
    return total


@kernel
def strains_m(points: FloatArray, places: FloatArray, rules: IntArray) -> FloatArray:
    """By how many metres the rules about each person are violated on average; rules that hold count as zero."""
    sums, counts = np.zeros(len(points)), np.zeros(len(points))
    for c in range(len(rules)):
        q, near, far = rules[c, 0], rules[c, 1], rules[c, 2]
        nearer = math.hypot(points[near, 0] - places[q, 0], points[near, 1] - places[q, 1])
        farther = math.hypot(points[far, 0] - places[q, 0], points[far, 1] - places[q, 1])
        for i in (near, far):
            sums[i] += max(nearer - farther, 0.0)
            counts[i] += 1
    return sums / np.maximum(counts, 1)


@kernel
def _descent(
    gradient: FloatArray, steps: FloatArray, changes: FloatArray, curvatures: FloatArray, count: int
) -> FloatArray:
    """Direction of the next L-BFGS step, from the last steps and the changes of the gradient along them."""
    direction = -gradient
    oldest = max(0, count - _MEMORY)
    shares = np.zeros(_MEMORY)
    for number in range(count - 1, oldest - 1, -1):
        m = number % _MEMORY
        shares[m] = np.dot(steps[m], direction) / curvatures[m]
        direction -= shares[m] * changes[m]
    last = (count - 1) % _MEMORY
    direction *= curvatures[last] / np.dot(changes[last], changes[last])
    for number in range(oldest, count):
        m = number % _MEMORY
        direction += (shares[m] - np.dot(changes[m], direction) / curvatures[m]) * steps[m]
    return direction


@kernel
def minimise(
    points: FloatArray,
    places: FloatArray,
    rules: IntArray,
    weights: FloatArray,
    temperature_m: float,
    homes: FloatArray,
    pull: float,
    most_steps: int,
    tolerance: float,
) -> FloatArray:
    """Places with a small loss, by L-BFGS from given ones, until a step gains less than a share of the loss."""
    size = points.size
    here = points.copy()
    gradient, next_gradient = np.zeros(points.shape), np.zeros(points.shape)
    steps, changes, curvatures = np.zeros((_MEMORY, size)), np.zeros((_MEMORY, size)), np.zeros(_MEMORY)
    loss = order_loss(here, places, rules, weights, temperature_m, homes, pull, gradient)
    count = 0
    for _ in range(most_steps):
        flat = gradient.ravel()
        direction = -flat
        if count > 0:
            direction = _descent(flat, steps, changes, curvatures, count)
        descent = np.dot(direction, flat)
        if count == 0 or descent >= 0.0:
            # Nothing is known of the curvature: the person pushed most moves by the temperature.
            count = 0
            direction = -flat * (temperature_m / (np.abs(flat).max() + 1e-300))
            descent = np.dot(direction, flat)
        length, gain = 1.0, -1.0
        there = here
        for _ in range(_HALVINGS):
            there = here + length * direction.reshape(points.shape)
            gain = loss - order_loss(there, places, rules, weights, temperature_m, homes, pull, next_gradient)
            if gain >= -1e-4 * length * descent:
                break
            length *= 0.5
        if gain <= 0.0:
            break
        change = next_gradient.ravel() - flat
        curvature = length * np.dot(direction, change)
        if curvature > 1e-12:
            m = count % _MEMORY
            steps[m], changes[m], curvatures[m] = length * direction, change, curvature
            count += 1
        here, gradient, loss = there, next_gradient.copy(), loss - gain
        if gain < tolerance * loss:
            break
    return here


@kernel
def lay_out(points: FloatArray, places: FloatArray, radii: FloatArray, rounds: int) -> FloatArray:
    """Move people to guessed distances from places, as well as they can all be met.

    ``radii`` has a row for each place and a column for each person; a negative one means "at least as far as this",
    and NaN that nothing is known.
    """
    here = points.copy()
    for _ in range(rounds):
        for i in range(len(here)):
            x, y, count = 0.0, 0.0, 0
            for q in range(len(places)):
                dx, dy = here[i, 0] - places[q, 0], here[i, 1] - places[q, 1]
                distance = math.sqrt(dx * dx + dy * dy) + 1e-9
                radius = radii[q, i]
                if math.isnan(radius) or (radius < 0.0 and distance > -radius):
                    continue
                x += places[q, 0] + dx * abs(radius) / distance
                y += places[q, 1] + dy * abs(radius) / distance
                count += 1
            if count > 0:
                here[i, 0], here[i, 1] = x / count, y / count
    return here


# Everybody seen in an attacker's lists, and several sets of places that explain all of the lists.


# Rules between neighbors in a list, and between people farther apart in it, or an order spreads too slowly.
_GAPS = (1, 2, 4, 8, 16, 32)
# From places close to each other, everybody farther away by the same distance looks nearly the same: rather nearer.
_PULL = 1e-2
_MOST_STEPS = 60
_TOLERANCE = 1e-4
_LAY_OUT_ROUNDS = 15
# In so many lists two people follow each other, and in no other list, if they are taken to share a point.
_ALWAYS = 4
# Misfits violate rules by this share of what the worst misfit does, and by this much in units of the scale.
_MISFIT = 0.3
_MISFIT_STRAIN = 0.01
# In units of the scale: solutions worse than the best one by more than this are rejected.
_CREDIBLE_STRAIN = 3e-4


class Neighborhood:
    """Ranked lists, and where people may be.

    Parameters
    ----------
    target : Person
        Always person number 0 of a solution.
    k : int
        How many people a full list has; a person who is not on it is farther than its last one.
    starts : int
        How many solutions are kept. Each gives the rules random weights and has random homes for people, so that
        solutions spread over what the lists leave open.
    most_people : int
        Number of people located, those seen most often.
    """

    def __init__(self, target: Person, k: int, *, starts: int, most_people: int, rng: np.random.Generator) -> None:
        self.places: list[Point] = []
        self.people: list[Person] = [target]
        self.lists: list[Sequence[Person]] = []
        self._seen: Counter[Person] = Counter()
        self._k, self._starts, self._most_people, self._rng = k, starts, most_people, rng
        self._solutions: list[FloatArray] = []
        self._strains = np.zeros(starts)
        self._scale_m = 1.0

    def add(self, place: Point, answer: Sequence[Person]) -> None:
        """Learn a list."""
        self.places.append(place)
        self.lists.append(answer)
        self._seen.update(answer)

    def disorder(self) -> float:
        """Share of the rules that the best solution violates, of those about pairs who are not in one order always.

        Two people at the same place are always in the same order, which no map can explain and which means nothing.
        """
        places, rules, points = np.array(self.places), self._rules(), self._solutions[-1]
        q, near, far = rules.T
        telling = np.isin(near * len(points) + far, far * len(points) + near)
        if not telling.any():
            return 0.0
        nearer, farther = (np.hypot(*(points[people] - places[q]).T) for people in (near, far))
        return float(np.mean(nearer[telling] > farther[telling]))

    def points_apart(self) -> int:
        """How many points people have who were seen often enough to tell whether they share one."""
        often = np.array([self._seen[person] >= _ALWAYS for person in self.people])
        return len(np.unique(self._households()[often]))

    def solutions(self) -> FloatArray:
        """Places of everybody in each solution that is about as good as the best, of shape (solutions, people, 2)."""
        worst = 2 * self._strains.min() + _CREDIBLE_STRAIN * self._scale_m
        return np.array(
            [points for points, strain in zip(self._solutions, self._strains, strict=True) if strain <= worst]
        )

    def reach_m(self) -> float:
        """How far a list reaches from its place, as far as the solutions know."""
        numbers, solutions = self._numbers(), np.array(self._solutions)
        lasts = []
        for place, people in zip(self.places, self._numbered(numbers), strict=True):
            if 0 in people:
                lasts.append(np.hypot(*(solutions[:, people[-1]] - place).T))
        return max(float(np.median(lasts)), 1.0)

    def fit(self, scale_m: float, *, fresh: int, least_seen: int, cooling: Sequence[float]) -> None:
        """Find places for everybody seen so often; the worst ``fresh`` solutions are replaced by new ones.

        Temperatures are in units of the scale. The first one is skipped where a solution is warm already.
        """
        before = len(self.people)
        self._include(least_seen)
        self._scale_m = scale_m
        places, rules, household = np.array(self.places), self._rules(), self._households()
        homes = self._homes()
        solutions, strains = [], []
        for number in range(self._starts):
            points, known = np.zeros_like(homes), np.zeros(len(homes), dtype=np.bool_)
            warm = number >= fresh and len(self._solutions) > 0
            if warm:
                points[:before], known[:before] = self._solutions[number], True
            weights = self._rng.exponential(1, len(rules))
            own_homes = self._scatter(homes)
            for temperature in cooling[1:] if warm else cooling:
                points = self._place_unknown(points, known, homes)
                points = minimise(
                    points, places, rules, weights, temperature * scale_m, own_homes, _PULL / scale_m,
                    _MOST_STEPS, _TOLERANCE,
                )  # fmt: skip
                points = points[household]
                each_m = strains_m(points, places, rules)
                # A person on the wrong side of a place fits badly, and is started anew.
                known = each_m < max(_MISFIT * float(each_m.max()), _MISFIT_STRAIN * scale_m)
            solutions.append(points)
            strains.append(float(each_m.mean()))
        worst_first = np.argsort(strains)[::-1]
        self._solutions, self._strains = [solutions[i] for i in worst_first], np.array(strains)[worst_first]

    def _scatter(self, homes: FloatArray) -> FloatArray:
        return homes + self._rng.normal(0, 0.5 * self._scale_m, homes.shape)

    def _place_unknown(self, points: FloatArray, known: BoolArray, homes: FloatArray) -> FloatArray:
        """Put those whose places are not known at distances that fit their ranks among those that are."""
        if known.all():
            return points
        points = points.copy()
        radii = np.ascontiguousarray(self._radii(points, known)[:, ~known])
        points[~known] = lay_out(self._scatter(homes)[~known], np.array(self.places), radii, _LAY_OUT_ROUNDS)
        return points

    def _include(self, least_seen: int) -> None:
        """Locate more people: those seen often enough, most often seen first."""
        known = set(self.people)
        for person, times in self._seen.most_common():
            if times < least_seen or len(self.people) >= self._most_people:
                break
            if person not in known:
                self.people.append(person)

    def _numbers(self) -> dict[Person, int]:
        return {person: number for number, person in enumerate(self.people)}

    def _numbered(self, numbers: dict[Person, int]) -> list[IntArray]:
        """The lists as numbers of the people that are located."""
        return [
            np.array([numbers[person] for person in answer if person in numbers], dtype=np.int64)
            for answer in self.lists
        ]

    def _rules(self) -> IntArray:
        """Rows (place, nearer person, farther person): all that the lists say."""
        everybody = np.arange(len(self.people))
        rows: list[tuple[int, IntArray, IntArray]] = []
        for q, people in enumerate(self._numbered(self._numbers())):
            rows += [(q, people[:-gap], people[gap:]) for gap in _GAPS if gap < len(people)]
            if len(people) > 0 and len(self.lists[q]) >= self._k:
                missing = np.setdiff1d(everybody, people)
                rows.append((q, np.full(len(missing), people[-1]), missing))
            for at in np.flatnonzero(people == 0):
                rows.append((q, people[:at], np.zeros(at, dtype=np.int64)))
                rows.append((q, np.zeros(len(people) - at - 1, dtype=np.int64), people[at + 1 :]))
        blocks = [np.column_stack([np.full(len(near), q), near, far]) for q, near, far in rows]
        rules = np.concatenate([np.empty((0, 3), dtype=np.int64), *blocks])
        # One rule for all people of two points: more of the same would only make solutions agree too well.
        household = self._households()
        rules[:, 1:] = household[rules[:, 1:]]
        return np.unique(rules[rules[:, 1] != rules[:, 2]], axis=0)

    def _households(self) -> IntArray:
        """For each person the number of the first one who seems to share their point.

        They follow each other in every list, in one order that says nothing of distances. Taken for distances, it would
        push the last of them away from all places at once.
        """
        follows = Counter(pair for answer in self.lists for pair in pairwise(answer))
        ends = Counter(answer[-1] for answer in self.lists if len(answer) >= self._k)
        leader: dict[Person, Person] = {}
        for (one, next_one), times in follows.items():
            is_always_so = times == self._seen[next_one] and times + ends[one] >= self._seen[one]
            if is_always_so and times >= _ALWAYS:
                leader[next_one] = one
        number_of: dict[Person, int] = {}
        found = np.empty(len(self.people), dtype=np.int64)
        for number, person in enumerate(self.people):
            first = person
            while first in leader:
                first = leader[first]
            found[number] = number_of.setdefault(first, number)
        return found

    def _homes(self) -> FloatArray:
        """The mean of the places where a person was listed."""
        sums, counts = np.zeros((len(self.people), 2)), np.zeros(len(self.people))
        for place, people in zip(self.places, self._numbered(self._numbers()), strict=True):
            sums[people] += place
            counts[people] += 1
        return np.asarray(sums / counts[:, None])

    def _radii(self, points: FloatArray, known: BoolArray) -> FloatArray:
        """Guess everybody's distance from every place, by rank; see ``lay_out``.

        Where no place is known, people are taken to be spread evenly, so distance grows as the root of the rank.
        """
        numbers = self._numbers()
        radii = np.full((len(self.places), len(self.people)), np.nan)
        for q, answer in enumerate(self.lists):
            listed = [(rank, numbers[person]) for rank, person in enumerate(answer) if person in numbers]
            if not listed:
                continue
            ranks, people = np.array(listed).T
            guess = evenly = np.sqrt((ranks + 0.7) / len(answer)) * self._scale_m
            old = known[people]
            if old.any():
                distances = np.sort(np.hypot(*(points[people[old]] - self.places[q]).T))
                guess = np.interp(ranks, ranks[old], distances)
                guess *= evenly / np.clip(evenly, evenly[old][0], evenly[old][-1])
            if len(answer) >= self._k:
                radii[q] = -guess.max()
            radii[q, people] = guess
        return radii
