"""The paper's release: noise of one scale, confined to the disc of the nearest centre.

Kept as the paper has it, for reproduction. Its card says what is true of it, which is less than the paper claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearveil.mechanisms.disc_law import log_density
from nearveil.mechanisms.disc_sampler import NOISE_CODES, sample_discs
from nearveil.mechanisms.intervals import Intervals, cell_polygons, l1_diameter, l2_diameter
from nearveil.mechanisms.nearest_centre import NearestCentre
from nearveil.privacy.guarantee import Basis, Guarantee, Notion, round_up
from nearveil.privacy.paper_accounting import Noise, paper_epsilon, pure_fit_epsilon, pure_release_epsilon
from nearveil.types import FloatArray

_LARGEST_USEFUL_DELTA = 0.01
_WORTH_SAYING = 1e-12


@dataclass(frozen=True, slots=True)
class PaperRelease:
    """Noise of scale λ_p (Laplace) or σ (Gaussian) around x, given that it falls into x's interval."""

    scale: float
    noise: Noise

    def draw(self, x: FloatArray, intervals: Intervals, nearest: NearestCentre, rng: np.random.Generator) -> FloatArray:
        """Draw the published place of every row of ``x``, in the square."""
        scales = np.full(len(intervals), self.scale)
        code = NOISE_CODES[self.noise]
        drawn: FloatArray = sample_discs(code, x, nearest(x), intervals.centres, intervals.radii, scales, rng)
        return drawn

    def log_density(self, x: FloatArray, t: FloatArray, intervals: Intervals, nearest: NearestCentre) -> FloatArray:
        """Log density per unit of the square; -inf outside the disc of x."""
        disc = nearest(x.reshape(-1, 2)).reshape(x.shape[:-1])
        centre, radius = intervals.centres[disc], intervals.radii[disc]
        return log_density(
            NOISE_CODES[self.noise],
            (x - centre) / radius[..., None],
            (t - centre) / radius[..., None],
            self.scale / radius,
        ) - 2 * np.log(radius)

    def guarantee(self, intervals: Intervals, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval and for the intervals, and the paper's claim, which does not."""
        epsilon = largest_loss_within_interval(intervals, self.scale, self.noise)
        return Guarantee(
            title="Within one interval",
            notion=Notion.INTERVAL,
            epsilon=epsilon,
            unit="per person",
            # What 53-bit numbers cannot reach of a narrow law.
            delta=min(1.0, 2.0**-50 * math.exp(epsilon)),
            neighbours="two places of one person that have the same nearest centre, the intervals being given",
            protects=(
                "which interval a person is in is disclosed: between places in different intervals nothing is "
                "promised, however near they are; within an interval places look alike up to epsilon"
            ),
            basis=Basis.THEOREM,
            because=(
                "noise confined to a set loses at most the range over the set of the log-ratio before confinement, "
                f"computed for each of the {len(intervals):,} cells"
            ),
            also=(intervals.guarantee(delta), self._claim(intervals, delta)),
            notes=(*notes, *_reading_notes(intervals, delta)),
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
    polygons = cell_polygons(intervals)
    if noise == "laplace":
        across = np.array([l1_diameter(polygon) for polygon in polygons])
        losses = np.minimum(2 * across, 4 * math.sqrt(2) * intervals.radii) / scale
    else:
        across = np.array([l2_diameter(polygon) for polygon in polygons])
        losses = 2 * intervals.radii * across / scale**2
    return float(losses.max())


def _reading_notes(intervals: Intervals, delta: float) -> tuple[str, ...]:
    smallest = (
        f"The smallest disc has a radius of {intervals.radii_m.min():,.1f} m, the median one of "
        f"{np.median(intervals.radii_m):,.0f} m: the smaller the disc, the nearer it comes to an address."
    )
    if not intervals.answers:
        return (smallest,)
    # Replacing is removing and adding: the losses add, and the second step's delta counts e^epsilon times.
    epsilon, delta = intervals.fit_cost(delta)
    delta *= 1 + math.exp(epsilon)
    if delta > _LARGEST_USEFUL_DELTA:
        epsilon, delta = pure_fit_epsilon(intervals.answers), 0.0
    also_delta = f" (delta {round_up(delta)})" if delta > _WORTH_SAYING else ""
    return (
        smallest,
        f"Replacing the place of a {intervals.unit} that the intervals were fitted on costs up to "
        f"{round_up(2 * epsilon)}{also_delta} more through the intervals.",
    )
