"""Campaign: map a whole crowd by asking from many locations, without an account of one's own.

First squares that cover the region are asked from their centers, and cut into four where lists hardly overlap with
those beside them, so queries follow users. Then everybody is mapped (`crowd_map`), and more queries go where users are
badly located. Lists that the map was not fitted to say how far its radii can be trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from nearveil.attacks.base import Outcome
from nearveil.attacks.crowd_map import FITS, MOST_DISORDER, CrowdMap, step_between
from nearveil.attacks.oracle import Oracle, OutOfQueriesError, Point, point_of
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, Progress, ProgressBar, no_bar

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
    disorder : float
        Share of what the lists say about the order of two users that the map gets wrong.
    """

    outcome: Outcome
    people: tuple[Person, ...] = field(repr=False)
    estimates_m: FloatArray = field(repr=False)
    radii_m: FloatArray = field(repr=False)
    queries: int
    seconds: float
    disorder: float


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Where to ask, and when to stop.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        Users count as located if their radius is at most this.
    most_queries : int
        The map is made of what was answered until then.
    """

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    most_queries: int = 100_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.most_queries < 1:
            raise UsageError("a campaign needs at least one query; give most_queries= a number from 1 on")

    def run(self, oracle: Oracle, progress: ProgressBar = no_bar) -> CampaignResult:
        """Map everybody, touching nothing but the oracle."""
        started = time.perf_counter()
        rng = np.random.default_rng(self.seed)
        crowd, asker = CrowdMap(oracle.k, self.half_extent_m, rng), _Asker(oracle, self.most_queries)
        with progress("asking all over the region", None) as advance:
            self._explore(asker, crowd, advance)
        self._fit(crowd, progress)
        for _ in range(_ROUNDS):
            most = max(_FEW, math.ceil(_SHARE_OF_ROUND * asker.count))
            places = self._places_for(crowd, rng)[:most]
            if asker.is_over or not len(places):
                break
            with progress("asking where users are badly located", len(places)) as advance:
                for place, answer in asker.lists(places, advance):
                    crowd.add(place, answer)
            self._fit(crowd, progress)
        stretch, disorder, outcome = 1.0, crowd.disorder(), Outcome.NOBODY
        if crowd.people:
            count = max(_FEW, math.ceil(_CHECKS * asker.count))
            # Where users are as far as the map knows, which no query was chosen for.
            places = crowd.samples[-1][rng.integers(len(crowd.people), size=count)]
            with progress("asking to check the map", count) as advance:
                stretch = _stretch(crowd, [*asker.lists(places, advance)])
            outcome = Outcome.CONTRADICTION if disorder > MOST_DISORDER else Outcome.FOUND
            # What was asked from a few places only may fit no map that is found, without being wrong.
            outcome = Outcome.OUT_OF_QUERIES if asker.is_over else outcome
        return CampaignResult(
            outcome=outcome,
            people=tuple(crowd.people),
            estimates_m=crowd.estimates(),
            radii_m=stretch * crowd.radii_m(SHARE),
            queries=asker.count,
            seconds=time.perf_counter() - started,
            disorder=disorder,
        )

    def _fit(self, crowd: CrowdMap, progress: ProgressBar) -> None:
        with progress(f"mapping {len(crowd.people):,} users", FITS) as advance:
            crowd.fit(advance)

    def _explore(self, asker: _Asker, crowd: CrowdMap, progress: Progress) -> None:
        """Ask from the centers of squares, smaller where lists change quickly."""
        side_m = min(self.half_extent_m)
        centers = self._squares(np.zeros((1, 2)), side_m, 2 * math.ceil(max(self.half_extent_m) / side_m))
        while len(centers) and not asker.is_over:
            known = len(crowd.people)
            # Squares reach beyond the region.
            places = np.clip(centers, np.negative(self.half_extent_m), self.half_extent_m)
            answers = [crowd.add(place, answer) for place, answer in asker.lists(places, progress)]
            # Where lists change but show nobody new, nobody is left to be found.
            is_coarse = [
                is_alone and len(answer) == asker.k and max(answer) >= known
                for answer, is_alone in zip(answers, _are_alone(places, answers, side_m), strict=True)
            ]
            side_m /= 2
            centers = self._squares(centers[: len(answers)][is_coarse], side_m, 2)
            if side_m < _SMALLEST * self.tau_m:
                break

    def _squares(self, centers: FloatArray, side_m: float, count: int) -> FloatArray:
        """The centers of squares about each center, of those that reach into the region."""
        offsets_m = (np.arange(count) - (count - 1) / 2) * side_m
        grid = np.stack(np.meshgrid(offsets_m, offsets_m), axis=-1).reshape(-1, 2)
        squares = (centers[:, None] + grid).reshape(-1, 2)
        return squares[(np.abs(squares) < np.array(self.half_extent_m) + (0.5 - 1e-6) * side_m).all(axis=1)]

    def _places_for(self, crowd: CrowdMap, rng: np.random.Generator) -> FloatArray:
        """Where users may be who are not located, far from where they seem to be; first where lists have many."""
        lost = np.flatnonzero(crowd.radii_m(SHARE) > self.tau_m)
        if len(lost) <= (1 - _GOAL) * len(crowd.people):
            return np.empty((0, 2))
        places = crowd.samples[np.argmax(crowd.away_m()[:, lost], axis=0), lost]
        _, near = cKDTree(crowd.estimates()).query(places, [*range(1, min(crowd.k, len(crowd.people)) + 1)])
        waiting = np.zeros(len(crowd.people), dtype=np.bool_)
        waiting[lost] = True
        chosen = []
        for number in np.argsort(-waiting[near].sum(axis=1) - rng.random(len(lost)), kind="stable"):
            if waiting[lost[number]]:
                chosen.append(number)
                waiting[near[number]] = waiting[lost[number]] = False
        return np.asarray(places[chosen])


class _Asker:
    """Asks, and stops at the limit."""

    def __init__(self, oracle: Oracle, most: int) -> None:
        self._oracle, self._most = oracle, most
        self.k, self.count, self.is_over = oracle.k, 0, False

    def lists(self, places: FloatArray, progress: Progress) -> Iterator[tuple[Point, Sequence[Person]]]:
        """Ask from each place, until no more may be asked."""
        for place in map(point_of, places):
            try:
                if self.count >= self._most:
                    raise OutOfQueriesError
                answer = self._oracle.nearby(place)
            except OutOfQueriesError:
                self.is_over = True
                return
            self.count += 1
            progress(1)
            yield place, answer


def _are_alone(places: FloatArray, answers: Sequence[Sequence[int]], side_m: float) -> list[bool]:
    """Whether one of the lists a side away has too little in common with each.

    One is enough: lists on this side of a town are alike however far they are, and only those beyond it are not.
    """
    near = cKDTree(places[: len(answers)]).query_ball_point(places[: len(answers)], 1.01 * side_m) if answers else []
    return [
        len(others) == 1 or any(step_between(answers[number], answers[other]) > _APART for other in others)
        for number, others in enumerate(near)
    ]


def _stretch(crowd: CrowdMap, checks: Sequence[tuple[Point, Sequence[Person]]]) -> float:
    """By how much samples must be stretched about their means, so that lists that were not fitted are likeliest.

    Samples say how likely two users of such a list are in the order in which they are. Where samples are too close to
    their means, orders occur that they call impossible.
    """
    sure = [np.empty(0)]
    for place, answer in checks:
        distances_m = np.hypot(*np.moveaxis(crowd.samples[:, crowd.numbers(answer)] - np.array(place), 2, 0))
        near, far = np.triu_indices(distances_m.shape[1], 1)
        gaps_m = distances_m[:, far] - distances_m[:, near]
        sure.append(gaps_m.mean(axis=0) / (gaps_m.std(axis=0) + 1e-9))
    # Any order is by chance with a small probability, as that of users at one point is.
    likely = [np.log(0.01 + 0.98 * ndtr(np.concatenate(sure) / factor)).sum() for factor in _STRETCHES]
    return float(_STRETCHES[np.argmax(likely)])
