"""Per-axis Laplace: the density of the paper's noise, not confined to any disc."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from nearveil.mechanisms.base import Mechanism, local_guarantee
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Method, check_epsilon
from nearveil.randomness import EXPONENTIAL_REACH, RowKeystream, exponential_from_uniforms
from nearveil.region import Region
from nearveil.types import FloatArray


class AxisLaplace(Mechanism):
    """Add independent Laplace noise to each axis of the square, enough for any two locations of the region.

    Parameters
    ----------
    epsilon : float
        Largest loss between any two locations of the region; the scale is the region's L1 diameter over epsilon
        (4/epsilon in a whole square).
    region : Region or str
        Public region; published locations are clamped to it, which costs nothing.
    seed : int, optional
        For experiments only.

    Examples
    --------
    >>> AxisLaplace(epsilon=1.0, region="san-francisco", seed=1).perturb([[37.77, -122.42]]).shape
    (1, 2)
    """

    frame = "square"

    def __init__(self, *, epsilon: float = 1.0, region: Region | str | None = None, seed: int | None = None) -> None:
        check_epsilon(epsilon)
        self.epsilon = epsilon
        self.region = region
        self.seed = seed
        _ = self.resolved_region

    @property
    def scale(self) -> float:
        """Laplace scale in units of the square."""
        return 2 * sum(self.resolved_region.half_extent_square) / self.epsilon

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Add Laplace noise to both axes: the difference of two exponentials."""
        noise = exponential_from_uniforms(rows.uniforms(8).reshape(len(x), 4, 2))
        return x + self.scale * (noise[:, :2] - noise[:, 2:])

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square, before clamping."""
        distance: FloatArray = np.abs(np.asarray(t) - np.asarray(x)).sum(axis=-1)
        return -distance / self.scale - 2 * math.log(2 * self.scale)

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide."""
        return self.with_params(epsilon=self.epsilon / factor)

    @property
    def guarantee(self) -> Guarantee:
        """Local differential privacy over the region."""
        return local_guarantee(
            epsilon=self.epsilon,
            # Beyond the reach of either axis; for a location elsewhere that is up to e^epsilon times likelier.
            delta=min(1.0, 2 * math.exp(self.epsilon - EXPONENTIAL_REACH)),
            basis=Basis.THEOREM,
            because=(
                "Laplace noise scaled to the region's L1 diameter, then clamping and rounding, which cannot add to the "
                "loss; delta is what the finite precision of the noise adds"
            ),
            notes=self._notes(),
            certificate=self._certificate(),
        )

    def _certificate(self) -> Certificate:
        """Opposite corners lose most, at any output beyond the one corner: their L1 distance over the scale."""
        corner = self.resolved_region.half_extent_square
        return Certificate(
            bound=self.epsilon,
            attained=2 * sum(corner) / self.scale,
            first=corner,
            second=(-corner[0], -corner[1]),
            output=corner,
            frame=self.frame,
            method=Method.CLOSED_FORM,
            how="the loss is at most the L1 distance of two locations over the scale, which is largest between corners",
        )
