"""Planar Laplace: geo-indistinguishability, the metric notion (Andrés et al., 2013)."""

from __future__ import annotations

import math
from typing import Literal, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.exponential import REACH
from nearveil.mechanisms.planar_steps import planar_steps
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, Notion, check_positive
from nearveil.randomness import RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray

# Beyond the reach of one of its two exponentials the law comes short; seen by someone up to ten times hide_within_m
# away, for whom the same place is up to e^20 times likelier.
NUMERICAL_DELTA = 2 * math.exp(20 - REACH)

_LEAST_HIDE_WITHIN_M = 1.0
_LARGEST_HIDE_WITHIN_M = 1e7


class PlanarLaplace(Mechanism):
    """Add planar Laplace noise: density ε² / (2π) exp(-ε d) at distance d.

    Parameters
    ----------
    hide_within_m : float
        Mean displacement in metres; ε is 2 / hide_within_m per metre.
    region : Region or str
        Public region; published places are clamped to it, which costs nothing.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> home = [[37.77, -122.42]]
    >>> published = PlanarLaplace(hide_within_m=500, region="san-francisco", seed=1).perturb(home)
    >>> published.shape
    (1, 2)
    """

    frame: Literal["metres", "square"] = "metres"

    def __init__(
        self, *, hide_within_m: float = 500.0, region: Region | str = "san-francisco", seed: int | None = None
    ) -> None:
        check_hide_within(hide_within_m)
        self.hide_within_m = hide_within_m
        self.region = region
        self.seed = seed

    @property
    def epsilon_per_m(self) -> float:
        """Privacy loss per metre on the ground."""
        return 2.0 / self.hide_within_m

    @property
    def _rate(self) -> float:
        # The map may stretch distances a little; noise that much wider keeps the promise on the ground.
        return self.epsilon_per_m / self.resolved_region.largest_stretch

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Add a step of Gamma(2, 1/ε) length, the sum of two exponentials, in a uniform direction."""
        return x + planar_steps(rows) / self._rate

    def displaced(self, x: FloatArray, noise: FloatArray) -> FloatArray:
        """Move every row of ``x`` (metres) by three standard exponentials: two make the length, e^-E the direction."""
        length = noise[:, :2].sum(axis=1) / self._rate
        angle = 2 * np.pi * np.exp(-noise[:, 2])
        return x + length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square metre, before clamping."""
        distance = np.sqrt(((np.asarray(t) - np.asarray(x)) ** 2).sum(axis=-1))
        density: FloatArray = math.log(self._rate**2 / (2 * math.pi)) - self._rate * distance
        return density

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide."""
        return self.with_params(hide_within_m=self.hide_within_m * factor)

    @property
    def guarantee(self) -> Guarantee:
        """Geo-indistinguishability between all places."""
        return Guarantee(
            title="Every published place",
            notion=Notion.METRIC,
            epsilon=self.epsilon_per_m,
            unit="per metre",
            delta=NUMERICAL_DELTA,
            neighbours=(
                "any two places of one person, at a loss of epsilon times their distance on the ground (delta is for "
                f"places up to {10 * self.hide_within_m / 1000:,.3g} km apart)"
            ),
            protects=(
                f"two places {self.hide_within_m:,.6g} m apart have a loss of 2: whatever is published, it is at most "
                "e^2 = 7.4 times likelier from the one than from the other; places far apart are not hidden from each "
                "other, and each further release of a person's place adds its loss to the first"
            ),
            basis=Basis.THEOREM,
            because=(
                "planar Laplace noise, then clamping and rounding to a public grid, which cannot add to the loss; "
                "delta is what no number drawn can reach"
            ),
            notes=self._notes(),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        """By the triangle inequality, with equality where the two places and the output lie on a line."""
        return Certificate(
            bound=self._rate * self.resolved_region.largest_stretch,
            # East and west of the centre, where the projection keeps distances exactly.
            attained=self._rate,
            first=(0.0, 0.0),
            second=(-min(self.hide_within_m, self.resolved_region.half_extent_m[0]), 0.0),
            output=(0.0, 0.0),
            frame=self.frame,
            method=Method.CLOSED_FORM,
            how=(
                "the log density falls at one rate with the distance on the map, so the loss is at most that rate "
                "times the distance of two places on the map, which is at most the map's largest stretch times that on "
                "the ground"
            ),
        )


def check_hide_within(hide_within_m: float) -> float:
    """Return the distance in metres if noise can be made of it, or say what can be asked for."""
    value = check_positive(hide_within_m, "the distance to hide within")
    if value < _LEAST_HIDE_WITHIN_M:
        raise UsageError("the distance to hide within must be at least 1 metre; published places are rounded to 0.11 m")
    if value > _LARGEST_HIDE_WITHIN_M:
        raise UsageError("the distance to hide within must be at most 10,000 km, half the way around the earth")
    return value


def hide_within_from_epsilon_per_km(epsilon_per_km: float) -> float:
    """Return the distance to hide within, in metres, that loses so much per kilometre."""
    return check_hide_within(2000.0 / check_positive(epsilon_per_km, "epsilon per km"))
