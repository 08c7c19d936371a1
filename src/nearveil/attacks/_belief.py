"""Where the target can be: an outer approximation by square cells, and how likely each is.

Hard knowledge is a list of rings: at distance between ``low`` and ``high`` from a place. A cell stays as long as some
point of it may satisfy every ring, so the target is always in one of them. Soft knowledge, from how many people stand
before the target in a list, only moves weight between cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nearveil.attacks.oracle import Point
from nearveil.kernels import kernel
from nearveil.nearby.index import Person
from nearveil.types import BoolArray, FloatArray

Ring = tuple[float, float, float, float]
"""A place (x, y), the least and the greatest distance from it."""


class Rings:
    """All bounds so far.

    With an account at distance r: people listed before it are nearer than r, people listed after it are farther.
    A person not listed is farther than everybody who is, once k are listed. The target is listed at the start: that is
    where an attack begins. It is an assumption until the target has been seen there, and bounds that need it are kept
    apart.
    """

    def __init__(self, target: Person, k: int, start: Point) -> None:
        self._target, self._k, self._start = target, k, start
        self._of: dict[Person, list[Ring]] = {target: []}
        self._assumed: list[Ring] = []
        self._ahead_at: dict[Point, int] = {}
        self._seen_at: set[Point] = set()
        self._counted: dict[Point, float] = {}
        self.crowds = Crowds(k)
        self._cutoff = Cutoff()
        self._repeats = Repeats()

    @property
    def never_seen(self) -> bool:
        """Whether the target was in no answer at all."""
        return not self._seen_at

    def ahead(self) -> Mapping[Point, int]:
        """How many people stand before the target, wherever that is known; at the start, the last place is a guess."""
        return {self._start: self._k - 1, **self._ahead_at}

    @property
    def ahead_at_start(self) -> int:
        """How many people stand before the target at the start."""
        return self.ahead()[self._start]

    def of_target(self) -> FloatArray:
        """Bounds on the target: rows of x, y, least and greatest distance."""
        return np.array(self._of[self._target] + self._assumed, dtype=np.float64).reshape(-1, 4)

    def learn(self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
        """Take in one answer; False if it cannot come from accounts that are where they were put."""
        full = len(answer) >= self._k
        if not self._cutoff.agrees(radius_of, answer, full=full) or not accounts_in_order(radius_of, answer):
            return False
        if not full and self._target not in answer and place in self._seen_at:
            return False
        if not self._repeats.agree(place, radius_of, answer):
            return False
        self.crowds.learn(place, radius_of, answer, target_listed=self._target in answer)
        self._bound_people(place, radius_of, answer)
        self._bound_target(place, radius_of, answer)
        self._bound_by_counting()
        return all(agrees_with_all_before(bounds) for bounds in self._of.values())

    def _bound_people(self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        low = 0.0
        pending: list[Person] = []
        for person in answer:
            if person in radius_of:
                for nearer in pending:
                    self._add(nearer, (*place, low, radius_of[person]))
                low, pending = radius_of[person], []
            elif person != self._target:
                pending.append(person)
        for farther in pending:
            self._add(farther, (*place, low, math.inf))
        # Who is known and not listed is farther than every account that is: else the service leaves people out.
        listed = set(answer)
        for person in self._of:
            if low > 0 and person not in listed and person != self._target:
                self._add(person, (*place, low, math.inf))

    def _bound_target(self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        if self._target not in answer:
            self._bound_unlisted_target(place, radius_of, answer)
            return
        at = answer.index(self._target)
        before = [radius_of[person] for person in answer[:at] if person in radius_of]
        after = [radius for account, radius in radius_of.items() if account not in answer[:at]]
        self._add(self._target, (*place, max(before, default=0.0), min(after, default=math.inf)))
        self._seen_at.add(place)
        self._ahead_at[place] = at - len(before)

    def _bound_unlisted_target(self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> None:
        """Farther than every listed account and, where the number ahead is known, than those that push it out."""
        listed = [radius_of[person] for person in answer if person in radius_of]
        self._add(self._target, (*place, max(listed, default=0.0), math.inf))
        if place == self._start and place not in self._ahead_at and len(radius_of) == 1 and listed == [0.0]:
            # Listed without the sentinel and not with it: the target is the last of the list.
            self._ahead_at[place] = self._k - 1
        known = self._ahead_at.get(place)
        if known is not None:
            pushing = sorted(radius_of.values())[self._k - known - 1 : self._k - known]
            self._add_if_seen(place, (*place, max(pushing, default=0.0), math.inf))

    def _bound_by_counting(self) -> None:
        """Only n people are nearer to a place than the target: a disc with more of them reaches at least as far."""
        for place, ahead in self._ahead_at.items():
            reach = self.crowds.reach_of_more_than(ahead, place)
            if reach < self._counted.get(place, math.inf):
                self._counted[place] = reach
                self._add_if_seen(place, (*place, 0.0, reach))

    def _add(self, person: Person, ring: Ring) -> None:
        if ring[2] > 0 or ring[3] < math.inf:
            self._of.setdefault(person, []).append(ring)

    def _add_if_seen(self, place: Point, ring: Ring) -> None:
        """Bounds from the number ahead at the start are certain only once it has been seen."""
        if place in self._seen_at:
            self._add(self._target, ring)
        elif ring[2] > 0 or ring[3] < math.inf:
            self._assumed.append(ring)


# How crowded it is, as far as lists tell: an account among people counts those who are nearer.


_Count = tuple[float, int]
"""A radius, and how many people are within it."""


class Crowds:
    """Counts of people within discs: bounds on numbers, and evidence of where the target is."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._exactly: dict[Point, list[_Count]] = {}
        self._at_least: dict[Point, list[_Count]] = {}
        self._densities: list[tuple[float, float, float, float]] = []
        self._misses: list[tuple[float, float, float]] = []
        self._crowded: list[tuple[float, float, float]] = []

    def learn(
        self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person], *, target_listed: bool
    ) -> None:
        """Count those who are listed before each account."""
        people = 0
        for person in answer:
            if person not in radius_of:
                people += 1
            elif radius_of[person] > 0:
                self._exactly.setdefault(place, []).append((radius_of[person], people))
        listed = [radius_of[person] for person in answer if radius_of.get(person, 0.0) > 0]
        missing = [radius for account, radius in radius_of.items() if account not in answer]
        full = len(answer) >= self._k
        if missing:
            self._at_least.setdefault(place, []).append((min(missing), people))
        if missing and full:
            self._crowded.append((*place, min(missing)))
        if listed:
            self._note_density(
                place, (self._exactly[place][-1][1] + 0.5) / max(listed) ** 2, max(listed), target_listed
            )
        elif missing and full:
            # All that is known is that k people or so are nearer than the account: guess twice as many.
            self._note_density(place, 2.0 * self._k / min(missing) ** 2, min(missing), target_listed)

    def _note_density(self, place: Point, density: float, radius_m: float, target_listed: bool) -> None:
        self._densities.append((*place, density, radius_m))
        if not target_listed:
            self._misses.append((*place, density))

    def reach_of_more_than(self, people: int, place: Point) -> float:
        """Greatest distance from a place of the nearest disc that holds more than ``people`` people."""
        reach = math.inf
        for counts in (self._exactly, self._at_least):
            for centre, known in counts.items():
                gap = math.dist(place, centre)
                reach = min([reach, *(gap + radius for radius, within in known if within > people)])
        return reach

    def densities(self) -> FloatArray:
        """How crowded it is where questions were asked: rows of x, y, people per squared metre of radius, radius."""
        return np.array(self._densities, dtype=np.float64).reshape(-1, 4)

    def misses(self) -> FloatArray:
        """Where the target was not listed: rows of x, y and the crowd there, as in `densities`."""
        return np.array(self._misses, dtype=np.float64).reshape(-1, 3)

    def crowded(self) -> FloatArray:
        """Discs that surely hold k people or more (nearly: accounts count): rows of x, y, radius."""
        return np.array(self._crowded, dtype=np.float64).reshape(-1, 3)

    def around(self, ahead_at: Mapping[Point, int]) -> FloatArray:
        """What is known about the crowd around the target, for each place where the number ahead of it is known.

        Rows of x, y, number ahead; the largest radius within which there are no more, and how many; the least radius
        within which there are more, and how many; a radius with at least that many, and how many.
        """
        rows = []
        for place, ahead in ahead_at.items():
            exact = self._exactly.get(place, [])
            inner = max((count for count in exact if count[1] <= ahead), default=(0.0, 0))
            outer = min((count for count in exact if count[1] > ahead), default=(math.inf, 0))
            held = [count for count in self._at_least.get(place, []) if 0 < count[1] <= ahead]
            densest = min(held, key=lambda count: count[0] ** 2 / count[1], default=(0.0, 0))
            if inner[0] > 0 or outer[0] < math.inf or densest[1] > 0:
                rows.append((*place, float(ahead), *inner, *outer, *densest))
        return np.array(rows, dtype=np.float64).reshape(-1, 9)


# How likely each cell is: the prior, the share of it that is possible, and what the numbers of people suggest.


_SAMPLES = 3
# People come in clusters, so counts of them tell less than they would of people who are spread at random.
_TEMPER = 0.7


@kernel
def cell_weights(
    cells: FloatArray,
    rings: FloatArray,
    hints: FloatArray,
    misses: FloatArray,
    crowds: FloatArray,
    start: FloatArray,
    k: int,
    tau_m: float,
) -> FloatArray:
    """Weight of each cell: prior times the share that satisfies the rings times what the counts suggest.

    The prior is log-uniform in the distance from the start. ``hints`` has rows (x, y, people ahead, spread): as many
    people stand before the target as the density times the area, so distances go with the root of the counts.
    """
    weights = np.zeros(len(cells))
    best_scores = _best_crowd_scores(crowds)
    values = np.empty(len(hints))
    for i in range(len(cells)):
        total = 0.0
        for a in range(_SAMPLES):
            for b in range(_SAMPLES):
                x = cells[i, 0] + cells[i, 2] * ((2 * a + 1) / _SAMPLES - 1.0)
                y = cells[i, 1] + cells[i, 2] * ((2 * b + 1) / _SAMPLES - 1.0)
                if _satisfies(x, y, rings):
                    distance = max(math.hypot(x - start[0], y - start[1]), 0.5 * tau_m)
                    score = _hint_score(x, y, hints, values) + _miss_score(x, y, misses, k)
                    score += _crowd_score(x, y, crowds, best_scores)
                    total += math.exp(score) / (distance * distance)
        area = 4.0 * cells[i, 2] * cells[i, 2]
        # A cell that no sample speaks for is possible all the same: give it a little.
        floor = 1e-6 / max((cells[i, 0] - start[0]) ** 2 + (cells[i, 1] - start[1]) ** 2, 0.25 * tau_m * tau_m)
        weights[i] = area * max(total / (_SAMPLES * _SAMPLES), floor)
    return weights / weights.sum()


@kernel
def _satisfies(x: float, y: float, rings: FloatArray) -> bool:
    for j in range(len(rings)):
        distance = math.hypot(x - rings[j, 0], y - rings[j, 1])
        if distance < rings[j, 2] or distance > rings[j, 3]:
            return False
    return True


@kernel
def _hint_score(x: float, y: float, hints: FloatArray, values: FloatArray) -> float:
    """Log-likelihood of the counts: log(count / distance²) is nearly the same from everywhere around the target.

    ``values`` is room for a number for each hint.
    """
    if len(hints) < 2:
        return 0.0
    mean = weight_sum = 0.0
    for j in range(len(hints)):
        distance = max(math.hypot(x - hints[j, 0], y - hints[j, 1]), 10.0)
        weight = 1.0 / hints[j, 3] ** 2
        values[j] = math.log(hints[j, 2] + 0.5) - 2.0 * math.log(distance)
        mean += weight * values[j]
        weight_sum += weight
    mean /= weight_sum
    score = 0.0
    for j in range(len(hints)):
        score -= 0.5 * ((values[j] - mean) / hints[j, 3]) ** 2
    return score


@kernel
def chance_to_be_listed(people_ahead: float, k: int) -> float:
    """Probability that a person is listed, given the expected number of people ahead; counts are taken as Poisson."""
    return 1.0 / (1.0 + math.exp((people_ahead + 0.5 - k) / (0.3 * math.sqrt(people_ahead + 1.0) + 0.2)))


@kernel
def _miss_score(x: float, y: float, misses: FloatArray, k: int) -> float:
    """Log-likelihood of not having been listed, tempered: crowds vary from street to street."""
    score = 0.0
    for j in range(len(misses)):
        ahead = misses[j, 2] * ((x - misses[j, 0]) ** 2 + (y - misses[j, 1]) ** 2)
        score += 0.5 * math.log(max(1.0 - chance_to_be_listed(ahead, k), 0.02))
    return score


@kernel
def _best_crowd_scores(crowds: FloatArray) -> FloatArray:
    """The most that each row can score, wherever the target is."""
    best = np.zeros(len(crowds))
    for j in range(len(crowds)):
        before = crowds[j, 2] - crowds[j, 4]
        beyond = crowds[j, 6] - 1.0 - crowds[j, 2] if crowds[j, 5] < np.inf else crowds[j, 4]
        if before + beyond > 0.0:
            top = min(max(before / (before + beyond), 0.01), 0.99)
            best[j] = before * math.log(top) + beyond * math.log(1.0 - top)
    return best


@kernel
def _crowd_score(x: float, y: float, crowds: FloatArray, best_scores: FloatArray) -> float:
    """Log-likelihood of a target with n people before it, given the counts within two radii.

    Rows (x, y, n, inner radius, people within it, outer radius, people within it). People are spread over area: of
    those between the radii the target is the (n + 1 - within)-th, a binomial count; without an outer radius the crowd
    within the inner one tells how far the missing ones reach. Tempered, as people come in clusters.
    """
    score = 0.0
    for j in range(len(crowds)):
        squared = (x - crowds[j, 0]) ** 2 + (y - crowds[j, 1]) ** 2
        ahead, inner, within, outer = crowds[j, 2], crowds[j, 3], crowds[j, 4], crowds[j, 5]
        if outer < np.inf:
            share = (squared - inner * inner) / (outer * outer - inner * inner)
            beyond = crowds[j, 6] - 1.0 - ahead
        else:
            share = 1.0 - inner * inner / max(squared, 1.0)
            beyond = within
        share = min(max(share, 0.01), 0.99)
        before = ahead - within
        score += before * math.log(share) + beyond * math.log(1.0 - share)
        # Relative to its best, so that no row outweighs the others by its constant.
        score -= best_scores[j]
        if crowds[j, 8] > 0.0 and squared > crowds[j, 7] ** 2:
            score += _log_tail(ahead, crowds[j, 8], crowds[j, 7] ** 2 / squared)
    return _TEMPER * score


@kernel
def _log_tail(n: float, least: float, share: float) -> float:
    """Log-probability that of n people at least ``least`` are in a part of the area."""
    term = n * math.log(share)
    total = 0.0
    for inside in range(int(n), int(least) - 1, -1):
        total += math.exp(max(term, -600.0))
        if inside > 0:
            term += math.log(inside / (n - inside + 1.0) * (1.0 - share) / share)
    return max(math.log(total), -100.0)


# Whether answers can come from accounts that are where the attacker put them.


_SLACK_M = 1e-6


def accounts_in_order(radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
    """Whether accounts are listed by distance, a sentinel at distance 0 first, and none is overlooked."""
    listed = [radius_of[person] for person in answer if person in radius_of]
    missing = [radius for account, radius in radius_of.items() if account not in answer]
    if listed != sorted(listed):
        return False
    if 0.0 in radius_of.values() and (not answer or radius_of.get(answer[0]) != 0.0):
        return False
    return not missing or min(missing) >= max(listed, default=0.0)


class Cutoff:
    """Between which distances a service may cut lists off: an account that a list has room for is beyond it."""

    def __init__(self) -> None:
        self._low, self._high = 0.0, math.inf

    def agrees(self, radius_of: Mapping[Person, float], answer: Sequence[Person], *, full: bool) -> bool:
        """Take in an answer; False if no cut-off explains it."""
        for account, radius in radius_of.items():
            if account in answer:
                self._low = max(self._low, radius)
            elif not full:
                self._high = min(self._high, radius)
        return self._low <= self._high


class Repeats:
    """Lists from the same place: people are in one order, and an account farther away has no fewer of them before it.

    Where a service leaves people out, disturbs the order or has accounts elsewhere, that soon fails. Accounts at the
    same distance in two directions, *twins*, have the very same people before them; accounts that are displaced by some
    of the way to the next person do not.
    """

    def __init__(self) -> None:
        self._lists: dict[Point, list[Person]] = {}
        self._ahead: dict[Point, list[tuple[float, int, float]]] = {}

    def agree(self, place: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
        """Take in an answer; False if it does not agree with those before."""
        people = [person for person in answer if person not in radius_of]
        before = self._lists.get(place, [])
        shared = min(len(people), len(before))
        if people[:shared] != before[:shared]:
            return False
        self._lists[place] = max(people, before, key=len)
        ahead = self._ahead.setdefault(place, [])
        for account, radius in radius_of.items():
            if account in answer:
                count = sum(person not in radius_of for person in answer[: answer.index(account)])
                ahead.append((radius, count, float(count)))
            else:
                # Beyond everybody listed: so many are before it, or more.
                ahead.append((radius, len(people), math.inf))
        return all(least <= most for near_m, least, _ in ahead for far_m, _, most in ahead if near_m <= far_m)


def agrees_with_all_before(bounds: Sequence[tuple[float, float, float, float]]) -> bool:
    """Whether the last ring of one person meets each ring before it."""
    if not bounds:
        return True
    x, y, low, high = bounds[-1]
    for other_x, other_y, other_low, other_high in bounds[:-1]:
        gap = math.hypot(x - other_x, y - other_y)
        apart = gap > high + other_high + _SLACK_M
        inside = gap + high < other_low - _SLACK_M or gap + other_high < low - _SLACK_M
        if apart or inside:
            return False
    return True


# The belief itself.


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


@kernel
def _circle_around(points: FloatArray, middle: FloatArray) -> tuple[float, float, float]:
    """A small circle that holds all points: centre and radius.

    Ever shorter steps towards the farthest point lead to the smallest circle; any centre gives a true radius.
    """
    x, y = middle[0], middle[1]
    best_x, best_y, best_radius = x, y, np.inf
    for turn in range(1, 40):
        farthest, most = 0, -1.0
        for i in range(len(points)):
            squared = (points[i, 0] - x) ** 2 + (points[i, 1] - y) ** 2
            if squared > most:
                farthest, most = i, squared
        radius = math.hypot(points[farthest, 0] - x, points[farthest, 1] - y)
        if radius < best_radius:
            best_x, best_y, best_radius = x, y, radius
        x += (points[farthest, 0] - x) / (turn + 1)
        y += (points[farthest, 1] - y) / (turn + 1)
    return best_x, best_y, best_radius


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
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        x, y, radius = _circle_around(points, middle)
        if len(self._rings) and self._rings[:, 3].min() < radius:
            # A ring around a place is a circle already.
            x, y, _, radius = self._rings[np.argmin(self._rings[:, 3])]
        return (float(x), float(y)), float(radius)
