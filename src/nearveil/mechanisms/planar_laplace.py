"""Planar Laplace on the sphere: geo-indistinguishability (Andrés et al., 2013)."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.lengths import meters
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import (
    NOT_COVERED_BY_METRIC,
    Basis,
    Certificate,
    Guarantee,
    Method,
    PrivacyDefinition,
    check_positive,
)
from nearveil.randomness import EXPONENTIAL_REACH, Randomness, RowKeystream, exponential_from_uniforms
from nearveil.region import Region
from nearveil.sphere import EARTH_RADIUS_M, great_circle_m, moved
from nearveil.types import FloatArray, IntArray

# The two exponentials that make a distance have a finite reach, so locations farther away are never published. This
# bounds what that adds, for pairs of locations up to 10 noise_m apart, between which the loss is up to 20.
NUMERICAL_DELTA = 2 * math.exp(20 - EXPONENTIAL_REACH)

DEFAULT_NOISE_M = 500.0
"""How far noise moves users on average where nothing else is asked for."""

LARGEST_NOISE_M = 500_000.0

_UNIFORMS, _BLOCKS = 6, 3
_ELLIPSOID_NOTE = "Distances are on great circles of a sphere. On the WGS84 ellipsoid they differ by up to 0.56 %."


class PlanarLaplace(Mechanism):
    """Add noise whose density falls as exp(-ε d) with the great-circle distance d, anywhere on Earth.

    Parameters
    ----------
    noise_m : float or str
        Mean displacement in meters, or text such as "0.5km": 1 to 500,000 m (exact to 0.2 %, to 100,000 to 0.01 %);
        ε is 2 / noise_m per meter.
    region : Region or str, optional
        Public region: locations outside are refused, and published ones are clamped to it, which costs nothing.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> PlanarLaplace(500, seed=1).perturb([[52.5163, 13.3777], [-17.7, 179.9999]]).shape
    (2, 2)
    """

    frame = "degrees"
    places = "grid"

    def __init__(
        self, noise_m: float | str = DEFAULT_NOISE_M, region: Region | str | None = None, seed: int | None = None
    ) -> None:
        self.noise_m = meters(noise_m, "noise_m")
        self.region = region
        self.seed = seed
        check_noise_m(self.noise_m)

    @property
    def epsilon_per_m(self) -> float:
        """Privacy loss per meter of great-circle distance."""
        return 2.0 / self.noise_m

    @property
    def mean_noise_m(self) -> float | None:
        """The noise; None in a region so small that moving locations back to its edge changes the mean."""
        if self.has_region and self.noise_m >= min(self.resolved_region.half_extent_m) / 10:
            return None
        return self.noise_m

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Go a random distance in a uniform direction."""
        # The sum of two exponentials has the density of distances in a plane, where a circle at an angle d from its
        # center is as long as d and not as sin d: so distances are drawn again with probability 1 - sin(d) / d.
        drawn = rows.uniforms(_UNIFORMS)
        angle, rejected = self._angles(drawn)
        attempt = 1
        while len(rejected):
            drawn[rejected] = rows.uniforms(_UNIFORMS, first_block=_BLOCKS * attempt, rows=rejected)
            angle[rejected], again = self._angles(drawn[rejected])
            rejected, attempt = rejected[again], attempt + 1
        return moved(x, 2 * np.pi * drawn[:, 4], EARTH_RADIUS_M * angle)

    def perturb_users(
        self, users: IntArray, points: object, rng: Randomness | np.random.Generator | int | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Publish a location for every user and place, which is a cell where the user has been."""
        from nearveil.mechanisms.user_places import publish_places  # noqa: PLC0415 - not for one row per user

        checked = self.area.check(points)
        published, place = publish_places(self.noise_m, users, checked, self.seed if rng is None else rng)
        return self.area.publish(published), place

    def _angles(self, uniforms: FloatArray) -> tuple[FloatArray, np.ndarray]:
        """Distances as angles, and the rows where they are rejected."""
        lengths = exponential_from_uniforms(uniforms[:, :4].reshape(-1, 2, 2))
        angle = (lengths[:, 0] + lengths[:, 1]) / (self.epsilon_per_m * EARTH_RADIUS_M)
        return angle, np.flatnonzero(uniforms[:, 5] * angle > np.sin(angle))

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per square meter of the sphere, before clamping."""
        # The integral of exp(-a d) sin(d) from 0 to π is (1 + exp(-a π)) / (1 + a²), with a = ε R.
        a = self.epsilon_per_m * EARTH_RADIUS_M
        constant = (1 + a * a) / (2 * math.pi * EARTH_RADIUS_M**2 * (1 + math.exp(-a * math.pi)))
        return math.log(constant) - self.epsilon_per_m * great_circle_m(x, t)

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide."""
        return self.with_params(noise_m=self.noise_m * factor)

    decay_per_m = epsilon_per_m

    @property
    def guarantee(self) -> Guarantee:
        """Geo-indistinguishability between all locations."""
        return Guarantee(
            title="Every published location",
            definition=PrivacyDefinition.METRIC,
            epsilon=self.epsilon_per_m,
            unit="per meter",
            delta=NUMERICAL_DELTA,
            neighbors=(
                "any two locations that one published location may stand for, at a loss of epsilon times their "
                f"great-circle distance (delta is for locations up to {10 * self.noise_m / 1000:,.3g} km apart)"
            ),
            promise=(
                f"of two locations {self.noise_m:,.6g} m apart, the published location is at most e^2 = 7.4 times "
                "likelier from one than from the other (a loss of 2)"
            ),
            not_covered=NOT_COVERED_BY_METRIC,
            basis=Basis.THEOREM,
            because=(
                "the log density falls by epsilon per meter of great-circle distance; clamping and rounding to a "
                "public grid cannot add to the loss; delta bounds what the finite precision of the noise adds"
            ),
            notes=(*self._notes(), _ELLIPSOID_NOTE),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        """By the triangle inequality, with equality where the output lies on the great circle of both locations."""
        first, reach = (0.0, 0.0), math.degrees(self.noise_m / EARTH_RADIUS_M)
        if self.has_region:
            first, reach = self.resolved_region.centre, min(reach, self.resolved_region.height_deg / 2)
        return Certificate(
            bound=self.epsilon_per_m,
            attained=self.epsilon_per_m,
            first=first,
            second=(first[0] - reach, first[1]),
            output=first,
            frame=self.frame,
            method=Method.CLOSED_FORM,
            how=(
                "the log density falls at one rate with the great-circle distance, so by the triangle inequality the "
                "loss is at most that rate times the distance of two locations"
            ),
        )


def check_noise_m(noise_m: float) -> float:
    """Return the distance in meters if noise can be made of it, or say what can be asked for."""
    value = check_positive(noise_m, "the noise")
    if not 1.0 <= value <= LARGEST_NOISE_M:
        raise UsageError("the noise must be at least 1 m, as locations are rounded to 0.11 m, and at most 500 km")
    return value
