"""What DPRS publishes given intervals, in three ways, and the card of each.

- `metric`: planar Laplace noise, then the nearest point of the private intervals. The first step gives
  geo-indistinguishability between all locations; the second looks at nothing but the noisy location, so it cannot add
  to the loss. Rejecting what falls outside the intervals, instead of moving it, would.
- `interval`: a location is first moved to the nearest point of its disc, then confined noise is drawn whose scale goes
  with the disc. Between two locations of one interval the loss is at most epsilon, whatever the interval's size; see
  `nearveil.mechanisms._disc_loss` for why. Which interval somebody is in is disclosed.
- `paper`: noise of one scale, confined to the disc of the nearest center. Kept as the paper has it, for reproduction.
  Its card says what is true of it, which is less than the paper claims.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nearveil.mechanisms._disc_law import NOISE_CODES, log_density, log_masses
from nearveil.mechanisms._disc_loss import DiscLoss, calibrated_disc_loss
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.mechanisms.intervals import Intervals, cell_polygons, diameter
from nearveil.mechanisms.nearest import NearestCentre, nearest_point_of_discs
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.accounting import Noise, paper_epsilon, pure_fit_epsilon, pure_release_epsilon
from nearveil.privacy.guarantee import FURTHER_RELEASES, Basis, Certificate, Guarantee, Method, PrivacyDefinition
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray

_BETWEEN = "locations in different intervals, however near: which interval a user is in is disclosed"


@dataclass(frozen=True, slots=True, eq=False)
class MetricRelease:
    """Planar Laplace noise, moved to the nearest point of the discs; all in degrees."""

    intervals: Intervals
    promised: PlanarLaplace
    noise: PlanarLaplace

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the noisy location of every row of ``x``, before it is moved to a disc."""
        return self.noise.draw(x, rows)

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square meter of the noisy location, before it is moved to a disc."""
        return self.noise.log_density(x, t)

    def remap(self, t: FloatArray) -> FloatArray:
        """Move noisy locations to the nearest point of the union of the discs, within the region."""
        region, intervals = self.intervals.region, self.intervals
        # To the public grid first, so that no low-order bit of the noise survives.
        noisy = region.to_square(region.publish(t))
        return region.from_square(nearest_point_of_discs(noisy, intervals.centres, intervals.radii))

    def guarantee(self, notes: tuple[str, ...]) -> Guarantee:
        """Geo-indistinguishability, given the intervals."""
        alone = self.promised.guarantee
        because = (
            "planar Laplace noise, rounded to a public grid; moving the noisy location to the nearest point of "
            "the intervals, clamping and rounding look at nothing else and cannot add to the loss; delta is what "
            "the finite precision of the noise adds"
        )
        return replace(alone, because=because, notes=(*notes, *alone.notes))


@dataclass(frozen=True, slots=True, eq=False)
class ConfinedRelease(ABC):
    """Noise confined to the disc of the nearest center; all in the square."""

    intervals: Intervals
    noise: Noise

    @property
    @abstractmethod
    def scales(self) -> FloatArray:
        """The scale of the noise in each disc, in units of the square."""

    def start(self, x: FloatArray) -> FloatArray:
        """Return where the noise is around, for locations in units of their discs."""
        return x

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw the published location of every row of ``x``."""
        centre, radius, unit, scale = self._on_unit_disc(x)
        return centre + radius[:, None] * sample_disc(NOISE_CODES[self.noise], unit, scale, rows)

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square; -inf outside the disc of x."""
        return self._density_around(x)(t)

    def density_given(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return `log_density` for all pairs."""
        density = self._density_around(x[:, None])
        return lambda t: density(t[None])

    def _density_around(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """The density given ``x``, with the disc and the mass of the noise found once."""
        noise, (centre, radius, unit, scale) = NOISE_CODES[self.noise], self._on_unit_disc(x)
        masses = log_masses(noise, unit, scale)

        def density(t: FloatArray) -> FloatArray:
            within = log_density(noise, unit, (t - centre) / radius[..., None], scale, masses)
            return within - 2 * np.log(radius)

        return density

    def _on_unit_disc(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The disc of each location, and where the noise is around and its scale in units of the disc."""
        disc = NearestCentre(self.intervals.centres)(x)
        centre, radius = self.intervals.centres[disc], self.intervals.radii[disc]
        return centre, radius, self.start((x - centre) / radius[..., None]), self.scales[disc] / radius

    def _within(
        self, epsilon: float, because: str, further: str, certificate: Certificate, notes: tuple[str, ...]
    ) -> Guarantee:
        """The statement for two locations of one interval."""
        return Guarantee(
            title="Within one interval",
            definition=PrivacyDefinition.INTERVAL,
            epsilon=epsilon,
            unit="per user",
            # What 53-bit numbers cannot reach of a narrow law.
            delta=min(1.0, 2.0**-50 * math.exp(epsilon)),
            neighbors="two locations that one published location may stand for and that have the same nearest center",
            promise="within an interval locations look alike up to epsilon",
            not_covered=f"{_BETWEEN}; {FURTHER_RELEASES}{further}",
            basis=Basis.THEOREM if certificate.method is Method.CLOSED_FORM else Basis.CERTIFICATE,
            because=because,
            notes=(
                *notes,
                f"The smallest disc has a radius of {self.intervals.radii_m.min():,.1f} m, the median one of "
                f"{np.median(self.intervals.radii_m):,.0f} m. The smaller the disc, the nearer it comes to an address.",
            ),
            certificate=certificate,
        )


_HOW = {
    "laplace": (
        "in a disc the loss is largest between two points of the circle, and the maximum over both splits into two of "
        "one angle each; both are bounded on a mesh of angles by their largest slope, with the noise's mass bounded on "
        "both sides by its log-concavity; all discs are alike but for their size"
    ),
    "gaussian": "proven: the loss is largest between antipodal points of the circle, whatever the disc's size",
}


@dataclass(frozen=True, slots=True, eq=False)
class IntervalRelease(ConfinedRelease):
    """Noise around the nearest point of x's disc, confined to the disc, with a scale that goes with its radius."""

    epsilon: float
    noise_factor: float = 1.0

    @property
    def _loss(self) -> DiscLoss:
        return calibrated_disc_loss(self.epsilon, self.noise)

    @property
    def scales(self) -> FloatArray:
        """In proportion to the radii."""
        return self._loss.scale * self.noise_factor * self.intervals.radii

    def start(self, x: FloatArray) -> FloatArray:
        """Return the nearest point of the disc."""
        return x / np.maximum(np.sqrt((x * x).sum(axis=-1, keepdims=True)), 1.0)

    def guarantee(self, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval."""
        because = (
            "noise confined to a disc and scaled to it loses 2 R²/σ² at most between locations of the disc"
            if self.noise == "gaussian"
            else "noise confined to a disc and scaled to it: the largest loss between locations of the disc, bounded "
            f"on a mesh of angles, is {self._loss.bound:.6g} at most, and at least {self._loss.attained:.6g}"
        )
        further = ", and other intervals narrow it down to where cells overlap"
        return self._within(self.epsilon, because, further, self._certificate(), notes)

    def _certificate(self) -> Certificate:
        # All discs are alike; the one that lies deepest in the region has its points in the region, too.
        edge = np.array(self.intervals.region.half_extent_square) - np.abs(self.intervals.centres)
        disc = int(np.argmax(edge.min(axis=1) - self.intervals.radii))
        centre, reach = self.intervals.centres[disc], self.intervals.radii[disc] * math.sqrt(0.5)
        return Certificate(
            bound=self._loss.bound,
            attained=self._loss.attained,
            first=_pair(centre + reach),
            second=_pair(centre - reach),
            output=_pair(centre + reach),
            frame="square",
            method=Method.MESH if self.noise == "laplace" else Method.CLOSED_FORM,
            how=_HOW[self.noise],
        )


def _pair(point: FloatArray) -> tuple[float, float]:
    return float(point[0]), float(point[1])


@dataclass(frozen=True, slots=True, eq=False)
class PaperRelease(ConfinedRelease):
    """Noise of scale λ_p (Laplace) or σ (Gaussian) around x, given that it falls into x's interval."""

    scale: float
    delta: float

    @property
    def scales(self) -> FloatArray:
        """The same in every disc."""
        return np.full(len(self.intervals), self.scale)

    def guarantee(self, notes: tuple[str, ...]) -> Guarantee:
        """What holds within one interval, and the paper's claim, which does not hold."""
        polygons = cell_polygons(self.intervals)
        losses = losses_by_cell(self.intervals, polygons, self.scale, self.noise)
        epsilon = float(losses.max())
        because = (
            "noise confined to a set loses at most the range over the set of the log-ratio before confinement, "
            f"computed for each of the {len(self.intervals):,} cells"
        )
        certificate = self._certificate(int(np.argmax(losses)), polygons, epsilon)
        return replace(self._within(epsilon, because, "", certificate, notes), also=(self._claim(),))

    def _certificate(self, cell: int, polygons: list[FloatArray], bound: float) -> Certificate:
        """The bound, and the largest loss found between corners of the worst cell at outputs on its circle."""
        centre, radius = self.intervals.centres[cell], self.intervals.radii[cell]
        # A hair inside the cell, whose corners are shared with others.
        corners = centre + (polygons[cell] - centre) * (1 - 1e-9)
        angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
        outputs = centre + radius * (1 - 1e-12) * np.column_stack([np.cos(angle), np.sin(angle)])
        logs = self.log_density(corners[:, None], outputs[None])
        output = int(np.argmax(np.ptp(logs, axis=0)))
        first, second = int(np.argmax(logs[:, output])), int(np.argmin(logs[:, output]))
        return Certificate(
            bound=bound,
            attained=min(float(np.ptp(logs[:, output])), bound),
            first=_pair(corners[first]),
            second=_pair(corners[second]),
            output=_pair(outputs[output]),
            frame="square",
            method=Method.CLOSED_FORM,
            how=(
                "confined noise loses at most the range over the disc of the log-ratio before confinement, which the "
                "diameters of the cell and of the disc bound; often about twice the true largest loss"
            ),
        )

    def _claim(self) -> Guarantee:
        """The epsilon of the paper's accounting: Rényi, or plain composition where that is less."""
        answers = self.intervals.answers
        renyi = paper_epsilon(answers, release_scale=self.scale, delta=self.delta, noise=self.noise)
        where, further = "where no other disc reaches cannot come from a location in another", ""
        if self.intervals.gamma <= 0.5:
            where, further = "in one disc cannot come from a location outside that", ", for any delta below 1"
        return Guarantee(
            title="The paper's claim",
            definition=PrivacyDefinition.CENTRAL,
            epsilon=min(renyi, pure_fit_epsilon(answers) + pure_release_epsilon(self.scale, self.noise)),
            unit="per user",
            delta=self.delta,
            neighbors="data sets that differ in one user (Theorem 3)",
            promise="would make any two locations of a user look alike; it does not",
            basis=Basis.REFUTED_CLAIM,
            because=(
                f"a location is moved within the disc of its nearest center, so an output {where} cell: between cells "
                f"no epsilon holds{further}"
            ),
        )


def losses_by_cell(intervals: Intervals, polygons: list[FloatArray], scale: float, noise: Noise) -> FloatArray:
    """Return for each cell an upper bound on the loss between two of its points.

    With φ(t) the log-ratio of the two noises before confinement, the confined log-ratio at t is φ(t) minus the log of
    an average of e^φ over the disc, hence at most max φ - min φ over the disc. For Laplace that range is at most
    2 |x-y|₁ / λ, and at most 4 √2 R / λ since φ changes by at most 2 |t-s|₁ / λ. For Gaussian it is 2 R |x-y|₂ / σ².
    x may lie outside its disc, so it is the cell's diameter that counts.
    """
    across = np.array([diameter(polygon, noise) for polygon in polygons])
    if noise == "laplace":
        return np.minimum(2 * across, 4 * math.sqrt(2) * intervals.radii) / scale
    return 2 * intervals.radii * across / scale**2
