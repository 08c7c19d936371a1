"""Exploring: which places, which pair, which event and which direction give a mechanism away most.

Nothing here needs to be right for the audit to be right: what is chosen is measured afterwards on fresh samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from nearveil.auditing.bounds import count_reaching, expected_loss_bounds, loss_bounds, telling_thresholds
from nearveil.auditing.events import (
    DIRECTIONS,
    TELL_TALES,
    UNLEARNED,
    Direction,
    NearnessScore,
    OutputEvent,
    Score,
    learn_scores,
)
from nearveil.auditing.pair_search import as_place
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import EXPLORE_STREAM, SEARCH_STREAM, Place, Sampler, Subject
from nearveil.mechanisms.cells import Cells
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

CAUTIONS = (0.001, 0.05, 0.5)
"""One event is chosen for each: the error rates at which counts are taken for worse than they are."""
MOST_EVENTS = len(CAUTIONS) + len(TELL_TALES)

_STRICT, _HOPEFUL, _TRUSTING = CAUTIONS
_MOST_PROMISING = 24
# Sound noise does not put two outputs on one and the same point beside a place, so that such counts are believed.
_AS_COUNTED = 1.0
_RANKING = {**dict.fromkeys(TELL_TALES, _HOPEFUL), NearnessScore.kind: _AS_COUNTED}
# Where nothing may be lost, as between two places of one cell, any luck looks like a violation.
_NEXT_TO_NOTHING, _UNLIKELY = 1e-6, 1e-6


@dataclass(frozen=True, slots=True)
class Aim:
    """The confirming samples: their number for each place, and delta and confidence for each event."""

    trials: int
    delta: float
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A pair, the events found for it, and the bound to be expected when they are confirmed.

    The events differ in how much they trust small counts: a rare event may show the largest loss, or have been luck.
    ``hopeful_bound`` is the bound to be expected with less caution.
    """

    pair: Pair
    claimed_loss: float
    events: tuple[OutputEvent, ...]
    expected_bound: float
    hopeful_bound: float

    @property
    def merit(self) -> float:
        """How much the pair is worth confirming: the excess over the claim, or else how near it comes, below 0."""
        return self._merit(self.expected_bound)

    @property
    def hope(self) -> float:
        """The merit with less caution."""
        return self._merit(self.hopeful_bound)

    def _merit(self, bound: float) -> float:
        excess = bound - self.claimed_loss
        return excess if excess > 0 else max(excess / self.claimed_loss, -1e9)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The best event of a score and a direction at one level of caution, and the bound to expect of it."""

    event: OutputEvent
    caution: float
    bound: float


def explore(
    sampler: Sampler, covered: list[tuple[Pair, float]], per_place: int, aim: Aim, round_number: int
) -> list[Suspect]:
    """Look at each pair, with its claimed loss, on ``per_place`` samples for each place; the most suspect first."""
    suspects = []
    for number, (pair, claimed_loss) in enumerate(covered):
        first, second = (
            sampler.draw(place, per_place, (EXPLORE_STREAM, round_number, number, side))
            for side, place in enumerate((pair.first, pair.second))
        )
        suspects.append(_suspect(sampler.subject, pair, claimed_loss, (first, second), aim))
    return sorted(suspects, key=lambda suspect: -suspect.merit)


def _suspect(
    subject: Subject, pair: Pair, claimed_loss: float, outputs: tuple[FloatArray, FloatArray], aim: Aim
) -> Suspect:
    """Learn scores on one half, choose among them on the other: a score flatters the samples it was learned on.

    Scores that learn nothing are tried on all samples.
    """
    half = len(outputs[0]) // 2
    nothing = claimed_loss < _NEXT_TO_NOTHING
    cautions = (*CAUTIONS, _UNLIKELY) if nothing else CAUTIONS
    found: list[_Found] = []
    for score in learn_scores(outputs[0][:half], outputs[1][:half], pair, subject):
        unseen = slice(0 if score.kind in UNLEARNED else half, None)
        scores = [np.sort(score.score(side[unseen], pair, subject)) for side in outputs]
        for direction in DIRECTIONS:
            found += _best_events(score, direction, scores, aim, cautions)
    best = [_best(option for option in found if option.caution == caution) for caution in CAUTIONS]
    # A tell-tale is counted however seldom it came, beside what promises more.
    trusted = [option for option in found if option.caution == _TRUSTING]
    tell_tales = [_best(option for option in trusted if option.event.score.kind == kind) for kind in TELL_TALES]
    events = {id(option.event): option.event for option in (*best, *tell_tales) if option is not None}
    # Of hundreds of thresholds the best was lucky, so that pairs are ranked with most caution. Tell-tales have few.
    cautious = [
        option.bound
        for option in found
        if option.caution == (_UNLIKELY if nothing else _RANKING.get(option.event.score.kind, _STRICT))
    ]
    hopeful = [option.bound for option in found if option.caution == _HOPEFUL]
    return Suspect(pair, claimed_loss, tuple(events.values()), max(cautious), max(hopeful))


def _best(options: Iterable[_Found]) -> _Found | None:
    return max(options, key=lambda option: option.bound, default=None)


def _best_events(
    score: Score, direction: Direction, scores: list[FloatArray], aim: Aim, cautions: Sequence[float]
) -> list[_Found]:
    """Return for each level of caution the best threshold and the bound to expect of it.

    The scores of either place are in order.
    """
    likely, unlikely = scores if direction == "first" else (-scores[1][::-1], -scores[0][::-1])
    thresholds = telling_thresholds(np.concatenate([likely, unlikely]))
    if score.kind in TELL_TALES:
        thresholds = thresholds[thresholds > 0]
        if len(thresholds) == 0:
            return []
    hits, false_hits = count_reaching(likely, thresholds), count_reaching(unlikely, thresholds)
    found: list[_Found] = []
    for caution in cautions:
        promising = _promising(hits, false_hits, caution)
        bounds = expected_loss_bounds(
            hits[promising],
            false_hits[promising],
            len(likely),
            caution=caution,
            trials=aim.trials,
            delta=aim.delta,
            confidence=aim.confidence,
        )
        best = int(promising[np.argmax(bounds)])
        event = OutputEvent(score, float(thresholds[best]), direction)
        # One object for one event, so that it is counted once.
        event = next((option.event for option in found if option.event.threshold == event.threshold), event)
        found.append(_Found(event, caution, float(bounds.max())))
    if score.kind == NearnessScore.kind:
        times, near = aim.trials / len(likely), likely[likely > 0]
        repeated = len(near) - len(np.unique(near))
        bound = loss_bounds(
            times * repeated,
            aim.trials,
            times * int((unlikely > 0).sum()),
            aim.trials,
            delta=aim.delta,
            confidence=aim.confidence,
        )
        found.append(_Found(found[-1].event, _AS_COUNTED, float(bound)))
    return found


def _promising(hits: FloatArray, false_hits: FloatArray, caution: float) -> IntArray:
    """Return the thresholds, in order, whose bounds are worth computing: the largest by a rough guess at them."""
    doubt = float(ndtri(1 - caution)) + 1
    guesses = (
        np.log(hits + 0.1) - np.log(false_hits + 0.5) - doubt * ((hits + 0.1) ** -0.5 + (false_hits + 0.5) ** -0.5)
    )
    return np.sort(np.argsort(-guesses, kind="stable")[:_MOST_PROMISING])


# A search over the region for places where outputs scatter least: a coarse lattice, then its suspects closely.


# For each round, how often to draw for each place and which share of the places goes on. Four draws already put a place
# with a third of the noise among the least tenth nine times out of ten.
_ROUNDS = ((4, 0.08), (12, 0.05), (60, 0.0))
_FOUND = 2
_LEAST_PLACES, _MOST_PLACES = 2_048, 131_072


def search_places(sampler: Sampler, budget: int, cells: Cells | None = None) -> list[Place]:
    """Return the places whose outputs scatter least, of a lattice as fine as the number of draws allows; none if few.

    Where cells are given, outputs scatter by the sides of their places' cells, as they are meant to. Drawing less noise
    somewhere is not wrong by itself: the claim may allow it. It only says where to look.
    """
    number = min(int(budget / _draws_per_place()), _MOST_PLACES)
    if number < _LEAST_PLACES:
        return []
    region = sampler.subject.region
    places = _lattice(region, number, sampler.generator((SEARCH_STREAM,)))
    outputs = np.empty((len(places), 0, 2))
    for round_number, (draws, share) in enumerate(_ROUNDS, 1):
        fresh = sampler.draw_each(places, draws, (SEARCH_STREAM, round_number))
        outputs = np.concatenate([outputs, fresh], axis=1)
        unit = 1.0 if cells is None else cells.sides[cells.find(region.to_square(places))]
        kept = np.argsort(_scatter(outputs) / unit, kind="stable")[: max(int(share * len(places)), _FOUND)]
        places, outputs = places[kept], outputs[kept]
    return [as_place(region, place) for place in places]


def _draws_per_place() -> float:
    """Draws in all rounds together, for each place of the lattice."""
    left, total = 1.0, 0.0
    for draws, share in _ROUNDS:
        total += left * draws
        left *= share
    return total


def _scatter(outputs: FloatArray) -> FloatArray:
    """Mean distance of a place's outputs from their own mean."""
    apart = outputs - outputs.mean(axis=1, keepdims=True)
    scatter: FloatArray = np.hypot(apart[..., 0], apart[..., 1]).mean(axis=1)
    return scatter


def _lattice(region: Region, number: int, rng: np.random.Generator) -> FloatArray:
    """At most ``number`` places, evenly over the region and shifted at random, in degrees."""
    width, height = (2 * half for half in region.half_extent_m)
    columns = min(max(int(math.sqrt(number * width / height)), 1), number)
    rows = number // columns
    x, y = ((np.arange(count) + rng.random()) / count - 0.5 for count in (columns, rows))
    metres = np.stack(np.meshgrid(x * width, y * height), axis=-1).reshape(-1, 2)
    return region.clip(region.from_metres(metres))
