"""Search where lists are not what a plain service shows: learn the answer policy, and weigh places by likelihood.

A few questions that are all the same tell how many people are left out, whether the order is stable and how late the
attacker's accounts move. What remains open, how far accounts are displaced, how noisy the order is, or how wide its
bands are, is a short list of hypotheses. Each answer weighs places and hypotheses together, so that the answers about
the target teach the policy as well. Nothing is proved here: the result is an estimate with a radius.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from nearveil.attacks._band_search import NO_BANDS, Bands, BandSearch, find_bands
from nearveil.attacks._belief import Belief, split_cells
from nearveil.attacks._policy_likelihood import (
    DISPLACED_M,
    DISPLACEMENTS_M,
    NOISE_SHARES,
    Calibration,
    Clue,
    Hypotheses,
    Likelihood,
    account_pairs,
    clue_between,
    clue_of,
    log_likelihood_of_order,
)
from nearveil.attacks.base import Finding, Inquiry, Outcome, inward_angle, step_from
from nearveil.attacks.oracle import Point, point_of
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# The same question so many times, at most, to see what varies.
_REPEATS = 4
_MOST_DELAY = 5
_FIRST_REACH_M = 200.0
_UNLISTED = 10**9
# An account that is moved a little in a plain service does not pass so many people at once.
_JUMP = 3
# By what factor the width of bands may be open in the end.
_WELL_KNOWN = 1.06
# Questions that calibration leaves for the search.
_KEPT = 20
# The target is hardly farther away than so many times what accounts are displaced by: by all answers about one account,
# about several, and by the order of accounts alone.
_DISPLACED_TIMES_ALONE, _DISPLACED_TIMES, _DISPLACED_TIMES_BY_ORDER = 2.8, 2.2, 1.6
_LOOKS_AROUND = 8
# Answers that a result needs at least.
_LEAST_CLUES = 6
# So many answers that are certain must come true before a result is believed, and so many more for each that did not;
# a service with more of those is not understood.
_CHECKS, _MORE_CHECKS, _MOST_CONTRADICTIONS = 6, 4, 2
# As many of both kinds at least: accounts that come before the target, and such that come after it.
_LEAST_OF_EACH = 2
# Bands that are nearly as wide as lists reach leave no order.
_ONE_BAND = 0.9
# Some of the checks in bands must tell something, and leave so large a part of a band to its edge.
_LEAST_IN_BANDS, _EDGE = 2, 0.02
# Looks from so far away, as a part of the region, and so far apart.
_LOOKS_FROM_AFAR, _AFAR, _APART = 2, 0.5, 1.0
# Questions that are kept for checks which tell nothing.
_SPARE = 3
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_NEARER = 0.75
# An account so many times farther away than the target, for each share of noise, hardly comes before it.
_NOISE_TIMES = 4.3
# Difference of log-likelihoods that decides.
_SURELY = 3.0
_MOST_CELLS = 1500
_SAMPLES = 160
_PLACES = 14


class PolicySearch:
    """State of one search.

    Parameters
    ----------
    inquiry : Inquiry
        Asks; its steps so far count.
    start : Point
        Where the target is listed.
    accounts : sequence of Person
        The attacker's.
    half_extent_m, tau_m, most_queries
        As for the adaptive attack.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        start: Point,
        accounts: Sequence[Person],
        *,
        half_extent_m: tuple[float, float],
        tau_m: float,
        most_queries: int,
    ) -> None:
        self._inquiry, self._start, self._accounts = inquiry, start, accounts
        self._half_extent, self._tau_m, self._most_queries = np.array(half_extent_m), tau_m, most_queries
        self._rng = np.random.default_rng(1)
        self._clues: list[Clue] = []
        self._weighs = False
        self.bands: Bands | None = None
        # Whether questions ran out before it was known if there are bands, and how many answers that were thought to be
        # certain did not come true.
        self._is_partly_calibrated, self._contradictions, self._looks_from_afar = False, 0, 0
        self._cells = Belief(start, half_extent_m, inquiry.oracle.k, tau_m).cells

    def search(self, calibration: Calibration) -> Finding:
        """Ask where the answer is expected to tell most, until the radius is small enough."""
        self._calibration = calibration
        if self.bands:
            found = self._search_in_bands(self.bands)
            if found is not None:
                return found
        if calibration.bands_m:
            # In a band some accounts may be before the target and others after it: keep to one.
            self._accounts = self._accounts[:1]
        self._hypotheses = Hypotheses.for_service(calibration)
        self._likelihood = Likelihood(self._start, calibration, self._hypotheses)
        self._logs, self._weighs = np.zeros((len(self._cells), len(self._hypotheses.noise))), True
        self._weigh()
        for clue in self._clues_so_far(calibration):
            self._learn(clue)
        while self._left > self._cost_of_checks + _SPARE:
            self._ask(*self._next_question())
            estimate, radius_m = self.estimate()
            if radius_m > self._tau_m or len(self._clues) < _LEAST_CLUES:
                continue
            is_confirmed = self._is_confirmed(estimate, radius_m)
            estimate, radius_m = self.estimate()
            if is_confirmed and radius_m <= self._tau_m:
                outcome = Outcome.FOUND if self._is_trusted() else Outcome.CONTRADICTION
                return Finding(outcome, estimate, radius_m=radius_m if outcome is Outcome.FOUND else None)
            if self._contradictions > _MOST_CONTRADICTIONS:
                return Finding(Outcome.CONTRADICTION, estimate)
        is_known = self._is_confirmed(*self.estimate()) and self._is_trusted()
        estimate, radius_m = self.estimate()
        if not is_known:
            return Finding(Outcome.CONTRADICTION, estimate)
        return Finding(Outcome.OUT_OF_QUERIES, estimate, radius_m=radius_m)

    def _search_in_bands(self, bands: Bands) -> Finding | None:
        """Search by edges of bands; None if there is no place for the target by them."""
        found = BandSearch(
            self._inquiry,
            self._answer,
            bands,
            self._start,
            half_extent_m=(float(self._half_extent[0]), float(self._half_extent[1])),
            tau_m=self._tau_m,
            most_queries=self._most_queries,
        ).run()
        if found is None or found.estimate is None or found.radius_m is None:
            return found
        is_confirmed: bool | None = None
        if not self._is_seen_by_distance(found.estimate, bands.width_m):
            is_confirmed = False
        while is_confirmed is None and self._left > 0:
            is_confirmed = self._confirm_by_bands(found.estimate, found.radius_m, bands.width_m)
        if is_confirmed:
            return found
        return Finding(Outcome.OUT_OF_QUERIES if is_confirmed is None else Outcome.CONTRADICTION, found.estimate)

    # -- whether the answers mean what they are taken for

    @property
    def _checks_needed(self) -> int:
        """How many answers must come true; more after some did not, as some come true by chance."""
        return _CHECKS + _MORE_CHECKS * self._contradictions

    @property
    def _cost_of_checks(self) -> int:
        """Questions that confirm a result, if each tells something."""
        return (self._inquiry.waits + 1) * -(-self._checks_needed // min(len(self._accounts), 2))

    def _is_confirmed(self, estimate: Point, radius_m: float) -> bool:
        """Ask from all sides what has a certain answer if the target is within the radius, and see it come true.

        Questions of the search are those whose answers are open, so that any answer fits some place: a service that
        shuffles its lists, or always has the target first, would never contradict itself.
        """
        is_confirmed: bool | None
        if not self._is_seen_by_distance(estimate, self._bands_m):
            is_confirmed = False
        elif self._bands_m >= _ONE_BAND * self._calibration.cutoff_m:
            is_confirmed = self._confirm_by_cutoff(estimate, radius_m)
        elif self._bands_m:
            is_confirmed = self._confirm_by_bands(estimate, radius_m, self._bands_m)
        else:
            is_confirmed = self._confirm_by_order(estimate, radius_m)
        self._contradictions += is_confirmed is False
        return bool(is_confirmed)

    def _is_seen_by_distance(self, estimate: Point, width_m: float) -> bool:
        """Look from afar: the target is not listed there, or an account half as far away is listed before it."""
        away_m = _AFAR * float(self._half_extent.min())
        if width_m > away_m / 2:
            return True
        while self._looks_from_afar < _LOOKS_FROM_AFAR:
            self._looks_from_afar += 1
            angle = inward_angle(estimate) + (self._looks_from_afar - 1.5) * _APART
            came_true = self._try(step_from(estimate, angle, away_m), [(away_m / 2, True)], unlisted=True)
            if not all(came_true.values()):
                self._looks_from_afar = 0
                return False
        return True

    def _confirm_by_order(self, estimate: Point, radius_m: float) -> bool | None:
        """Whether an account a little nearer comes before the target, and one a little farther away after it."""
        spread = 1 + _NOISE_TIMES * float(self._hypotheses.noise[self._likeliest])
        # Nearer to the target, if it is not listed from there.
        reach_m, turn = max(5 * self._tau_m, 3 * radius_m), self._rng.uniform(0, 2 * math.pi)
        told = {True: 0, False: 0}
        for number in range(3 * self._checks_needed):
            expected = [((reach_m - 2 * radius_m) / spread, True), (reach_m * spread, False)]
            if len(self._accounts) == 1:
                expected = [expected[number % 2]]
            came_true = self._try(step_from(estimate, turn + _GOLDEN_ANGLE * number, reach_m - radius_m), expected)
            if not all(came_true.values()):
                return False
            for is_before in came_true:
                told[is_before] += 1
            if sum(told.values()) >= self._checks_needed and min(told.values()) >= _LEAST_OF_EACH:
                return True
            if len(came_true) < len(expected):
                reach_m = max(_NEARER * reach_m, 3 * radius_m)
        return None

    def _confirm_by_cutoff(self, estimate: Point, radius_m: float) -> bool | None:
        """Whether the target is listed from a little nearer than the cut-off, and not from a little farther away.

        For lists in no order: who is in them is all they tell.
        """
        known, turn = self._calibration, self._rng.uniform(0, 2 * math.pi)
        for number in range(_CHECKS):
            if self._left <= self._inquiry.waits:
                return None
            is_inside = number % 2 == 0
            gap_m = radius_m + 2 * known.cutoff_slack_m
            away_m = max(known.cutoff_m + (-gap_m if is_inside else gap_m), 0.0)
            place = step_from(estimate, turn + _GOLDEN_ANGLE * number, away_m)
            self._ask(place, np.array([]))
            is_listed = self._inquiry.target in self._inquiry.history[-1].answer
            # Who is missing may be left out by chance, or the list is full.
            if is_listed != is_inside and (is_listed or (not known.drop and not self._is_full)):
                return False
        return True

    @property
    def _is_full(self) -> bool:
        """Whether the last list has no room for more people."""
        return len(self._inquiry.history[-1].answer) >= self._inquiry.oracle.k

    def _confirm_by_bands(self, estimate: Point, radius_m: float, width_m: float) -> bool | None:
        """Whether the target is in the first band from a little nearer than its edge, and not from a little beyond it.

        An account in the next band comes after it, or one in the first band before it, whatever the order in a band.
        """
        turn, told = self._rng.uniform(0, 2 * math.pi), 0
        gap_m = radius_m + _EDGE * width_m
        farther_m = (math.floor(radius_m / width_m) + 1.5) * width_m
        for number in range(_CHECKS):
            is_inside = number % 2 == 0
            away_m = max(width_m - gap_m, 0.0) if is_inside else width_m + gap_m
            expected = (farther_m, False) if is_inside else (width_m / 2, True)
            came_true = self._try(step_from(estimate, turn + _GOLDEN_ANGLE * number, away_m), [expected])
            if not all(came_true.values()):
                return False
            told += len(came_true)
        # In a band that is full, some are never listed.
        return True if told >= _LEAST_IN_BANDS else None

    def _try(self, place: Point, expected: Sequence[tuple[float, bool]], *, unlisted: bool = False) -> dict[bool, bool]:
        """Ask with accounts at distances; whether that which should come before the target, or after it, does so.

        Who is not listed tells nothing; with ``unlisted``, an account that should come before the target, and nobody is
        left out by chance, is to be listed if the target is.
        """
        if self._left <= self._inquiry.waits:
            return {}
        self._ask(place, np.array([distance_m for distance_m, _ in expected]))
        answer = self._inquiry.history[-1].answer
        if self._inquiry.target not in answer:
            return {}
        before = answer[: answer.index(self._inquiry.target)]
        return {
            is_before: (account in before) == is_before
            for account, (_, is_before) in zip(self._accounts, expected, strict=False)
            if account in answer or (unlisted and not self._calibration.drop)
        }

    @property
    def _likeliest(self) -> int:
        """The number of the likeliest hypothesis."""
        return int(np.argmax(self._weights.sum(axis=0)))

    @property
    def _bands_m(self) -> float:
        """Width of the bands by the likeliest hypothesis, 0 if there are none."""
        return float(self._hypotheses.bands_m[self._likeliest])

    @property
    def _left(self) -> int:
        return self._most_queries - len(self._inquiry.steps)

    # -- what the service does to lists

    def calibrate(self) -> Calibration | None:
        """Ask the same several times, with an account right there; None if the target is in none of the lists."""
        inquiry = self._inquiry
        for account in self._accounts[1:]:
            inquiry.put(account, None)
        sentinel = self._accounts[0]
        lists = self._same_question(sentinel)
        if not lists or not any(lists):
            return None
        people = [[person for person in one if person not in self._accounts] for one in lists]
        drop, stable = missing_share(people), same_order(people)
        if not self._is_listed(certain=stable and drop == 0):
            return None
        # Where people are missing at times, the account may be, and delays are not told from that.
        delay = self._late_by(sentinel) if stable and drop == 0 else 0
        inquiry.waits = delay
        cutoff_m, slack_m = math.inf, 1.0
        if max(map(len, lists)) < inquiry.oracle.k:
            cutoff_m, slack_m = self._find_cutoff(sentinel, drop)
        measured, bands_m, displaced_m, crowded = None, 0.0, DISPLACED_M * stable, False
        is_plain_but_for_bands = stable and drop == 0 and not delay
        if is_plain_but_for_bands and len(self._accounts) > 1 and self._left > _KEPT:
            measured = find_bands(self._answer, self._accounts, [self._start, *self._quiet_places()])
            if measured and 0 < measured.width_m < 0.9 * cutoff_m:
                self.bands = replace(measured, cutoff_m=cutoff_m)
        if self.bands:
            bands_m = self.bands.width_m
        elif measured and measured is not NO_BANDS:
            # No order as far as the cut-off.
            bands_m, displaced_m = cutoff_m, 0.0
        elif stable and not delay:
            bands_m, displaced_m, crowded = self._find_bands(lists)
            if bands_m and (measured is NO_BANDS or self._accounts_are_displaced(bands_m)):
                # An account that stays where it is, though it is moved as far as that, is on a grid.
                bands_m, displaced_m, crowded = 0.0, max(DISPLACED_M, bands_m / 2), False
        return Calibration(drop, stable, delay, cutoff_m, slack_m, bands_m, displaced_m, crowded)

    def _accounts_are_displaced(self, bands_m: float) -> bool:
        """Whether displacements explain the order of accounts and bands do not: a point of a grid looks like a band."""
        displaced_m = np.array([2.0, *DISPLACEMENTS_M])
        widths_m = np.where(displaced_m == 2.0, bands_m, 0.0)
        logs = log_likelihood_of_order(account_pairs(self._inquiry.history), displaced_m, widths_m)
        return bool(logs[0] < logs[1:].max() - _SURELY)

    def _quiet_places(self) -> list[Point]:
        """Places where few people may be: the corners of the region."""
        return [point_of(0.98 * self._half_extent * np.array(corner)) for corner in product((-1, 1), repeat=2)]

    def _same_question(self, sentinel: Person) -> list[Sequence[Person]]:
        """Take an account off the map, put it at the start, and ask until its move shows, and a few times more."""
        self._inquiry.put(sentinel, None)
        if self._left > 0:
            self._inquiry.ask(self._start)
        self._inquiry.put(sentinel, self._start)
        lists: list[Sequence[Person]] = []
        while self._left > 0 and len(lists) < _MOST_DELAY + _REPEATS:
            lists.append(self._inquiry.ask(self._start))
            shown = [one[:1] == [sentinel] for one in lists]
            if len(lists) >= _REPEATS and (sum(shown) > 1 or not any(lists)):
                break
            if len(lists) > _MOST_DELAY and not any(shown):
                break
        return lists

    def _late_by(self, sentinel: Person) -> int:
        """How many questions an account is still listed after it was taken off the map."""
        self._inquiry.put(sentinel, self._start)
        for _ in range(_REPEATS - 1):
            if self._left > 0:
                self._inquiry.ask(self._start)
        self._inquiry.put(sentinel, None)
        late = 0
        while self._left > 0 and late <= _MOST_DELAY and sentinel in self._inquiry.ask(self._start):
            late += 1
        return late

    def _find_bands(self, lists: Sequence[Sequence[Person]]) -> tuple[float, float, bool]:
        """Move an account away from the start: in bands the number of people before it changes at their edges alone.

        Return the width of the bands, 0 if there are none, about how far accounts are displaced, and whether the first
        band fills the list.
        """
        account = self._accounts[0]
        first = min((one.index(account) for one in lists if account in one), default=_UNLISTED)
        low, high, counts = _FIRST_REACH_M / 7, math.inf, {0.0: first}
        while self._left > _KEPT and high / low > _WELL_KNOWN and low < self._half_extent.min():
            radius = math.sqrt(low * high) if high < math.inf else 2 * low
            counts[radius] = self._ahead_of(account, radius)
            if counts[radius] == first:
                low = radius
            elif high == math.inf or counts[radius] == counts[high]:
                high = radius
            else:
                # A number in between: people are passed one by one.
                return 0.0, self._find_displacement(account, counts), False
        if high / low > _WELL_KNOWN and low < self._half_extent.min():
            self._is_partly_calibrated = True
        if high == math.inf:
            return 0.0, DISPLACED_M, False
        width_m = roundest_between(low, high)
        if width_m < _FIRST_REACH_M:
            # One account cannot tell narrow bands from a point of a grid that it stays at.
            return 0.0, max(DISPLACED_M, width_m / 2, self._find_displacement(account, counts)), False
        if abs(counts[high] - first) >= _JUMP:
            return width_m, 0.0, counts[high] == _UNLISTED
        # Few people changed places: it may be the edge of a band, or not.
        return width_m, self._find_displacement(account, counts), False

    def _find_displacement(self, account: Person, counts: dict[float, int]) -> float:
        """Put an account in several directions at one distance: the people before it tell how far it really is."""
        known = [radius for radius, ahead in counts.items() if radius > 0 and _JUMP <= ahead < _UNLISTED]
        if not known:
            return DISPLACED_M
        radius = max(known, key=lambda one: counts[one] / one)
        ahead = [counts[radius], *(self._ahead_of(account, radius) for _ in range(3) if self._left > _KEPT)]
        listed = [count for count in ahead if count < _UNLISTED]
        # Of people who are spread evenly, twice as large a share is passed as of the distance.
        share = float(np.std(listed)) / (2 * np.mean(listed) + 1)
        return float(np.clip(radius * share, 10.0, 500.0))

    def _ahead_of(self, account: Person, radius: float) -> int:
        answer = self._answer(self._start, {account: radius})
        return answer.index(account) if account in answer else _UNLISTED

    def _clues_so_far(self, calibration: Calibration) -> list[Clue]:
        """What all answers before tell; a question asked again tells more only where answers vary."""
        if calibration.delay:
            return []
        clues = []
        for step in self._inquiry.steps:
            if calibration.bands_m and len(step.accounts) > 1:
                continue
            radii = [
                (rank, math.dist(step.place, spot))
                for rank, spot in zip(step.account_ranks, step.accounts, strict=True)
                if rank is not None
            ]
            clues.append(clue_between(step.place, step.rank, sorted(radii)))
        return list(dict.fromkeys(clues)) if calibration.stable and not calibration.drop else clues

    def _is_listed(self, *, certain: bool) -> bool:
        """Whether the target was ever listed; an account in the list may have taken its place, so look without.

        A target at the end of a list that varies is often not listed: then look from places around the start.
        """
        account, reach_m = self._accounts[0], _FIRST_REACH_M
        self._inquiry.put(account, None)
        if self._was_seen() or self._look(self._start) or certain:
            return self._was_seen()
        while reach_m < self._half_extent.min() and not self._was_seen():
            self._inquiry.put(account, step_from(self._start, inward_angle(self._start), reach_m))
            if not self._look(self._start) and self._inquiry.steps[-1].account_ranks[0] is None:
                break
            reach_m *= 2
        self._inquiry.put(account, None)
        for turn in range(_LOOKS_AROUND):
            if not self._was_seen():
                self._look(step_from(self._start, 2 * math.pi * turn / _LOOKS_AROUND, reach_m / 2))
        return self._was_seen()

    def _look(self, place: Point) -> bool:
        if self._left > 0:
            self._inquiry.ask(place)
        return self._was_seen()

    def _was_seen(self) -> bool:
        return any(step.rank is not None for step in self._inquiry.steps)

    def _find_cutoff(self, account: Person, drop: float) -> tuple[float, float]:
        """Move an account away from the start until it is not listed, and bisect: distance, and half what is open."""
        farthest = float(np.abs(self._start).max() + 2 * self._half_extent.max())
        low, high = 1.0, math.inf
        while self._left > self._inquiry.waits + 1 and high / low > 1.04:
            radius = min(low * 4 if low > 1.0 else 1000.0, farthest) if high == math.inf else math.sqrt(low * high)
            if high == math.inf and low >= self._half_extent.min():
                return math.inf, 1.0
            listed = False
            # Who is left out at random is hardly left out twice or three times.
            for _ in range(1 if drop == 0 else 3):
                listed = listed or account in self._answer(self._start, {account: radius})
            low, high = (radius, high) if listed else (low, radius)
        if high == math.inf:
            return math.inf, 1.0
        return roundest_between(low, high), (high - low) / 8 + 1.0

    # -- asking and learning

    def _answer(self, place: Point, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        """Put accounts at distances from a place, in any directions, and ask once the moves show."""
        for account in self._accounts:
            radius = radius_of.get(account)
            if radius is None:
                self._inquiry.put(account, None)
                continue
            spot = self._somewhere(place, radius)
            self._inquiry.put(account, spot)
        return self._inquiry.ask(place)

    def _somewhere(self, place: Point, radius: float) -> Point:
        """Displacements differ from direction to direction, so each move takes another one; inside the region."""
        for _ in range(8):
            spot = step_from(place, self._rng.uniform(0, 2 * math.pi), radius)
            if (np.abs(spot) <= self._half_extent).all():
                return spot
        return step_from(place, inward_angle(place), radius)

    def _ask(self, place: Point, radii: FloatArray) -> None:
        radius_of = dict(zip(self._accounts, radii.tolist(), strict=False))
        answer = self._answer(place, radius_of)
        # The search in bands has a belief of its own.
        if not self._weighs:
            return
        # Silence says nothing: the group may be too small to be shown.
        if answer:
            self._learn(clue_of(place, self._inquiry.target, radius_of, answer))
        self._inquiry.note_cells(self._cells[self._weights.sum(axis=1) > 1e-4])

    def _learn(self, clue: Clue) -> None:
        self._clues.append(clue)
        self._logs += self._likelihood.log_of(clue, self._cells)
        self._weigh()
        for _ in range(4):
            mass = self._weights.sum(axis=1)
            wanted = (mass > 1 / 150) & (self._cells[:, 2] > self._tau_m / 12)
            if not wanted.any():
                break
            keep = ~wanted & ((mass > 1e-9) | (len(self._cells) < _MOST_CELLS))
            children = split_cells(self._cells[wanted])
            logs = sum(self._likelihood.log_of(one, children) for one in self._clues)
            self._cells = np.vstack([self._cells[keep], children])
            self._logs = np.vstack([self._logs[keep], logs])
            self._weigh()

    def _weigh(self) -> None:
        """Weight of each cell and hypothesis; the prior is log-uniform in the distance from the start."""
        distances = np.maximum(np.hypot(*(self._cells[:, :2] - self._start).T), self._tau_m / 2)
        prior = 2 * np.log(self._cells[:, 2]) - 2 * np.log(distances)
        logs = self._logs + prior[:, None] + self._logs_of_order()
        weights = np.exp(logs - logs.max())
        self._weights = weights / weights.sum()

    def _logs_of_order(self) -> FloatArray:
        """What the order of the attacker's own accounts says of each hypothesis."""
        pairs = account_pairs(self._inquiry.history)
        return log_likelihood_of_order(pairs, self._hypotheses.displaced_m, self._hypotheses.bands_m)

    def _next_question(self) -> tuple[Point, FloatArray]:
        """The place and distances whose answer is expected to tell most about places and hypotheses."""
        flat = self._weights.ravel()
        chosen = np.searchsorted(np.cumsum(flat), (np.arange(_SAMPLES) + self._rng.random()) / _SAMPLES)
        rows, columns = np.divmod(np.minimum(chosen, len(flat) - 1), self._weights.shape[1])
        cells = self._cells[rows]
        cells = np.column_stack([cells[:, :2] + self._rng.uniform(-1, 1, (_SAMPLES, 2)) * cells[:, 2:], cells[:, 2]])
        best, question = -1.0, (self._start, np.array([self._tau_m]))
        for place in self._places(cells):
            distances = np.sort(np.hypot(*(cells[:, :2] - place).T))
            for shares in self._shares():
                radii = np.maximum(distances[(shares * len(distances)).astype(np.int64)], 1.0)
                bits = _information(self._likelihood.outcomes(place, radii, cells, columns))
                if bits > best:
                    best, question = bits, (point_of(place), radii)
        return question

    def _shares(self) -> list[FloatArray]:
        count = len(self._accounts)
        even = np.arange(1, count + 1) / (count + 1)
        return [even, even**0.6, even**1.6]

    def _places(self, cells: FloatArray) -> list[FloatArray]:
        """Places among what is likely, beside it, and the start."""
        mean = cells[:, :2].mean(axis=0)
        spread = max(float(np.sqrt(cells[:, :2].var(axis=0).sum())), self._tau_m / 3)
        picked = cells[self._rng.integers(len(cells), size=_PLACES), :2]
        angles, lengths = self._rng.uniform(0, 2 * math.pi, _PLACES), spread * self._rng.uniform(0.5, 4, _PLACES)
        beside = mean + lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        reach = self._likelihood_reach()
        around = picked + reach * np.column_stack([np.cos(angles), np.sin(angles)]) if reach else np.empty((0, 2))
        everywhere = np.vstack([picked, beside, around, self._start])
        return list(np.clip(everywhere, -self._half_extent, self._half_extent))

    def _likelihood_reach(self) -> float:
        """Distance at which answers change at once: a band's width or the cut-off; 0 if there is none."""
        if self._calibration.cutoff_m < math.inf:
            return self._calibration.cutoff_m
        return self._bands_m

    # -- the result

    def estimate(self) -> tuple[Point, float]:
        """The mean of the belief, and a radius that holds the target in 95 % of cases."""
        mass = self._weights.sum(axis=1)
        mean = mass @ self._cells[:, :2]
        gaps = np.hypot(*(self._cells[:, :2] - mean).T) + 0.7 * self._cells[:, 2]
        order = np.argsort(gaps)
        # A little more than 95 %: the hypotheses are not the whole truth.
        last = min(int(np.searchsorted(np.cumsum(mass[order]), 0.97)), len(order) - 1)
        # On a grid accounts are displaced alike from question to question: no average gets rid of it.
        displaced_m = float(self._weights.sum(axis=0) @ self._hypotheses.displaced_m)
        least_m = _DISPLACED_TIMES_ALONE * displaced_m
        if len(self._accounts) > 1:
            least_m = _DISPLACED_TIMES * displaced_m
            # Answers about the target agree better than they should, then; the order of accounts does not.
            logs = self._logs_of_order()
            shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
            least_m = max(least_m, _DISPLACED_TIMES_BY_ORDER * float(shares @ self._hypotheses.displaced_m))
        return point_of(mean), max(float(gaps[order[last]]), least_m)

    def _is_trusted(self) -> bool:
        """Whether it is known what the service does, and most answers are as some hypothesis has them."""
        if self._is_partly_calibrated or self._hypotheses.noise[self._likeliest] == NOISE_SHARES[-1]:
            return False
        row, column = np.unravel_index(np.argmax(self._weights), self._weights.shape)
        logs = [self._likelihood.log_of(clue, self._cells[row : row + 1])[0, column] for clue in self._clues]
        return float(np.mean(np.array(logs) < math.log(0.05))) <= 0.2 if logs else False


def missing_share(lists: Sequence[Sequence[Person]]) -> float:
    """Share of people near the head of one list who are missing in another, for lists that should be the same."""
    gone = seen = 0
    for one in lists:
        for other in lists:
            if one is not other:
                head = one[: (3 * min(len(one), len(other))) // 5]
                gone += sum(person not in other for person in head)
                seen += len(head)
    return gone / seen if seen else 0.0


def same_order(lists: Sequence[Sequence[Person]]) -> bool:
    """Whether people whom lists have in common are in the same order in all of them."""
    for one, other in pairwise(lists):
        common = set(one) & set(other)
        if [person for person in one if person in common] != [person for person in other if person in common]:
            return False
    return True


def roundest_between(low: float, high: float) -> float:
    """The roundest number between two: with few digits, the last one rather a 5."""
    unit = 10.0 ** math.floor(math.log10(high))
    for _ in range(5):
        for step in (unit, unit / 2):
            number = math.floor(high / step) * step
            if number >= low:
                return number
        unit /= 10
    return math.sqrt(low * high)


def _information(chances: FloatArray) -> float:
    """Bits that an answer tells, on average: rows are what may be true, columns the answers."""
    mean = chances.mean(axis=0)
    return float((chances * np.log2(chances + 1e-12)).sum(axis=1).mean() - (mean * np.log2(mean + 1e-12)).sum())
