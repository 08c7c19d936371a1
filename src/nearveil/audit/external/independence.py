"""Are the rows of a call independent draws? Counting them as such is what an audit's confidence rests on.

All rows of a call are for the same place, so they should be independent draws from one law, and so should the rows of
other calls for that place. Then each of these holds but for a probability of 1e-9, whatever the law:

- the two halves of a call, and two calls, have nearly the same distribution along either axis (by the inequality of
  Dvoretzky, Kiefer and Wolfowitz). Fails for noise shared by all rows of a call, for sorted rows, for a drift.
- neighbouring rows of a call are alike as often as rows far apart in different calls: equal, or on the same side of the
  true place. Fails for noise shared by blocks of rows, for rows that undo each other's noise.
- rows at the same position in different calls are alike no more often than rows at different ones. Fails for a
  mechanism with a fixed seed.

A call whose rows are all equal is no fault by itself: publishing the same point always is a mechanism, and may be a
bad one. Rows of one place in a random order are no fault either; `check_order` is for calls with many places, whose
rows must keep their order. Dependence that shows in none of these ways goes unseen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from nearveil.audit.lower_bound import clopper_pearson_high, clopper_pearson_low
from nearveil.audit.subject import AuditError, Place
from nearveil.types import BoolArray, FloatArray

_ERROR = 1e-10
_LEAST = 64
_KEPT = 4096

_SHARED = (
    "the rows of one call are not independent of each other (they share noise or a fit, or are sorted), so they do not "
    "count as separate samples; give each row its own noise, fit nothing on them and keep the rows in order"
)
_REPEATED = (
    "the mechanism repeats its noise from call to call, so that no sample is fresh; let it take its randomness from "
    "what it is given or from the system, not from a fixed seed"
)
_SHUFFLED = (
    "the rows come out in another order than they went in, and a search over the region cannot tell whose they are; "
    "keep the order (nearveil protect has --keep-order), or name places to try with --place, which needs no order"
)
# Of two samples of a few hundred rows from one law, the distribution functions are nearly always nearer than this.
_SAME = 0.2


class IndependenceWatch:
    """Compares the calls for each place with the first call for it."""

    def __init__(self) -> None:
        self._first: dict[Place, FloatArray] = {}

    def look_at(self, place: Place, true_place: FloatArray, outputs: FloatArray) -> None:
        """Raise `AuditError` if the outputs of one call are no independent draws.

        Parameters
        ----------
        true_place : ndarray of shape (2,)
            The place in the coordinates of the outputs.
        """
        half = len(outputs) // 2
        if _differ(outputs[:half], outputs[half:]):
            raise AuditError(_SHARED)
        earlier = self._first.get(place)
        if earlier is None:
            # Few rows tell nothing; wait for a call with more.
            if len(outputs) >= _LEAST:
                self._first[place] = outputs[:_KEPT].copy()
            return
        if _differ(earlier, outputs):
            raise AuditError(_SHARED)
        _compare_likeness(earlier, outputs[:_KEPT], true_place)


def check_order(alone: Sequence[FloatArray], halves: Sequence[FloatArray]) -> None:
    """Raise `AuditError` if rows of a call with two places are in another order than the places.

    Parameters
    ----------
    alone : two samples
        Outputs for either place, from a call each.
    halves : two samples
        Outputs of one call, whose first half was asked for the first place and whose second half for the second.
    """
    mixed = all(_largest_gap(halves[0][:, axis], halves[1][:, axis]) < _SAME for axis in range(2))
    if mixed and _differ(*alone):
        raise AuditError(_SHUFFLED)


def _compare_likeness(earlier: FloatArray, outputs: FloatArray, true_place: FloatArray) -> None:
    size = min(len(earlier), len(outputs)) // 2 * 2
    if size < _LEAST:
        return
    earlier, outputs = earlier[:size], outputs[:size]
    pairs = ((outputs[::2], outputs[1::2]), (earlier, outputs[::-1]), (earlier, outputs))
    for neighbours, far_apart, same_position in zip(*(_likenesses(*pair, true_place) for pair in pairs), strict=True):
        if _rates_differ(same_position, far_apart) > 0:
            raise AuditError(_REPEATED)
        if _rates_differ(neighbours, far_apart) != 0:
            raise AuditError(_SHARED)


def _likenesses(first: FloatArray, second: FloatArray, true_place: FloatArray) -> Iterator[BoolArray]:
    """For each pair of rows: are they equal, and do they lie on the same side of the true place."""
    yield (first == second).all(axis=1)
    for axis in range(2):
        yield (first[:, axis] > true_place[axis]) == (second[:, axis] > true_place[axis])


def _rates_differ(some: BoolArray, others: BoolArray) -> int:
    """1 or -1 if the first rate is surely larger or smaller than the second, 0 if they may be equal."""
    bounds = [
        (clopper_pearson_low(rate.sum(), len(rate), _ERROR), clopper_pearson_high(rate.sum(), len(rate), _ERROR))
        for rate in (some, others)
    ]
    return int(bounds[0][0] > bounds[1][1]) - int(bounds[0][1] < bounds[1][0])


def _differ(first: FloatArray, second: FloatArray) -> bool:
    """Whether two samples surely come from different laws, judged along either axis."""
    if min(len(first), len(second)) < _LEAST // 2:
        return False
    allowed = sum(math.sqrt(math.log(2 / _ERROR) / (2 * len(sample))) for sample in (first, second))
    return any(_largest_gap(first[:, axis], second[:, axis]) > allowed for axis in range(2))


def _largest_gap(first: FloatArray, second: FloatArray) -> float:
    """Largest difference between two empirical distribution functions."""
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
