"""The paper's release: noise of one scale, confined to the disc of the nearest centre.

Kept as the paper has it, for reproduction. Its card says what is true of it, which is less than the paper claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.disc_law import log_density
from nearveil.mechanisms.disc_sampler import NOISE_CODES, ConfinedNoise
from nearveil.mechanisms.fit_cost_cards import with_fit_cost
from nearveil.mechanisms.intervals import Intervals, cell_polygons, l1_diameter, l2_diameter
from nearveil.mechanisms.keyed_discs import sample_discs
from nearveil.mechanisms.nearest_centre import NearestCentre
from nearveil.privacy.accounting import Noise, paper_epsilon, pure_fit_epsilon, pure_release_epsilon
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, Notion
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray

_CIRCLE = 720


@dataclass(frozen=True, slots=True, eq=False)
class PaperRelease:
    """Noise of scale λ_p (Laplace) or σ (Gaussian) around x, given that it falls into x's interval."""

    intervals: Intervals
    nearest: NearestCentre
    scale: float
    noise: Noise

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the published place of every row of ``x``, in the square."""
        return sample_discs(*self._to_draw(x), rows)

    def _to_draw(self, x: FloatArray) -> ConfinedNoise:
        centres, radii = self.intervals.centres, self.intervals.radii
        return ConfinedNoise(
            NOISE_CODES[self.noise], x, self.nearest(x), centres, radii, np.full(len(radii), self.scale)
        )

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square; -inf outside the disc of x."""
        disc = self.nearest(np.ascontiguousarray(x.reshape(-1, 2))).reshape(x.shape[:-1])
        centre, radius = self.intervals.centres[disc], self.intervals.radii[disc]
        return log_density(
            NOISE_CODES[self.noise],
            (x - centre) / radius[..., None],
            (t - centre) / radius[..., None],
            self.scale / radius,
        ) - 2 * np.log(radius)

    def remap(self, t: FloatArray) -> FloatArray:
        """Leave what was drawn where it is."""
        return t

    def guarantee(self, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval and for the intervals, and the paper's claim, which does not."""
        intervals = self.intervals
        polygons = cell_polygons(intervals)
        losses = _losses_by_cell(intervals, polygons, self.scale, self.noise)
        epsilon = float(losses.max())
        within = Guarantee(
            title="Within one interval",
            notion=Notion.INTERVAL,
            epsilon=epsilon,
            unit="per person",
            # What 53-bit numbers cannot reach of a narrow law.
            delta=min(1.0, 2.0**-50 * math.exp(epsilon)),
            neighbours="two places of one person that have the same nearest centre",
            protects=(
                "which interval a person is in is disclosed: between places in different intervals nothing is "
                "promised, however near they are; within an interval places look alike up to epsilon; each further "
                "release of a person's place adds its loss to the first"
            ),
            basis=Basis.THEOREM,
            because=(
                "noise confined to a set loses at most the range over the set of the log-ratio before confinement, "
                f"computed for each of the {len(intervals):,} cells"
            ),
            also=(self._claim(intervals, delta),),
            notes=notes,
            certificate=self._certificate(int(np.argmax(losses)), polygons, epsilon),
        )
        return with_fit_cost(within, intervals, delta)

    def _certificate(self, cell: int, polygons: list[FloatArray], bound: float) -> Certificate:
        """The bound, and the largest loss found between corners of the worst cell at outputs on its circle."""
        centre, radius = self.intervals.centres[cell], self.intervals.radii[cell]
        # A hair inside the cell, whose corners are shared with others.
        corners = centre + (polygons[cell] - centre) * (1 - 1e-9)
        angle = np.linspace(0, 2 * np.pi, _CIRCLE, endpoint=False)
        outputs = centre + radius * (1 - 1e-12) * np.column_stack([np.cos(angle), np.sin(angle)])
        logs = self.log_density(corners[:, None], outputs[None])
        output = int(np.argmax(np.ptp(logs, axis=0)))
        first, second = int(np.argmax(logs[:, output])), int(np.argmin(logs[:, output]))
        places = [(float(east), float(north)) for east, north in (corners[first], corners[second], outputs[output])]
        return Certificate(
            bound=bound,
            attained=min(float(np.ptp(logs[:, output])), bound),
            first=places[0],
            second=places[1],
            output=places[2],
            frame="square",
            method=Method.CLOSED_FORM,
            how=(
                "confined noise loses at most the range over the disc of the log-ratio before confinement, which the "
                "diameters of the cell and of the disc bound; often about twice the true largest loss"
            ),
        )

    def _claim(self, intervals: Intervals, delta: float) -> Guarantee:
        return Guarantee(
            title="The paper's claim for all of it",
            notion=Notion.CENTRAL,
            epsilon=claimed_epsilon(intervals, self.scale, self.noise, delta),
            unit="per person",
            delta=delta,
            neighbours="data sets that differ in one person (Theorem 3)",
            protects="would make any two places of a person look alike; it does not",
            basis=Basis.REFUTED_CLAIM,
            because=(
                "a place is moved within the disc of its nearest centre, so an output in one disc cannot come from a "
                "place outside that cell: between cells no epsilon holds, for any delta below 1"
                if intervals.gamma <= 0.5
                else "a place is moved within the disc of its nearest centre, so an output where no other disc reaches "
                "cannot come from a place of another cell: between cells no epsilon holds"
            ),
        )


def claimed_epsilon(intervals: Intervals, scale: float, noise: Noise, delta: float) -> float:
    """Return the epsilon the paper's accounting gives: Rényi, or plain composition where that is less."""
    renyi = paper_epsilon(intervals.answers, release_scale=scale, delta=delta, noise=noise)
    return min(renyi, pure_fit_epsilon(intervals.answers) + pure_release_epsilon(scale, noise))


def largest_loss_within_interval(intervals: Intervals, scale: float, noise: Noise) -> float:
    """Return an upper bound on the loss between two places of one cell, the largest over the cells.

    With φ(t) the log-ratio of the two noises before confinement, the confined log-ratio at t is φ(t) minus the log of
    an average of e^φ over the disc, hence at most max φ - min φ over the disc. For Laplace that range is at most
    2 |x-y|₁ / λ, and at most 4 √2 R / λ since φ changes by at most 2 |t-s|₁ / λ. For Gaussian it is 2 R |x-y|₂ / σ².
    x may lie outside its disc, so it is the cell's diameter that counts.
    """
    return float(_losses_by_cell(intervals, cell_polygons(intervals), scale, noise).max())


def _losses_by_cell(intervals: Intervals, polygons: list[FloatArray], scale: float, noise: Noise) -> FloatArray:
    if noise == "laplace":
        across = np.array([l1_diameter(polygon) for polygon in polygons])
        return np.minimum(2 * across, 4 * math.sqrt(2) * intervals.radii) / scale
    across = np.array([l2_diameter(polygon) for polygon in polygons])
    return 2 * intervals.radii * across / scale**2
