"""What DPRS publishes given intervals, in three ways, and the card of each.

- `metric`: planar Laplace noise, then the nearest point of the private intervals. The first step gives
  geo-indistinguishability between all places; the second looks at nothing but the noisy place, so it cannot add to the
  loss. Rejecting what falls outside the intervals, instead of moving it, would.
- `interval`: a place is first moved to the nearest point of its disc, then confined noise is drawn whose scale goes
  with the disc. Between two places of one interval the loss is at most epsilon, whatever the interval's size; see
  `nearveil.mechanisms._disc_loss` for why. Which interval somebody is in is disclosed.
- `paper`: noise of one scale, confined to the disc of the nearest centre. Kept as the paper has it, for reproduction.
  Its card says what is true of it, which is less than the paper claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nearveil.mechanisms._disc_law import NOISE_CODES, DiscDensities, log_density
from nearveil.mechanisms._disc_loss import DiscLoss, calibrated_disc_loss
from nearveil.mechanisms._disc_sampler import ConfinedNoise, sample_discs
from nearveil.mechanisms.intervals import Intervals, cell_polygons, l1_diameter, l2_diameter
from nearveil.mechanisms.nearest import NearestCentre, NearestDisc
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.accounting import Noise, paper_epsilon, pure_fit_epsilon, pure_release_epsilon
from nearveil.privacy.guarantee import FURTHER_RELEASES, Basis, Certificate, Guarantee, Method, Notion, round_up
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray, IntArray

SNAP_M = 0.125
"""Noisy places are rounded to a public grid before anything else looks at them, so that no low-order bit survives."""

_WITHIN = "within an interval places look alike up to epsilon"
_BETWEEN = "places in different intervals, however near: which interval somebody is in is disclosed"


@dataclass(frozen=True, slots=True, eq=False)
class MetricRelease:
    """Planar Laplace noise, moved to the nearest point of the discs."""

    intervals: Intervals
    nearest_disc: NearestDisc
    noise: PlanarLaplace
    noise_factor: float = 1.0

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the noisy place of every row of ``x``, in degrees, before it is moved to a disc."""
        return self.scaled_noise.draw(x, rows)

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square metre of the noisy place, before it is moved to a disc."""
        return self.scaled_noise.log_density(x, t)

    def remap(self, t: FloatArray) -> FloatArray:
        """Move noisy places (degrees) to the nearest point of the union of the discs, within the region's box."""
        region = self.intervals.region
        noisy_m = region.to_metres(region.to_edge(t))
        if region.scaling == "per-axis":
            snapped = np.rint(noisy_m / SNAP_M) * SNAP_M
            moved = self.nearest_disc(region.to_square(region.from_metres(snapped)))
            return region.from_square(moved)
        return region.from_metres(self.nearest_disc.snapped(noisy_m, 1 / SNAP_M, region.metres_per_unit))

    def guarantee(self, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """Geo-indistinguishability given the intervals, the intervals, and both together."""
        alone = self.noise.guarantee
        given = replace(
            alone,
            because=(
                "planar Laplace noise, rounded to a public grid; moving the noisy place to the nearest point of the "
                "intervals, clamping and rounding look at nothing else and cannot add to the loss; delta is what "
                "the finite precision of the noise adds"
            ),
            notes=notes,
        )
        return with_fit_cost(given, self.intervals, delta)

    @property
    def scaled_noise(self) -> PlanarLaplace:
        """The noise as it is drawn."""
        return self.noise.rescaled(self.noise_factor) if self.noise_factor != 1.0 else self.noise


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

    def density_given(self, x: FloatArray) -> DiscDensities:
        """Return `log_density` for all pairs."""
        disc = self.nearest(np.ascontiguousarray(x))
        centre, radius = self.intervals.centres[disc], self.intervals.radii[disc]
        inside = (self._into_disc(x, disc) - centre) / radius[:, None]
        return DiscDensities(NOISE_CODES[self.noise], inside, centre, radius, np.full(len(x), self._unit_scale))

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
            neighbours="two places that one published place may stand for and that have the same nearest centre",
            promise=_WITHIN,
            not_covered=f"{_BETWEEN}; {FURTHER_RELEASES}, and other intervals narrow it down to where cells overlap",
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

    def density_given(self, x: FloatArray) -> DiscDensities:
        """Return `log_density` for all pairs."""
        disc = self.nearest(np.ascontiguousarray(x))
        centre, radius = self.intervals.centres[disc], self.intervals.radii[disc]
        return DiscDensities(
            NOISE_CODES[self.noise], (x - centre) / radius[:, None], centre, radius, self.scale / radius
        )

    def remap(self, t: FloatArray) -> FloatArray:
        """Leave what was drawn where it is."""
        return t

    def guarantee(self, delta: float, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval and for the intervals, and the paper's claim, which does not."""
        intervals = self.intervals
        polygons = cell_polygons(intervals)
        losses = losses_by_cell(intervals, polygons, self.scale, self.noise)
        epsilon = float(losses.max())
        within = Guarantee(
            title="Within one interval",
            notion=Notion.INTERVAL,
            epsilon=epsilon,
            unit="per person",
            # What 53-bit numbers cannot reach of a narrow law.
            delta=min(1.0, 2.0**-50 * math.exp(epsilon)),
            neighbours="two places that one published place may stand for and that have the same nearest centre",
            promise=_WITHIN,
            not_covered=f"{_BETWEEN}; {FURTHER_RELEASES}",
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
            title="The paper's claim",
            notion=Notion.CENTRAL,
            epsilon=claimed_epsilon(intervals, self.scale, self.noise, delta),
            unit="per person",
            delta=delta,
            neighbours="data sets that differ in one person (Theorem 3)",
            promise="would make any two places of a person look alike; it does not",
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


def losses_by_cell(intervals: Intervals, polygons: list[FloatArray], scale: float, noise: Noise) -> FloatArray:
    """Return for each cell an upper bound on the loss between two of its places.

    With φ(t) the log-ratio of the two noises before confinement, the confined log-ratio at t is φ(t) minus the log of
    an average of e^φ over the disc, hence at most max φ - min φ over the disc. For Laplace that range is at most
    2 |x-y|₁ / λ, and at most 4 √2 R / λ since φ changes by at most 2 |t-s|₁ / λ. For Gaussian it is 2 R |x-y|₂ / σ².
    x may lie outside its disc, so it is the cell's diameter that counts.
    """
    if noise == "laplace":
        across = np.array([l1_diameter(polygon) for polygon in polygons])
        return np.minimum(2 * across, 4 * math.sqrt(2) * intervals.radii) / scale
    across = np.array([l2_diameter(polygon) for polygon in polygons])
    return 2 * intervals.radii * across / scale**2


# What the intervals add to a card: how small they are, and what they cost the people they were fitted on.


_LARGEST_USEFUL_DELTA = 0.01


def replacement_cost(intervals: Intervals, delta: float) -> tuple[float, float]:
    """Return epsilon and delta between intervals fitted with a person at one place and at another.

    Replacing is removing and adding: the losses add, and the second step's delta counts e^epsilon times.
    """
    epsilon, once = intervals.fit_cost(delta)
    if once * (1 + math.exp(epsilon)) > _LARGEST_USEFUL_DELTA:
        epsilon, once = intervals.pure_fit_cost
    return 2 * epsilon, min(1.0, once * (1 + math.exp(epsilon)))


def with_fit_cost(release: Guarantee, intervals: Intervals, delta: float) -> Guarantee:
    """Add to what holds given the intervals: the intervals themselves, and both together for those fitted on."""
    statements = [intervals.guarantee(delta)]
    if intervals.answers:
        statements.append(_together(release, intervals, delta))
    return replace(
        release,
        title=f"{release.title}, given the intervals",
        neighbours=f"{release.neighbours}, the intervals being given",
        also=(*statements, *release.also),
        # A disc is disclosed by the notion of an interval only.
        notes=(*release.notes, *((_smallest_disc(intervals),) if release.notion is Notion.INTERVAL else ())),
    )


def _smallest_disc(intervals: Intervals) -> str:
    return (
        f"The smallest disc has a radius of {intervals.radii_m.min():,.1f} m, the median one of "
        f"{np.median(intervals.radii_m):,.0f} m. The smaller the disc, the nearer it comes to an address."
    )


def _together(release: Guarantee, intervals: Intervals, delta: float) -> Guarantee:
    epsilon, fit_delta = replacement_cost(intervals, delta)
    metric = release.notion is Notion.METRIC
    together = Guarantee(
        title="Together, for those fitted on",
        notion=release.notion,
        epsilon=release.epsilon if metric else release.epsilon + epsilon,
        offset=epsilon if metric else 0.0,
        unit=release.unit,
        delta=min(1.0, fit_delta + release.delta),
        neighbours=(
            f"{release.neighbours}{'' if metric else ' in the intervals that came out'}, that place being among those "
            "fitted on"
        ),
        promise=(
            f"the intervals depend on the people they were fitted on: for them another place costs up to "
            f"{round_up(epsilon)} more; with intervals from public data or from places already published it does not"
        ),
        basis=release.basis,
        because="the intervals' loss twice, for removing and adding, and the release's loss given the intervals",
    )
    return together if intervals.unit == "person" else together.counted_per_row()
