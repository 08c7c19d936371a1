"""What is audited: something that publishes a place for a place, as often as it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from nearveil.errors import NearveilError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.chunks import for_each_chunk, for_each_slice
from nearveil.randomness import Randomness
from nearveil.region import Region
from nearveil.row_keystream import KEY_BYTES, NumberedRows
from nearveil.types import FloatArray

Place = tuple[float, float]
"""Latitude and longitude in degrees."""


class AuditError(NearveilError):
    """The mechanism cannot be audited: it fails, or what it gives is no place. Never a verdict."""

    exit_code = 4


class Subject(Protocol):
    """The whole of what the auditor may touch.

    Samples of one call, and of calls with independent generators, must be independent draws for the same place: the
    confidence of the audit rests on nothing else.
    """

    @property
    def region(self) -> Region:
        """The public region that places come from."""

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``count`` outputs for someone at ``place``, shape (count, 2), in the subject's own coordinates."""

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log density of each output from ``first`` over that from ``second``; None where unknown."""

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to the coordinates of outputs, shape (2,)."""

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take outputs to (latitude, longitude), for pictures."""


class MechanismSubject:
    """One of our mechanisms, audited at `Mechanism.draw`.

    What happens to a draw afterwards (clamping to the region, rounding to the public grid) is a fixed function of the
    draw, which can only lose information: a guarantee that holds for the draw holds for what is published. A violation
    found here is one of the draw. `ReleasedSubject` audits what is published.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    @property
    def region(self) -> Region:
        """The mechanism's region."""
        return self.mechanism.resolved_region

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw on all cores, a chunk at a time."""
        x = self.in_outputs(place)
        drawn = np.empty((count, 2))

        def work(part: slice, generator: np.random.Generator) -> None:
            drawn[part] = self.mechanism.draw(np.tile(x, (part.stop - part.start, 1)), generator)

        for_each_chunk(count, Randomness(rng, seeded=True), work)
        return checked_outputs(drawn, count)

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log-ratio of the mechanism's densities; not a number where both say "impossible"."""
        density = self.mechanism.log_density
        with np.errstate(invalid="ignore"):
            return density(self.in_outputs(first), outputs) - density(self.in_outputs(second), outputs)

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to the mechanism's frame."""
        at: FloatArray = self.mechanism.enter(np.array([place]))[0]
        return at

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take the mechanism's frame back to degrees."""
        return self.mechanism.leave(outputs)


class ReleasedSubject:
    """One of our mechanisms, audited by what it publishes: noise, remap, clamping and rounding as in a release.

    Outputs are published places in the mechanism's frame. The density of the draw, at the published place, serves to
    score them: it is not their own where a draw is moved afterwards, which can make an event a poor one, but no false
    one.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._draws = MechanismSubject(mechanism)

    @property
    def region(self) -> Region:
        """The mechanism's region."""
        return self.mechanism.resolved_region

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Publish ``count`` times for the same place on all cores, with the randomness of rows that a release has."""
        key = rng.bytes(KEY_BYTES)
        published = np.empty((count, 2))

        def work(part: slice) -> None:
            rows = NumberedRows(key, part.start, part.stop - part.start)
            published[part] = self.mechanism.perturb_rows(np.tile(np.array(place), (len(rows), 1)), rows)

        for_each_slice(count, work)
        return self.mechanism.enter(checked_outputs(published, count, self.region))

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log-ratio of the draw's densities at the published places."""
        return self._draws.log_ratio(first, second, outputs)

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to the mechanism's frame."""
        return self._draws.in_outputs(place)

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take the mechanism's frame back to degrees."""
        return self._draws.outputs_in_degrees(outputs)


def own_subject(mechanism: Mechanism) -> Subject:
    """Return one of our mechanisms as it is audited: at the draw, or by what it publishes where a draw is moved."""
    return ReleasedSubject(mechanism) if mechanism.remaps else MechanismSubject(mechanism)


class PublishedSubject(ABC):
    """Something that publishes places in degrees and whose density nobody knows. Outputs are metres in the region."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @abstractmethod
    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Publish a place (latitude, longitude) for every row of ``points``, independently of the other rows."""

    @property
    def region(self) -> Region:
        """The public region that places come from and are published in."""
        return self._region

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Publish ``count`` times for the same place; refuse what is no place of the region."""
        published = self.publish(np.tile(np.array(place), (count, 1)), rng)
        return self._region.to_metres(checked_outputs(published, count, self._region))

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Nobody knows the density."""
        del first, second, outputs
        return None

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to metres."""
        at: FloatArray = self._region.to_metres([place])[0]
        return at

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take metres to degrees."""
        return self._region.from_metres(outputs)


def checked_outputs(outputs: object, count: int, region: Region | None = None) -> FloatArray:
    """Return what a mechanism gave as an array of shape (count, 2); raise `AuditError` if it is anything else.

    With a region, outputs are published places in degrees and must lie in it.
    """
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise AuditError("the mechanism gave something that is no array of numbers; it must give two columns") from None
    if array.shape != (count, 2):
        shape = " x ".join(str(side) for side in array.shape) or "a single number"
        raise AuditError(
            f"the mechanism was given {count:,} places and gave {shape}; it must give {count:,} x 2 numbers"
        )
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise AuditError(
            f"row {row + 1} of what the mechanism gave is not a number; it must publish a place every time"
        )
    if region is not None:
        _refuse_outside(array, region)
    return array


def _refuse_outside(published: FloatArray, region: Region) -> None:
    outside = ~region.contains(published)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise AuditError(
            f"row {row + 1} of what the mechanism gave lies outside the region {region} "
            f"({int(outside.sum()):,} of {len(published):,} do); let it move them to the region's edge first, which "
            "cannot add to the loss (places are latitude, longitude in degrees)"
        )
