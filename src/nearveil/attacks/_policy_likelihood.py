"""How likely answers are, given where the target is and what a service does to its lists.

What calibration leaves open is a short list of hypotheses: how far accounts are displaced, how noisy the order is, how
wide its bands are. Every answer is a clue: the target is between two accounts, or not listed.

The order of the attacker's own accounts is a clue as well. Two accounts at different distances are listed in that
order, unless one of them is displaced by more than the difference, or lists are ordered by bands. That tells more about
displacements than the target's ranks do: where it is, is to be learned from the same ranks, and on a grid answers agree
with each other though all are displaced alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nearveil.attacks.base import Answered, rank_of
from nearveil.attacks.oracle import Point
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray

# Standard deviations of displacements that may be, and about how large they are where that could not be measured.
DISPLACEMENTS_M = (8.0, 13.0, 20.0, 33.0, 52.0, 84.0, 134.0, 215.0, 344.0)
DISPLACED_M = 30.0
# They are hardly more than so many times what was measured.
_MOST_TIMES = 4.5
# Smaller ones hardly contradict a plain service.
_NOTICEABLE_M = 20.0
# Share of answers that none of the hypotheses explains.
_NONSENSE = 0.02
NOISE_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
ACCOUNT_FIRST, TARGET_FIRST, EITHER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the service does to lists, as far as questions about the attacker's own accounts tell.

    Attributes
    ----------
    drop : float
        Share of people left out of a list.
    stable : bool
        Whether people are in the same order when the same question is asked again.
    delay : int
        Number of questions after which a move of an account shows.
    cutoff_m, cutoff_slack_m : float
        Distance beyond which nobody is listed, infinite if there is none, and how well it is known.
    bands_m : float
        Width of the bands by which people are in order; 0 if there are none.
    displaced_m : float
        About how far accounts are from where they were put, towards or away from the place asked from; 0 if they are
        not, or if the order varies anyway.
    crowded : bool
        Whether at the start the first band fills the list.
    """

    drop: float
    stable: bool
    delay: int
    cutoff_m: float = math.inf
    cutoff_slack_m: float = 1.0
    bands_m: float = 0.0
    displaced_m: float = 0.0
    crowded: bool = False

    @property
    def only_delays(self) -> bool:
        """Whether moves show late and nothing else was noticed."""
        return self.delay > 0 and self.stable and self.drop == 0 and not self.bands_m


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """What accounts and orders may suffer, one hypothesis per row."""

    displaced_m: FloatArray
    noise: FloatArray
    bands_m: FloatArray
    ties: IntArray

    @classmethod
    def for_service(cls, calibration: Calibration) -> Hypotheses:
        """Return what can be, given what is known."""
        rows = [] if calibration.stable else [(1.0, noise, 0.0, EITHER) for noise in NOISE_SHARES]
        if calibration.bands_m:
            rows += [(2.0, 0.0, calibration.bands_m, tie) for tie in (ACCOUNT_FIRST, TARGET_FIRST)]
        if calibration.displaced_m:
            most_m = _MOST_TIMES * max(calibration.displaced_m, DISPLACED_M)
            # Where nobody is left out, it was displacements that did not fit a plain service: they are not small.
            least_m = 0.0 if calibration.drop else _NOTICEABLE_M
            rows += [(one, 0.0, 0.0, EITHER) for one in DISPLACEMENTS_M if least_m <= one <= most_m]
        table = np.array(rows, dtype=np.float64)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64))

    def edges(self, radius_m: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Two distances below which the target is listed before an account at a distance, and the weight of the second.

        Both are the distance itself, or the edges of the account's band. Within a band whose order is another one each
        time, either may come first.
        """
        low, high = np.full(len(self.noise), radius_m), np.full(len(self.noise), radius_m)
        share = np.full(len(self.noise), 0.5)
        banded = self.bands_m > 0
        if banded.any() and math.isfinite(radius_m):
            width, ties = self.bands_m[banded], self.ties[banded]
            within, band = np.modf(radius_m / width)
            low[banded] = (band + (ties == TARGET_FIRST)) * width
            high[banded] = (band + (ties != ACCOUNT_FIRST)) * width
            share[banded] = 0.25 + 0.5 * within
        return low, high, share


@dataclass(frozen=True, slots=True)
class Clue:
    """One answer: the target is listed between accounts at two distances, or not listed, beyond an account."""

    place: Point
    listed: bool
    low_m: float
    high_m: float


class Likelihood:
    """How likely clues are, for every cell and hypothesis."""

    def __init__(self, start: Point, calibration: Calibration, hypotheses: Hypotheses) -> None:
        self._start = np.array(start)
        self._calibration, self._hypotheses = calibration, hypotheses

    def log_of(self, clue: Clue, cells: FloatArray) -> FloatArray:
        """Log-likelihood of a clue: rows are cells (x, y, half side), columns hypotheses."""
        distances = np.hypot(*(cells[:, :2] - clue.place).T)
        columns = np.arange(len(self._hypotheses.noise))
        inside = self._between(distances[:, None], cells[:, 2:], clue.low_m, clue.high_m, columns)
        visible = self._visible(cells[:, :2], distances, cells[:, 2])[:, None]
        return np.asarray(np.log(self._chance(inside, visible, listed=clue.listed)))

    def outcomes(self, place: FloatArray, radii: FloatArray, cells: FloatArray, columns: IntArray) -> FloatArray:
        """Chances of each answer to a question: listed before, between and after accounts, or not listed."""
        distances = np.hypot(*(cells[:, :2] - place).T)
        visible = self._visible(cells[:, :2], distances, cells[:, 2])
        bounds = np.concatenate([[-np.inf], radii, [np.inf]])
        chances = [
            self._chance(
                self._between(distances, cells[:, 2], bounds[number], bounds[number + 1], columns),
                visible,
                listed=True,
            )
            for number in range(len(radii) + 1)
        ]
        missing = self._chance(np.ones(len(cells)), visible, listed=False)
        table = np.column_stack([*chances, missing])
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def _between(
        self, distances: FloatArray, half: FloatArray, low_m: float, high_m: float, columns: IntArray
    ) -> FloatArray:
        rows = self._hypotheses
        # Noise is in the target's distance and in the account's.
        spread = np.sqrt(
            rows.displaced_m[columns] ** 2 + 2 * (rows.noise[columns] * distances) ** 2 + (0.6 * half) ** 2
        )

        def before(radius_m: float) -> FloatArray | float:
            if not math.isfinite(radius_m):
                return float(radius_m > 0)
            low, high, share = (edges[columns] for edges in rows.edges(radius_m))
            return (1 - share) * _normal((low - distances) / spread) + share * _normal((high - distances) / spread)

        return np.maximum(before(high_m) - before(low_m), 0.0) + 0.0 * spread

    def _visible(self, points: FloatArray, distances: FloatArray, half: FloatArray) -> FloatArray:
        """Chance that the target is listed: surely as far as the cut-off, else about as far as the start was."""
        known = self._calibration
        if known.cutoff_m < math.inf:
            return _normal((known.cutoff_m - distances) / (known.cutoff_slack_m + 0.6 * half))
        if known.crowded:
            # Within a band that is too full for the list, some are never listed.
            return 0.1 + 0.7 * _normal((known.bands_m - distances) / (2.0 + 0.6 * half))
        reach = np.maximum(np.hypot(*(points - self._start).T), 50.0)
        return np.clip(1 / (1 + (distances / reach) ** 6), 0.05, 0.95)

    def _chance(self, inside: FloatArray, visible: FloatArray, *, listed: bool) -> FloatArray:
        drop = self._calibration.drop
        sensible = (1 - drop) * visible * inside if listed else drop + (1 - drop) * (1 - visible) * inside
        return (1 - _NONSENSE) * sensible + _NONSENSE / 2


def _normal(z: FloatArray) -> FloatArray:
    """The normal distribution, nearly."""
    return np.asarray(1 / (1 + np.exp(-1.702 * np.clip(z, -300, 300))))


def clue_of(place: Point, target: Person, radius_of: dict[Person, float], answer: Sequence[Person]) -> Clue:
    """Return what an answer says: which accounts stand right before and after the target."""
    accounts = [(rank, radius_of[person]) for rank, person in enumerate(answer, start=1) if person in radius_of]
    return clue_between(place, rank_of(answer, target), accounts)


def clue_between(place: Point, rank: int | None, accounts: Sequence[tuple[int, float]]) -> Clue:
    """Return what the target's rank says, given the ranks and distances of the listed accounts."""
    if rank is None:
        return Clue(place, False, max((radius for _, radius in accounts), default=-math.inf), math.inf)
    low = next((radius for at, radius in reversed(accounts) if at < rank), -math.inf)
    high = next((radius for at, radius in accounts if at > rank), math.inf)
    return Clue(place, True, min(low, high), max(low, high))


# What the order of accounts tells about displacements.


def account_pairs(history: Iterable[Answered]) -> FloatArray:
    """Return the distances of accounts that follow each other in a list: rows of the first and the second."""
    pairs: list[tuple[float, float]] = []
    for answered in history:
        radius_of = {account: math.dist(answered.place, spot) for account, spot in answered.accounts.items()}
        pairs += pairwise(radius_of[person] for person in answered.answer if person in radius_of)
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def log_likelihood_of_order(pairs: FloatArray, displaced_m: FloatArray, bands_m: FloatArray) -> FloatArray:
    """Log-likelihood of the order of accounts, one for each hypothesis: a standard deviation and a width of bands."""
    width_m, spread_m = bands_m[:, None], displaced_m[:, None]
    bands = np.floor(pairs.T[:, None, :] / np.where(width_m > 0, width_m, 1.0))
    first_m, second_m = np.where(width_m > 0, width_m * bands, pairs.T[:, None, :])
    # A displacement sideways makes an account farther away, the more so the nearer it was put.
    gaps = np.hypot(second_m, spread_m) - np.hypot(first_m, spread_m)
    chances = _normal(gaps / (math.sqrt(2) * spread_m))
    return np.asarray(np.log((1 - _NONSENSE) * chances + _NONSENSE / 2).sum(axis=1))
