"""Search in lists that are ordered by bands of distance.

Within a band people are in an order that never changes, and says nothing of distances. But the order of two people
in a list tells whose band is nearer or the same, and the attacker knows in which band an account of its own is. Which
of the two comes first within a band is one of few hypotheses for accounts, and is learned for other people from lists
where they are in the target's band. Every answer then has the target in a ring whose edges are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.adaptive_rings import Prior, RingBelief
from nearveil.attacks.base import Answered, Finding, Inquiry, Outcome
from nearveil.attacks.oracle import Point, point_of
from nearveil.attacks.readings import Rule
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray

# Widths between which bands are looked for, and how well the width is to be known.
_LEAST_M, _MOST_M = 60.0, 20_000.0
_PRECISION = 1.01
_SAMPLES = 150
_PLACES = 12
# How much less than certain it is that someone in reach of a list is in it, or out of reach is not.
_DOUBT = 0.1
# More bands than anybody is away.
_ALL = 1000


@dataclass(frozen=True, slots=True)
class Bands:
    """Bands of distance, as measured with accounts.

    Attributes
    ----------
    width_m, slack : float
        Width, and by what share it may be wrong.
    accounts : tuple of Person
        The attacker's accounts in their order within a band.
    cutoff_m : float
        Distance beyond which nobody is listed.
    """

    width_m: float
    slack: float
    accounts: tuple[Person, ...]
    cutoff_m: float = math.inf

    def band_of(self, distance_m: float) -> int | None:
        """The number of the band at a distance; None if that is too near an edge to tell."""
        number = int(distance_m / self.width_m)
        low_m, high_m = number * self.width_m * (1 + self.slack), (number + 1) * self.width_m * (1 - self.slack)
        return number if low_m <= distance_m < high_m or distance_m == 0 else None


NO_BANDS = Bands(0.0, 0.0, ())
"""Measured: lists are not in bands, or in bands so narrow that they do not matter."""


Asker = Callable[[Point, Mapping[Person, float]], Sequence[Person]]
"""Asks from a place, with accounts at distances from it."""


def find_bands(ask: Asker, accounts: Sequence[Person], places: Sequence[Point]) -> Bands | None:
    """Measure the width of bands with two accounts or more, from a place where all of them are listed.

    None if accounts are not listed, so that nothing can be said. Of two accounts in one band the same is always listed
    first, however far away they are. So the one that comes last stays at the place, and the others move away until they
    come after it.
    """
    for place in places:
        answer = ask(place, dict.fromkeys(accounts, 0.0))
        order = [person for person in answer if person in accounts]
        if len(order) == len(accounts):
            return _measure(ask, order, place)
    return None


def _measure(ask: Asker, order: Sequence[Person], place: Point) -> Bands | None:
    *movable, last = order
    steps = np.arange(1, len(movable) + 1)
    low, high = _LEAST_M / 4, math.inf
    while high / low > _PRECISION:
        radii = low * (4.0**steps if high == math.inf else (high / low) ** (steps / (len(movable) + 1)))
        radius_of = dict(zip(movable, radii.tolist(), strict=True))
        answer = ask(place, {last: 0.0, **radius_of})
        if last not in answer:
            return None
        before = answer[: answer.index(last)]
        low = max([low, *(radius for account, radius in radius_of.items() if account in before)])
        high = min([high, *(radius for account, radius in radius_of.items() if account not in before)])
        if low >= high or low < _LEAST_M or low > _MOST_M:
            return NO_BANDS
    width_m = math.sqrt(low * high)
    is_kept = _keeps_order(ask, order, place, width_m)
    if is_kept is None:
        return None
    return Bands(width_m, math.sqrt(high / low) - 1, tuple(order)) if is_kept else NO_BANDS


def _keeps_order(ask: Asker, order: Sequence[Person], place: Point, width_m: float) -> bool | None:
    """Whether accounts are in the same order wherever they are within a band; None if they are not listed.

    Accounts that a service has elsewhere, on a grid say, stay in that order within a point of the grid, but hardly
    farther out as well: so see if they do in the second band, or in the first if the list ends before. In a list that
    has the nearest last they come in the order of their distances: so neither order of distances is the order to keep.
    """
    *movable, last = order
    # The last is nearest, the others farther and farther away.
    shares = {account: 0.6 + 0.3 * number / len(movable) for number, account in enumerate(movable, start=1)}
    arrangements = (
        [{last: 0.1, **shares}] if len(movable) > 1 else [{last: 0.1, **shares}, {last: 0.9, movable[0]: 0.1}]
    )
    for band in (1, 0):
        for arrangement in arrangements:
            answer = ask(place, {account: (band + share) * width_m for account, share in arrangement.items()})
            listed = [person for person in answer if person in order]
            if len(listed) < len(order):
                break
            if listed != list(order):
                return False
        else:
            return True
    return None


# What lists in bands tell about one person.


_Range = tuple[float, float]
"""Numbers of the nearest and the farthest band that somebody may be in."""


class BandReading:
    """All answers so far as rings, one for each place that the target may have among the accounts within a band.

    Rule number s: of the accounts, in their order within a band, s come before the target. For other people it is
    known once they were in the target's band, or in the band of somebody of whom it is known.
    """

    def __init__(self, inquiry: Inquiry, bands: Bands) -> None:
        self._inquiry, self._bands = inquiry, bands
        self.rules = tuple(Rule(bands.width_m, 1.0) for _ in range(len(bands.accounts) + 1))
        self._before: set[Person] = set()
        self._after: set[Person] = set()

    def band_of_accounts(self, answered: Answered) -> dict[Person, int]:
        """In which bands the accounts were, where that is certain."""
        found = {
            account: self._bands.band_of(math.dist(answered.place, spot)) for account, spot in answered.accounts.items()
        }
        return {account: band for account, band in found.items() if band is not None}

    def compare(self, cells: FloatArray | None) -> bool:
        """Learn who comes before and after the target within a band, given where it may be; False if it cannot be."""
        known = -1
        while known < len(self._before) + len(self._after):
            known = len(self._before) + len(self._after)
            for answered in self._inquiry.history:
                self._compare_in(answered, cells)
        return not self._before & self._after

    def _compare_in(self, answered: Answered, cells: FloatArray | None) -> None:
        target, ranges = self._inquiry.target, self._ranges(answered)
        if target in ranges and cells is not None:
            low, high = ranges[target]
            nearest, farthest = self._band_range(answered.place, cells)
            ranges[target] = max(low, nearest), min(high, farthest)
        together: dict[float, list[Person]] = {}
        for person, (low, high) in ranges.items():
            if low == high:
                together.setdefault(low, []).append(person)
        for people in together.values():
            before = max((at for at, one in enumerate(people) if one == target or one in self._before), default=0)
            after = min(
                (at for at, one in enumerate(people) if one == target or one in self._after), default=len(people)
            )
            self._before.update(one for one in people[:before] if one != target)
            self._after.update(one for one in people[after:] if one != target)

    def _band_range(self, place: Point, cells: FloatArray) -> _Range:
        distances = np.hypot(*(cells[:, :2] - place).T)
        reach, width_m, slack = math.sqrt(2) * cells[:, 2], self._bands.width_m, self._bands.slack
        nearest = float((distances - reach).min()) * (1 - slack)
        farthest = float((distances + reach).max()) * (1 + slack)
        return math.floor(max(nearest, 0.0) / width_m), math.floor(farthest / width_m)

    def _ranges(self, answered: Answered) -> dict[Person, _Range]:
        """Between which bands everybody in a list is, in the order of the list."""
        band_of = self.band_of_accounts(answered)
        listed = set(answered.answer)
        high = min((band for account, band in band_of.items() if account not in listed), default=math.inf)
        highs = []
        for person in reversed(answered.answer):
            high = min(high, band_of.get(person, math.inf))
            highs.append(high)
        low, found = 0.0, {}
        for person, most in zip(answered.answer, reversed(highs), strict=True):
            low = max(low, band_of.get(person, 0.0))
            if person not in answered.accounts:
                found[person] = low, most
        return found

    def rings(self) -> FloatArray:
        """For each rule rows (x, y, least, greatest distance)."""
        rows = [self._rings_of(answered) for answered in self._inquiry.history]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.rules), 4).transpose(1, 0, 2).copy()

    def _rings_of(self, answered: Answered) -> list[tuple[float, float, float, float]]:
        answer, target = answered.answer, self._inquiry.target
        at = answer.index(target) if target in answer else len(answer)
        ranges, band_of = self._ranges(answered), self.band_of_accounts(answered)
        least = max((ranges[one][0] + 1 for one in answer[:at] if one in self._after), default=0.0)
        most = min((ranges[one][1] for one in answer[at + 1 :] if one in self._before), default=math.inf)
        found = []
        for rule in range(len(self.rules)):
            low, high = least, most
            for number, account in enumerate(self._bands.accounts):
                if account not in band_of:
                    continue
                # Beyond this edge the target comes after the account. Who is cut off tells nothing of the order within
                # a band.
                is_cut_off = account not in answer and len(answer) < self._inquiry.oracle.k
                edge = band_of[account] + (number >= rule or is_cut_off)
                if account in answer[:at]:
                    low = max(low, edge)
                elif at < len(answer):
                    high = min(high, edge)
            width_m, slack = self._bands.width_m, self._bands.slack
            low_m, high_m = low * width_m * (1 - slack), high * width_m * (1 + slack)
            found.append((*answered.place, low_m, high_m) if low < high else (*answered.place, math.inf, math.inf))
        return found


class BandSearch:
    """State of one search.

    Parameters
    ----------
    inquiry : Inquiry
        Its answers so far count.
    ask : callable
        Asks from a place with accounts at distances from it.
    bands : Bands
        As measured.
    start : Point
        Where the target is listed.
    half_extent_m, tau_m, most_queries
        As for the adaptive attack.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        ask: Asker,
        bands: Bands,
        start: Point,
        *,
        half_extent_m: tuple[float, float],
        tau_m: float,
        most_queries: int,
    ) -> None:
        self._inquiry, self._ask, self._bands, self._start = inquiry, ask, bands, start
        self._half_extent, self._tau_m, self._most_queries = np.array(half_extent_m), tau_m, most_queries
        self._reading = BandReading(inquiry, bands)
        self._belief = RingBelief(self._reading, Prior(half_extent_m, tau_m, start))
        self._rng = np.random.default_rng(1)

    def run(self) -> Finding | None:
        """Ask until all that is possible is within tau of one place; None if nothing is possible."""
        while self._learn():
            centre, radius_m = self._belief.enclosing_circle()
            if radius_m <= self._tau_m:
                return Finding(Outcome.FOUND, centre, radius_m=radius_m)
            if len(self._inquiry.steps) >= self._most_queries:
                estimate, radius_m = self._estimate()
                return Finding(Outcome.OUT_OF_QUERIES, estimate, radius_m=radius_m)
            place, band_of = self._next_question()
            self._ask(place, {account: (band + 0.5) * self._bands.width_m for account, band in band_of.items()})
            self._inquiry.note_cells(self._belief.cells)
        return None

    def _learn(self) -> bool:
        """Take in all answers; what is possible tells who is in the target's band, and that may rule out more."""
        belief, reading = self._belief, self._reading
        for cells in (None, belief.cells):
            if not reading.compare(cells) or not belief.learn():
                return False
        self._reaches = self._reaches_so_far()
        weights = belief.weights * self._chance_of_misses(belief.cells)
        self._weights = weights / weights.sum()
        return True

    # -- how far lists reach

    def _reaches_so_far(self) -> FloatArray:
        """How far lists reached, for each place: rows of x, y, bands, and whether the target was listed or ruled out.

        A list that the target was in reached at least to it.
        """
        told: dict[Point, tuple[float, float, bool, bool]] = {}
        rings = self._reading.rings()
        lows = rings[np.unique(self._belief.rule), :, 2].min(axis=0)
        for answered, low_m in zip(self._inquiry.history, lows.tolist(), strict=True):
            band_of = self._reading.band_of_accounts(answered)
            reached, missed, listed, beyond = told.get(answered.place, (-1, math.inf, False, False))
            reached = max([reached, *(band for one, band in band_of.items() if one in answered.answer)])
            missed = min([missed, *(band for one, band in band_of.items() if one not in answered.answer)])
            if len(answered.answer) < self._inquiry.oracle.k:
                reached = min(_ALL, self._bands.cutoff_m / self._bands.width_m - 1)
            told[answered.place] = (
                reached,
                missed,
                listed or self._inquiry.target in answered.answer,
                beyond or low_m > 0,
            )
        rows = []
        for place, (reached, missed, listed, beyond) in told.items():
            reach = reached + 1.5 if missed == math.inf else max(reached + 1, (reached + 1 + missed) / 2)
            if missed == 0:
                # The nearest band fills the list; the target is seen there or not.
                reach = 1.0 if listed or beyond else 0.45
            if reached >= 0 or missed < math.inf or listed:
                rows.append((*place, reach, float(listed), float(beyond)))
        return np.array(rows).reshape(-1, 5)

    def _chance_to_see(self, points: FloatArray, place: FloatArray) -> FloatArray:
        """Chance that a target at each of the points is listed: about as far as lists near there reached."""
        width_m, known = self._bands.width_m, self._reaches
        bands = np.floor(np.hypot(*(points - place).T) / width_m) + 0.5
        back = np.floor(np.hypot(*(points[:, None] - known[:, :2]).T).T / width_m) + 1.0
        reaches = np.where(known[:, 3] > 0, np.maximum(back, known[:, 2]), known[:, 2])
        nearness = np.exp(-np.hypot(*(known[:, :2] - place).T) / (0.5 * width_m * np.maximum(known[:, 2], 1.0)))
        at_start = np.floor(np.hypot(*(points - self._start).T) / width_m) + 0.5
        reach = np.exp((0.5 * np.log(at_start) + np.log(reaches) @ nearness) / (0.5 + nearness.sum()))
        return np.asarray(np.clip(1 / (1 + (bands / reach) ** 6), _DOUBT / 2, 1 - _DOUBT / 2))

    def _chance_of_misses(self, cells: FloatArray) -> FloatArray:
        chance = np.ones(len(cells))
        for place in self._reaches[(self._reaches[:, 3:] == 0).all(axis=1), :2]:
            chance *= 1 - self._chance_to_see(cells[:, :2], place)
        return chance

    # -- the next question

    def _next_question(self) -> tuple[Point, dict[Person, int]]:
        """The place, and the bands for accounts, whose answer is expected to tell most."""
        cells, weights, rules = self._belief.cells, self._weights, self._belief.rule
        chosen = np.searchsorted(np.cumsum(weights), (np.arange(_SAMPLES) + self._rng.random()) / _SAMPLES)
        chosen = np.minimum(chosen, len(cells) - 1)
        points = cells[chosen, :2] + self._rng.uniform(-1, 1, (_SAMPLES, 2)) * cells[chosen, 2:]
        best, question = -1.0, (self._start, {self._bands.accounts[0]: 0})
        for place in self._places(points):
            distances = np.hypot(*(points - place).T)
            seen = self._chance_to_see(points, place)
            for band_of in self._placements(distances, np.unique(rules)):
                bits = self._information(distances, rules[chosen], seen, band_of)
                if bits > best:
                    best, question = bits, (point_of(place), band_of)
        return question

    def _places(self, points: FloatArray) -> list[FloatArray]:
        """Places from which the edge of a band may pass through what is possible, and places that were seen."""
        angles = self._rng.uniform(0, 2 * math.pi) + 2 * math.pi * np.arange(_PLACES) / _PLACES
        around = self._bands.width_m * np.column_stack([np.cos(angles), np.sin(angles)])
        picked = points[self._rng.integers(len(points), size=(4, _PLACES))]
        listed = [one.place for one in self._inquiry.history if self._inquiry.target in one.answer]
        everywhere = [points.mean(axis=0) + around, points.mean(axis=0) + 2 * around, picked[0]]
        everywhere += [
            picked[1] + around,
            picked[2] + 2 * around,
            picked[3] + 3 * around,
            np.array([self._start, *listed[-5:]]),
        ]
        return list(np.clip(np.vstack(everywhere), -self._half_extent, self._half_extent))

    def _placements(self, distances: FloatArray, rules: IntArray) -> list[dict[Person, int]]:
        """Bands for accounts, so that the target comes before or after them by which side of an edge it is on.

        An account that comes after the target within a band is in the band before the edge, another one in the band
        behind it; while it is not known which, there is one of each.
        """
        found = []
        for count in range(1, len(self._bands.accounts) + 1):
            shares = np.arange(1, count + 1) / (count + 1)
            edges = np.unique(np.maximum(np.round(np.quantile(distances, shares) / self._bands.width_m), 1).astype(int))
            accounts = list(enumerate(self._bands.accounts))
            band_of: dict[Person, int] = {}
            for edge in edges.tolist():
                if not accounts:
                    break
                number, account = accounts.pop()
                if number >= rules.max():
                    band_of[account] = edge - 1
                    continue
                accounts.append((number, account))
                number, account = accounts.pop(0)
                if number < rules.min():
                    band_of[account] = edge
                    continue
                band_of[account] = edge if accounts else edge - 1
                if accounts:
                    band_of[accounts.pop()[1]] = edge - 1
            found.append(band_of)
        return found

    def _information(
        self, distances: FloatArray, rules: IntArray, seen: FloatArray, band_of: Mapping[Person, int]
    ) -> float:
        """Bits that an answer tells, on average, about where the target is and where in the order of a band."""
        code = np.zeros(len(distances), dtype=np.int64)
        for number, account in enumerate(self._bands.accounts):
            if account in band_of:
                edge_m = (band_of[account] + (number >= rules)) * self._bands.width_m
                code = 2 * code + (distances >= edge_m)
        chances = np.append(np.bincount(code, weights=seen), (1 - seen).sum()) / len(seen)
        return float(_surprise(chances).sum()) - float(np.mean(_surprise(seen) + _surprise(1 - seen)))

    def _estimate(self) -> tuple[Point, float]:
        """The mean, and a radius that holds the target in 95 % of cases."""
        cells, mean = self._belief.cells, self._weights @ self._belief.cells[:, :2]
        gaps = np.hypot(*(cells[:, :2] - mean).T) + 0.7 * cells[:, 2]
        order = np.argsort(gaps)
        last = min(int(np.searchsorted(np.cumsum(self._weights[order]), 0.97)), len(order) - 1)
        return point_of(mean), float(gaps[order[last]])


def _surprise(chances: FloatArray) -> FloatArray:
    return np.asarray(-chances * np.log2(chances + 1e-12))
