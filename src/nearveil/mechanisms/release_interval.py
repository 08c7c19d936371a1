"""Release `interval`: sound within an interval, at exactly the epsilon that is asked for.

A place is first moved to the nearest point of its disc, then confined noise is drawn whose scale goes with the disc.
Between two places of one interval the loss is then at most epsilon, whatever the interval's size; see
`nearveil.mechanisms.disc_loss` for why. Which interval somebody is in is disclosed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.disc_law import log_density
from nearveil.mechanisms.disc_loss import DiscLoss, calibrated_disc_loss
from nearveil.mechanisms.disc_sampler import NOISE_CODES, ConfinedNoise
from nearveil.mechanisms.fit_cost_cards import with_fit_cost
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.keyed_discs import sample_discs
from nearveil.mechanisms.nearest_centre import NearestCentre
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, Notion
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray, IntArray

_HOW = {
    "laplace": (
        "in a disc the loss is largest between a point of the circle and another on it, and the maximum over both "
        "splits into two of one angle each; both are bounded on a mesh of angles by their largest slope, with the "
        "noise's mass bounded on both sides by its log-concavity. All discs are alike but for their size."
    ),
    "gaussian": (
        "in a disc the loss is largest between antipodal points of the circle, where it is 2 R²/σ²; proven. All discs "
        "are alike but for their size."
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class IntervalRelease:
    """Noise around the nearest point of x's disc, confined to the disc, with a scale that goes with its radius."""

    intervals: Intervals
    nearest: NearestCentre
    epsilon: float
    noise: Noise
    noise_factor: float = 1.0

    @property
    def loss(self) -> DiscLoss:
        """The noise on the unit disc, and its verified loss."""
        return calibrated_disc_loss(self.epsilon, self.noise)

    @property
    def _unit_scale(self) -> float:
        return self.loss.scale * self.noise_factor

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the published place of every row of ``x``, in the square."""
        return sample_discs(*self._to_draw(x), rows)

    def _to_draw(self, x: FloatArray) -> ConfinedNoise:
        disc, radii = self.nearest(x), self.intervals.radii
        inside = self._into_disc(x, disc)
        return ConfinedNoise(
            NOISE_CODES[self.noise], inside, disc, self.intervals.centres, radii, self._unit_scale * radii
        )

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square; -inf outside the disc of x."""
        disc = self.nearest(np.ascontiguousarray(x.reshape(-1, 2))).reshape(x.shape[:-1])
        centre, radius = self.intervals.centres[disc], self.intervals.radii[disc]
        inside = self._into_disc(x, disc)
        return log_density(
            NOISE_CODES[self.noise],
            (inside - centre) / radius[..., None],
            (t - centre) / radius[..., None],
            self._unit_scale,
        ) - 2 * np.log(radius)

    def remap(self, t: FloatArray) -> FloatArray:
        """Leave what was drawn where it is."""
        return t

    def guarantee(self, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval, for the intervals, and for both together."""
        within = Guarantee(
            title="Within one interval",
            notion=Notion.INTERVAL,
            epsilon=self.epsilon,
            unit="per person",
            # What 53-bit numbers cannot reach of a narrow law.
            delta=min(1.0, 2.0**-50 * math.exp(self.epsilon)),
            neighbours="two places of one person that have the same nearest centre",
            protects=(
                "within an interval places look alike up to epsilon; which interval a person is in is disclosed: "
                "between places in different intervals nothing is promised, however near they are; each further "
                "release of a person's place adds its loss to the first, and with other intervals also narrows the "
                "place down to where the cells overlap"
            ),
            basis=Basis.THEOREM if self.noise == "gaussian" else Basis.CERTIFICATE,
            because=(
                "noise confined to a disc and scaled to it loses 2 R²/σ² at most between places of the disc"
                if self.noise == "gaussian"
                else "noise confined to a disc and scaled to it: the largest loss between places of the disc, bounded "
                f"on a mesh of angles, is {self.loss.bound:.6g} at most, and at least {self.loss.attained:.6g}"
            ),
            notes=notes,
            certificate=self._certificate(),
        )
        return with_fit_cost(within, self.intervals, delta)

    def _certificate(self) -> Certificate:
        loss = self.loss
        # All discs are alike; the one that lies deepest in the region has its places in the region, too.
        edge = np.array(self.intervals.region.half_extent_square) - np.abs(self.intervals.centres)
        disc = int(np.argmax(edge.min(axis=1) - self.intervals.radii))
        centre, reach = self.intervals.centres[disc], self.intervals.radii[disc] * math.sqrt(0.5)
        first, second = centre + reach, centre - reach
        return Certificate(
            bound=loss.bound,
            attained=loss.attained,
            first=(float(first[0]), float(first[1])),
            second=(float(second[0]), float(second[1])),
            output=(float(first[0]), float(first[1])),
            frame="square",
            method=Method.MESH if self.noise == "laplace" else Method.CLOSED_FORM,
            how=_HOW[self.noise],
        )

    def _into_disc(self, x: FloatArray, disc: IntArray) -> FloatArray:
        """The nearest point of the disc."""
        offset = x - self.intervals.centres[disc]
        length = np.sqrt((offset * offset).sum(axis=-1, keepdims=True))
        radius = self.intervals.radii[disc][..., None]
        moved: FloatArray = np.where(
            length > radius, self.intervals.centres[disc] + offset * (radius / np.maximum(length, radius)), x
        )
        return moved
