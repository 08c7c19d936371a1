"""What ranked lists tell: the target is farther away than an account listed before it, and nearer than one after it.

Lists of a plain service give exact bounds. Other services snap locations, leave users out or disturb the order: then
the same bounds have errors of unknown size, which are the hypotheses. How many users stand before the target is a hint
in both cases: where they live close together, so many are not far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import bdtrc

from nearveil.attacks.base import Answered
from nearveil.attacks.belief import NONSENSE, Belief, Evidence, Sample, below, distances_m
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# Users live in clusters, so counts of them tell less than if they were spread at random: 1 believes them fully.
_TEMPER, _MOST_COUNTED = 0.7, 30
# Counts before the target vary by about this factor (as a logarithm) from one side of it to another.
_COUNT_SPREAD = 0.5
# Errors that services may have. Finer steps know the error better, and take longer.
ERRORS_M = (3.0, 8.0, 20.0, 33.0, 52.0, 84.0, 134.0, 215.0, 344.0)
ERROR_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Where to ask from, and how far from there the attacker's accounts are."""

    point: Point
    radii_m: FloatArray


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """What a service may do to its lists: standard deviations of distances, in meters or as a share.

    One hypothesis of no error is a plain service.
    """

    error_m: FloatArray
    error_share: FloatArray
    log_chances: FloatArray

    @property
    def are_plain(self) -> bool:
        """Whether bounds are exact."""
        return not (self.error_m.any() or self.error_share.any())


# A user is listed, or not, against all expectation with this chance.
_SURPRISE = 0.04
PLAIN = Hypotheses(np.zeros(1), np.zeros(1), np.zeros(1))


class RankedLists:
    """All answers so far, read under some hypotheses.

    Parameters
    ----------
    target, k, start
        The target is assumed to be listed at the start, until it has been seen.
    hypotheses : Hypotheses
        What the service may do to lists.
    """

    def __init__(self, target: Person, k: int, start: Point, tau_m: float, hypotheses: Hypotheses = PLAIN) -> None:
        self._target, self._k, self._start, self._tau_m = target, k, start, tau_m
        self.hypotheses = hypotheses
        self._crowds = Crowds(k)
        self._repeats, self._cutoff = Repeats(), Cutoff()
        self._ahead_at: dict[Point, int] = {}
        self._asked_at: Counter[Point] = Counter()
        self._counted: dict[Point, float] = {}
        self._pairs: list[tuple[float, float]] = []
        self.seen_at: set[Point] = set()
        # How far guesses are to be trusted of what is listed at points where the target was not seen yet.
        self.trust = 1.0
        # Share of users that are left out of each list.
        self.drop = 0.0

    @property
    def ahead(self) -> Mapping[Point, int]:
        """How many users stand before the target, wherever that is known; at the start, the last rank is a guess."""
        return {self._start: self._k - 1, **self._ahead_at}

    # -- what answers say

    def read(self, answered: Answered) -> list[Evidence] | None:
        """Return what an answer says; None if no plain service gives it."""
        point, answer = answered.place, answered.answer
        radius_of = {account: math.dist(point, at) for account, at in answered.accounts.items()}
        radius_of = {account: radius if radius > 1e-6 else 0.0 for account, radius in radius_of.items()}
        is_full, is_listed = len(answer) >= self._k, self._target in answer
        if self.hypotheses.are_plain:
            makes_sense = self._cutoff.agrees(radius_of, answer, is_full=is_full)
            makes_sense &= accounts_in_order(radius_of, answer) and self._repeats.agree(point, radius_of, answer)
            if not makes_sense or (not is_full and not is_listed and point in self.seen_at):
                return None
        elif not answer:
            # Silence says nothing: the group may be too small to be shown.
            return []
        self._asked_at[point] += 1
        self._crowds.learn(point, radius_of, answer, target_listed=is_listed)
        self._pairs += pairwise(radius_of[one] for one in answer if one in radius_of)
        if is_listed:
            self.seen_at.add(point)
            at = answer.index(self._target)
            self._ahead_at[point] = at - sum(one in radius_of for one in answer[:at])
        if not self.hypotheses.are_plain:
            return [self._with_errors(point, radius_of, answer)]
        return [self._exactly(point, radius_of, answer), *self._by_counting()]

    def _exactly(self, point: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> Evidence:
        """Bounds that are certain if the service is plain: an account that is not listed is beyond all who are."""
        if self._target in answer:
            before = answer[: answer.index(self._target)]
            low_m = max((radius_of[one] for one in before if one in radius_of), default=0.0)
            high_m = min((radius for one, radius in radius_of.items() if one not in before), default=math.inf)
            return _ring(point, low_m, high_m)
        listed = [radius_of[one] for one in answer if one in radius_of]
        if point == self._start and point not in self._ahead_at and len(radius_of) == 1 and listed == [0.0]:
            # Listed without an account there and not with it: the target is the last of the list.
            self._ahead_at[point] = self._k - 1
        low_m = max(listed, default=0.0)
        if (ahead := self._ahead_at.get(point)) is not None:
            # So many accounts that are nearer push it out.
            low_m = max([low_m, *sorted(radius_of.values())[self._k - ahead - 1 : self._k - ahead]])
        return _ring(point, low_m, math.inf)

    def _by_counting(self) -> list[Evidence]:
        """Only n users are nearer to a point than the target: a disc with more of them reaches at least as far."""
        found = []
        for point, ahead in self._ahead_at.items():
            reach_m = self._crowds.reach_of_more_than(ahead, point)
            if reach_m < self._counted.get(point, math.inf):
                self._counted[point] = reach_m
                found.append(_ring(point, 0.0, reach_m))
        return found

    def _with_errors(self, point: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> Evidence:
        """The target is between the accounts that are listed right before and after it."""
        accounts = [radius_of.get(one) for one in answer]
        is_listed = self._target in answer
        at = answer.index(self._target) if is_listed else len(answer)
        low_m = next((radius for radius in reversed(accounts[:at]) if radius is not None), -math.inf)
        after = [radius for radius in accounts[at:] if radius is not None][:1]
        rows = self.hypotheses
        if is_listed and len(answer) >= self._k:
            # Beyond the end of the list, unless left out: so many of them hardly are all.
            missing = sorted(radius for one, radius in radius_of.items() if one not in answer)
            many = 1 if self.drop <= NONSENSE else math.ceil(math.log(NONSENSE) / math.log(self.drop))
            after += missing[many - 1 :][:1]
        high_m = min(after, default=math.inf)

        def chance_to_see(cells: FloatArray, away_m: FloatArray) -> FloatArray:
            return self._chance_to_see(point, cells[:, :2], away_m, np.array([*radius_of.values()]))

        return Evidence(
            point, np.full(len(rows.error_m), min(low_m, high_m)), np.full(len(rows.error_m), max(low_m, high_m)),
            rows.error_m, rows.error_share, is_listed=is_listed, chance_to_see=chance_to_see, left_out=self.drop,
        )  # fmt: skip

    def _chance_to_see(self, point: Point, points: FloatArray, away_m: FloatArray, radii_m: FloatArray) -> FloatArray:
        """Chance that the target is listed from a distance: about as far as from the start, or as the crowds say."""
        from_start_m = np.maximum(distances_m(points, self._start), 50.0)
        as_at_start = np.clip(1 / (1 + (away_m / from_start_m) ** 6), _SURPRISE, 1 - _SURPRISE)
        density = self._crowds.density_at(point, points, self._start, self.ahead, self._tau_m)
        ahead = density * away_m**2 + (radii_m < away_m[:, None]).sum(axis=1)
        by_crowds = np.clip(chance_to_be_listed(ahead, self._k), _SURPRISE, 1 - _SURPRISE)
        return np.asarray((as_at_start + by_crowds) / 2)

    def log_chances(self) -> FloatArray:
        """How likely hypotheses are by the order of the attacker's own accounts, which only errors disturb.

        An error sideways makes an account farther away, the more so the nearer it was put.
        """
        rows = self.hypotheses
        if rows.are_plain or not self._pairs:
            return rows.log_chances
        first_m, second_m = np.array(self._pairs).T[:, :, None]
        spread_m = np.hypot(rows.error_m, rows.error_share * (first_m + second_m) / 2)
        gap_m = np.hypot(second_m, rows.error_m) - np.hypot(first_m, rows.error_m)
        chances = below(gap_m, np.zeros_like(gap_m), math.sqrt(2) * spread_m)
        return np.asarray(rows.log_chances + np.log((1 - NONSENSE) * chances + NONSENSE / 2).sum(axis=0))

    def hint(self, cells: FloatArray) -> FloatArray:
        """Log-likelihood of cells by how many users stand before the target, and where it was not listed."""
        if not self.hypotheses.are_plain:
            return np.zeros(len(cells))
        return self._crowds.log_likelihood(cells[:, :2], self.ahead)

    # -- what a query will tell

    def queries(self, belief: Belief, sample: Sample, accounts: int, rng: np.random.Generator) -> list[ListQuery]:
        """Queries worth trying: from points where the target was seen, and among and beside those that are likely."""
        points = sample.points
        middle = points.mean(axis=0)
        _, sizes, axes = np.linalg.svd((points - middle) / math.sqrt(len(points)), full_matrices=False)
        beside = [middle + times * size * axis for size, axis in zip(sizes, axes, strict=True) for times in _BESIDE]
        picked = points[rng.integers(len(points), size=_PICKED)]
        extent = np.array(belief.prior.half_extent_m)
        likely = [belief.mean(), *(point_of(np.clip(one, -extent, extent)) for one in (middle, *beside, *picked))]
        found = []
        if self.hypotheses.are_plain:
            likely = [self.known_point(one) for one in likely]
        for point in dict.fromkeys([self._start, *list(self._ahead_at)[-3:], *likely]):
            if not self.hypotheses.are_plain and self._asked_at[point] > 1:
                continue
            away_m = np.sort(distances_m(points, point))
            for count in range(1, accounts + 1):
                shares = np.arange(1, count + 1) / (count + 1)
                for stretch in _STRETCHES:
                    radii_m = away_m[(shares**stretch * len(away_m)).astype(np.int64)]
                    found.append(ListQuery(point, np.maximum(radii_m, 0.5)))
            found.append(ListQuery(point, np.array([0.999 * belief.prior.tau_m])))
        return found

    def known_point(self, point: Point) -> Point:
        """The nearest point where the target was seen, if it is about the same: more is known there."""
        nearest = min(self.ahead, key=lambda other: math.dist(point, other))
        return nearest if math.dist(point, nearest) < 0.2 * self._tau_m else point

    def chances(self, query: ListQuery, sample: Sample) -> FloatArray:
        """Chance of each answer for each sampled point: between which accounts, or not listed beyond which account.

        The last column is an answer that tells nothing.
        """
        rows, radii_m, k = self.hypotheses, query.radii_m, self._k
        away_m = distances_m(sample.points, query.point)
        error_m = np.hypot(rows.error_m[sample.hypothesis], 1.41 * rows.error_share[sample.hypothesis] * away_m)
        spread_m = np.hypot(error_m, 0.3 * sample.half_m)
        nearer = 1 - below(radii_m, away_m[:, None], spread_m[:, None])
        edges = np.column_stack([np.ones(len(nearer)), nearer, np.zeros(len(nearer))])
        rings = np.maximum(edges[:, :-1] - edges[:, 1:], 0.0)
        density = self._crowds.density_at(query.point, sample.points, self._start, self.ahead, self._tau_m)
        known = self.ahead.get(query.point) if rows.are_plain else None
        count = nearer.sum(axis=1)
        if not rows.are_plain:
            seen = self._chance_to_see(query.point, sample.points, away_m, radii_m)
        elif known is None:
            seen = chance_to_be_listed(density * away_m**2 + count, k)
        else:
            seen = chance_to_be_listed(known + count - 0.5, k, spread=0.05)
        seen = np.where(away_m > self._cutoff.high_m, 0.02, seen)
        # An account is listed beyond a target that is not if fewer users are nearer to the point than a list has room.
        before = np.minimum(density[:, None] * radii_m**2, np.inf if known is None else known)
        is_listed = (radii_m < away_m[:, None]) & (before + np.arange(1, len(radii_m) + 1) <= k)
        beyond = is_listed.sum(axis=1)
        table = np.zeros((len(rings), 2 * len(radii_m) + 2))
        table[:, : len(radii_m) + 1] = rings * seen[:, None]
        hidden = np.where(beyond == 0, table.shape[1] - 1, len(radii_m) + beyond)
        hidden = np.where(beyond == len(radii_m), len(radii_m), hidden)
        table[np.arange(len(rings)), hidden] += 1 - seen
        if known is None:
            table[:, :-1] *= self.trust
        return table


# What is tried: points so many standard deviations beside the mean, so many likely ones, and radii rather near or far.
_BESIDE = (-2, -1, 1, 2)
_PICKED = 14
_STRETCHES = (0.6, 1.0, 1.6)


def _ring(point: Point, low_m: float, high_m: float) -> Evidence:
    return Evidence(point, np.array([low_m]), np.array([high_m]))


def chance_to_be_listed(users_ahead: FloatArray, k: int, spread: float | None = None) -> FloatArray:
    """Chance that a user is listed, given the expected number of users ahead; counts are about Poisson."""
    wide = 0.3 * np.sqrt(users_ahead + 1.0) + 0.2 if spread is None else spread
    return np.asarray(1 / (1 + np.exp(np.clip((users_ahead + 0.5 - k) / wide, -60, 60))))


# How crowded it is, as far as lists tell: an account among users counts those who are nearer.


class Crowds:
    """Counts of users within discs: bounds on numbers, and evidence of where the target is."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._exactly: dict[Point, list[tuple[float, int]]] = {}
        self._at_least: dict[Point, list[tuple[float, int]]] = {}
        self._densities: list[tuple[float, float, float, float]] = []
        self._misses: list[tuple[float, float, float]] = []
        self._crowded: list[tuple[float, float, float]] = []

    def learn(
        self, point: Point, radius_of: Mapping[Person, float], answer: Sequence[Person], *, target_listed: bool
    ) -> None:
        """Count those who are listed before each account."""
        users, listed_m = 0, 0.0
        for one in answer:
            if one not in radius_of:
                users += 1
            elif radius_of[one] > 0:
                self._exactly.setdefault(point, []).append((radius_of[one], users))
                listed_m = max(listed_m, radius_of[one])
        missing_m = min((radius for one, radius in radius_of.items() if one not in answer), default=math.inf)
        is_crowded = missing_m < math.inf and len(answer) >= self._k
        if missing_m < math.inf:
            self._at_least.setdefault(point, []).append((missing_m, users))
        if is_crowded:
            self._crowded.append((*point, missing_m))
        if listed_m:
            self._note_density(point, (self._exactly[point][-1][1] + 0.5) / listed_m**2, listed_m, target_listed)
        elif is_crowded and missing_m > 0:
            # All that is known is that k users or so are nearer than the account: guess twice as many.
            self._note_density(point, 2.0 * self._k / missing_m**2, missing_m, target_listed)

    def _note_density(self, point: Point, density: float, radius_m: float, target_listed: bool) -> None:
        self._densities.append((*point, density, radius_m))
        if not target_listed:
            self._misses.append((*point, density))

    def reach_of_more_than(self, users: int, point: Point) -> float:
        """Greatest distance from a point of the nearest disc that holds more than so many users."""
        return min(
            (
                math.dist(point, center) + radius_m
                for counts in (self._exactly, self._at_least)
                for center, known in counts.items()
                for radius_m, within in known
                if within > users
            ),
            default=math.inf,
        )

    def density_at(
        self, point: Point, points: FloatArray, start: Point, ahead: Mapping[Point, int], tau_m: float
    ) -> FloatArray:
        """Users per squared meter of radius around a point, if the target is at one of some points.

        By queries near there, and a little by how many users stand before the target at the start.
        """
        from_start_m = np.maximum(distances_m(points, start), tau_m / 4)
        guess = math.log(ahead[start] + 0.5) - 2 * np.log(from_start_m)
        if not self._densities:
            return np.exp(guess)
        known = np.array(self._densities)
        nearness = np.exp(-distances_m(known, point) / (0.5 * np.maximum(known[:, 3], tau_m)))
        density = np.exp((0.3 * guess + nearness @ np.log(known[:, 2])) / (0.3 + nearness.sum()))
        if not self._crowded:
            return np.asarray(density)
        # A disc known to hold k users: k users within its radius and the way there.
        crowded = np.array(self._crowded)
        least = self._k / max(float((distances_m(crowded, point) + crowded[:, 2]).min()), 1.0) ** 2
        return np.asarray(np.maximum(density, least))

    def log_likelihood(self, points: FloatArray, ahead_at: Mapping[Point, int]) -> FloatArray:
        """How likely the counts are, for a target at each of some points."""
        score = self._by_ratios(points, ahead_at)
        for x, y, density in self._misses:
            seen = chance_to_be_listed(density * distances_m(points, (x, y)) ** 2, self._k)
            score = score + 0.5 * np.log(np.maximum(1 - seen, 0.02))
        for point, ahead in ahead_at.items():
            # Clusters make counts vary more than chance does: a large one tells no more than this.
            temper = min(_TEMPER, _MOST_COUNTED / (ahead + 1))
            score = score + temper * self._by_counts(distances_m(points, point) ** 2, point, ahead)
        return score

    def _by_ratios(self, points: FloatArray, ahead_at: Mapping[Point, int]) -> FloatArray:
        """Count / distance² is nearly the same from everywhere around the target."""
        if len(ahead_at) < 2:
            return np.zeros(len(points))
        values = np.array([
            math.log(ahead + 0.5) - 2 * np.log(np.maximum(distances_m(points, point), 10.0))
            for point, ahead in ahead_at.items()
        ])  # fmt: skip
        return np.asarray(-0.5 * ((values - values.mean(axis=0)) ** 2).sum(axis=0) / _COUNT_SPREAD**2)

    def _by_counts(self, squared: FloatArray, point: Point, ahead: int) -> FloatArray:
        """Of the users between two radii with known counts, the target is the n-th: a binomial count.

        Without an outer radius, the crowd within the inner one tells how far the missing ones reach.
        """
        exact = self._exactly.get(point, [])
        inner_m, within = max((one for one in exact if one[1] <= ahead), default=(0.0, 0))
        outer_m, most = min((one for one in exact if one[1] > ahead and one[0] > inner_m), default=(math.inf, 0))
        score = np.zeros(len(squared))
        before, beyond = ahead - within, (most - 1 - ahead if outer_m < math.inf else within)
        if inner_m > 0 or outer_m < math.inf:
            if outer_m < math.inf:
                share = (squared - inner_m**2) / (outer_m**2 - inner_m**2)
            else:
                share = 1 - inner_m**2 / np.maximum(squared, 1.0)
            share = np.clip(share, 0.01, 0.99)
            score = before * np.log(share) + beyond * np.log(1 - share)
            if before + beyond > 0:
                # Relative to its best, so that no count outweighs the others by its constant.
                top = min(max(before / (before + beyond), 0.01), 0.99)
                score = score - (before * math.log(top) + beyond * math.log(1 - top))
        held = [one for one in self._at_least.get(point, []) if 0 < one[1] <= ahead]
        if held:
            radius_m, least = min(held, key=lambda one: one[0] ** 2 / one[1])
            share = np.minimum(radius_m**2 / np.maximum(squared, 1e-9), 1.0)
            score = score + np.log(np.maximum(bdtrc(least - 1, ahead, share), 1e-40))
        return np.asarray(score)


def share_left_out(history: Sequence[Answered]) -> float:
    """Share of users that lists leave out: of those near the head of another list from there, and of accounts."""
    gone = expected = 0
    for number, one in enumerate(history):
        for other in history[:number]:
            if one.place == other.place:
                users = [
                    [each for each in answered.answer if each not in answered.accounts] for answered in (one, other)
                ]
                for some, others in (users, users[::-1]):
                    head = some[: 4 * min(map(len, users)) // 5]
                    expected += len(head)
                    gone += sum(each not in others for each in head)
        radius_of = {account: math.dist(one.place, at) for account, at in one.accounts.items()}
        farthest_m = max((radius_of[each] for each in one.answer if each in radius_of), default=0.0)
        inside = [account for account, radius in radius_of.items() if radius < farthest_m / 2]
        expected += len(inside)
        gone += sum(account not in one.answer for account in inside)
    return (gone + 0.5) / (expected + 20)


# Whether answers can come from accounts that are where the attacker put them.


def accounts_in_order(radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
    """Whether accounts are listed by distance, those right at the point first, and none is overlooked."""
    listed = [radius_of[one] for one in answer if one in radius_of]
    missing = [radius for account, radius in radius_of.items() if account not in answer]
    if listed != sorted(listed):
        return False
    if 0.0 in radius_of.values() and (not answer or radius_of.get(answer[0]) != 0.0):
        return False
    return not missing or min(missing) >= max(listed, default=0.0)


class Cutoff:
    """Between which distances a service may cut lists off: an account that a list has room for is beyond it."""

    def __init__(self) -> None:
        self.low_m, self.high_m = 0.0, math.inf

    def agrees(self, radius_of: Mapping[Person, float], answer: Sequence[Person], *, is_full: bool) -> bool:
        """Take in an answer; False if no cut-off explains it."""
        for account, radius in radius_of.items():
            if account in answer:
                self.low_m = max(self.low_m, radius)
            elif not is_full:
                self.high_m = min(self.high_m, radius)
        return self.low_m <= self.high_m


class Repeats:
    """Lists from the same point: users are in one order, and an account farther away has no fewer of them before it.

    Where a service leaves users out, disturbs the order or has accounts elsewhere, that soon fails.
    """

    def __init__(self) -> None:
        self._lists: dict[Point, list[Person]] = {}
        self._ahead: dict[Point, list[tuple[float, int, float]]] = {}

    def agree(self, point: Point, radius_of: Mapping[Person, float], answer: Sequence[Person]) -> bool:
        """Take in an answer; False if it does not agree with those before."""
        users = [one for one in answer if one not in radius_of]
        before = self._lists.get(point, [])
        shared = min(len(users), len(before))
        if users[:shared] != before[:shared]:
            return False
        self._lists[point] = max(users, before, key=len)
        ahead = self._ahead.setdefault(point, [])
        for account, radius in radius_of.items():
            if account in answer:
                count = sum(one not in radius_of for one in answer[: answer.index(account)])
                ahead.append((radius, count, float(count)))
            else:
                # Beyond everybody listed: so many are before it, or more.
                ahead.append((radius, len(users), math.inf))
        return all(least <= most for near_m, least, _ in ahead for far_m, _, most in ahead if near_m <= far_m)
