"""Events: yes-or-no questions about an output, to be counted under both places of a pair.

An event is a score and a threshold. Scores come from the mechanism's own density, from distances, or are learned from
outputs (`learn_scores`): a histogram, a classifier, low digits that stay, outputs that come again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit

from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import AuditError, Subject
from nearveil.kernels import kernel
from nearveil.types import BoolArray, FloatArray, IntArray

Direction = Literal["first", "second"]
DIRECTIONS: tuple[Direction, ...] = ("first", "second")

TELL_TALES = ("nearness", "low-digits", "recurring")
"""Kinds of scores that are 0 for nearly all outputs of sound noise, so that a few hits are not mere luck."""

UNLEARNED = ("density", "distance", "nearness")
"""Kinds of scores that learn nothing from outputs."""

# A log-ratio beyond this is "only one of the two places can give this output"; JSON has no infinity.
_CERTAIN = 1000.0


class Score(ABC):
    """A number for each output: the larger, the more it speaks for the first place; a dataclass of what was learned."""

    kind: ClassVar[str]
    """The name of the score in JSON."""

    @abstractmethod
    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the score, to follow "as judged by"."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        learned = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **{name: getattr(of, "tolist", lambda of=of: of)() for name, of in learned.items()}}


@dataclass(frozen=True, slots=True, eq=False)
class OutputEvent:
    """An output scores at or above a threshold, for the place that the event speaks for.

    Parameters
    ----------
    score : Score
        How outputs are scored.
    threshold : float
        In units of the score; of its negative where the event speaks for the second place.
    direction : {"first", "second"}
        The place under which the event is the likelier one.
    """

    score: Score
    threshold: float
    direction: Direction

    def hits(self, outputs: FloatArray, pair: Pair, subject: Subject) -> BoolArray:
        """Whether the event occurs, for each output."""
        return self.reached(self.score.score(outputs, pair, subject))

    def reached(self, scores: FloatArray) -> BoolArray:
        """Whether the event occurs, for each output's score."""
        reached: BoolArray = (scores if self.direction == "first" else -scores) >= self.threshold
        return reached

    def describe(self) -> str:
        """Describe the outputs meant, to follow "outputs"."""
        other = "second" if self.direction == "first" else "first"
        if self.score.kind == "density" and self.threshold > _CERTAIN - 1:
            return f"that the {other} cannot give, by the mechanism's own density"
        return f"that speak for the {self.direction} and not the {other}, as judged by {self.score.describe()}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"score": self.score.to_dict(), "threshold": self.threshold, "direction": self.direction}


def event_from_dict(document: dict[str, Any]) -> OutputEvent:
    """Read what `OutputEvent.to_dict` gave."""
    direction = document["direction"]
    if direction not in DIRECTIONS or not np.isfinite(document["threshold"]):
        raise ValueError("event")
    return OutputEvent(_score_from_dict(document["score"]), float(document["threshold"]), direction)


def learn_scores(first: FloatArray, second: FloatArray, pair: Pair, subject: Subject) -> list[Score]:
    """Learn from outputs of both places how to tell them apart.

    The others are tried also where a density is known: a density that does not belong to the draws must not blind
    the audit. The classifier is for subjects without one.
    """
    known = subject.log_ratio(pair.first, pair.second, first[:1]) is not None
    scores: list[Score] = [
        DensityScore() if known else learn_classifier(first, second, pair, subject),
        learn_histogram(first, second),
        DistanceScore(),
    ]
    recurring = learn_recurring(first, second)
    return [
        *scores,
        NearnessScore(),
        *learn_low_digits(first, second, subject),
        *([] if recurring is None else [recurring]),
    ]


# Scores that need no learning: the density, and the distances to either place.


@dataclass(frozen=True, slots=True)
class DensityScore(Score):
    """The log-ratio of the mechanism's own densities. If they are wrong the event is a poor one, but no false one."""

    kind = "density"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output; one that both densities deny says nothing."""
        ratio = subject.log_ratio(pair.first, pair.second, outputs)
        if ratio is None:
            raise AuditError("the witness needs the mechanism's density, and this mechanism has none; audit it afresh")
        return np.clip(np.nan_to_num(ratio, nan=0.0, posinf=_CERTAIN, neginf=-_CERTAIN), -_CERTAIN, _CERTAIN)

    def describe(self) -> str:
        """Say what the score is."""
        return "the mechanism's own density"


_LEAST = 1e-9
# Very near: a small share of the distance between the places, and a few metres at most.
_NEAR_SHARE, _NEAR_M = 0.003, 3.0


@dataclass(frozen=True, slots=True)
class DistanceScore(Score):
    """How much nearer an output is to the first place than to the second, as a share of the distance between them.

    It is 1 on the ray that starts in the first place and leads away from the second. For planar Laplace noise of any
    scale it is proportional to the log-ratio of the densities.
    """

    kind = "distance"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        from_first, from_second, apart = _distances(outputs, pair, subject)
        return (from_second - from_first) / apart

    def describe(self) -> str:
        """Say what the score is."""
        return "how much nearer they are to the one than to the other"


@dataclass(frozen=True, slots=True)
class NearnessScore(Score):
    """For an output very near to either place, the log-ratio of its distances to both; 0 for all others.

    Noise that is skipped now and then puts outputs on the place itself, or as near as rounding lets them be.
    """

    kind = "nearness"

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the nearer to the first place."""
        from_first, from_second, apart = _distances(outputs, pair, subject)
        ratio = np.log(np.maximum(from_second, _LEAST * apart) / np.maximum(from_first, _LEAST * apart))
        reach = apart * min(_NEAR_SHARE, _NEAR_M / max(pair.distance_m, _LEAST))
        near: FloatArray = np.where(np.minimum(from_first, from_second) <= reach, ratio, 0.0)
        return near

    def describe(self) -> str:
        """Say what the score is."""
        return "their being almost at the place itself"


def _distances(outputs: FloatArray, pair: Pair, subject: Subject) -> tuple[FloatArray, FloatArray, float]:
    first, second = subject.in_outputs(pair.first), subject.in_outputs(pair.second)
    apart = max(float(np.hypot(*(first - second))), _LEAST)
    return _distances_from(outputs, first), _distances_from(outputs, second), apart


@kernel
def _distances_from(outputs: FloatArray, place: FloatArray) -> FloatArray:
    distances = np.empty(len(outputs))
    for i in range(len(outputs)):
        distances[i] = math.sqrt((outputs[i, 0] - place[0]) ** 2 + (outputs[i, 1] - place[1]) ** 2)
    return distances


# An adaptive histogram of outputs: rectangles that hold equally many samples, cut in halves again and again.


_LEAST_IN_BOX = 60
_MOST_LEVELS = 9
_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class HistogramScore(Score):
    """The smoothed log-ratio of counts in the rectangle that an output falls into.

    The rectangles are the leaves of a complete k-d tree, its nodes in the order of a heap: node i sends an output to
    node 2i + 1 if its coordinate ``axes[i]`` is at most ``cuts[i]``, else to 2i + 2. An infinite cut does not cut.
    """

    kind = "histogram"

    axes: IntArray
    cuts: FloatArray
    scores: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair, subject
        scores: FloatArray = self.scores[_leaves(outputs, self.axes, self.cuts)]
        return scores

    def describe(self) -> str:
        """Say what the score is."""
        return f"how often samples from either place fell into each of {len(self.scores):,} rectangles"

    def boxes(self, reaching: BoolArray) -> list[tuple[float, float, float, float]]:
        """Return the chosen leaves as (x from, y from, x to, y to), for pictures; sides may be infinite."""
        bounds = np.tile([-math.inf, -math.inf, math.inf, math.inf], (2 * len(self.scores) - 1, 1))
        for node, (axis, cut) in enumerate(zip(self.axes, self.cuts, strict=True)):
            bounds[2 * node + 1] = bounds[2 * node + 2] = bounds[node]
            bounds[2 * node + 1, axis + 2] = min(cut, bounds[node, axis + 2])
            bounds[2 * node + 2, axis] = max(cut, bounds[node, axis])
        leaves = bounds[len(self.cuts) :][reaching]
        # Behind an infinite cut there is nothing.
        return [(x0, y0, x1, y1) for x0, y0, x1, y1 in leaves.tolist() if x0 < math.inf and y0 < math.inf]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite cut is null."""
        cuts = [cut if math.isfinite(cut) else None for cut in self.cuts.tolist()]
        return {"kind": self.kind, "axes": self.axes.tolist(), "cuts": cuts, "scores": self.scores.tolist()}


def histogram_from_dict(document: dict[str, Any]) -> HistogramScore:
    """Read what `HistogramScore.to_dict` gave."""
    axes = np.array(document["axes"], dtype=np.int64)
    cuts = np.array([math.inf if cut is None else cut for cut in document["cuts"]], dtype=np.float64)
    scores = np.array(document["scores"], dtype=np.float64)
    leaves = len(scores)
    complete = leaves & (leaves - 1) == 0 and len(axes) == len(cuts) == leaves - 1
    if not (complete and np.isin(axes, (0, 1)).all() and np.isfinite(scores).all() and not np.isnan(cuts).any()):
        raise ValueError("histogram")
    return HistogramScore(axes, cuts, scores)


def learn_histogram(first: FloatArray, second: FloatArray) -> HistogramScore:
    """Learn rectangles and their scores from outputs of both places."""
    pooled = np.vstack([first, second])
    levels = int(np.clip(math.log2(max(len(pooled) / _LEAST_IN_BOX, 1)), 0, _MOST_LEVELS))
    axes = np.zeros(2**levels - 1, dtype=np.int64)
    cuts = np.full(2**levels - 1, math.inf)
    members: list[FloatArray] = [pooled]
    for node in range(len(cuts)):
        points = members[node]
        axes[node], cuts[node] = _cut(points)
        below = points[:, axes[node]] <= cuts[node]
        members += [points[below], points[~below]]
    counts = [np.bincount(_leaves(side, axes, cuts), minlength=2**levels) for side in (first, second)]
    shares = [(count + _SMOOTHING) / (len(side) + 1) for count, side in zip(counts, (first, second), strict=True)]
    return HistogramScore(axes, cuts, np.log(shares[0] / shares[1]))


def _cut(points: FloatArray) -> tuple[int, float]:
    """Cut across the longer side at the median: between two values, below the largest, so that atoms come apart."""
    if len(points) < 2:
        return 0, math.inf
    # Column by column: along the short axis NumPy takes ten times as long.
    spread = [np.ptp(points[:, axis]) for axis in range(2)]
    axis = int(np.argmax(spread))
    if spread[axis] <= 0:
        return axis, math.inf
    values = points[:, axis]
    median = float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
    # Where more than half share the largest value, cut just below it.
    return axis, median if median < values.max() else float(values[values < median].max())


@kernel
def _leaves(outputs: FloatArray, axes: IntArray, cuts: FloatArray) -> IntArray:
    leaves = np.empty(len(outputs), dtype=np.int64)
    for i in range(len(outputs)):
        node = 0
        while node < len(cuts):
            node = 2 * node + (2 if outputs[i, axes[node]] > cuts[node] else 1)
        leaves[i] = node - len(cuts)
    return leaves


# A learned classifier: logistic regression that tells which of two places an output came from.


_RIDGE = 1e-6
_MOST_SAMPLES = 20_000
_FEATURES = 12
_MOST_STEPS = 30
_MOST_HALVINGS = 12
_LEAST_GAIN = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierScore(Score):
    """A weighted sum of fixed features of an output, learned to be the log-odds of the first place.

    The features are the coordinates, their squares and product, and the distances to both places: straight, and along
    each axis. With them the log-ratio of planar Laplace, of Laplace along the axes and of Gaussian noise is such a sum.
    """

    kind = "classifier"

    weights: FloatArray
    intercept: float

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        total = np.full(len(outputs), self.intercept)
        for column, weight in zip(_columns(outputs, pair, subject), self.weights, strict=True):
            total += weight * column
        return total

    def describe(self) -> str:
        """Say what the score is."""
        return "a classifier that learned to tell the two places' outputs apart"


def classifier_from_dict(document: dict[str, Any]) -> ClassifierScore:
    """Read what `ClassifierScore.to_dict` gave."""
    weights, intercept = np.array(document["weights"], dtype=np.float64), float(document["intercept"])
    if weights.shape != (_FEATURES,) or not np.isfinite(weights).all() or not np.isfinite(intercept):
        raise ValueError("classifier")
    return ClassifierScore(weights, intercept)


def learn_classifier(first: FloatArray, second: FloatArray, pair: Pair, subject: Subject) -> ClassifierScore:
    """Fit the weights to outputs of both places, by maximum likelihood with a slight pull towards 0."""
    first, second = first[:_MOST_SAMPLES], second[:_MOST_SAMPLES]
    features = _features(np.vstack([first, second]), pair, subject)
    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread <= 1e-12 * (1 + np.abs(middle))] = 1.0
    standard = (features - middle) / spread
    found = _fit(np.column_stack([np.ones(len(standard)), standard]), np.repeat([1.0, 0.0], [len(first), len(second)]))
    weights = found[1:] / spread
    return ClassifierScore(weights, float(found[0] - weights @ middle))


def _fit(features: FloatArray, is_first: FloatArray) -> FloatArray:
    """Minimise the logistic loss by Newton's method, with steps halved until they improve."""
    weights = np.zeros(features.shape[1])
    odds = np.zeros(len(features))
    loss = _loss(odds, is_first, weights)
    for _ in range(_MOST_STEPS):
        chance = expit(odds)
        slope = np.einsum("i,ij->j", chance - is_first, features) / len(odds) + 2 * _RIDGE * weights
        bend = (features.T * (chance * (1 - chance) / len(odds))) @ features + 2 * _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(bend, slope)
        for _ in range(_MOST_HALVINGS):
            odds = _weighted(features, weights - step)
            improved = _loss(odds, is_first, weights - step)
            if improved <= loss:
                break
            step /= 2
        else:
            break
        weights, gain, loss = weights - step, loss - improved, improved
        if gain < _LEAST_GAIN:
            break
    return weights


def _loss(odds: FloatArray, is_first: FloatArray, weights: FloatArray) -> float:
    return float(np.mean(np.logaddexp(0, odds) - is_first * odds) + _RIDGE * (weights**2).sum())


def _weighted(features: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum the features by weight. Not a matrix product: its threads wait for each other on a busy machine."""
    total: FloatArray = np.einsum("ij,j->i", features, weights)
    return total


def _features(outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
    return np.column_stack(_columns(outputs, pair, subject))


def _columns(outputs: FloatArray, pair: Pair, subject: Subject) -> list[FloatArray]:
    first, second = subject.in_outputs(pair.first), subject.in_outputs(pair.second)
    # Lengths in units of the distance between the two places, counted from their middle: numbers of moderate size.
    unit = max(float(np.hypot(*(first - second))), 1e-9)
    t = (outputs - (first + second) / 2) / unit
    half_gap = (first - second) / 2 / unit
    from_first, from_second = t - half_gap, t + half_gap
    reach = np.hypot(t[:, 0], t[:, 1])
    return [
        *t.T,
        *(t**2).T,
        t[:, 0] * t[:, 1],
        reach,
        np.hypot(*from_first.T),
        np.hypot(*from_second.T),
        *np.abs(from_first).T,
        *np.abs(from_second).T,
    ]


# Low digits: outputs of a place that lie on a lattice, such as the true place plus a whole number of metres.
#
# A lattice shows as a peak in the Fourier transform of a coordinate. It is looked for in metres and in degrees, with
# any period from an eighth of the outputs' spread down to a ten-thousandth of it. Outputs that are rounded to a
# public grid lie on a lattice too, but on the same one whatever the place: an event made of it tells nothing apart.


_LEAST_LATTICE_SAMPLES, _MOST_LATTICE_SAMPLES = 64, 4_096
_NEAREST = 512
_BINS = 1 << 15
# Below this number of periods in the window, the shape of the noise itself shows.
_LEAST_PERIODS = 8
# Of 2^14 frequencies of a smooth law, one exceeds this with a probability of 1e-6.
_LEAST_PEAK = 25.0
_STEPS = np.linspace(-1, 1, 17)
_LATTICE_DECIMALS = 1


@dataclass(frozen=True, slots=True, eq=False)
class LowDigitsScore(Score):
    """Whether an output is on the lattice of the first place's outputs, or on that of the second's.

    Parameters
    ----------
    in_degrees : bool
        Whether the lattices are in latitude and longitude, or else in the coordinates of outputs.
    periods, origins : ndarray of shape (2, 2)
        For each place and each axis; a period of 0 is none.
    """

    kind = "low-digits"

    in_degrees: bool
    periods: FloatArray
    origins: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair
        values = subject.outputs_in_degrees(outputs) if self.in_degrees else outputs
        total = np.zeros(len(outputs))
        for sign, periods, origins in zip((1.0, -1.0), self.periods, self.origins, strict=True):
            for axis in np.flatnonzero(periods):
                total += sign * np.cos(2 * math.pi * (values[:, axis] - origins[axis]) / periods[axis])
        # Two lattices that are the same one differ by round-off, which tells nothing.
        return np.round(total, _LATTICE_DECIMALS)

    def describe(self) -> str:
        """Say what the score is."""
        period = self.periods[self.periods > 0].max()
        unit = " degrees" if self.in_degrees else " in their own coordinates"
        return f"their low digits (what is left over a multiple of {period:.3g}{unit})"


def low_digits_from_dict(document: dict[str, Any]) -> LowDigitsScore:
    """Read what `LowDigitsScore.to_dict` gave."""
    periods, origins = (np.array(document[name], dtype=np.float64) for name in ("periods", "origins"))
    if not (periods.shape == origins.shape == (2, 2) and np.isfinite([periods, origins]).all()):
        raise ValueError("low digits")
    if periods.min() < 0 or periods.max() == 0:
        raise ValueError("low digits")
    return LowDigitsScore(bool(document["in_degrees"]), periods, origins)


def learn_low_digits(first: FloatArray, second: FloatArray, subject: Subject) -> list[LowDigitsScore]:
    """Look for lattices in the outputs of both places, in their coordinates and in degrees; return what was found."""
    scores = []
    sides = (first[:_MOST_LATTICE_SAMPLES], second[:_MOST_LATTICE_SAMPLES])
    for in_degrees in (False, True):
        values = [subject.outputs_in_degrees(side) if in_degrees else side for side in sides]
        of_first = [find_lattice(values[0][:, axis]) for axis in range(2)]
        # Both places have one, or else it is worth nothing.
        if any(period for period, _ in of_first):
            found = np.array([of_first, [find_lattice(values[1][:, axis]) for axis in range(2)]])
            scores.append(LowDigitsScore(in_degrees, found[..., 0], found[..., 1]))
    return scores


def find_lattice(values: FloatArray) -> tuple[float, float]:
    """Return period and origin of the lattice that values lie on or near; a period of 0 if there is none."""
    if len(values) < _LEAST_LATTICE_SAMPLES:
        return 0.0, 0.0
    centre = float(np.median(values))
    offsets = values - centre
    offsets = offsets[np.argsort(np.abs(offsets), kind="stable")]
    # The innermost values show fine lattices, all of them coarse ones.
    for number in dict.fromkeys((min(_NEAREST, len(offsets)), int(0.95 * len(offsets)))):
        frequency = _peak(offsets[:number])
        if frequency > 0:
            frequency = _sharpened(frequency, offsets, number)
            turn = np.angle(np.exp(2j * math.pi * frequency * offsets).mean())
            return 1 / frequency, centre + float(turn) / (2 * math.pi * frequency)
    return 0.0, 0.0


def _peak(offsets: FloatArray) -> float:
    """The lowest frequency at which the offsets, in order of their size, come together; 0 if they nowhere do."""
    reach = float(np.abs(offsets[-1]))
    if reach <= 0:
        return 0.0
    position = offsets / reach
    # Tapered, so that the window's own edges do not show.
    taper = np.cos(math.pi / 2 * position) ** 2
    bins = np.minimum(((position + 1) / 2 * _BINS).astype(np.int64), _BINS - 1)
    waves = np.fft.rfft(np.bincount(bins, weights=taper, minlength=_BINS))
    spectrum = (waves.real**2 + waves.imag**2) / (taper**2).sum()
    spectrum[:_LEAST_PERIODS] = 0.0
    highest = float(spectrum.max())
    if highest < _LEAST_PEAK:
        return 0.0
    # Multiples of a frequency have peaks as well; the lowest says most.
    lowest = int(np.flatnonzero(spectrum >= highest / 2)[0])
    return (lowest + int(np.argmax(spectrum[lowest : lowest + 2]))) / (2 * reach)


def _sharpened(frequency: float, offsets: FloatArray, number: int) -> float:
    """The frequency, made exact enough for nearly all offsets: the farther out, the more digits it takes."""
    whole = float(np.abs(offsets[int(0.99 * (len(offsets) - 1))]))
    reach = float(np.abs(offsets[number - 1]))
    width = 1 / (2 * reach)
    while True:
        inside = offsets[np.abs(offsets) <= reach]
        inside = inside[:: max(len(inside) // 200, 1)]
        tried = frequency + width * _STEPS
        frequency = float(tried[np.argmax(np.abs(np.exp(2j * math.pi * tried[:, None] * inside).mean(axis=1)))])
        if reach >= whole and width < 1 / (100 * whole):
            return frequency
        reach = min(4 * reach, whole)
        width /= 4


# Recurring outputs: a finite set of outputs that come again and again, as from a pool of noise that is used twice.


_MOST = 2_000
# Outputs are equal if they agree to this number of decimals: the last digits depend on how an output was computed.
_RECURRING_DECIMALS = 6
# An odd number; products wrap around.
_MIX = np.int64(0x1E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class RecurringScore(Score):
    """The smoothed log-ratio of how often an output came from either place while exploring; 0 for all others.

    Parameters
    ----------
    outputs : ndarray of shape (n, 2)
        The outputs that came.
    scores : ndarray of shape (n,)
        Their scores.
    """

    kind = "recurring"

    outputs: FloatArray
    scores: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair, subject
        known = _keys(self.outputs)
        order = np.argsort(known, kind="stable")
        keys = _keys(outputs)
        at = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
        found: FloatArray = np.where(known[at] == keys, self.scores[at], 0.0)
        return found

    def describe(self) -> str:
        """Say what the score is."""
        return f"{len(self.outputs):,} outputs that had come before, while exploring"


def recurring_from_dict(document: dict[str, Any]) -> RecurringScore:
    """Read what `RecurringScore.to_dict` gave."""
    outputs, scores = (np.array(document[name], dtype=np.float64) for name in ("outputs", "scores"))
    if not (scores.ndim == 1 and len(scores) > 0 and outputs.shape == (len(scores), 2)):
        raise ValueError("recurring outputs")
    if not (np.isfinite(outputs).all() and np.isfinite(scores).all()):
        raise ValueError("recurring outputs")
    return RecurringScore(outputs, scores)


def learn_recurring(first: FloatArray, second: FloatArray) -> RecurringScore | None:
    """Return the outputs that came most often, with their scores; None if none came twice.

    Where some come twice, those that came once are worth knowing too: they belong to the same finite set.
    """
    pooled = np.vstack([first, second])
    keys = _keys(pooled)
    ordered = np.sort(keys)
    if (ordered[1:] != ordered[:-1]).all():
        return None
    _, representatives, own, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    counts = [np.bincount(side, minlength=len(times)) for side in (own[: len(first)], own[len(first) :])]
    shares = [(count + _SMOOTHING) / (len(side) + 1) for count, side in zip(counts, (first, second), strict=True)]
    most = np.argsort(-times, kind="stable")[:_MOST]
    outputs = np.round(pooled[representatives[most]], _RECURRING_DECIMALS)
    return RecurringScore(outputs, np.log(shares[0] / shares[1])[most])


def _keys(outputs: FloatArray) -> IntArray:
    """A number for each output that is the same for equal ones, and for different ones next to never."""
    whole: IntArray = np.round(outputs * 10.0**_RECURRING_DECIMALS).astype(np.int64)
    keys: IntArray = (whole[:, 0] * _MIX) ^ whole[:, 1]
    return keys


# Reading scores back.


_READERS: dict[str, Callable[[dict[str, Any]], Score]] = {
    DensityScore.kind: lambda _: DensityScore(),
    DistanceScore.kind: lambda _: DistanceScore(),
    NearnessScore.kind: lambda _: NearnessScore(),
    "classifier": classifier_from_dict,
    "histogram": histogram_from_dict,
    "low-digits": low_digits_from_dict,
    "recurring": recurring_from_dict,
}


def _score_from_dict(document: dict[str, Any]) -> Score:
    read = _READERS.get(document["kind"])
    if read is None:
        raise ValueError("an event of an unknown kind")
    return read(document)
