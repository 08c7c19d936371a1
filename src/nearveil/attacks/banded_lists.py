"""Lists that are ordered by bands of distance, such as "within 500 m", "500 m to 1 km".

Within a band users are in an order that never changes, and says nothing of distances. But the order of two users in a
list tells whose band is nearer or the same, and the attacker knows in which band an account of its own is. Which of
the two comes first within a band is one of few hypotheses for accounts, and is learned for other users from lists where
they are in the target's band. Every answer then has the target in a ring whose edges are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearveil.attacks.base import Answered
from nearveil.attacks.belief import Belief, Evidence, Sample, distances_m
from nearveil.attacks.lists import Cutoff, ListQuery
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# Widths between which bands are looked for, and how well the width is to be known: better takes more queries, and makes
# rings narrower.
_LEAST_M, _MOST_M = 60.0, 20_000.0
_PRECISION, _ROUGHLY = 1.01, 1.06
# An account that is moved a little in a plain service does not pass so many users at once.
_JUMP = 3
# Points that are tried, in each of some ways.
_POINTS = 12

Asker = Callable[[Point, Mapping[Person, float]], Sequence[Person]]
"""Asks from a point, with accounts at distances from it."""


@dataclass(frozen=True, slots=True)
class Bands:
    """Bands of distance, as measured with accounts.

    Attributes
    ----------
    width_m, slack : float
        Width, and by what share it may be wrong.
    accounts : tuple of Person
        The attacker's accounts in their order within a band.
    """

    width_m: float
    slack: float
    accounts: tuple[Person, ...]

    def band_of(self, distance_m: float) -> int | None:
        """The number of the band at a distance; None if that is too near an edge to tell."""
        number = int(distance_m / self.width_m)
        low_m, high_m = number * self.width_m * (1 + self.slack), (number + 1) * self.width_m * (1 - self.slack)
        return number if low_m <= distance_m < high_m or distance_m == 0 else None


def find_bands(ask: Asker, accounts: Sequence[Person], points: Sequence[Point]) -> Bands | None:
    """Measure the width of bands, from a point where all accounts are listed; None if there are none to be seen."""
    for point in points:
        answer = ask(point, dict.fromkeys(accounts, 0.0))
        order = [one for one in answer if one in accounts]
        if len(order) == len(accounts):
            return _by_accounts(ask, order, point) if len(order) > 1 else _by_users(ask, order[0], point)
    return None


def _by_accounts(ask: Asker, order: Sequence[Person], point: Point) -> Bands | None:
    """Of two accounts in one band the same is always listed first, however far away they are.

    So the one that comes last stays at the point, and the others move away until they come after it.
    """
    *movable, last = order
    steps = np.arange(1, len(movable) + 1)
    low, high = _LEAST_M / 4, math.inf
    while high / low > _PRECISION:
        radii_m = low * (4.0**steps if high == math.inf else (high / low) ** (steps / (len(movable) + 1)))
        radius_of = dict(zip(movable, radii_m.tolist(), strict=True))
        answer = ask(point, {last: 0.0, **radius_of})
        if last not in answer:
            return None
        before = answer[: answer.index(last)]
        low = max([low, *(radius for account, radius in radius_of.items() if account in before)])
        high = min([high, *(radius for account, radius in radius_of.items() if account not in before)])
        if low >= high or low > _MOST_M or high <= _LEAST_M:
            return None
    bands = Bands(math.sqrt(low * high), math.sqrt(high / low) - 1, tuple(order))
    return bands if bands.width_m >= _LEAST_M and _is_order_kept(ask, bands, point) else None


def _is_order_kept(ask: Asker, bands: Bands, point: Point) -> bool:
    """Whether accounts are in the same order wherever they are within a band: on a grid they hardly are.

    In the second band, or in the first if the list ends before. In a list that has the nearest last they come in the
    order of their distances: so that is not the order to keep.
    """
    *movable, last = bands.accounts
    # The last is nearest, the others farther and farther away.
    shares = {account: 0.6 + 0.3 * number / len(movable) for number, account in enumerate(movable, start=1)}
    arrangements = [{last: 0.1, **shares}, {last: 0.9, movable[0]: 0.1}][: 1 if len(movable) > 1 else 2]
    for band in (1, 0):
        for arrangement in arrangements:
            answer = ask(point, {account: (band + share) * bands.width_m for account, share in arrangement.items()})
            listed = [one for one in answer if one in bands.accounts]
            if len(listed) < len(arrangement):
                break
            if listed != [one for one in bands.accounts if one in arrangement]:
                return False
        else:
            return True
    return False


def _by_users(ask: Asker, account: Person, point: Point) -> Bands | None:
    """With one account: the number of users before it changes at the edges of bands alone, and by many."""

    def ahead_at(radius_m: float) -> int | None:
        answer = ask(point, {account: radius_m})
        return answer.index(account) if account in answer else None

    first, (low, high) = ahead_at(_LEAST_M / 2), (_LEAST_M / 2, math.inf)
    beyond: int | None = None
    while high / low > _ROUGHLY and low < _MOST_M:
        radius_m = math.sqrt(low * high) if high < math.inf else 2 * low
        ahead = ahead_at(radius_m)
        if ahead == first:
            low = radius_m
        elif high == math.inf or ahead == beyond:
            high, beyond = radius_m, ahead
        else:
            # A number in between: users are passed one by one.
            return None
    if low >= _MOST_M or high < 3 * _LEAST_M or first is None or (beyond is not None and abs(beyond - first) < _JUMP):
        return None
    width_m = roundest_between(low, high)
    return Bands(width_m, 0.005 if width_m != math.sqrt(low * high) else math.sqrt(high / low) - 1, (account,))


def roundest_between(low: float, high: float) -> float:
    """The roundest number between two: with few digits, the last one rather a 5."""
    unit = 10.0 ** math.floor(math.log10(high))
    for _ in range(4):
        for step in (unit, unit / 2):
            number = math.floor(high / step) * step
            if number >= low:
                return number
        unit /= 10
    return math.sqrt(low * high)


class BandedLists:
    """All answers so far as rings, one for each rank that the target may have among the accounts within a band.

    Hypothesis s: of the accounts, in their order within a band, s come before the target. For other users it is known
    once they were in the target's band, or in the band of one of whom it is known.
    """

    def __init__(self, target: Person, k: int, start: Point, bands: Bands) -> None:
        self._target, self._k, self._start, self._bands = target, k, start, bands
        self.log_chances = np.zeros(len(bands.accounts) + 1)
        self._history: list[Answered] = []
        self._cutoff = Cutoff()
        self._before: set[Person] = set()
        self._after: set[Person] = set()

    def add(self, answered: Answered) -> None:
        """Take in an answer."""
        self._history.append(answered)
        radius_of = {account: math.dist(answered.place, at) for account, at in answered.accounts.items()}
        self._cutoff.agrees(radius_of, answered.answer, is_full=self._is_full(answered))

    def _is_full(self, answered: Answered) -> bool:
        return len(answered.answer) >= self._k

    @property
    def is_cut_off(self) -> bool:
        """Whether lists end where the first band ends: then they are in no order, and tell only who is in them."""
        return self._cutoff.high_m < 1.1 * self._bands.width_m

    def compare(self, cells: FloatArray | None) -> bool:
        """Learn who comes before and after the target within a band, given where it may be; False if it cannot be."""
        known = -1
        while known < len(self._before) + len(self._after):
            known = len(self._before) + len(self._after)
            for answered in self._history:
                self._compare_in(answered, cells)
        return not self._before & self._after

    def _compare_in(self, answered: Answered, cells: FloatArray | None) -> None:
        ranges = self._ranges(answered)
        if self._target in ranges and cells is not None:
            low, high = ranges[self._target]
            away_m, reach_m = distances_m(cells, answered.place), math.sqrt(2) * cells[:, 2]
            width_m, slack = self._bands.width_m, self._bands.slack
            nearest_m, farthest_m = float((away_m - reach_m).min()), float((away_m + reach_m).max())
            low = max(low, math.floor(max(nearest_m, 0.0) * (1 - slack) / width_m))
            ranges[self._target] = low, min(high, math.floor(farthest_m * (1 + slack) / width_m))
        together: dict[float, list[Person]] = {}
        for one, (low, high) in ranges.items():
            if low == high:
                together.setdefault(low, []).append(one)
        for users in together.values():
            is_before = [at for at, one in enumerate(users) if one == self._target or one in self._before]
            is_after = [at for at, one in enumerate(users) if one == self._target or one in self._after]
            self._before.update(one for one in users[: max(is_before, default=0)] if one != self._target)
            self._after.update(one for one in users[min(is_after, default=len(users)) :] if one != self._target)

    def _bands_of_accounts(self, answered: Answered) -> dict[Person, int]:
        """In which bands the accounts were, where that is certain."""
        found = {one: self._bands.band_of(math.dist(answered.place, at)) for one, at in answered.accounts.items()}
        return {account: band for account, band in found.items() if band is not None}

    def _ranges(self, answered: Answered) -> dict[Person, tuple[float, float]]:
        """Between which bands everybody in a list is, in the order of the list."""
        band_of, listed = self._bands_of_accounts(answered), set(answered.answer)
        high = min((band for account, band in band_of.items() if account not in listed), default=math.inf)
        highs = []
        for one in reversed(answered.answer):
            high = min(high, band_of.get(one, math.inf))
            highs.append(high)
        low, found = 0.0, {}
        for one, most in zip(answered.answer, reversed(highs), strict=True):
            low = max(low, band_of.get(one, 0.0))
            if one not in answered.accounts:
                found[one] = low, most
        return found

    def evidence(self) -> list[Evidence]:
        """What all answers say, by what is known of the order within bands now."""
        return [self._evidence_of(answered) for answered in self._history]

    def _evidence_of(self, answered: Answered) -> Evidence:
        answer = answered.answer
        is_listed = self._target in answer
        at = answer.index(self._target) if is_listed else len(answer)
        ranges, band_of = self._ranges(answered), self._bands_of_accounts(answered)
        least = max((ranges[one][0] + 1 for one in answer[:at] if one in self._after and one in ranges), default=0.0)
        most = min(
            (ranges[one][1] for one in answer[at + 1 :] if one in self._before and one in ranges), default=math.inf
        )
        lows, highs = [], []
        for rule in range(len(self.log_chances)):
            low, high = least, most
            for number, account in enumerate(self._bands.accounts):
                if account not in band_of:
                    continue
                # Beyond this edge the target comes after the account. Who is cut off tells nothing of the order within
                # a band.
                is_cut_off = account not in answer and len(answer) < self._k
                edge = band_of[account] + (number >= rule or is_cut_off)
                if account in answer[:at]:
                    low = max(low, edge)
                elif is_listed:
                    high = min(high, edge)
            is_possible = low < high
            low_m = low * self._bands.width_m * (1 - self._bands.slack)
            high_m = high * self._bands.width_m * (1 + self._bands.slack)
            if is_listed:
                high_m = min(high_m, self._cutoff.high_m)
            elif not self._is_full(answered):
                low_m = max(low_m, self._cutoff.low_m)
            lows.append(low_m if is_possible else math.inf)
            highs.append(high_m if is_possible else math.inf)
        tells = bool(band_of) and not is_listed
        chance_to_see = (lambda cells, away_m: self._reach(cells[:, :2], away_m)) if tells else None
        return Evidence(
            answered.place, np.array(lows), np.array(highs), is_listed=is_listed, chance_to_see=chance_to_see
        )

    def _reach(self, points: FloatArray, away_m: FloatArray) -> FloatArray:
        """Chance that the target is listed: about as far away as it was from the start, in whole bands."""
        width_m = self._bands.width_m
        reach = np.floor(distances_m(points, self._start) / width_m) + 0.7
        return np.asarray(np.clip(1 / (1 + ((np.floor(away_m / width_m) + 0.5) / reach) ** 6), 0.05, 0.95))

    # -- what a query will tell

    def queries(self, belief: Belief, sample: Sample, rng: np.random.Generator) -> list[ListQuery]:
        """Points from which the edge of a band may pass through what is possible, and accounts on both sides of it.

        The radii are those of the accounts in their order within a band; not a number where one is not needed.
        """
        points, width_m = sample.points, self._bands.width_m
        angles = rng.uniform(0, 2 * math.pi) + 2 * math.pi * np.arange(_POINTS) / _POINTS
        around = width_m * np.column_stack([np.cos(angles), np.sin(angles)])
        picked = points[rng.integers(len(points), size=(4, _POINTS))]
        seen = [one.place for one in self._history if self._target in one.answer][-5:]
        tried = [points.mean(axis=0) + around, points.mean(axis=0) + 2 * around, picked[0], [self._start, *seen]]
        tried += [picked[times] + times * around for times in (1, 2, 3)]
        extent = np.array(belief.prior.half_extent_m)
        found = []
        for point in np.clip(np.vstack(tried), -extent, extent):
            away_m = distances_m(points, point_of(point))
            for count in range(1, len(self._bands.accounts) + 1):
                edges = np.quantile(away_m, np.arange(1, count + 1) / (count + 1)) / width_m
                radii_m = self._placed(np.unique(np.maximum(np.round(edges), 1)).astype(int).tolist(), sample)
                found.append(ListQuery(point_of(point), radii_m))
        return found

    def _placed(self, edges: Sequence[int], sample: Sample) -> FloatArray:
        """Bands for accounts, so that the target comes before or after them by which side of an edge it is on.

        An account that comes after the target within a band is in the band before the edge, another one in the band
        behind it; while it is not known which, there is one of each.
        """
        least, most = int(sample.hypothesis.min()), int(sample.hypothesis.max())
        left, bands = [*range(len(self._bands.accounts))], np.full(len(self._bands.accounts), np.nan)
        for edge in edges:
            if not left:
                break
            if left[-1] >= most:
                bands[left.pop()] = edge - 1
            elif left[0] < least:
                bands[left.pop(0)] = edge
            else:
                bands[left.pop(0)] = edge if left else edge - 1
                if left:
                    bands[left.pop()] = edge - 1
        return (bands + 0.5) * self._bands.width_m

    def chances(self, query: ListQuery, sample: Sample) -> FloatArray:
        """Chance of each answer for each sampled point: before which accounts the target is, or not listed."""
        away_m, width_m = distances_m(sample.points, query.point), self._bands.width_m
        code = np.zeros(len(away_m), dtype=np.int64)
        for number, radius_m in enumerate(query.radii_m):
            if not math.isnan(radius_m):
                edge_m = (math.floor(radius_m / width_m) + (number >= sample.hypothesis)) * width_m
                code = 2 * code + (away_m >= edge_m)
        seen = self._reach(sample.points, away_m)
        if self.is_cut_off:
            seen = np.where(away_m < self._cutoff.high_m, 0.99, 0.01)
        _, answer = np.unique(code, return_inverse=True)
        table = np.zeros((len(code), answer.max() + 3))
        table[np.arange(len(code)), answer] = seen
        table[:, -2] = 1 - seen
        return table
