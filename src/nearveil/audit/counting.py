"""Counting events on fresh samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearveil.audit.events import Event
from nearveil.audit.pairs import Pair
from nearveil.audit.sampling import BATCH, Sampler
from nearveil.audit.subject import Subject
from nearveil.audit.witness import Counts
from nearveil.types import FloatArray


def count_events(sampler: Sampler, pair: Pair, events: Sequence[Event], per_place: int, stream: int) -> list[Counts]:
    """Count events on fresh samples for both places, the same for all events, a batch at a time."""
    found = np.zeros((2, len(events)), dtype=np.int64)
    for side, place in enumerate((pair.first, pair.second)):
        for number, start in enumerate(range(0, per_place, BATCH)):
            outputs = sampler.draw(place, min(BATCH, per_place - start), (stream, side, number))
            found[side] += _hits(outputs, pair, events, sampler.subject)
    counted = []
    for event, (first, second) in zip(events, found.T.tolist(), strict=True):
        hits, false_hits = (first, second) if event.direction == "first" else (second, first)
        counted.append(Counts(hits=hits, trials=per_place, false_hits=false_hits, false_trials=per_place))
    return counted


def _hits(outputs: FloatArray, pair: Pair, events: Sequence[Event], subject: Subject) -> list[int]:
    """Count each event's hits; events of the same score have it computed once."""
    scores = {id(event.score): event.score for event in events}
    scored = {key: score.score(outputs, pair, subject) for key, score in scores.items()}
    return [int(event.reached(scored[id(event.score)]).sum()) for event in events]
