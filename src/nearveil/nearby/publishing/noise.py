"""The noise of reports: drawn for many at once, and replaced by an earlier noisy place where that is near."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from nearveil.mechanisms.cell_steps import STEP
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.nearby.publishing.keys import place_uniforms, place_words
from nearveil.nearby.publishing.protection import NEAR_SHARE, Cell, Protection
from nearveil.nearby.stores.base import STEP_M, Point
from nearveil.randomness import exponential_from_uniforms
from nearveil.types import FloatArray, IntArray, WordArray

_LEAST_CURVATURE_RADIUS_M = 6_356_752.3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A noisy location to be drawn, in memory only: it never prints where.

    Attributes
    ----------
    x_m, y_m : float
        The center of the cell, around which the noise is drawn.
    cell : Cell
        Whose noise it is.
    tag : bytes
        That of the place.
    key : bytes
        What the noise comes from.
    """

    person: str
    x_m: float = field(repr=False)
    y_m: float = field(repr=False)
    cell: Cell = field(repr=False)
    tag: bytes = field(repr=False)
    key: bytes = field(repr=False)


def rate_per_m(noise: PlanarLaplace) -> float:
    """Return one over the scale of a report's noise in the plane of its region."""
    # The map may stretch distances a little; noise that much wider keeps the promise on the ground. By Rauch's theorem
    # a sphere of the ellipsoid's largest curvature, at the equator that of its polar semi-axis, stretches them more.
    angle = noise.resolved_region.radius_m / _LEAST_CURVATURE_RADIUS_M
    return noise.epsilon_per_m * math.sin(angle) / angle


def displaced(x: FloatArray, noise: FloatArray, rate: float) -> FloatArray:
    """Move every row of ``x`` (meters) by three standard exponentials: two make the length, e^-E the direction."""
    length = noise[:, :2].sum(axis=1) / rate
    angle = 2 * np.pi * np.exp(-noise[:, 2])
    return x + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


class ReportNoise:
    """Draws for a protection."""

    def __init__(self, protection: Protection) -> None:
        self._places = protection.grid
        self._half_extent_m = np.array(protection.region.half_extent_m)
        self._law = _law_of(protection)

    def perturb(self, wanted: Sequence[Wanted], earlier: Mapping[str, Sequence[Point]]) -> list[Point]:
        """Return a noisy place for each, in the order asked for.

        Parameters
        ----------
        wanted : sequence of Wanted
            What is to be drawn.
        earlier : mapping
            The noisy places that each person had before, the oldest first.
        """
        if not wanted:
            return []
        steps: list[Point] = [(x, y) for x, y in self._steps(self._perturbed(wanted)).tolist()]
        points = {person: list(before) for person, before in earlier.items()}
        for row, one in enumerate(wanted):
            steps[row] = self._law.replaced(steps[row], points[one.person])
            points[one.person].append(steps[row])
        return steps

    def _perturbed(self, wanted: Sequence[Wanted]) -> FloatArray:
        places_m = np.array([(one.x_m, one.y_m) for one in wanted])
        # One key, but for places that an import brings in.
        for key in {one.key for one in wanted}:
            rows = [row for row, one in enumerate(wanted) if one.key == key]
            cells = [(wanted[row].person, wanted[row].cell) for row in rows]
            words = place_words(key, cells, self._places.identity, count=self._law.words)
            places_m[rows] = self._law.drawn(places_m[rows], words)
        return places_m

    def _steps(self, places_m: FloatArray) -> IntArray:
        """Whole steps, clamped to the region's box, which looks at nothing but the noisy place."""
        inside = np.clip(places_m, -self._half_extent_m, self._half_extent_m)
        return np.rint(inside / STEP_M).astype(np.int64)


# The noise itself, and whether a new noisy place is so near to an earlier one that it is replaced by it: by the oldest
# that is near. Were it the nearest, whoever guesses cells in a person's name could plant points around the person's
# own. Wrong guesses would then bring those back, and only the right one the person's. Nothing that is planted later
# takes away from the oldest.


@dataclass(frozen=True, slots=True)
class _InMetres:
    rate: float
    radius_m: float
    words: ClassVar[int] = 6

    def drawn(self, places_m: FloatArray, words: WordArray) -> FloatArray:
        """Return a noisy place for each, by random words of its own."""
        return displaced(places_m, exponential_from_uniforms(place_uniforms(words)), self.rate)

    def replaced(self, point: Point, earlier: Sequence[Point]) -> Point:
        """Return the oldest earlier point that is near, and the point itself if none is."""
        return next((other for other in earlier if math.dist(point, other) * STEP_M <= self.radius_m), point)


@dataclass(frozen=True, slots=True)
class _InSteps:
    channel: StepChannel
    most_steps: float
    words: ClassVar[int] = 2

    def drawn(self, places_m: FloatArray, words: WordArray) -> FloatArray:
        """The same, in a random cell."""
        unit_m = self.channel.cells.region.metres_per_unit
        return self.channel.draw(places_m / unit_m, words) * unit_m

    def replaced(self, point: Point, earlier: Sequence[Point]) -> Point:
        """The same, counted in steps between cells."""
        if not earlier:
            return point
        cells = self.channel.cells
        places = np.array([point, *earlier], dtype=np.float64) * STEP_M / cells.region.metres_per_unit
        own, *others = cells.find(places).tolist()
        near, away = self.channel.reach.of(own)
        steps = dict(zip(near.tolist(), away.tolist(), strict=True))
        most = self.most_steps * STEP
        is_near = (steps.get(other, math.inf) <= most for other in others)
        return next((other for other, near_by in zip(earlier, is_near, strict=True) if near_by), point)


def _law_of(protection: Protection) -> _InMetres | _InSteps:
    if protection.among is None:
        return _InMetres(rate_per_m(protection.planar), NEAR_SHARE * protection.planar.noise_m)
    # Kept here, so that no report waits until it is made again.
    channel = protection.among.channel
    return _InSteps(channel, NEAR_SHARE * channel.mean_steps)
