"""The adaptive attack on services that answer about one person: with a distance, a band, or yes and no.

Every answer is a ring around the place asked, one for each rule by which the service may have made it (`readings`).
The belief keeps the cells that all rings of a rule leave possible, rule by rule. The attack ends with a certificate
when all cells of all rules lie within tau of one place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nearveil.attacks._belief import nearest_and_farthest, split_cells
from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.oracle import OutOfQueriesError, PersonOracle, Point, point_of
from nearveil.attacks.readings import UNITS_M, DistanceReading, Question, Reading, Rule, reading_of
from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray, IntArray

# What is possible: cells with the number of a rule.


_MOST_CELLS = 3000
_SAMPLES = 3
# No cells with half sides below this part of tau.
_FINEST = 100


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Where people are, before anything is asked: anywhere in the region alike, or rather near a place.

    Near a place means log-uniform: as likely between 1 and 2 km from it as between 2 and 4.
    """

    half_extent_m: tuple[float, float]
    tau_m: float
    near: Point | None = None

    def density(self, points: FloatArray) -> FloatArray:
        """How likely the points are, in relation to each other; nobody is outside the region."""
        inside = (np.abs(points) <= np.array(self.half_extent_m)).all(axis=-1)
        if self.near is None:
            return np.asarray(inside, dtype=np.float64)
        squared = np.square(points - np.array(self.near)).sum(axis=-1)
        return np.asarray(inside / np.maximum(squared, 0.25 * self.tau_m**2), dtype=np.float64)

    def first_cells(self) -> FloatArray:
        """Cells that cover the region."""
        width, height = self.half_extent_m
        half = min(width, height) / 12
        columns, rows = math.ceil(width / half), math.ceil(height / half)
        x, y = np.meshgrid(
            (2 * np.arange(columns) + 1 - columns) * width / columns, (2 * np.arange(rows) + 1 - rows) * height / rows
        )
        # Squares that overlap a little, where the region is no multiple of their size.
        return np.column_stack([x.ravel(), y.ravel(), np.full(x.size, max(width / columns, height / rows))])


class RuledRings(Protocol):
    """Rules by which a service may answer, and what all answers so far say under each of them, as in `Reading`."""

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules to be told apart."""

    def rings(self) -> FloatArray:
        """For each rule rows (x, y, least, greatest)."""


class RingBelief:
    """The cells that are possible under each rule, and how likely they are."""

    def __init__(self, reading: RuledRings, prior: Prior) -> None:
        self._reading, self._prior = reading, prior
        self._rules = reading.rules
        self.cells, self.rule = self._all_cells()
        self.weights = self._weigh(self.cells, self.rule, reading.rings())

    def _all_cells(self) -> tuple[FloatArray, IntArray]:
        cells, count = self._prior.first_cells(), len(self._rules)
        return np.tile(cells, (count, 1)), np.repeat(np.arange(count), len(cells))

    def learn(self) -> bool:
        """Take in all answers so far; False if no rule explains them, and then nothing changes."""
        rules = self._reading.rules
        if rules is not self._rules and tuple(rules) != tuple(self._rules):
            # Other rules than before: begin again, with all answers.
            self._rules = rules
            cells, rule = self._all_cells()
        else:
            cells, rule = self.cells, self.rule
        rings = self._reading.rings()
        while True:
            possible, whole = _possible(cells, rule, rings)
            cells, rule, whole = cells[possible], rule[possible], whole[possible]
            if not len(cells):
                return False
            weights = self._weigh(cells, rule, rings)
            fine = cells[:, 2] <= self._prior.tau_m / _FINEST
            wanted = ~fine & ((weights > 2.0 / _MOST_CELLS) | (~whole & (weights > 0.2 / _MOST_CELLS)))
            wanted |= ~fine & ~whole & (len(cells) < _MOST_CELLS // 4)
            if not wanted.any() or len(cells) > _MOST_CELLS:
                break
            cells = np.vstack([cells[~wanted], split_cells(cells[wanted])])
            rule = np.concatenate([rule[~wanted], np.repeat(rule[wanted], 4)])
        self.cells, self.rule, self.weights = cells, rule, weights
        return True

    def _weigh(self, cells: FloatArray, rule: IntArray, rings: FloatArray) -> FloatArray:
        steps = (2 * np.arange(_SAMPLES) + 1) / _SAMPLES - 1.0
        offsets = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        points = cells[:, None, :2] + cells[:, None, 2:] * offsets
        density = self._prior.density(points)
        share = (density * _inside(points, rule, rings)).mean(axis=1)
        chance = np.array([one.chance for one in self._rules])[rule]
        # A cell that no sample speaks for is possible all the same: give it a little.
        weights = chance * cells[:, 2] ** 2 * np.maximum(share, 1e-3 * density.mean(axis=1) + 1e-12)
        total: FloatArray = weights / weights.sum()
        return total

    def possible_rules(self) -> list[int]:
        """Numbers of the rules that explain all answers."""
        return np.unique(self.rule).tolist()

    def mean(self) -> Point:
        """The place to expect the target at."""
        return point_of(self.weights @ self.cells[:, :2])

    def reach(self) -> float:
        """Greatest distance from the mean to anything that is possible."""
        x, y = self.mean()
        return float((np.hypot(self.cells[:, 0] - x, self.cells[:, 1] - y) + math.sqrt(2) * self.cells[:, 2]).max())

    def enclosing_circle(self) -> tuple[Point, float]:
        """The smallest circle around everything that is possible."""
        return enclosing_circle(self.cells)


def enclosing_circle(cells: FloatArray) -> tuple[Point, float]:
    """The smallest circle around cells."""
    x, y, _ = _smallest_circle(_extreme_points(cells))
    # Directions are few: the radius is measured to all cells.
    far = np.abs(cells[:, :2] - (x, y)) + cells[:, 2:]
    return (float(x), float(y)), math.sqrt(float((far**2).sum(axis=1).max()))


@kernel
def _possible(cells: FloatArray, rule: IntArray, rings: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Which cells can hold the target under their rule, and which of them lie wholly within every ring of it."""
    possible = np.ones(len(cells), dtype=np.bool_)
    whole = np.ones(len(cells), dtype=np.bool_)
    for i in range(len(cells)):
        own = rings[rule[i]]
        for j in range(len(own)):
            near, far = nearest_and_farthest(own[j, 0], own[j, 1], cells[i, 0], cells[i, 1], cells[i, 2])
            if far < own[j, 2] or near > own[j, 3]:
                possible[i] = False
                whole[i] = False
                break
            if near < own[j, 2] or far > own[j, 3]:
                whole[i] = False
    return possible, whole


@kernel
def _inside(points: FloatArray, rule: IntArray, rings: FloatArray) -> BoolArray:
    """Which points satisfy all rings of the rule of their cell."""
    inside = np.ones(points.shape[:2], dtype=np.bool_)
    for i in range(points.shape[0]):
        own = rings[rule[i]]
        for a in range(points.shape[1]):
            for j in range(len(own)):
                squared = (points[i, a, 0] - own[j, 0]) ** 2 + (points[i, a, 1] - own[j, 1]) ** 2
                if squared > own[j, 3] ** 2 or (own[j, 2] > 0.0 and squared < own[j, 2] ** 2):
                    inside[i, a] = False
                    break
    return inside


_DIRECTIONS = 48


def _extreme_points(cells: FloatArray) -> FloatArray:
    """The corners of cells that are farthest in many directions."""
    angles = np.arange(_DIRECTIONS) * (2 * math.pi / _DIRECTIONS) + 0.01
    towards = np.column_stack([np.cos(angles), np.sin(angles)])
    support = cells[:, :2] @ towards.T + cells[:, 2:] * np.abs(towards).sum(axis=1)
    farthest = support.argmax(axis=0)
    corners: FloatArray = cells[farthest, :2] + cells[farthest, 2:] * np.sign(towards)
    return corners


@kernel
def _smallest_circle(points: FloatArray) -> tuple[float, float, float]:
    """The smallest circle around some points (Welzl's algorithm as three loops): centre and radius."""
    x, y, radius = points[0, 0], points[0, 1], 0.0
    for i in range(len(points)):
        if math.hypot(points[i, 0] - x, points[i, 1] - y) <= radius + 1e-9:
            continue
        x, y, radius = points[i, 0], points[i, 1], 0.0
        for j in range(i):
            if math.hypot(points[j, 0] - x, points[j, 1] - y) <= radius + 1e-9:
                continue
            x, y = (points[i, 0] + points[j, 0]) / 2, (points[i, 1] + points[j, 1]) / 2
            radius = math.hypot(points[j, 0] - x, points[j, 1] - y)
            for m in range(j):
                if math.hypot(points[m, 0] - x, points[m, 1] - y) > radius + 1e-9:
                    x, y, radius = _circle_through(points[i], points[j], points[m])
    return x, y, radius


@kernel
def _circle_through(a: FloatArray, b: FloatArray, c: FloatArray) -> tuple[float, float, float]:
    bx, by, cx, cy = b[0] - a[0], b[1] - a[1], c[0] - a[0], c[1] - a[1]
    twice = 2.0 * (bx * cy - by * cx)
    if abs(twice) < 1e-9:
        return (a[0] + b[0]) / 2, (a[1] + b[1]) / 2, math.hypot(bx, by) / 2
    x = (cy * (bx * bx + by * by) - by * (cx * cx + cy * cy)) / twice
    y = (bx * (cx * cx + cy * cy) - cx * (bx * bx + by * by)) / twice
    return a[0] + x, a[1] + y, math.hypot(x, y)


# Which question to ask next.


_MOST_OUTCOMES = 4096
# Directions in which the extent of what an answer leaves is measured, in pairs at right angles.
_AXES = np.array([[math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)] for turn in (0, 4, 1, 5, 2, 6, 3, 7)])


@kernel
def _scores(
    places: FloatArray,
    steps: FloatArray,
    cells: FloatArray,
    rule: IntArray,
    weights: FloatArray,
    tau_m: float,
    worth_of_shape: float,
    axes: FloatArray,
) -> FloatArray:
    """Worth of each question in bits: what the answer tells, and how few questions remain after it.

    ``steps`` has a table for each question, as in `Reading.steps`. A cell across an edge gives both answers, in
    proportion.
    """
    scores = np.empty(len(places))
    mass = np.zeros(_MOST_OUTCOMES)
    extents = np.empty((_MOST_OUTCOMES, 8, 2))
    for number in range(len(places)):
        x, y = places[number]
        most = 0
        for i in range(len(cells)):
            first, step, least, last, multiple = steps[number, rule[i]]
            distance = math.sqrt((cells[i, 0] - x) ** 2 + (cells[i, 1] - y) ** 2)
            near, far = max(distance - cells[i, 2], 0.0), distance + cells[i, 2]
            low = int(min(max(math.floor((near - first) / step) + 1, least), last))
            high = int(min(max(math.floor((far - first) / step) + 1, least), last))
            for outcome in range(low, high + 1):
                begin = near if outcome == low else first + (outcome - 1) * step
                end = far if outcome == high else first + outcome * step
                code = min(int(outcome * multiple), _MOST_OUTCOMES - 1)
                while most <= code:
                    mass[most] = 0.0
                    extents[most, :, 0] = np.inf
                    extents[most, :, 1] = -np.inf
                    most += 1
                mass[code] += weights[i] * (end - begin) / (far - near)
                if worth_of_shape > 0.0:
                    for axis in range(8):
                        along = cells[i, 0] * axes[axis, 0] + cells[i, 1] * axes[axis, 1]
                        extents[code, axis, 0] = min(extents[code, axis, 0], along - cells[i, 2])
                        extents[code, axis, 1] = max(extents[code, axis, 1], along + cells[i, 2])
        scores[number] = 0.0
        for code in range(most):
            if mass[code] > 1e-12:
                scores[number] -= mass[code] * math.log2(mass[code])
                if worth_of_shape > 0.0:
                    scores[number] -= worth_of_shape * mass[code] * _halvings(extents[code], tau_m)
    return scores


@kernel
def _halvings(extents: FloatArray, tau_m: float) -> float:
    """How often a set must be halved, across one axis or the other, to fit into a circle of tau."""
    fewest = np.inf
    for axis in range(0, 8, 2):
        width = extents[axis, 1] - extents[axis, 0]
        height = extents[axis + 1, 1] - extents[axis + 1, 0]
        count = 0.0
        while width * width + height * height > 4.0 * tau_m * tau_m and count < fewest:
            if width > height:
                width /= 2.0
            else:
                height /= 2.0
            count += 1.0
        fewest = min(fewest, count)
    return fewest


# What a question less is worth, in bits, once all that is possible is within so many taus.
_WORTH_OF_SHAPE, _NEAR_THE_END = 1.0, 8.0
# Many questions are tried on a sample of the cells, the best of them on all cells.
_SAMPLED_CELLS = 400
_FINALISTS = 24
_ANYWHERE = 60
_LIKELY = 20
_ANGLES = 24
# Any number of directions that are turned by this are all around.
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_QUANTILES = (0.3, 0.4, 0.5, 0.6, 0.7)
_LEAST_SCALE_M = 1000.0
_MOST_RULES, _MOST_EDGES = 6, 12
_CORNERS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1], [0, 1], [1, 0], [0, -1], [-1, 0]], dtype=np.float64)


class RingPlanner:
    """Chooses the next question."""

    def __init__(self, belief: RingBelief, reading: Reading, prior: Prior, *, seed: int = 1) -> None:
        self._belief, self._reading, self._prior = belief, reading, prior
        self._rng, self._first_angle = np.random.default_rng(seed), 0.0

    def next_question(self) -> Question:
        """The question that promises most."""
        belief = self._belief
        _, radius_m = belief.enclosing_circle()
        sample = self._sample()
        questions = self._questions(belief.cells[sample, :2], radius_m)
        even = np.full(len(sample), 1.0 / len(sample))
        worth = _WORTH_OF_SHAPE if radius_m < _NEAR_THE_END * self._prior.tau_m else 0.0
        rough = self._score(questions, belief.cells[sample], belief.rule[sample], even, worth)
        finalists = [questions[number] for number in np.argsort(-rough, kind="stable")[:_FINALISTS]]
        scores = self._score(finalists, belief.cells, belief.rule, belief.weights, worth)
        return finalists[int(scores.argmax())]

    def check_question(self, centre: Point, radius_m: float, number: int) -> Question:
        """A question whose answer is certain if the target is within a circle, but not if it is a little farther.

        Each from another side than those before.
        """
        likely = int(self._belief.rule[self._belief.weights.argmax()])
        nearer = self._reading.checks_from_nearer(self._reading.rules[likely], number)
        radius = self._reading.radii_near(0.0)[0]
        rules = self._belief.possible_rules()
        first, step, _, most, _ = self._reading.steps(radius)[rules].T
        # The second edge: the first may not show.
        edges = first + step * (most > 1)
        if nearer:
            away_m = self._reading.surely_nearer(float(edges.min())) - radius_m
        else:
            away_m = self._reading.surely_beyond(float(edges.max())) + radius_m
        if number == 0:
            self._first_angle = 2 * math.pi * self._rng.random()
        angles = self._first_angle + _GOLDEN_ANGLE * number + 2 * math.pi * np.arange(_ANGLES) / _ANGLES
        places = np.array(centre) - max(away_m, 0.0) * np.column_stack([np.cos(angles), np.sin(angles)])
        inside = (np.abs(places) <= np.array(self._prior.half_extent_m)).all(axis=1)
        return Question(point_of(places[inside.argmax()]) if inside.any() else centre, radius)

    def _score(
        self, questions: list[Question], cells: FloatArray, rule: IntArray, weights: FloatArray, worth: float
    ) -> FloatArray:
        places = np.array([question.place for question in questions])
        tables = {radius: self._reading.steps(radius) for radius in {question.radius_m for question in questions}}
        steps = np.array([tables[question.radius_m] for question in questions])
        scores: FloatArray = _scores(places, steps, cells, rule, weights, self._prior.tau_m, worth, _AXES)
        return scores

    def _sample(self) -> IntArray:
        """Cells drawn by their weights, each for the same share of them."""
        shares = (np.arange(_SAMPLED_CELLS) + self._rng.random()) / _SAMPLED_CELLS
        cumulative = np.cumsum(self._belief.weights)
        return np.minimum(np.searchsorted(cumulative, shares), len(cumulative) - 1)

    def _questions(self, likely: FloatArray, radius_m: float) -> list[Question]:
        """Questions worth trying; ``likely`` are places where the target may be, each as likely as the others."""
        half = np.array(self._prior.half_extent_m)
        # From afar: anywhere, corners among them. From near: an edge through the middle of what is possible.
        anywhere = self._rng.uniform(-half, half, (_ANYWHERE, 2))
        among = likely[self._rng.choice(len(likely), size=_LIKELY)]
        places = np.vstack([anywhere, _CORNERS * half, among, self._around(likely, radius_m)])
        places = places[(np.abs(places) <= half).all(axis=1)]
        middles = np.median(np.hypot(places[:, :1] - likely[:, 0], places[:, 1:] - likely[:, 1]), axis=1)
        return [
            Question(point_of(place), radius)
            for place, middle in zip(places, middles.tolist(), strict=True)
            for radius in self._reading.radii_near(middle)
        ]

    def _around(self, likely: FloatArray, radius_m: float) -> FloatArray:
        """Places from which an edge passes through the middle of what is possible, in every direction."""
        edges = np.array(self._edges_m(radius_m))
        angles = np.arange(_ANGLES) * (2 * math.pi / _ANGLES)
        towards = np.column_stack([np.cos(angles), np.sin(angles)])
        sidewards = towards[:, ::-1] * (-1, 1)
        along = np.quantile(likely @ towards.T, _QUANTILES, axis=0)
        sideways = (likely @ sidewards.T).mean(axis=0)
        base = along[:, :, None] * towards + sideways[:, None] * sidewards
        return (base[:, :, None, :] - edges[:, None] * towards[:, None, :]).reshape(-1, 2)

    def _edges_m(self, radius_m: float) -> list[float]:
        """The least distances at which answers may change, in keeping with the size of what is possible."""
        scale_m = max(radius_m, _LEAST_SCALE_M)
        radii = {radius for number in (1, 2, 3) for radius in self._reading.radii_near(number * scale_m)}
        edges: set[float] = set()
        for radius in radii:
            steps = self._reading.steps(radius)
            for first, step, _, last, _ in steps[self._belief.possible_rules()[:_MOST_RULES]].tolist():
                edges.update(first + number * step for number in range(3 if last > 1 else 1))
        return sorted(edge for edge in edges if edge > 0)[:_MOST_EDGES]


# The attack.


CHECKS_WITHOUT_RULE = 8
"""How many answers that are certain by then must come true at a service that may have no fixed rule."""


_AVERAGED_FROM = 0.5, 3.0
_ASKED_BETWEEN_FITS = 5
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


def best_fit(places: FloatArray, answers: FloatArray, start: Point) -> tuple[Point, float]:
    """Return the place whose distances fit noisy and rounded answers best, and the unit of the answers in metres.

    Rounding down or up shifts all answers, by one of their steps at most.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> places = rng.uniform(-3000, 3000, (200, 2))
    >>> shown = np.floor((np.hypot(*(places - (400, 900)).T) + rng.normal(0, 200, 200)) / 1000)
    >>> (x, y), unit_m = best_fit(places, shown, (0.0, 0.0))
    >>> bool(math.dist((x, y), (400, 900)) < 100), unit_m
    (True, 1000.0)
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 - slow to load, and most services do without

    found = []
    step = float(np.min(np.diff(np.unique(answers)), initial=1.0))
    for unit_m in UNITS_M.values():

        def misfits(guess: FloatArray, shown_m: FloatArray = answers * unit_m) -> FloatArray:
            misfit: FloatArray = np.hypot(*(places - guess[:2]).T) + guess[2] - shown_m
            return misfit

        most_m = unit_m * step
        bounds = ([-np.inf, -np.inf, -most_m], [np.inf, np.inf, most_m])
        fit = least_squares(misfits, (*start, 0.0), loss="soft_l1", f_scale=unit_m, bounds=bounds)
        found.append((float(np.abs(fit.fun).mean()), fit.x, unit_m))
    _, (x, y, _), unit_m = min(found, key=lambda one: one[0])
    return (float(x), float(y)), unit_m


class RingSearch:
    """One attack: asks the question that promises most, until everything possible lies within tau of one place.

    Then answers that are certain by now must come true. Where the oracle says that it has a fixed rule, one does, which
    tells that the rule is one of those that are known, and the estimate is certified. A service that rounds by chance,
    adds noise to each answer or lies at times passes such checks by chance, too, however many they are. So of others
    more are wanted, and nothing is certified.

    Distances that contradict each other may have noise in each: then the questions that are left are asked from places
    around the person, and the place that fits all answers best is the estimate. It is not called found.
    """

    def __init__(self, oracle: PersonOracle, prior: Prior, *, most_queries: int, checks: int | None = None) -> None:
        self._oracle, self._prior, self._most_queries = oracle, prior, most_queries
        self._reading = reading_of(oracle)
        self._has_fixed_rule = bool(getattr(oracle, "has_fixed_rule", False))
        self._checks_wanted = checks
        self._belief = RingBelief(self._reading, prior)
        self._planner = RingPlanner(self._belief, self._reading, prior)
        self._steps: list[TraceStep] = []
        self._circle = self._belief.enclosing_circle()

    def run(self, attack: str) -> AttackResult:
        """Attack; an oracle that refuses further questions ends it with the best guess."""
        started = time.perf_counter()
        averaged = None
        try:
            outcome = self._ask_until_certain()
            if outcome is Outcome.CONTRADICTION and isinstance(self._reading, DistanceReading):
                averaged = self._average(self._reading)
        except OutOfQueriesError:
            outcome = Outcome.OUT_OF_QUERIES
        centre, radius_m = self._circle
        found = outcome is Outcome.FOUND
        # A reading that leaves rules out is believed only after checks.
        is_bounded = outcome is Outcome.OUT_OF_QUERIES and bool(self._steps) and self._reading.is_exhaustive
        return AttackResult(
            attack=attack,
            outcome=outcome,
            # Before any answer there is nothing to believe.
            estimate=averaged or ((centre if found else self._belief.mean()) if self._steps else None),
            radius_m=radius_m if found else self._belief.reach() if is_bounded else None,
            certified=found and self._is_certain,
            queries=self._oracle.queries,
            seconds=time.perf_counter() - started,
            trace=Trace(tuple(self._steps)),
        )

    @property
    def _is_certain(self) -> bool:
        """Whether the service has a fixed rule, of a kind that is known."""
        return self._has_fixed_rule and self._reading.is_exhaustive

    @property
    def _checks(self) -> int:
        """How many answers must come true."""
        if self._checks_wanted is not None:
            return self._checks_wanted
        return 1 if self._is_certain else CHECKS_WITHOUT_RULE

    def _ask_until_certain(self) -> Outcome:
        passed = 0
        while True:
            self._circle = centre, radius_m = self._belief.enclosing_circle()
            together = radius_m <= self._prior.tau_m
            rival = self._rival_question() if together else None
            if together and rival is None and passed >= self._checks:
                return Outcome.FOUND
            if len(self._steps) >= self._most_queries:
                return Outcome.OUT_OF_QUERIES
            if rival is not None:
                question = rival
            elif together:
                question = self._planner.check_question(centre, radius_m, passed)
            else:
                question = self._planner.next_question()
            if not self._ask(question):
                return Outcome.CONTRADICTION
            passed += together

    def _average(self, reading: DistanceReading) -> Point:
        """Ask what may still be asked around the place that fits the answers so far; return the one that fits all."""
        spot, unit_m = best_fit(*reading.asked_and_answered, self._belief.mean())
        half = np.array(self._prior.half_extent_m)
        while len(self._steps) < self._most_queries:
            # From all sides, and at all distances, so that rounding errs as often to one side as to the other.
            number, (least, most) = len(self._steps), _AVERAGED_FROM
            angle, away_m = number * _GOLDEN_ANGLE, unit_m * (least + (most - least) * (number * math.sqrt(2) % 1))
            place = np.clip(np.array(spot) + away_m * np.array([math.cos(angle), math.sin(angle)]), -half, half)
            try:
                answer = reading.ask(Question(point_of(place)))
            except OutOfQueriesError:
                break
            self._steps.append(TraceStep(point_of(place), None, answer=answer))
            if len(self._steps) % _ASKED_BETWEEN_FITS == 0:
                spot, unit_m = best_fit(*reading.asked_and_answered, spot)
        return best_fit(*reading.asked_and_answered, spot)[0]

    def _rival_question(self) -> Question | None:
        """A question for a rival reading, if all that both leave possible is not within tau of one place, or None.

        Its answer counts as a check: one reading knows it, more or less, and the other does not.
        """
        reading = self._reading.rival()
        if reading is None:
            return None
        belief = RingBelief(reading, self._prior)
        if not belief.learn():
            return None
        self._circle = enclosing_circle(np.vstack([self._belief.cells, belief.cells]))
        if self._circle[1] <= self._prior.tau_m:
            return None
        # Other places are tried each time, so that no question is asked again and again.
        return RingPlanner(belief, reading, self._prior, seed=len(self._steps)).next_question()

    def _ask(self, question: Question) -> bool:
        answer = self._reading.ask(question)
        makes_sense = self._belief.learn() or self._read_otherwise()
        self._steps.append(TraceStep(question.place, None, answer=answer, cells=self._belief.cells))
        return makes_sense

    def _read_otherwise(self) -> bool:
        """Begin again with another reading of the same answers, if there is one that makes sense of them."""
        reading = self._reading.otherwise()
        while reading is not None:
            belief = RingBelief(reading, self._prior)
            if belief.learn():
                self._reading, self._belief = reading, belief
                self._planner = RingPlanner(belief, reading, self._prior)
                return True
            reading = reading.otherwise()
        return False
