"""Campaign: map a whole crowd by asking from many locations, without an account of one's own.

First squares that cover the region are asked from their centers, and cut into four where lists hardly overlap with
those beside them, so queries follow users. Then everybody is mapped (`crowd_map`), and more queries go where users are
badly located. Lists that the map was not fitted to say how far its radii can be trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from nearveil.attacks.base import Outcome
from nearveil.attacks.crowd_map import FITS, MOST_DISORDER, CrowdMap, step_between
from nearveil.attacks.oracle import Oracle, OutOfQueriesError, Point, point_of
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray, Progress, ProgressBar, no_bar

SHARE = 0.9
"""A radius holds a user with this probability."""

# The campaign ends when this share of the users seen is located. More takes many queries for the last few.
_GOAL = 0.98
# Squares are cut while lists a side apart are farther apart than this, in units of their reach; from 2 on they have no
# user in common. More leaves gaps in the map, less takes more queries.
_APART = 1.8
# Queries are added in so many rounds, each of this share of the queries so far. More rounds take fewer queries, since
# each is chosen with a better map, but longer.
_ROUNDS, _SHARE_OF_ROUND = 6, 0.1
# Share of queries that the map is checked with. More make radii more honest, and are spent on nothing else.
_CHECKS = 0.01

# Queries of a round, and lists that a map is checked with, at least.
_FEW = 10
# Squares with sides of this many tau are not cut.
_SMALLEST = 0.1
_STRETCHES = np.geomspace(1.0, 10.0, 60)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CampaignResult:
    """A map of a crowd.

    Attributes
    ----------
    people : tuple of Person
        Everybody who was listed.
    estimates_m : ndarray of shape (people, 2)
        Where the service has them, as far as the answers say, in meters.
    radii_m : ndarray of shape (people,)
        Each holds its user with a probability of 90 %, if the answers are consistent.
    asked_m : ndarray of shape (questions, 2)
        Where was asked.
    disorder : float
        Share of what the lists say about the order of two users that the map gets wrong.
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
        Users count as located if their radius is at most this.
    most_questions : int
        The map is made of what was answered until then.
    """

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_questions: int = 100_000
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
            self._explore(inquiry, advance)
        self._fit(crowd, progress)
        for _ in range(_ROUNDS):
            most = max(_FEW, math.ceil(_SHARE_OF_ROUND * inquiry.count))
            places = self._places_for(crowd, self._lost(crowd), rng)[:most]
            if inquiry.is_over or not places:
                break
            with progress("asking where users are badly located", len(places)) as advance:
                inquiry.ask(places, advance)
            self._fit(crowd, progress)
        places = self._places_to_check(crowd, max(_FEW, math.ceil(_CHECKS * inquiry.count)), rng)
        with progress("asking to check the map", len(places)) as advance:
            checks = inquiry.check(places, advance)
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
        return Outcome.CONTRADICTION if disorder > MOST_DISORDER else Outcome.FOUND

    def _fit(self, crowd: CrowdMap, progress: ProgressBar) -> None:
        with progress(f"mapping {len(crowd.people):,} users", FITS) as advance:
            crowd.fit(advance)

    def _explore(self, inquiry: _Questions, progress: Progress) -> None:
        """Ask from the centers of squares, smaller where lists change quickly."""
        side_m = min(self.half_extent_m)
        centers = self._grid((0.0, 0.0), side_m, 2 * math.ceil(max(self.half_extent_m) / side_m))
        while centers and not inquiry.is_over:
            places = [self._inside(center) for center in centers]
            asked = inquiry.ask(places, progress)
            alone = _are_alone(places[: len(asked)], [answer for answer, _ in asked], side_m)
            coarse = [
                center
                for center, is_alone, (answer, new) in zip(centers, alone, asked, strict=False)
                # Where lists change but show nobody new, nobody is left to be found.
                if is_alone and new and len(answer) >= inquiry.k
            ]
            deep_enough = side_m <= _SMALLEST * self.tau_m
            side_m /= 2
            centers = [] if deep_enough else [part for center in coarse for part in self._grid(center, side_m, 2)]

    def _grid(self, center: Point, side_m: float, count: int) -> list[Point]:
        """The centers of squares about a place, of those that reach into the region."""
        offsets_m = (np.arange(count) - (count - 1) / 2) * side_m
        spots = [(center[0] + float(x), center[1] + float(y)) for x in offsets_m for y in offsets_m]
        edges_m = np.array(self.half_extent_m) + (0.5 - 1e-6) * side_m
        return [spot for spot in spots if (np.abs(spot) < edges_m).all()]

    def _inside(self, place: Point) -> Point:
        """The nearest place in the region, where squares reach beyond it."""
        extent_m = np.array(self.half_extent_m)
        return point_of(np.clip(place, -extent_m, extent_m))

    def _lost(self, crowd: CrowdMap) -> IntArray:
        """Those who are not located, while they are too many."""
        lost = np.flatnonzero(crowd.radii_m(SHARE) > self.tau_m)
        return lost if len(lost) > (1 - _GOAL) * len(crowd.people) else lost[:0]

    def _places_for(self, crowd: CrowdMap, lost: IntArray, rng: np.random.Generator) -> list[Point]:
        """Where users who are lost may be, far from where they seem to be; first where lists have many of them."""
        if not len(lost):
            return []
        estimates_m = crowd.estimates()
        farthest = np.argmax(crowd.away_m()[:, lost], axis=0)
        places = crowd.samples[farthest, lost]
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
        """Places of users as far as the map knows, which no query was chosen for."""
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


def _are_alone(places: Sequence[Point], answers: Sequence[Sequence[Person]], side_m: float) -> list[bool]:
    """Whether one of the lists a side away has too little in common with each.

    One is enough: lists on this side of a town are alike however far they are, and only those beyond it are not.
    """
    near = cKDTree(places).query_ball_point(places, 1.01 * side_m) if len(places) else []
    return [
        len(others) == 1
        or any(step_between(answers[number], answers[other]) > _APART for other in others if other != number)
        for number, others in enumerate(near)
    ]


def _stretch(crowd: CrowdMap, checks: Sequence[tuple[Point, Sequence[int]]], rng: np.random.Generator) -> float:
    """By how much samples must be stretched about their means, so that lists that were not fitted are likeliest.

    Samples say how likely two users of such a list are in the order in which they are. Where samples are too close to
    their means, orders occur that they call impossible.
    """
    gaps = []
    for place, users in checks:
        distances_m = np.hypot(*np.moveaxis(crowd.samples[:, users] - np.array(place), 2, 0))
        near, far = np.triu_indices(len(users), 1)
        gaps.append(distances_m[:, far] - distances_m[:, near])
    gaps_m = np.concatenate([np.empty((len(crowd.samples), 0)), *gaps], axis=1)
    sure = gaps_m.mean(axis=0) / (gaps_m.std(axis=0, ddof=1) + 1e-9) if len(gaps_m) > 1 else gaps_m[0] * np.inf
    likely = [np.log(_DOUBT + (1 - 2 * _DOUBT) * ndtr(sure / factor)).sum() for factor in _STRETCHES]
    return float(_STRETCHES[np.argmax(likely)])


# An order in a list is by chance whatever it is with twice this probability, as users at one point are.
_DOUBT = 0.01
