"""What is audited: something that publishes a place for a place, any number of times."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, Self

import numpy as np

from nearveil.auditing.spec import mechanism_to_spec
from nearveil.errors import NearveilError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.mechanisms.base import Mechanism, for_each_slice
from nearveil.privacy.guarantee import Guarantee
from nearveil.randomness import NumberedRows, RowKeystream, stream_key
from nearveil.region import Region
from nearveil.sphere import EARTH_RADIUS_M, great_circle_m, moved
from nearveil.types import FloatArray, Progress

# Of metres: what differs by less is round-off.
_DECIMALS = 6

Place = tuple[float, float]
"""Latitude and longitude in degrees."""


class AuditError(NearveilError):
    """The mechanism cannot be audited: it fails, or its output is not a place. Never a verdict."""

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

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one output for every row of ``places``, in degrees; only ever used to find out where to look."""

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log density of each output from ``first`` over that from ``second``; None where unknown."""

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to the coordinates of outputs, shape (2,)."""

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take outputs to (latitude, longitude), for pictures."""


def audited_region(mechanism: Mechanism, around: Place = (45.0, 0.0)) -> Region:
    """Return where made-up places for an audit lie: the mechanism's region, or a box for one that has none."""
    if mechanism.has_region:
        return mechanism.resolved_region
    half_deg, (latitude, longitude) = min(10.0, 40 * (mechanism.mean_noise_m or 500.0) / 111_000), around
    west, east = (wrap_longitude(longitude + side * 1.4 * half_deg) for side in (-1, 1))
    return Region(max(latitude - half_deg, -90.0), west, min(latitude + half_deg, 90.0), east)


class FlatMechanism(Mechanism):
    """A mechanism in degrees as one in metres, around the middle of a region: audits count and draw in a plane.

    The map is of a sphere and one to one, so that no loss comes or goes.
    """

    def __init__(self, mechanism: Mechanism, region: Region) -> None:
        self.mechanism = mechanism
        self.region = region
        self._centre = np.array(region.centre)

    def enter(self, points: FloatArray) -> FloatArray:
        """Take degrees to the plane."""
        return to_plane(self._centre, points)

    def leave(self, xy: FloatArray) -> FloatArray:
        """Take the plane to degrees, wherever that is."""
        return from_plane(self._centre, xy)

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw in degrees."""
        return self.enter(self.mechanism.draw(self.leave(x), rows))

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square metre of the plane, which is stretched around its centre."""
        angle = np.hypot(t[..., 0], t[..., 1]) / EARTH_RADIUS_M
        return self.mechanism.log_density(self.leave(x), self.leave(t)) + np.log(np.sinc(angle / np.pi))

    @property
    def has_density(self) -> bool:
        """As of the mechanism itself."""
        return self.mechanism.has_density

    def rescaled(self, factor: float) -> Self:
        """Return a copy with other noise."""
        return type(self)(self.mechanism.rescaled(factor), self.area)

    @property
    def guarantee(self) -> Guarantee:
        """As of the mechanism itself."""
        return self.mechanism.guarantee


def flat(mechanism: Mechanism, region: Region) -> Mechanism:
    """Return a mechanism whose frame is a plane: itself, or `FlatMechanism` of one in degrees."""
    return FlatMechanism(mechanism, region) if mechanism.frame == "degrees" else mechanism


class MechanismSubject:
    """One of our mechanisms, audited at `Mechanism.draw`.

    What happens to a draw afterwards (clamping to the region, rounding to the public grid) is a fixed function of the
    draw, which can only lose information: a guarantee that holds for the draw holds for what is published. A violation
    found here is one of the draw. `ReleasedSubject` audits what is published.
    """

    def __init__(self, mechanism: Mechanism, region: Region | None = None) -> None:
        self.mechanism = mechanism
        self._region = audited_region(mechanism) if region is None else region
        self._flat = flat(mechanism, self._region)

    @property
    def region(self) -> Region:
        """Where made-up places lie: the mechanism's region, if it has one."""
        return self._region

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw for one place."""
        return self._draw(np.broadcast_to(self.in_outputs(place), (count, 2)), rng)

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw once for every place."""
        return self._draw(self._flat.enter(places), rng)

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log-ratio of the mechanism's densities; not a number where both say "impossible"."""
        if not self.mechanism.has_density:
            return None
        density = self._flat.log_density
        with np.errstate(invalid="ignore"):
            return density(self.in_outputs(first), outputs) - density(self.in_outputs(second), outputs)

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to the mechanism's frame."""
        at: FloatArray = self._flat.enter(np.array([place]))[0]
        return at

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take the mechanism's frame back to degrees."""
        return self._flat.leave(outputs)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return checked_outputs(_on_all_cores(x, rng, self._flat.draw), len(x))


def _on_all_cores(
    x: FloatArray, rng: np.random.Generator, draw: Callable[[FloatArray, RowKeystream], FloatArray]
) -> FloatArray:
    key, drawn = stream_key(rng), np.empty(x.shape)

    def work(part: slice) -> None:
        drawn[part] = draw(x[part].copy(), NumberedRows(key, part.start, part.stop - part.start))

    for_each_slice(len(x), work)
    return drawn


class PublishedSubject(ABC):
    """Something that publishes places in degrees and whose density is unknown. Outputs are metres in the region."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @abstractmethod
    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Publish a place (latitude, longitude) for every row of ``points``, independently of the other rows."""

    def to_dict(self) -> dict[str, Any]:
        """Say how to find it again; nothing where that cannot be written down."""
        return {}

    @property
    def region(self) -> Region:
        """The public region that places come from and are published in."""
        return self._region

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Publish ``count`` times for the same place; refuse what is not a place of the region."""
        return self.sample_each(np.tile(np.array(place), (count, 1)), rng)

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Publish once for every place; refuse what is not a place of the region."""
        return self.in_metres(checked_outputs(self.publish(places, rng), len(places), self._region))

    def in_metres(self, published: FloatArray) -> FloatArray:
        """Take published places to metres: each row by itself, so that equal places stay equal.

        `Region.to_metres` has two ways that differ by 1e-9 m, and takes the exact one for all rows if one lies a hair
        outside the region. Rows of one place would then differ from those of the other without saying anything.
        """
        region = self._region
        middle, half = region.centre[1], region.width_deg / 2
        latitude = np.clip(published[:, 0], region.south, region.north)
        longitude = wrap_longitude(middle + np.clip(wrap_longitude(published[:, 1] - middle), -half, half))
        return np.round(region.to_metres(np.column_stack([latitude, longitude])), _DECIMALS)

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """False: the density is unknown."""
        del first, second, outputs
        return None

    def in_outputs(self, place: Place) -> FloatArray:
        """Take a place to metres."""
        at: FloatArray = self._region.to_metres([place])[0]
        return at

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        """Take metres to degrees."""
        return self._region.from_metres(outputs)


class ReleasedSubject(PublishedSubject):
    """One of our mechanisms, audited by what it publishes: noise, remap, clamping and rounding as in a release.

    The density of the draw, at the published place, serves to score outputs: it is not their own where a draw is moved
    afterwards, which can make an event a poor one, but no false one.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism.resolved_region)
        self.mechanism = mechanism
        self._draws = MechanismSubject(mechanism)

    def publish(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Publish on all cores, as in a release."""
        return _on_all_cores(points, rng, self.mechanism.perturb_rows)

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        """Return the log-ratio of the draw's densities at the published places."""
        in_frame = flat(self.mechanism, self.region).enter(self.outputs_in_degrees(outputs))
        return self._draws.log_ratio(first, second, in_frame)


def own_subject(mechanism: Mechanism, region: Region | None = None) -> Subject:
    """Return one of our mechanisms as it is audited: at the draw, or by what it publishes where a draw is moved."""
    return ReleasedSubject(mechanism) if mechanism.remaps else MechanismSubject(mechanism, region)


def own_mechanism(subject: Subject | None) -> Mechanism | None:
    """Return the mechanism that a subject is, or None for something from outside."""
    return subject.mechanism if isinstance(subject, MechanismSubject | ReleasedSubject) else None


def subject_to_dict(subject: Subject) -> dict[str, Any]:
    """Say how to find a subject again, for a witness; nothing where that cannot be written down."""
    mechanism = own_mechanism(subject)
    if mechanism is not None:
        try:
            spec = {"kind": "mechanism", **mechanism_to_spec(mechanism)}
            return spec if mechanism.has_region else {**spec, "audited_in": asdict(subject.region)}
        except UsageError:
            return {}
    return subject.to_dict() if isinstance(subject, PublishedSubject) else {}


def checked_outputs(outputs: object, count: int, region: Region | None = None) -> FloatArray:
    """Return what a mechanism gave as an array of shape (count, 2); raise `AuditError` if it is anything else.

    With a region, outputs are published places in degrees and must lie in it.
    """
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise AuditError(
            "the mechanism gave something that is not an array of numbers; it must give two columns"
        ) from None
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


# Sampling with care: seeds on record, streams kept apart, and no sample taken for fresh that is not.


EXPLORE_STREAM = 21
CONFIRM_STREAM = 22
RECHECK_STREAM = 23
SEARCH_STREAM = 24

# Samples drawn and judged at a time.
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
    ones, which no confidence survives, so it is refused. For one that does draw afresh, that this many different
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


def to_plane(center: FloatArray, degrees: FloatArray) -> FloatArray:
    """Return meters east and north of one location, with distances and bearings from it as on the sphere."""
    latitude, longitude = np.radians(degrees[..., 0]), np.radians(degrees[..., 1] - center[1])
    sine, cosine = np.sin(np.radians(center[0])), np.cos(np.radians(center[0]))
    aside = np.cos(latitude) * np.sin(longitude)
    ahead = cosine * np.sin(latitude) - sine * np.cos(latitude) * np.cos(longitude)
    distance_m = great_circle_m(np.asarray(center), degrees)
    bearing = np.arctan2(aside, ahead)
    return np.stack([distance_m * np.sin(bearing), distance_m * np.cos(bearing)], axis=-1)


def from_plane(center: FloatArray, plane_m: FloatArray) -> FloatArray:
    """Return the locations of `to_plane`."""
    bearing, distance_m = np.arctan2(plane_m[..., 0], plane_m[..., 1]), np.hypot(plane_m[..., 0], plane_m[..., 1])
    return moved(np.broadcast_to(center, plane_m.shape), bearing, distance_m)
