"""Sampling with care: seeds on record, streams kept apart, and no sample taken for fresh that is not."""

from __future__ import annotations

import secrets

import numpy as np

from nearveil.audit.subject import AuditError, Place, Subject, checked_outputs
from nearveil.errors import UsageError
from nearveil.types import FloatArray, Progress

EXPLORE_STREAM = 21
CONFIRM_STREAM = 22
RECHECK_STREAM = 23
SEARCH_STREAM = 24

# Samples are drawn and judged so many at a time, whatever their number.
BATCH = 1 << 20

_HEAD = 64
_DISTINCT = 16


def chosen_seed(seed: int | None) -> int:
    """Return the seed, or a fresh one; small enough for every reader of JSON."""
    if seed is None:
        return secrets.randbits(53)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError("a seed is a whole number, 0 or more")
    return seed


class Sampler:
    """Draws a subject's outputs from streams of one seed, and counts them.

    Each call names its stream, which no other call may use: generators of different streams are independent. A
    subject that gives the same outputs again (it has a fixed seed of its own) would make old samples pass for fresh
    ones, which no confidence survives, so it is refused. For one that does draw afresh, that so many different
    outputs come again in the same order is next to impossible.
    """

    def __init__(self, subject: Subject, seed: int, progress: Progress | None = None) -> None:
        self.subject = subject
        self.drawn = 0
        self._seed = seed
        self._progress = progress
        self._seen: set[tuple[Place, bytes]] = set()

    def draw(self, place: Place, count: int, stream: tuple[int, ...]) -> FloatArray:
        """Draw ``count`` outputs for someone at ``place``."""
        outputs = checked_outputs(self.subject.sample(place, count, self.generator(stream)), count)
        self._refuse_repeats(place, outputs)
        self._count(count)
        return outputs

    def draw_each(self, places: FloatArray, count: int, stream: tuple[int, ...]) -> FloatArray:
        """Draw ``count`` outputs for each of many places; shape (places, count, 2). For exploring only."""
        rows = np.repeat(places, count, axis=0)
        outputs = checked_outputs(self.subject.sample_each(rows, self.generator(stream)), len(rows))
        self._count(len(rows))
        return outputs.reshape(len(places), count, 2)

    def generator(self, stream: tuple[int, ...]) -> np.random.Generator:
        """Return the generator of a stream."""
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=stream))

    def _count(self, drawn: int) -> None:
        self.drawn += drawn
        if self._progress is not None:
            self._progress(drawn)

    def _refuse_repeats(self, place: Place, outputs: FloatArray) -> None:
        head = outputs[:_HEAD]
        if len(head) < _HEAD or len(np.unique(head, axis=0)) < _DISTINCT:
            return
        key = (place, head.tobytes())
        if key in self._seen:
            raise AuditError(
                "the mechanism gives the same outputs again: it draws from a fixed seed; let it take its randomness "
                "from what it is given, or from the system"
            )
        self._seen.add(key)
