"""What months give away: an attacker who combines everything that was published of a user.

`LongitudinalAttacker` takes all different points of a user (`nearveil.evaluation.published_history`), how long and
when each was shown, and guesses the home. `score_months` counts who is found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_matrix

from nearveil.attacks.bayes import BayesEstimate, Candidates, best_guesses
from nearveil.attacks.channels import DensityChannel
from nearveil.evaluation.movement import BAD_M, ELSEWHERE, HOME, SIGMA_M, WORK, Journeys
from nearveil.evaluation.published_history import History, cells_at, number_of, publish_journeys
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

MONTHS = (1, 3, 6, 12)
"""After how many months of 30 days results are quoted."""
TAU_M = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What an attacker knows of where users live, and perhaps work: `addresses`, `pairs` or `density` make it.

    Each home has a weight before anything is seen, and an area that it stands for: 0 for an address.
    """

    name: str
    homes_m: FloatArray = field(repr=False)
    works_m: FloatArray | None = field(repr=False)
    log_weights: FloatArray = field(repr=False)
    areas_m2: FloatArray = field(repr=False)


def addresses(homes_m: FloatArray) -> Knowledge:
    """Know every address, but not who lives there."""
    return Knowledge("addresses", homes_m, None, np.zeros(len(homes_m)), np.zeros(len(homes_m)))


def pairs(homes_m: FloatArray, works_m: FloatArray) -> Knowledge:
    """Know for every address where the user who lives there works."""
    return replace(addresses(homes_m), name="home and work", works_m=works_m)


def density(population_m: FloatArray, region: Region) -> Knowledge:
    """Know how densely other users live, and no address."""
    extent_m, side_m = np.array(region.half_extent_m), 125.0
    x, y = (np.arange(-count, count + 1) * side_m for count in np.ceil(extent_m / side_m))
    edges = [np.append(centers, centers[-1] + side_m) - side_m / 2 for centers in (x, y)]
    counts, _, _ = np.histogram2d(population_m[:, 0], population_m[:, 1], bins=edges)
    smooth = gaussian_filter(counts, sigma=2.0)
    column, row = np.nonzero(smooth > 1e-6 * smooth.max())
    places_m = np.clip(np.column_stack([x[column], y[row]]), -extent_m, extent_m)
    return Knowledge("density", places_m, None, np.log(smooth[column, row]), np.full(len(places_m), side_m**2))


# The attacker.


# A point that is shown for less than this share of the longest one of its kind comes from a bad fix, or from a place
# that users visit now and then: these are many.
_BRIEF, _BRIEF_IS_BAD, _LONG_IS_BAD = 0.2, 0.9, 0.02
_BRIEF_IS_REGULAR, _BRIEF_IS_REGULAR_IF_GPS_IS_GOOD = 0.1, 0.001
_LEAST_SHARE, _MAY_BE, _ALIKE, _IMPOSSIBLE = 0.002, 1e-3, 1e-9, 1e-300
# A home from which a point is this much less likely than from the best one is not looked at: the noise is eight times
# as long as on average in two of a million cases.
_SUPPORT_LOG = 16.0


class LongitudinalAttacker:
    """Combines everything that was published of a user, and guesses where the user lives.

    It knows the protection with its noise and its grid of places, how phones err, how users spend their weeks in
    general, and what its `Knowledge` says. It tells the points of the home from others by how long and at which hours
    each was shown, takes those that were shown briefly for bad fixes, and multiplies what all of them say.
    ``time_by_kind`` says how users spend their time (`Journeys.time_by_kind`); without it, they never leave home.
    """

    def __init__(
        self, protection: Protection, knowledge: Knowledge, gps: float, time_by_kind: FloatArray | None = None
    ) -> None:
        self.knowledge, self._gps, self._time_by_kind = knowledge, gps, time_by_kind
        # In the order of the kinds: home, work.
        ends = [each for each in (knowledge.homes_m, knowledge.works_m) if each is not None]
        self._ends = [_Reports(protection, each, knowledge.log_weights, gps) for each in ends]

    def guesses(self, history: History, months: Sequence[int]) -> list[tuple[BayesEstimate, IntArray]]:
        """Guess one user's home from what was published in the first months, for each number of months.

        The guesses, and the rows of the likeliest homes; several where they are equally likely.
        """
        shown = [history.shown[:number].sum(axis=0) for number in months]
        kinds = [self._kinds(each) for each in shown]
        # The home is near the points that are most surely of it.
        surest = {int(np.argmax(own[HOME] * each.sum(axis=1))) for each, own in zip(shown, kinds, strict=True)}
        likelihoods = [end.likelihood(history.points_m) for end in self._ends]
        rows = self._ends[HOME].support(likelihoods[HOME][:, sorted(surest)])
        homes = Candidates(self.knowledge.homes_m[rows], np.zeros(len(rows)), self.knowledge.areas_m2[rows])
        seen = [end.seen_from(each, rows) for end, each in zip(self._ends, likelihoods, strict=True)]
        found: dict[bytes, tuple[BayesEstimate, IntArray]] = {}
        answers = []
        for each, own in zip(shown, kinds, strict=True):
            logs = self.knowledge.log_weights[rows]
            for (good, bad), of_kind in zip(seen, own, strict=False):
                logs = logs + self._log_likelihood(good, bad, of_kind, each.sum(axis=1))
            # Months that tell nothing new need no new guess.
            if logs.tobytes() not in found:
                guess = best_guesses(homes, logs, np.median(history.points_m, axis=0), TAU_M)
                found[logs.tobytes()] = guess, rows[logs >= logs.max() - _ALIKE]
            answers.append(found[logs.tobytes()])
        return answers

    def _kinds(self, shown: FloatArray) -> FloatArray:
        """Return how likely each point is of home, of work or of another place; 0 if not shown.

        The hours of one visit go together, so that each point counts as few independent hours.
        """
        total = shown.sum(axis=1)
        found = np.zeros((ELSEWHERE + 1, len(shown)))
        if self._time_by_kind is None:
            found[HOME] = total > 0
            return found
        hours = self._time_by_kind * np.maximum(shown.sum(axis=0), 1)
        share = np.maximum(hours / hours.sum(axis=1, keepdims=True), _LEAST_SHARE)
        was = np.flatnonzero(total)
        independent = ((1 + np.log(total[was])) / total[was])[:, None] * shown[was]
        logs = np.log(share) @ independent.T
        weights = np.exp(logs - logs.max(axis=0))
        for kind in (HOME, WORK):
            of_kind = weights[kind] > 0.5 * weights.sum(axis=0)
            brief = total[was] < _BRIEF * (total[was] * of_kind).max(initial=0.0)
            weights[kind, brief] *= _BRIEF_IS_REGULAR if self._gps else _BRIEF_IS_REGULAR_IF_GPS_IS_GOOD
        found[:, was] = weights / weights.sum(axis=0)
        return found

    def _log_likelihood(self, good: FloatArray, bad: FloatArray, of_kind: FloatArray, shown: FloatArray) -> FloatArray:
        """Return how likely all points are for each home; points of other places say nothing."""
        counts = np.flatnonzero(of_kind > _MAY_BE)
        brief = shown < _BRIEF * (shown * (of_kind > 0.5)).max(initial=0.0)
        is_bad = np.where(brief, _BRIEF_IS_BAD, _LONG_IS_BAD)[counts] if self._gps else 0.0
        mixed, own = (1 - is_bad) * good[:, counts] + is_bad * bad[:, counts], of_kind[counts]
        return np.asarray(np.log(own * mixed + (1 - own) + _IMPOSSIBLE).sum(axis=1))


class _Reports:
    """From which cells a user at each candidate place reports: the place's own, and after bad fixes others."""

    _DIRECTIONS, _SAMPLE = 24, 1_000

    def __init__(self, protection: Protection, places_m: FloatArray, log_weights: FloatArray, gps: float) -> None:
        grid, rng, count = protection.grid, np.random.default_rng(0), len(places_m)
        angles = 2 * math.pi * (np.arange(self._DIRECTIONS if gps else 1) + 0.5) / self._DIRECTIONS
        off_m = BAD_M * np.column_stack([np.cos(angles), np.sin(angles)])
        off_m = off_m + SIGMA_M * rng.normal(size=off_m.shape)
        cells = cells_at(grid, (places_m[:, None] + np.vstack([np.zeros(2), off_m])).reshape(-1, 2))
        _, first, row_of = np.unique(number_of(cells.T), return_index=True, return_inverse=True)
        centers_m = np.array([grid.centre_of(tuple(cell)) for cell in cells[first].tolist()])
        rows = row_of.reshape(count, -1)
        self._own, bad = rows[:, 0], rows[:, 1:]
        # A fix that stays in the cell publishes nothing new.
        weights = (bad != self._own[:, None]) / np.maximum((bad != self._own[:, None]).sum(axis=1, keepdims=True), 1)
        entries = weights.ravel(), bad.ravel(), np.arange(count + 1) * bad.shape[1]
        self._bad = csr_matrix(entries, shape=(count, len(centers_m)))
        self._bad.sum_duplicates()
        self._region, self._log_likelihood = protection.region, DensityChannel(protection.noise).at(centers_m)
        chances = np.exp(log_weights - log_weights.max())
        self._sample = self._own[rng.choice(count, size=self._SAMPLE, p=chances / chances.sum())]

    def likelihood(self, points_m: FloatArray) -> FloatArray:
        """Return how likely each point is from each cell, up to a constant for each point."""
        return np.exp(self._log_likelihood(self._region.publish(self._region.from_metres(points_m))))

    def support(self, likelihood: FloatArray) -> IntArray:
        """Return the candidates from which any of the points may be."""
        is_near = (likelihood > math.exp(-_SUPPORT_LOG) * likelihood.max(axis=0)).any(axis=1)
        return np.flatnonzero(is_near[self._own])

    def seen_from(self, likelihood: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what each point says of these candidates after good fixes and after bad ones.

        It is how likely the point is, over how likely it is of all users on average.
        """
        # Nobody is farther away than a few in all can be.
        usual = likelihood[self._sample].mean(axis=0) + likelihood.max(axis=0, initial=_IMPOSSIBLE) / len(self._own)
        return (likelihood / usual)[self._own[rows]], self._bad[rows] @ (likelihood / usual)


def score_months(
    protection: Protection,
    journeys: Journeys,
    rows: IntArray,
    known: Sequence[Knowledge],
    months: Sequence[int],
    *,
    gps: float,
    rng: np.random.Generator,
    forgets: bool = False,
) -> list[dict[str, FloatArray]]:
    """Publish users, and let an attacker guess their homes for each knowledge from the first so many months.

    Returns for each number of months and user whether the home is ``found`` within `TAU_M`, whether the likeliest home
    is the right address (``named``, ties shared evenly), the error of the best guess (``error_m``), how many different
    ``points`` were shown in a month, and the share of the time in which that of the ``right`` place was. ``rows`` are
    the users' in the addresses.
    """
    histories = publish_journeys(protection, journeys, gps=gps, forgets=forgets, rng=rng)
    rhythm = journeys.time_by_kind() if journeys.places_m.shape[1] > WORK else None
    found = []
    for knowledge in known:
        attacker = LongitudinalAttacker(protection, knowledge, gps, rhythm)
        scores = np.zeros((5, len(months), len(rows)))
        for who, (history, home) in enumerate(zip(histories, journeys.places_m[:, HOME], strict=True)):
            points = (history.shown.sum(axis=2) > 0).sum(axis=1)
            for at, (guess, likeliest) in enumerate(attacker.guesses(history, months)):
                named = math.nan if knowledge.areas_m2.any() else (rows[who] in likeliest) / len(likeliest)
                is_found, error_m = math.dist(guess.best_disc, home) <= TAU_M, math.dist(guess.median, home)
                averages = points[: months[at]].mean(), history.right[: months[at]].mean()
                scores[:, at, who] = is_found, named, error_m, *averages
        found.append(dict(zip(("found", "named", "error_m", "points", "right"), scores, strict=True)))
    return found
