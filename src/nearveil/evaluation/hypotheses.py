"""Readings under which numbers of the paper's Table 3 come out: guesses of ours that the paper does not state.

They stand in rows of their own beside what the paper does state, and nowhere else. Nothing here is offered to anybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NoReturn, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.region import Region
from nearveil.types import FloatArray

Population = Literal["stated", "min-max", "8,000 people"]
"""A population as stated, with its outermost people on the edges of the region, or the first 8,000 of it."""

_FEWER_PEOPLE = 8_000


def read_population(dataset: Dataset, population: Population) -> Dataset:
    """Return the population under a reading."""
    if population == "8,000 people":
        return replace(dataset, places=dataset.places[:_FEWER_PEOPLE])
    if population == "min-max":
        region = dataset.region.with_scaling("per-axis")
        square = region.to_square(dataset.places)
        low, high = square.min(axis=0), square.max(axis=0)
        return replace(dataset, places=dataset.region.clip(region.from_square(2 * (square - low) / (high - low) - 1)))
    return dataset


class ConfinedBaseline(Mechanism):
    """A baseline whose noise is confined to the disc of the nearest centre, as that of DPRS is.

    The law of the baseline, given that the place lies in the disc: uniform proposals in the disc, accepted by the
    baseline's density over that at the person's own place, where it is largest. Noise for the whole region hardly
    changes within a disc, so what comes out is nearly uniform in the disc, whichever the baseline and its epsilon.

    Parameters
    ----------
    baseline : Mechanism
        Calibrated to the whole region; a place is never less likely to be published as it is than as any other.
    discs : DPRS
        Whose intervals are fitted.
    intervals : Intervals, optional
        Fitted before.
    """

    def __init__(
        self,
        *,
        baseline: Mechanism,
        discs: DPRS,
        intervals: Intervals | None = None,
        region: Region | str = "san-francisco",
        seed: int | None = None,
    ) -> None:
        self.baseline, self.discs, self.intervals = baseline, discs, intervals
        self.region, self.seed = region, seed

    def fit(self, points: object, y: object = None) -> Self:
        """Build the intervals, unless they are given."""
        if self.intervals is None:
            self.intervals = self.discs.fit(points, y).intervals_
        return self

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Propose for everybody at once, until everybody has a place; a batch does not equal its rows."""
        if self.intervals is None:
            raise UsageError("fit the intervals first, or give intervals made before")
        discs = self.intervals
        own = nearest_centre_table(discs.centres, discs.region.half_extent_square)(x)
        drawn, waiting = np.empty_like(x), np.arange(len(x))
        while len(waiting):
            u = rng.random((len(waiting), 3))
            length, angle = np.sqrt(u[:, 0]) * discs.radii[own[waiting]], 2 * np.pi * u[:, 1]
            t = discs.centres[own[waiting]] + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
            accepted = np.log1p(-u[:, 2]) <= self._log_odds(x[waiting], t)
            drawn[waiting[accepted]] = t[accepted]
            waiting = waiting[~accepted]
        return drawn

    def _log_odds(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density of the baseline at t over that at x. What lies beyond the region counts as on its edge."""
        half_extent = np.array(self.resolved_region.half_extent_square)
        scale = 1.0 if self.baseline.frame == "square" else np.array(self.resolved_region.half_extent_m) / half_extent
        x, t = x * scale, np.clip(t, -half_extent, half_extent) * scale
        return self.baseline.log_density(x, t) - self.baseline.log_density(x, x)

    def log_density(self, x: FloatArray, t: FloatArray) -> NoReturn:
        """Have none: it is only drawn from."""
        raise UsageError("a hypothesis about the paper's table is only drawn from")

    @property
    def guarantee(self) -> NoReturn:
        """Promise nothing."""
        raise UsageError("a hypothesis about the paper's table promises nothing")

    def rescaled(self, factor: float) -> NoReturn:
        """Have no scale of its own."""
        raise UsageError("a hypothesis about the paper's table has no scale of its own")
