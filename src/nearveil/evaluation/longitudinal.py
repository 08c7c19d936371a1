"""What a year gives away: an attacker who combines everything that was published of a person over months.

`LongitudinalAttacker` takes all different points of a person (`nearveil.evaluation.published_history`), how long and
when each was shown, and guesses the home. `measure_months` publishes people who stay at home and counts who is found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from nearveil.attacks.bayes import Candidates, best_guesses
from nearveil.attacks.channels import DensityChannel
from nearveil.errors import UsageError
from nearveil.evaluation.movement import BAD_GPS, HOME, KINDS, MONTH, WORK, GpsError, stay_put
from nearveil.evaluation.published_history import Ground, History, PublishedJourneys, first_moment, publish_journeys
from nearveil.evaluation.stats import Mean, Share, share_over_runs
from nearveil.nearby.publishing.noise import rate_per_m
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

MONTHS = (1, 3, 6, 12, 24)
"""After how many months of 30 days figures are quoted."""
TAU_M = 100.0


# -- the attacker ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What an attacker knows of where people live: `addresses`, `pairs` or `density` make it.

    Attributes
    ----------
    name : str
        For tables.
    homes_m : ndarray of shape (n, 2)
        Where the person may live.
    works_m : ndarray of shape (n, 2), optional
        Where who lives there works.
    log_weights, areas_m2 : ndarray
        How likely each home is before anything is seen, and the area that it stands for; 0 for an address.
    """

    name: str
    homes_m: FloatArray = field(repr=False)
    works_m: FloatArray | None = field(repr=False)
    log_weights: FloatArray = field(repr=False)
    areas_m2: FloatArray = field(repr=False)

    @property
    def has_addresses(self) -> bool:
        """Whether a guess can be an address."""
        return not self.areas_m2.any()


def addresses(homes_m: FloatArray) -> Knowledge:
    """Know every address, but not who lives there."""
    return Knowledge("addresses", homes_m, None, np.zeros(len(homes_m)), np.zeros(len(homes_m)))


def pairs(homes_m: FloatArray, works_m: FloatArray) -> Knowledge:
    """Know for every address where who lives there works: an address book with both."""
    return replace(addresses(homes_m), name="home and work", works_m=works_m)


_DENSITY_GRID_M = 125.0
_SMOOTHED_OVER_CELLS = 2.0


def density(population_m: FloatArray, region: Region) -> Knowledge:
    """Know how densely other people live, and no address."""
    side_m = _DENSITY_GRID_M
    columns, rows = (math.ceil(half / side_m) for half in region.half_extent_m)
    x, y = (np.arange(-count, count + 1) * side_m for count in (columns, rows))
    edges = [np.append(centres, centres[-1] + side_m) - side_m / 2 for centres in (x, y)]
    counts, _, _ = np.histogram2d(population_m[:, 0], population_m[:, 1], bins=edges)
    smooth = gaussian_filter(counts, _SMOOTHED_OVER_CELLS)
    inhabited = np.argwhere(smooth > 1e-6 * smooth.max())
    half_extent = np.array(region.half_extent_m)
    places = np.clip(np.column_stack([x[inhabited[:, 0]], y[inhabited[:, 1]]]), -half_extent, half_extent)
    weights = smooth[tuple(inhabited.T)]
    return Knowledge("density", places, None, np.log(weights), np.full(len(places), side_m**2))


@dataclass(frozen=True, slots=True)
class Guess:
    """What the attacker says of one person.

    Attributes
    ----------
    disc_m : tuple
        Middle of the disc of `TAU_M` that most likely holds the home.
    median_m : tuple
        The guess with the least error.
    likeliest : ndarray of int
        The likeliest home, as a row of the knowledge; several where they are equally likely.
    """

    disc_m: tuple[float, float]
    median_m: tuple[float, float]
    likeliest: IntArray


# A place that is shown for less than this share of the longest one of its kind comes from a bad fix.
_BRIEF = 0.2
_BRIEF_IS_BAD, _LONG_IS_BAD = 0.9, 0.02
# And most of those that are shown so briefly are of places that somebody visits now and then, which are many.
_BRIEF_IS_REGULAR, _BRIEF_IS_REGULAR_IF_GPS_IS_GOOD = 0.1, 0.001
_IMPOSSIBLE = 1e-300
_MAY_BE = 1e-3
_ALIKE = 1e-9
_LEAST_SHARE = 0.002


class LongitudinalAttacker:
    """Combines everything that was published of a person, and guesses where they live.

    It knows the protection with its noise and its grid of places, how phones err, how people spend their weeks in
    general, and what its `Knowledge` says. It tells the points of the home from others by how long and at which hours
    each was shown, takes those that were shown briefly for bad fixes, and multiplies what all of them say.

    Parameters
    ----------
    protection : Protection
        What the service does.
    knowledge : Knowledge
        Where people may live.
    gps : GpsError
        How phones err.
    time_by_kind : ndarray, optional
        How people spend their time (`Journeys.time_by_kind`); None for people who never leave home.
    """

    def __init__(
        self,
        protection: Protection,
        knowledge: Knowledge,
        gps: GpsError,
        time_by_kind: FloatArray | None = None,
    ) -> None:
        self.knowledge = knowledge
        self._time_by_kind = time_by_kind
        self._brief_is_regular = _BRIEF_IS_REGULAR if gps.bad_share else _BRIEF_IS_REGULAR_IF_GPS_IS_GOOD
        self._homes = _Reported(protection, knowledge.homes_m, knowledge.log_weights, gps)
        self._works = (
            None if knowledge.works_m is None else _Reported(protection, knowledge.works_m, knowledge.log_weights, gps)
        )

    def guesses(self, history: History, months: Sequence[int]) -> list[Guess]:
        """Guess one person's home from what was published in the first months, for each number of months."""
        points_m = history.points_m
        held = [history.held[:number].sum(axis=0) for number in months]
        kinds = [self._kinds(one) for one in held]
        # The home is near the points that are most surely of it.
        surest = {int(np.argmax(of_kind[HOME] * one.sum(axis=1))) for one, of_kind in zip(held, kinds, strict=True)}
        homes = self._homes.seen_from(points_m, self._homes.near(points_m[sorted(surest)]))
        works = None if self._works is None else self._works.seen_from(points_m, homes.rows)
        found = []
        for one, of_kind in zip(held, kinds, strict=True):
            shown = one.sum(axis=1)
            logs = self.knowledge.log_weights[homes.rows] + homes.log_likelihood(of_kind[HOME], shown)
            if works is not None:
                logs = logs + works.log_likelihood(of_kind[WORK], shown)
            found.append(self._guess(homes.rows, logs, points_m))
        return found

    def _guess(self, rows: IntArray, logs: FloatArray, points_m: FloatArray) -> Guess:
        likeliest = rows[logs >= logs.max() - _ALIKE]
        knowledge = self.knowledge
        candidates = Candidates(knowledge.homes_m[rows], np.zeros(len(rows)), knowledge.areas_m2[rows])
        best = best_guesses(candidates, logs, np.median(points_m, axis=0), TAU_M)
        return Guess(best.best_disc, best.median, likeliest)

    def _kinds(self, held: FloatArray) -> FloatArray:
        """How likely each point is of home, of work or of another place: shape (kinds, points); 0 if not shown.

        The hours of one visit go together, so that each point counts as few independent hours.
        """
        total = held.sum(axis=1)
        found = np.zeros((len(KINDS), len(held)))
        if self._time_by_kind is None:
            found[HOME] = total > 0
            return found
        hours = self._time_by_kind * np.maximum(held.sum(axis=0), 1)
        share = np.maximum(hours / hours.sum(axis=1, keepdims=True), _LEAST_SHARE)
        shown = np.flatnonzero(total)
        worth = ((1 + np.log(total[shown])) / total[shown])[:, None] * held[shown]
        logs = np.log(share) @ worth.T
        weights = np.exp(logs - logs.max(axis=0))
        for kind in (HOME, WORK):
            of_kind = weights[kind] > 0.5 * weights.sum(axis=0)
            brief = total[shown] < _BRIEF * (total[shown] * of_kind).max(initial=0.0)
            weights[kind, brief] *= self._brief_is_regular
        found[:, shown] = weights / weights.sum(axis=0)
        return found


class _Reported:
    """From which cells somebody at each candidate reports: by good fixes and by bad ones, as sparse matrices."""

    _DRAWS = 24
    _SAMPLE = 1_000

    def __init__(self, protection: Protection, places_m: FloatArray, log_weights: FloatArray, gps: GpsError) -> None:
        ground, rng = Ground(protection), np.random.default_rng(0)
        self.noise = _Noise(protection)
        self.errs = gps.bad_share > 0
        own = ground.cells_at(places_m)
        core = gps.core(self._DRAWS, rng)
        offsets = [core]
        if self.errs:
            angles = 2 * math.pi * (np.arange(self._DRAWS) + 0.5) / self._DRAWS
            offsets.append(core + gps.bad_m * np.column_stack([np.cos(angles), np.sin(angles)]))
        cells = [ground.cells_at((places_m[:, None] + each).reshape(-1, 2)) for each in offsets]
        table, row_of = np.unique(np.concatenate([own, *cells]), return_inverse=True)
        row_of = row_of.reshape(-1)
        self.centres_m = ground.centres_m(table)
        self.own = row_of[: len(own)]
        rows = [part.reshape(len(own), -1) for part in np.split(row_of[len(own) :], len(cells))]
        self.good = self._matrix(rows[0], np.ones(rows[0].shape))
        # A fix that stays in the cell publishes nothing new.
        self.bad = self._matrix(rows[1], rows[1] != self.own[:, None]) if self.errs else self.good
        chances = np.exp(log_weights - log_weights.max())
        drawn = rng.choice(len(own), size=self._SAMPLE, p=chances / chances.sum())
        self._sample_m = self.centres_m[self.own[drawn]]

    def _matrix(self, cells: IntArray, weights: FloatArray | BoolArray) -> csr_matrix:
        candidates, draws = cells.shape
        totals = np.maximum(weights.sum(axis=1, keepdims=True), 1)
        shape = (candidates, len(self.centres_m))
        matrix = csr_matrix(((weights / totals).ravel(), cells.ravel(), np.arange(candidates + 1) * draws), shape=shape)
        matrix.sum_duplicates()
        return matrix

    def _usual(self, points_m: FloatArray) -> FloatArray:
        """How likely each point is of somebody, whoever it is; nobody is farther away than a few in all can be."""
        likelihood = self.noise.likelihood(self._sample_m, points_m)
        return np.asarray(likelihood.mean(axis=0) + likelihood.max(initial=_IMPOSSIBLE) / len(self.own))

    def near(self, points_m: FloatArray) -> IntArray:
        """Return the candidates from which any of the points may be."""
        return np.flatnonzero(self.noise.reaches(self.centres_m, points_m)[self.own])

    def seen_from(self, points_m: FloatArray, rows: IntArray) -> _Seen:
        """Return what the points of one person say of these candidates."""
        good, bad = self.good[rows], self.bad[rows]
        cells = np.unique(np.concatenate([good.indices, bad.indices]))
        likelihood = self.noise.likelihood(self.centres_m[cells], points_m)
        relative = likelihood / self._usual(points_m)
        good_part = good[:, cells] @ relative
        return _Seen(rows, good_part, bad[:, cells] @ relative if self.errs else good_part, self.errs)


class _Seen:
    """What each point says of each candidate, over what it says of all on average: after good fixes, after bad ones."""

    def __init__(self, rows: IntArray, good: FloatArray, bad: FloatArray, errs: bool) -> None:
        self.rows, self._good, self._bad, self._errs = rows, good, bad, errs

    def log_likelihood(self, of_kind: FloatArray, shown: FloatArray) -> FloatArray:
        """The logarithm of how likely all points are that were shown; those of another place say nothing."""
        counts = np.flatnonzero(of_kind > _MAY_BE)
        longest = (shown * (of_kind > 0.5)).max(initial=0.0)
        bad = np.where(shown < _BRIEF * longest, _BRIEF_IS_BAD, _LONG_IS_BAD) if self._errs else np.zeros(len(shown))
        bad, of_kind = bad[counts], of_kind[counts]
        mixed = (1 - bad) * self._good[:, counts] + bad * self._bad[:, counts]
        return np.asarray(np.log(of_kind * mixed + (1 - of_kind) + _IMPOSSIBLE).sum(axis=1))


class _Noise:
    """How likely points are from cells, but for a factor for each point."""

    # Noise beyond eight times its mean length: two in a million.
    _REACH = 8.0

    def __init__(self, protection: Protection) -> None:
        self._planar = protection.planar if protection.among is None else None
        self._region = protection.region
        self._channel = DensityChannel(protection.noise)

    def likelihood(self, centres_m: FloatArray, points_m: FloatArray) -> FloatArray:
        """Shape (cells, points)."""
        # A point on the region's edge stands for all beyond it.
        clamped = (np.abs(points_m) > np.array(self._region.half_extent_m) - 1.0).any(axis=1)
        if self._planar is None or clamped.any():
            return np.exp(self._channel.at(centres_m)(self._region.publish(self._region.from_metres(points_m))))
        return np.exp(-rate_per_m(self._planar) * cdist(centres_m, points_m))

    def reaches(self, centres_m: FloatArray, points_m: FloatArray) -> BoolArray:
        """Whether each cell may be where any of the points is from."""
        if self._planar is None:
            return np.ones(len(centres_m), dtype=np.bool_)
        found = np.zeros(len(centres_m), dtype=np.bool_)
        for x_m, y_m in points_m.tolist():
            away_m2 = (centres_m[:, 0] - x_m) ** 2 + (centres_m[:, 1] - y_m) ** 2
            found |= away_m2 < (self._REACH * self._planar.noise_m) ** 2
        return found


# -- what is found after so many months ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MonthsFigure:
    """What an attacker finds after some months.

    Attributes
    ----------
    found : Share
        Guessed within `TAU_M` of home, with its 95 % interval (Clopper and Pearson).
    named : Share or None
        The first guess is the right address, ties shared evenly; None where no addresses are known.
    error_m : Mean
        Mean error of the best guess, with half a 95 % interval over people.
    points : Mean
        Different points shown of a person in a month, on average.
    """

    months: int
    people: int
    found: Share
    named: Share | None
    error_m: Mean
    points: Mean

    def __str__(self) -> str:
        named = "" if self.named is None else f", named {self.named.value:.1%}"
        months = "1 month" if self.months == 1 else f"{self.months} months"
        return (
            f"after {months}: found within {TAU_M:g} m {self.found.value:.1%}{named}, mean error "
            f"{self.error_m.value:,.0f} m, of {self.people:,} people with {self.points.value:.1f} points a month"
        )


@dataclass(frozen=True, slots=True, eq=False)
class MonthsScores:
    """The same person by person: rows are months asked for, columns people."""

    months: tuple[int, ...]
    found: FloatArray
    named: FloatArray
    error_m: FloatArray
    points: FloatArray

    def figures(self, *, has_addresses: bool) -> list[MonthsFigure]:
        """Return the figures with their intervals."""
        people = self.found.shape[1]
        return [
            MonthsFigure(
                months,
                people,
                share_over_runs([float(self.found[row].sum())], people),
                share_over_runs([float(self.named[row].sum())], people) if has_addresses else None,
                _mean(self.error_m[row]),
                _mean(self.points[row]),
            )
            for row, months in enumerate(self.months)
        ]


def score_months(
    published: PublishedJourneys,
    attacker: LongitudinalAttacker,
    homes_m: FloatArray,
    *,
    months: Sequence[int] = MONTHS,
    rows: IntArray | None = None,
    progress: Progress | None = None,
) -> MonthsScores:
    """Let an attacker guess everybody's home from what was published in the first months.

    Parameters
    ----------
    homes_m : ndarray of shape (n, 2)
        Where people live.
    rows : ndarray of int, optional
        For each person, the row of the attacker's knowledge that is theirs; needed to count who is named.
    progress : callable, optional
        Called with 1 after every person.
    """
    longest = max(len(history.held) for history in published.histories)
    asked = tuple(sorted(set(months)))
    if not asked or asked[0] < 1 or asked[-1] > longest:
        raise UsageError(f"months are counted from 1 to the {longest} that were simulated")
    found, named, error_m, points = (np.zeros((len(asked), len(homes_m))) for _ in range(4))
    for who, history in enumerate(published.histories):
        by_month = history.points_by_month()
        for row, (number, guess) in enumerate(zip(asked, attacker.guesses(history, asked), strict=True)):
            points[row, who] = by_month[:number].mean()
            found[row, who] = math.dist(guess.disc_m, homes_m[who]) <= TAU_M
            error_m[row, who] = math.dist(guess.median_m, homes_m[who])
            if rows is not None:
                named[row, who] = (rows[who] in guess.likeliest) / len(guess.likeliest)
        if progress:
            progress(1)
    return MonthsScores(asked, found, named, error_m, points)


def measure_months(
    protection: Protection,
    homes: FloatArray,
    *,
    targets: IntArray | None = None,
    months: Sequence[int] = MONTHS,
    gps: GpsError = BAD_GPS,
    rng: np.random.Generator | int = 1,
    progress: Progress | None = None,
) -> list[MonthsFigure]:
    """Return what people who stay at home give away over months, to an attacker who knows every address.

    Parameters
    ----------
    protection : Protection
        What the service does.
    homes : ndarray of shape (n, 2)
        The addresses, in degrees: everybody's home.
    targets : ndarray of int, optional
        Whose homes to find; everybody's by default.
    months : sequence of int
        After how many months of 30 days.
    gps : GpsError
        How phones err; every twentieth fix is 150 m off by default.
    progress : callable, optional
        Called with 1 after every epoch and every person.
    """
    homes_m = protection.region.to_metres(protection.region.check(homes))
    chosen = np.arange(len(homes_m)) if targets is None else targets
    if not len(chosen) or not months or min(months) < 1:
        raise UsageError("there must be at least one person, and one number of months, 1 or more")
    generator = np.random.default_rng(rng)
    journeys = stay_put(homes_m[chosen], starts_s=first_moment(protection), lasts=max(months) * MONTH)
    published = publish_journeys(protection, journeys, gps=gps, rng=generator, progress=progress)
    attacker = LongitudinalAttacker(protection, addresses(homes_m), gps)
    scores = score_months(published, attacker, homes_m[chosen], months=months, rows=chosen, progress=progress)
    return scores.figures(has_addresses=True)


def _mean(values: FloatArray) -> Mean:
    half_width = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return Mean(float(values.mean()), half_width)
