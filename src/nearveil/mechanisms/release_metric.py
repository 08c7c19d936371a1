"""Release `metric`: planar Laplace noise, then the nearest point of the private intervals.

The first step gives geo-indistinguishability between all places; the second looks at nothing but the noisy place, so
it cannot add to the loss. Rejecting what falls outside the intervals, instead of moving it, would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nearveil.mechanisms.fit_cost_cards import with_fit_cost
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.nearest_disc import NearestDisc
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import Guarantee
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray

SNAP_M = 0.125
"""Noisy places are rounded to a public grid before anything else looks at them, so that no low-order bit survives."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricRelease:
    """Planar Laplace noise in metres, moved to the nearest point of the discs."""

    intervals: Intervals
    nearest_disc: NearestDisc
    noise: PlanarLaplace
    noise_factor: float = 1.0

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the noisy place of every row of ``x``, in metres, before it is moved to a disc."""
        return self._scaled_noise.draw(x, rows)

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square metre of the noisy place, before it is moved to a disc."""
        return self._scaled_noise.log_density(x, t)

    def remap(self, t: FloatArray) -> FloatArray:
        """Move noisy places (metres) to the nearest point of the union of the discs, within the region's box."""
        region = self.intervals.region
        if region.scaling == "per-axis":
            snapped = np.rint(t / SNAP_M) * SNAP_M
            moved = self.nearest_disc(region.to_square(region.from_metres(snapped)))
            return region.to_metres(region.from_square(moved))
        return self.nearest_disc.snapped(t, 1 / SNAP_M, region.metres_per_unit)

    def guarantee(self, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """Geo-indistinguishability given the intervals, the intervals, and both together."""
        alone = self.noise.guarantee
        given = replace(
            alone,
            because=(
                "planar Laplace noise, rounded to a public grid; moving the noisy place to the nearest point of the "
                "intervals, clamping and rounding look at nothing else and cannot add to the loss; delta is what no "
                "number drawn can reach"
            ),
            notes=notes,
        )
        return with_fit_cost(given, self.intervals, delta)

    @property
    def _scaled_noise(self) -> PlanarLaplace:
        return self.noise.rescaled(self.noise_factor) if self.noise_factor != 1.0 else self.noise
