"""Campaign: map a whole crowd by asking from many places, without an account of one's own.

First squares that cover the region are asked from their middles, and cut into four where lists hardly overlap with
those beside them, so that questions follow people. Then a map of everybody is sampled (`crowd_map`), and more questions
go to where people are badly located. Lists that the map was not fitted to say how far its radii can be trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from nearveil.attacks.base import Outcome
from nearveil.attacks.crowd_map import COOLING, WARM, CrowdMap
from nearveil.attacks.oracle import Oracle, OutOfQueriesError, Point, point_of
from nearveil.attacks.unfolding import step_between
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray, Progress, ProgressBar, no_bar

SHARE = 0.9
"""A radius holds a person with this probability."""

# Fits before the last take so many times less effort.
_SHORTER = 4
# Questions of a round, and lists that a map is checked with, at least.
_FEW = 10
_STRETCHES = np.geomspace(1.0, 10.0, 60)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CampaignResult:
    """A map of a crowd.

    Attributes
    ----------
    people : tuple of Person
        Everybody who was listed.
    estimates_m : ndarray of shape (people, 2)
        Where the service has them, as far as the answers say, in metres.
    radii_m : ndarray of shape (people,)
        Each holds its person with a probability of 90 %, if the answers are consistent.
    asked_m : ndarray of shape (questions, 2)
        Where was asked.
    disorder : float
        Share of what the lists say about the order of two people that the map gets wrong.
    stretch : float
        By how much the radii were stretched so that they hold for lists that the map was not fitted to.
    """

    outcome: Outcome
    people: tuple[Person, ...] = field(repr=False)
    estimates_m: FloatArray = field(repr=False)
    radii_m: FloatArray = field(repr=False)
    asked_m: FloatArray = field(repr=False)
    questions: int
    seconds: float
    disorder: float
    stretch: float


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Where to ask, and when to stop.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        People count as located if their radius is at most this.
    most_questions : int
        The map is made of what was answered until then.
    goal : float
        The campaign ends when this share of the people seen is located.
    apart : float
        Squares are cut while a list seems not to reach so far that one beside it is less than this away, in units of
        its reach. From 2 on lists have nobody in common.
    smallest : float
        Squares with sides of this many ``tau_m`` are not cut.
    rounds, share_a_round : int, float
        How often questions are added for people who are badly located, and how many at most, as a share of the
        questions so far.
    checks : float
        Share of questions that the map is not fitted to but checked with.
    sweeps, samples : int
        Effort of the last fit; the others take a quarter.
    most_disorder : float
        The answers contradict each other if the map violates more of what they say.
    """

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_questions: int = 100_000
    goal: float = 0.98
    apart: float = 1.8
    smallest: float = 0.1
    rounds: int = 6
    share_a_round: float = 0.1
    checks: float = 0.01
    sweeps: int = 400
    samples: int = 40
    most_disorder: float = 0.2
    seed: int = 1

    def __post_init__(self) -> None:
        if self.most_questions < 1:
            raise UsageError("a campaign needs at least one question; give most_questions= a number from 1 on")

    def run(self, oracle: Oracle, progress: ProgressBar = no_bar) -> CampaignResult:
        """Map everybody, touching nothing but the oracle."""
        started = time.perf_counter()
        rng = np.random.default_rng(self.seed)
        crowd = CrowdMap(oracle.k, self.half_extent_m, rng)
        inquiry = _Questions(oracle, crowd, self.most_questions)
        with progress("asking all over the region", None) as advance:
            guess_m = self._explore(inquiry, advance)
        self._fit(crowd, guess_m, COOLING, progress)
        for _ in range(self.rounds):
            most = max(_FEW, math.ceil(self.share_a_round * inquiry.count))
            places = self._places_for(crowd, self._lost(crowd), rng)[:most]
            if inquiry.is_over or not places:
                break
            # A map that explains little is not worth keeping warm.
            cooling = COOLING if crowd.disorder() > self.most_disorder / 2 else WARM
            with progress("asking where people are badly located", len(places)) as advance:
                inquiry.ask(places, advance)
            self._fit(crowd, None, cooling, progress)
        places = self._places_to_check(crowd, max(_FEW, math.ceil(self.checks * inquiry.count)), rng)
        with progress("asking to check the map", len(places)) as advance:
            checks = inquiry.check(places, advance)
        self._fit(crowd, None, WARM, progress, last=True)
        stretch, disorder = _stretch(crowd, checks, rng), crowd.disorder()
        return CampaignResult(
            outcome=self._outcome(crowd, disorder, is_over=inquiry.is_over),
            people=tuple(crowd.people),
            estimates_m=crowd.estimates(),
            radii_m=stretch * crowd.radii_m(SHARE),
            asked_m=crowd.places,
            questions=inquiry.count,
            seconds=time.perf_counter() - started,
            disorder=disorder,
            stretch=stretch,
        )

    def _outcome(self, crowd: CrowdMap, disorder: float, *, is_over: bool) -> Outcome:
        if not crowd.people:
            return Outcome.NOBODY
        # What was asked from a few places only may fit no map that is found, without being wrong.
        if is_over:
            return Outcome.OUT_OF_QUERIES
        return Outcome.CONTRADICTION if disorder > self.most_disorder else Outcome.FOUND

    def _fit(
        self, crowd: CrowdMap, guess_m: FloatArray | None, cooling: Sequence[float], progress: ProgressBar, *,
        last: bool = False,
    ) -> None:  # fmt: skip
        effort = 1 if last else _SHORTER
        sweeps, samples = max(1, self.sweeps // effort), max(2, self.samples // effort)
        with progress(f"mapping {len(crowd.people):,} people", crowd.steps_of(sweeps, cooling)) as advance:
            crowd.fit(guess_m, sweeps=sweeps, samples=samples, cooling=cooling, progress=advance)

    def _explore(self, inquiry: _Questions, progress: Progress) -> FloatArray:
        """Ask from the middles of squares, smaller where lists change quickly; return how far lists seem to reach."""
        side_m = min(self.half_extent_m)
        reach_m: list[float] = []
        middles = self._grid((0.0, 0.0), side_m, 2 * math.ceil(max(self.half_extent_m) / side_m))
        while middles and not inquiry.is_over:
            places = [self._inside(middle) for middle in middles]
            asked = inquiry.ask(places, progress)
            level_m, alone = _beside(places[: len(asked)], [answer for answer, _ in asked], side_m, self.apart)
            reach_m += level_m
            coarse = [
                middle
                for middle, is_alone, (answer, new) in zip(middles, alone, asked, strict=False)
                # Where lists change but show nobody new, nobody is left to be found.
                if is_alone and new and len(answer) >= inquiry.k
            ]
            deep_enough = side_m <= self.smallest * self.tau_m
            middles = [] if deep_enough else [part for middle in coarse for part in self._grid(middle, side_m / 2, 2)]
            side_m /= 2
        return np.array(reach_m)

    def _grid(self, middle: Point, side_m: float, count: int) -> list[Point]:
        """The middles of squares about a place, of those that reach into the region."""
        offsets_m = (np.arange(count) - (count - 1) / 2) * side_m
        spots = [(middle[0] + float(x), middle[1] + float(y)) for x in offsets_m for y in offsets_m]
        edges_m = np.array(self.half_extent_m) + (0.5 - 1e-6) * side_m
        return [spot for spot in spots if (np.abs(spot) < edges_m).all()]

    def _inside(self, middle: Point) -> Point:
        """The nearest place in the region, where squares reach beyond it."""
        extent_m = np.array(self.half_extent_m)
        return point_of(np.clip(middle, -extent_m, extent_m))

    def _lost(self, crowd: CrowdMap) -> IntArray:
        """Those who are not located, while they are too many."""
        lost = np.flatnonzero(crowd.radii_m(SHARE) > self.tau_m)
        return lost if len(lost) > (1 - self.goal) * len(crowd.people) else lost[:0]

    def _places_for(self, crowd: CrowdMap, lost: IntArray, rng: np.random.Generator) -> list[Point]:
        """Where people who are lost may be, far from where they seem to be; first where lists have many of them."""
        if not len(lost):
            return []
        estimates_m = crowd.estimates()
        away_m = np.hypot(*np.moveaxis(crowd.samples[:, lost] - estimates_m[lost], 2, 0))
        places = crowd.samples[np.argmax(away_m, axis=0), lost]
        count = min(crowd.k, len(estimates_m))
        _, near = cKDTree(estimates_m).query(places, [*range(1, count + 1)])
        waiting = np.zeros(len(estimates_m), dtype=np.bool_)
        waiting[lost] = True
        many_first = np.argsort(-waiting[near].sum(axis=1) - rng.random(len(lost)), kind="stable")
        chosen = []
        for number in many_first:
            if waiting[lost[number]]:
                chosen.append(point_of(places[number]))
                waiting[near[number]] = False
                waiting[lost[number]] = False
        return chosen

    def _places_to_check(self, crowd: CrowdMap, count: int, rng: np.random.Generator) -> list[Point]:
        """Places of people as far as the map knows, which no question was chosen for."""
        if not crowd.people:
            return []
        return [point_of(place) for place in crowd.samples[-1][rng.integers(len(crowd.people), size=count)]]


class _Questions:
    """Asks, tells the map, and stops at the limit."""

    def __init__(self, oracle: Oracle, crowd: CrowdMap, most: int) -> None:
        self._oracle, self._crowd, self._most = oracle, crowd, most
        self.k, self.count, self.is_over = oracle.k, 0, False

    def ask(self, places: Iterable[Point], progress: Progress) -> list[tuple[Sequence[Person], bool]]:
        """Ask, and return the answers; fewer if no more may be asked.

        Each with whether somebody is on it who was not listed before this call.
        """
        known, found = len(self._crowd.people), []
        for place, answer in self._asked(places, progress):
            numbers = self._crowd.add(place, answer)
            found.append((answer, any(number >= known for number in numbers)))
        return found

    def check(self, places: Iterable[Point], progress: Progress) -> list[tuple[Point, list[int]]]:
        """Ask without telling the map."""
        return [(place, self._crowd.numbers(answer)) for place, answer in self._asked(places, progress)]

    def _asked(self, places: Iterable[Point], progress: Progress) -> Iterator[tuple[Point, Sequence[Person]]]:
        for place in places:
            if self.count >= self._most:
                self.is_over = True
                return
            try:
                answer = self._oracle.nearby(place)
            except OutOfQueriesError:
                self.is_over = True
                return
            self.count += 1
            progress(1)
            yield place, answer


def _beside(
    places: Sequence[Point], answers: Sequence[Sequence[Person]], side_m: float, apart: float
) -> tuple[list[float], list[bool]]:
    """How far lists seem to reach, and whether one a side away has too little in common with them.

    One is enough: lists on this side of a town are alike however far they are, and only those beyond it are not.
    """
    spots, reaches_m, is_alone = np.array(places).reshape(-1, 2), [], []
    for number, near in enumerate(cKDTree(spots).query_ball_point(spots, 1.01 * side_m) if len(spots) else ()):
        others = [other for other in near if other != number]
        steps = np.array([step_between(answers[number], answers[other]) for other in others])
        lengths_m = np.hypot(*(spots[others] - spots[number]).T)
        # That lists reach farther than to the next place is not known.
        reaches_m.append(min(float(np.median(lengths_m / steps)), side_m) if others else side_m / 2)
        is_alone.append(not others or bool(steps.max() > apart))
    return reaches_m, is_alone


def _stretch(crowd: CrowdMap, checks: Sequence[tuple[Point, Sequence[int]]], rng: np.random.Generator) -> float:
    """By how much samples must be stretched about their means, so that lists that were not fitted are likeliest.

    Samples say how likely two people of such a list are in the order in which they are. Where samples are too close to
    their means, orders occur that they call impossible.
    """
    gaps = []
    for place, people in checks:
        # Any two of a list: whoever is next to somebody was chosen by the answer, and is nearer to them than is likely.
        one = rng.permutation(len(people))
        near, far = np.minimum(one, np.roll(one, 1)), np.maximum(one, np.roll(one, 1))
        distances_m = np.hypot(*np.moveaxis(crowd.samples[:, people] - np.array(place), 2, 0))
        gaps.append((distances_m[:, far] - distances_m[:, near])[:, near < far])
    gaps_m = np.concatenate([np.empty((len(crowd.samples), 0)), *gaps], axis=1)
    means_m = gaps_m.mean(axis=0)
    likely = []
    for factor in _STRETCHES:
        agree = (means_m + factor * (gaps_m - means_m) > 0).sum(axis=0)
        likely.append(np.log((agree + 0.5) / (len(gaps_m) + 1)).sum())
    return float(_STRETCHES[np.argmax(likely)])
