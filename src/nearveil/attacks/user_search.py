"""The adaptive attack on services that answer about one user: with a distance, a band, or yes and no.

Every answer is a ring around the point asked from, one for each rule by which the service may have made it
(`readings`). The attack ends when all cells of all rules lie within tau of one point.
"""

from __future__ import annotations

import math
import time

import numpy as np

from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.belief import Belief, Evidence, Prior, Sample, circle_around, distances_m
from nearveil.attacks.oracle import OutOfQueriesError, PersonOracle, Point, point_of
from nearveil.attacks.planner import best_query
from nearveil.attacks.readings import UNITS_M, DistanceReading, Query, Reading, reading_of
from nearveil.types import FloatArray

# How many predicted answers must come true at a service that may have no fixed rule: more of them let fewer services
# pass that round by chance, and cost queries.
CHECKS_WITHOUT_RULE = 8
# Points of the belief that queries are tried on: more choose better, and take longer.
_SAMPLES = 300
# Points from anywhere that are tried, and directions from which an edge is put through what is possible.
_ANYWHERE, _ANGLES = 60, 24
# Of the queries that tell most, so many are compared by whether they end the attack, too.
_FINALISTS = 24
# Noisy distances are averaged from points at so many of their units away.
_AVERAGED_FROM = 0.5, 3.0
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


class UserSearch:
    """One attack: asks the query that promises most, until everything possible lies within tau of one point.

    Then answers that are certain by now must come true. Where the oracle says that it has a fixed rule, one does, which
    tells that the rule is one of those that are known, and the estimate is certified. A service that rounds by chance,
    adds noise to each answer or lies at times passes such checks by chance, too, however many they are. So of others
    more are wanted, and nothing is certified.

    Distances that contradict each other may have noise in each: then the queries that are left are asked from points
    around the user, and the point that fits all answers best is the estimate. It is not called found.
    """

    def __init__(self, oracle: PersonOracle, prior: Prior, *, most_queries: int, checks: int | None = None) -> None:
        self._oracle, self._prior, self._most_queries = oracle, prior, most_queries
        self._reading = reading_of(oracle)
        self._has_fixed_rule = bool(getattr(oracle, "has_fixed_rule", False))
        self._checks_wanted = checks
        self._rng = np.random.default_rng(1)
        self._belief = _belief(self._reading, prior)
        self._evidence: list[Evidence] = []
        self._rules = tuple(self._reading.rules)
        self._steps: list[TraceStep] = []
        self._circle = self._belief.enclosing_circle()

    def run(self, attack: str) -> AttackResult:
        """Attack; an oracle that refuses further queries ends it with the best guess."""
        started = time.perf_counter()
        averaged = None
        try:
            outcome = self._ask_until_certain()
            if outcome is Outcome.CONTRADICTION and isinstance(self._reading, DistanceReading):
                averaged = self._average(self._reading)
        except OutOfQueriesError:
            outcome = Outcome.OUT_OF_QUERIES
        center, radius_m = self._circle
        is_found = outcome is Outcome.FOUND
        mean = self._belief.mean()
        # A reading that leaves rules out is believed only after checks.
        is_bounded = outcome is Outcome.OUT_OF_QUERIES and bool(self._steps) and self._reading.is_exhaustive
        return AttackResult(
            attack=attack,
            outcome=outcome,
            # Before any answer there is nothing to believe.
            estimate=averaged or ((center if is_found else mean) if self._steps else None),
            radius_m=radius_m if is_found else self._belief.reach_m(mean) if is_bounded else None,
            certified=is_found and self._is_certain,
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
        if self._checks_wanted is not None:
            return self._checks_wanted
        return 1 if self._is_certain else CHECKS_WITHOUT_RULE

    def _ask_until_certain(self) -> Outcome:
        passed = 0
        while True:
            self._circle = center, radius_m = self._belief.enclosing_circle()
            is_small = radius_m <= self._prior.tau_m
            rival = self._rival_query() if is_small else None
            if is_small and rival is None and passed >= self._checks:
                return Outcome.FOUND
            if len(self._steps) >= self._most_queries:
                return Outcome.OUT_OF_QUERIES
            if rival is not None:
                query = rival
            elif is_small:
                query = self._check(center, radius_m, passed)
            else:
                query = self._best_query(self._reading, self._belief, radius_m)
            if not self._ask(query):
                return Outcome.CONTRADICTION
            passed += is_small

    def _ask(self, query: Query) -> bool:
        answer = self._reading.ask(query)
        makes_sense = self._learn() or self._read_otherwise()
        self._steps.append(TraceStep(query.point, None, answer=answer, cells=self._belief.cells))
        return makes_sense

    def _learn(self) -> bool:
        """Take in the last answer; begin again with all of them where it changes what those before say."""
        evidence, before = self._reading.evidence(), self._evidence
        rules, rules_before = tuple(self._reading.rules), self._rules
        self._evidence, self._rules = evidence, rules
        if rules == rules_before and all(map(_is_same, before, evidence)):
            return self._belief.learn(evidence[len(before) :])
        belief = _belief(self._reading, self._prior)
        if not belief.learn(evidence):
            return False
        self._belief = belief
        return True

    def _read_otherwise(self) -> bool:
        """Begin again with another reading of the same answers, if there is one that makes sense of them."""
        reading = self._reading.otherwise()
        while reading is not None:
            belief = _belief(reading, self._prior)
            if belief.learn(evidence := reading.evidence()):
                self._reading, self._belief = reading, belief
                self._evidence, self._rules = evidence, tuple(reading.rules)
                return True
            reading = reading.otherwise()
        return False

    # -- which query to ask next

    def _best_query(self, reading: Reading, belief: Belief, radius_m: float) -> Query:
        sample = belief.sample(_SAMPLES, self._rng)
        queries = self._queries(reading, belief, sample.points, radius_m)
        tables = {radius: reading.steps(radius) for radius in {query.radius_m for query in queries}}
        codes = [reading_codes(tables[query.radius_m], query, sample) for query in queries]
        best = np.argsort([-_surprise(one) for one in codes], kind="stable")[:_FINALISTS]
        number = best_query(best.tolist(), lambda number, _: _table(codes[number]), sample, self._prior.tau_m)
        return queries[number]

    def _queries(self, reading: Reading, belief: Belief, likely: FloatArray, radius_m: float) -> list[Query]:
        """Queries worth trying: from anywhere, from among the likely points, and with an edge through their middle."""
        half = np.array(self._prior.half_extent_m)
        corners = half * [[x, y] for x in (-1, 0, 1) for y in (-1, 0, 1)]
        anywhere = self._rng.uniform(-half, half, (_ANYWHERE, 2))
        among = likely[self._rng.integers(len(likely), size=_ANGLES)]
        angles = self._rng.uniform(0, 2 * math.pi) + np.arange(_ANGLES) * (2 * math.pi / _ANGLES)
        towards = np.column_stack([np.cos(angles), np.sin(angles)])
        edges_m = np.array(self._edges_m(reading, belief, radius_m))
        around = (np.median(likely, axis=0) - edges_m[:, None, None] * towards).reshape(-1, 2)
        points = np.vstack([anywhere, corners, among, around])
        points = points[(np.abs(points) <= half).all(axis=1)]
        return [
            Query(point_of(point), radius)
            for point in points
            for radius in reading.radii_near(float(np.median(distances_m(likely, point_of(point)))))
        ]

    def _edges_m(self, reading: Reading, belief: Belief, radius_m: float) -> list[float]:
        """The least distances at which answers may change, in keeping with the size of what is possible."""
        scale_m = max(radius_m, 1000.0)
        radii = {radius for number in (1, 2, 3) for radius in reading.radii_near(number * scale_m)}
        edges: set[float] = set()
        for radius in radii:
            for first, step, _, last, _ in reading.steps(radius)[belief.possible][:6].tolist():
                edges.update(first + number * step for number in range(3 if last > 1 else 1))
        return sorted(edge for edge in edges if edge > 0)[:12] or [scale_m]

    def _check(self, center: Point, radius_m: float, number: int) -> Query:
        """A query whose answer is certain if the target is within a circle, but not if it is a little farther.

        Each from another side than those before.
        """
        reading = self._reading
        is_nearer = reading.checks_from_nearer(reading.rules[self._belief.likeliest], number)
        radius = reading.radii_near(2 * radius_m)[0]
        first, step, _, most, _ = reading.steps(radius)[self._belief.possible].T
        # The second edge: the first may not show.
        edges = first + step * (most > 1)
        if is_nearer:
            away_m = reading.surely(float(edges.min()), -1) - radius_m
        else:
            away_m = reading.surely(float(edges.max()), 1) + radius_m
        angles = self._rng.uniform(0, 2 * math.pi) + 2 * math.pi * np.arange(_ANGLES) / _ANGLES
        points = np.array(center) - max(away_m, 0.0) * np.column_stack([np.cos(angles), np.sin(angles)])
        inside = (np.abs(points) <= np.array(self._prior.half_extent_m)).all(axis=1)
        return Query(point_of(points[inside.argmax()]) if inside.any() else center, radius)

    def _rival_query(self) -> Query | None:
        """A query for a rival reading, if all that both leave possible is not within tau of one point, or None.

        Its answer counts as a check: one reading knows it, more or less, and the other does not.
        """
        reading = self._reading.rival()
        if reading is None:
            return None
        belief = _belief(reading, self._prior)
        if not belief.learn(reading.evidence()):
            return None
        self._circle = circle_around(np.vstack([self._belief.cells, belief.cells]))
        if self._circle[1] <= self._prior.tau_m:
            return None
        return self._best_query(reading, belief, belief.enclosing_circle()[1])

    # -- distances with noise in each

    def _average(self, reading: DistanceReading) -> Point:
        """Ask what may still be asked around the point that fits the answers so far; return the one that fits all."""
        at, unit_m = best_fit(*reading.asked_and_answered, self._belief.mean())
        half = np.array(self._prior.half_extent_m)
        while len(self._steps) < self._most_queries:
            # From all sides, and at all distances, so that rounding errs as often to one side as to the other.
            number, (least, most) = len(self._steps), _AVERAGED_FROM
            angle, away_m = number * _GOLDEN_ANGLE, unit_m * (least + (most - least) * (number * math.sqrt(2) % 1))
            point = point_of(np.clip(np.array(at) + away_m * np.array([math.cos(angle), math.sin(angle)]), -half, half))
            try:
                answer = reading.ask(Query(point))
            except OutOfQueriesError:
                break
            self._steps.append(TraceStep(point, None, answer=answer))
            if len(self._steps) % 5 == 0:
                at, unit_m = best_fit(*reading.asked_and_answered, at)
        return best_fit(*reading.asked_and_answered, at)[0]


def _is_same(one: Evidence, other: Evidence) -> bool:
    return np.array_equal(one.low_m, other.low_m) and np.array_equal(one.high_m, other.high_m)


def _belief(reading: Reading, prior: Prior) -> Belief:
    return Belief(prior, np.log([rule.chance for rule in reading.rules]))


def reading_codes(steps: FloatArray, query: Query, sample: Sample) -> FloatArray:
    """Numbers of the answers that sampled points would give."""
    first, step, least, last, multiple = steps[sample.hypothesis].T
    count = np.floor((distances_m(sample.points, query.point) - first) / step) + 1
    return np.asarray(np.clip(count, least, last) * multiple)


def _table(codes: FloatArray) -> FloatArray:
    """The same as chances of answers, one column for each; none tells nothing."""
    _, answer = np.unique(codes, return_inverse=True)
    table = np.zeros((len(codes), answer.max() + 2))
    table[np.arange(len(codes)), answer] = 1.0
    return table


def _surprise(codes: FloatArray) -> float:
    """How much an answer tells, in bits."""
    _, counts = np.unique(codes, return_counts=True)
    return float(np.log2(len(codes)) - (counts * np.log2(counts)).sum() / len(codes))


def best_fit(points: FloatArray, answers: FloatArray, start: Point) -> tuple[Point, float]:
    """Return the point whose distances fit noisy and rounded answers best, and the unit of the answers in meters.

    Rounding down or up shifts all answers, by one of their steps at most.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> points = rng.uniform(-3000, 3000, (200, 2))
    >>> shown = np.floor((np.hypot(*(points - (400, 900)).T) + rng.normal(0, 200, 200)) / 1000)
    >>> (x, y), unit_m = best_fit(points, shown, (0.0, 0.0))
    >>> bool(math.dist((x, y), (400, 900)) < 100), unit_m
    (True, 1000.0)
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 - slow to load, and most services do without

    found = []
    step = float(np.min(np.diff(np.unique(answers)), initial=1.0))
    for unit_m in UNITS_M.values():

        def misfits(guess: FloatArray, shown_m: FloatArray = answers * unit_m) -> FloatArray:
            misfit: FloatArray = np.hypot(*(points - guess[:2]).T) + guess[2] - shown_m
            return misfit

        most_m = unit_m * step
        bounds = ([-np.inf, -np.inf, -most_m], [np.inf, np.inf, most_m])
        fit = least_squares(misfits, (*start, 0.0), loss="soft_l1", f_scale=unit_m, bounds=bounds)
        found.append((float(np.abs(fit.fun).mean()), fit.x, unit_m))
    _, (x, y, _), unit_m = min(found, key=lambda one: one[0])
    return (float(x), float(y)), unit_m
