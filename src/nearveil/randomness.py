"""Randomness: a cryptographically secure generator by default, a seeded one only on request."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from randomgen import AESCounter

from nearveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Randomness:
    """A generator, and whether someone who knows a seed could repeat what it drew.

    Use `secure_randomness`, `seeded_randomness` or `as_randomness` to make one.
    """

    generator: np.random.Generator
    seeded: bool

    def spawn(self, count: int) -> list[np.random.Generator]:
        """Return independent generators of the same kind, for work in parallel."""
        if not self.seeded:
            return [secure_generator() for _ in range(count)]
        seeds = self.generator.integers(2**63, size=(count, 4))
        return [np.random.default_rng(seed) for seed in seeds]


def secure_generator() -> np.random.Generator:
    """Return a NumPy generator that draws from AES-128 in counter mode under a fresh random key."""
    return np.random.Generator(AESCounter(key=secrets.randbits(128), counter=0))


def secure_randomness() -> Randomness:
    """Return secure randomness, the default everywhere.

    Examples
    --------
    >>> secure_randomness().seeded
    False
    """
    return Randomness(secure_generator(), seeded=False)


RELEASE_STREAM = 1
FIT_STREAM = 2
ORDER_STREAM = 3


def seeded_randomness(seed: int, stream: int = RELEASE_STREAM) -> Randomness:
    """Return randomness that the same seed repeats: for experiments and tests, never for real people.

    Different streams of one seed are independent of each other.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError("a seed is a whole number, 0 or more")
    # A spawn key keeps the stream apart from a plain generator of the same seed, which the caller may use as well.
    sequence = np.random.SeedSequence(int(seed), spawn_key=(stream,))
    return Randomness(np.random.default_rng(sequence), seeded=True)


def as_randomness(source: Randomness | np.random.Generator | int | None) -> Randomness:
    """Turn what a caller passed as ``rng`` into Randomness.

    Nothing gives secure randomness. A seed or a generator of the caller's gives repeatable randomness, and
    what is made with it says so.
    """
    if source is None:
        return secure_randomness()
    if isinstance(source, Randomness):
        return source
    if isinstance(source, np.random.Generator):
        return Randomness(source, seeded=True)
    return seeded_randomness(source)
